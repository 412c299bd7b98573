"""compile, explain and inspect, and the words of problems."""

import struct

import pytest

import flashcore
from flashcore import Problem, _core

WORDS = "b1 h4/2 s64 d64 f16 causal"


def test_compile():
    made = flashcore.compile(WORDS, chip="sm_80")
    assert made.names == ("attention",) and made.chips == ("sm_80",)
    assert ".target sm_80" in made.ptx()
    assert made.warnings == "" and made.phases() == ()
    assert made.report["attentions"][0]["chip"] == "sm_80"


def test_several_chips():
    made = flashcore.compile(WORDS, chip=["sm_80", "sm_90"])
    assert made.chips == ("sm_80", "sm_90")
    assert ".target sm_90" in made.ptx(chip=1)
    with pytest.raises(IndexError, match="expects chip below 2, but got 2"):
        made.ptx(chip=2)
    with pytest.raises(IndexError, match="expects attention below 1, but got -1"):
        made.ptx(attention=-1)


def test_a_module():
    words = flashcore.compile(WORDS, keep_phases=True)
    module = words.phases()[0]
    assert "flashcore.attention" in module
    assert flashcore.compile(module).ptx() == words.ptx()
    assert flashcore.compile(module.encode()).ptx() == words.ptx()


def test_a_problem():
    problem = Problem(64, 64, heads_q=4, heads_kv=2, causal="bottom_right")
    assert flashcore.compile(problem).ptx() == flashcore.compile(problem.words()).ptx()


def test_explain():
    text = flashcore.explain(WORDS, chip="sm_90", schedule={"block_n": 32})
    assert text.startswith("attention on sm_90") and "block_n      32" in text


def test_inspect():
    found = flashcore.inspect(WORDS, chip="sm_90", schedule={"num_warps": 2})
    assert found.chip == "sm_90" and found.schedule["num_warps"] == 2
    assert set(found.reasons) >= {"block_m", "num_stages"}
    assert found.shared_memory > 0 and found.limiter
    assert len(found.phases) == 8 and "flashcore.attention" in found.phases[0]
    assert "llvm." in found.phases[-1] and ".entry" in found.ptx
    (resources,) = found.resources.values()
    assert resources is None  # without ptxas
    assert len(flashcore.inspect(WORDS, chip=("sm_80", "sm_90"))) == 2


def test_resources_with_ptxas():
    from flashcore import _core

    try:
        _core.find_ptxas("")
    except flashcore.Error as error:
        pytest.skip(str(error))
    found = flashcore.inspect(WORDS, chip="sm_80", ptxas=True)
    (resources,) = found.resources.values()
    assert 0 < resources.registers <= 255 and resources.spill_loads == 0
    assert found.occupancy


def test_write_bundle(tmp_path):
    from flashcore import _core

    flashcore.compile(WORDS).write_bundle(tmp_path / "a.fcb")
    assert '"flashcore-bundle"' in _core.load_bundle(tmp_path / "a.fcb").manifest


@pytest.mark.parametrize(
    "source, error, message",
    [
        ("b1 h3/2", flashcore.Error, "heads_q"),
        ("b1 nonsense", flashcore.Error, "nonsense"),
        ("module {\n  what\n}", flashcore.Error, "module:2:"),
        ("b1 d512", flashcore.UnsupportedError, "has head_dim 512"),
    ],
)
def test_refused(source, error, message):
    with pytest.raises(error, match=message):
        flashcore.compile(source)
    assert issubclass(flashcore.UnsupportedError, NotImplementedError)


def test_schedules_that_are_none():
    with pytest.raises(flashcore.Error, match="no-such"):
        flashcore.compile(WORDS, schedule={"no_such": 1})
    with pytest.raises(flashcore.Error, match="sm_12"):
        flashcore.compile(WORDS, chip="sm_12")
    with pytest.raises(flashcore.Error, match="/no/ptxas"):
        flashcore.compile(WORDS, ptxas="/no/ptxas")


def test_versions():
    from flashcore import _core

    assert _core.version().startswith(f"flashcore {flashcore.__version__}, LLVM ")
    assert _core.chips()[0] == "sm_70"


# Words ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "b1 h8/8 s512x512 d64/64 f16 bhsd",
        "b? h?/? s?x? d128/64 bf16 causal=top_left window=5,inf softcap=30.0 scale=0.1 "
        "bias=1h1k:f32 lse strided",
        "b2 h4/2 s1x100 d64/64 f16 window=inf,3 bshd",
    ],
)
def test_words_round_trip(words):
    assert Problem.parse(words).words() == words


def test_short_words():
    problem = Problem.parse("h32/8 S4096 d128 BF16 causal bias window=7")
    assert problem.words() == (
        "b1 h32/8 s4096x4096 d128/128 bf16 causal=bottom_right window=7,inf bias=bhqk:bf16 bhsd"
    )
    assert Problem.parse("q1 k?").words() == "b1 h8/8 s1x? d64/64 f16 bhsd"


@pytest.mark.parametrize(
    "word", ["nonsense", "b", "d?", "bias=xxxx", "causal=left", "window=a", "b1x2", "softcap="]
)
def test_words_that_are_none(word):
    with pytest.raises(ValueError, match="expects"):
        Problem.parse(word)


@pytest.mark.parametrize(
    "words, kernel, schedule",
    [
        (
            "b2 h8/2 s100 d64 causal",
            "b? h?/? s?x? d64/64 f16 causal=bottom_right strided",
            "grid=quarter",
        ),
        ("b2 h8/2 s1x100 d64 causal", "b? h8/2 s1x? d64/64 f16 strided", "1"),
        ("b64 h32/8 s1x100 d64", "b? h32/8 s1x? d64/64 f16 strided", "1"),
        ("b16 h32/8 s1x9000 d64", "b? h32/8 s1x? d64/64 f16 strided", "2"),
        ("b17 h32/8 s1x9000 d64", "b? h32/8 s1x? d64/64 f16 strided", "5"),
        ("b1 h32/8 s1x9000 d64", "b? h32/8 s1x? d64/64 f16 strided", ""),
        ("b33 h32/8 s1x9000 d64", "b? h32/8 s1x? d64/64 f16 strided", "1"),
        ("b1 h8/2 s4x100 d64", "b? h?/? s?x? d64/64 f16 strided", "grid=quarter"),
        ("b1 h8/2 s4x9000 d64 causal", "b? h8/2 s4x? d64/64 f16 causal=bottom_right strided", ""),
        ("b1 h8/2 s17x2000 d64", "b? h?/? s?x? d64/64 f16 strided", "grid=quarter"),
        ("b1 h66 s33x2000 d64", "b? h?/? s?x? d64/64 f16 strided", "grid=half"),
        ("b4 h33 s65x2000 d64", "b? h?/? s?x? d64/64 f16 strided", "grid=two"),
        ("b1 h99 s256x9000 d64", "b? h?/? s?x? d64/64 f16 strided", "grid=three"),
        ("b1 h99 s257x1024 d64", "b? h?/? s?x? d64/64 f16 strided", "grid=short"),
        ("b1 h99 s257x1025 d64", "b? h?/? s?x? d64/64 f16 strided", ""),
        ("b1 h99 s?x1024 d64", "b? h?/? s?x? d64/64 f16 strided", ""),
        (
            "b1 h8/2 s1x9 d64 causal=top_left",
            "b? h8/2 s1x? d64/64 f16 causal=top_left strided",
            "1",
        ),
        ("b1 h8/2 s1x9000 d64 window=600", "b? h8/2 s1x? d64/64 f16 window=600,inf strided", "2"),
        ("b1 h8/2 s1x9000 d64 window=9", "b? h8/2 s1x? d64/64 f16 window=9,inf strided", "1"),
        ("b? h?/? s?x? d64", "b? h?/? s?x? d64/64 f16 strided", ""),
        ("b? h8/2 s1x? d64", "b? h8/2 s1x? d64/64 f16 strided", ""),
        ("b1 h8/2 s1x? d64", "b? h8/2 s1x? d64/64 f16 strided", ""),
    ],
)
def test_kernel_classes(words, kernel, schedule):
    problem, options = Problem.parse(words).kernel_class(multiprocessors=132)
    assert problem.words() == kernel
    kind, _, grid = schedule.partition("=")
    wanted = (("expected-grid", grid),) if grid else (("key-splits", schedule),)
    assert options == (wanted if schedule else ())


def test_kernel_classes_of_open_sizes():
    open_sizes = Problem.parse("b? h8 s? d64")
    served = open_sizes.kernel_classes(132, chip="sm_90a")
    assert {problem.words() for problem, _ in served} == {"b? h?/? s?x? d64/64 f16 strided"}
    grids = [dict(schedule).get("expected-grid", "any") for _, schedule in served]
    assert tuple(grids) == _core.call_classes("sm_90a") and len(grids) <= 8
    # What one call has, and what runs all others.
    known = Problem.parse("b1 h8 s512 d64")
    (_, of_call), (_, of_large) = known.kernel_classes(132)
    assert of_call == (("expected-grid", "half"),) and of_large == ()
    decode = Problem.parse("b? h32/8 s1x? d64").kernel_classes(132)
    splits = [((("key-splits", str(x)),)) for x in _core.known_splits("sm_90a")]
    assert [schedule for _, schedule in decode] == [*splits, ()] and len(decode) <= 8
    known = Problem.parse("b1 h8 s512 d64")
    known_decode = Problem.parse("b20 h32/8 s1x8192 d64").kernel_classes(132)
    assert [schedule for _, schedule in known_decode] == [(("key-splits", "8"),), ()]
    for one in ("b1 h8 s? d64 sequences=?", "b1 h8 s512 d64 blocks=128x128:11"):
        assert len(Problem.parse(one).kernel_classes(132)) == 1
    assert known.kernel_classes(132, chip="sm_75") == [(served[0][0], ())]
    assert known.kernel_classes(132, is_invariant=True) == [(served[0][0], ())]


@pytest.mark.parametrize(
    "rows, sequences, is_few", [(32, 32, True), (512, 32, True), (513, 32, False), (5, 1, True)]
)
def test_sequences_of_few_queries_have_kernels_of_their_own(rows, sequences, is_few):
    problem = Problem.parse(f"b1 h8/2 s{rows}x9000 d64 causal")
    kernel, options = problem.kernel_class(132, sequences)
    heads = "8/2" if is_few else "?/?"
    assert kernel.words() == f"b1 h{heads} s?x? d64/64 f16 causal=bottom_right strided"
    assert options == ((("expected-queries", "16"),) if is_few else ())
    assert problem.kernel_class(132, sequences, is_invariant=True)[1] == ()
    # Whoever knows says it.
    for says in (True, False):
        other, options = problem.kernel_class(132, sequences, has_few_queries=says)
        assert bool(options) == says and ("h8/2" in other.words()) == says


def test_invariant_classes_split_no_keys():
    few = Problem.parse("b1 h8/2 s1x9000 d64")
    problem, options = few.kernel_class(multiprocessors=132, is_invariant=True)
    assert problem.words() == "b? h8/2 s1x? d64/64 f16 strided" and options == ()


@pytest.mark.parametrize(
    "words, pairs",
    [
        ("s100", 100 * 100),
        ("s100 causal", 100 * 100 / 2),
        ("s2x5 causal", 4 + 5),
        ("s5x2 causal=top_left", 1 + 2 + 2 + 2 + 2),
        ("s4 window=1,0", 1 + 2 + 2 + 2),
        ("s4 window=inf,1", 2 + 3 + 4 + 4),
    ],
)
def test_operations(words, pairs):
    problem = Problem.parse(f"b2 h3 d64/32 {words}")
    assert problem.count_flops() == 2 * 2 * 3 * pairs * (64 + 32)


def test_operations_of_open_sizes():
    assert Problem.parse("s? d64").count_flops() == 0


@pytest.mark.parametrize("scale", [0.1, 0.125, 1 / 80**0.5, 1e-7, 8.5e37, 2 / 3])
def test_numbers_are_those_of_the_kernel(scale):
    """In float32, of which the shortest text is kept: equal kernels, equal words."""
    words = Problem(64, 64, scale=scale).words()
    assert Problem.parse(words).words() == words
    near = struct.unpack("f", struct.pack("f", scale))[0]
    assert Problem(64, 64, scale=near).words() == words
    assert struct.pack("f", Problem.parse(words).scale) == struct.pack("f", scale)
