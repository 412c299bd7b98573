"""batch_invariant: rows are the same to the bit, on the emulator."""

import dataclasses

import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw_qkv
from invariance import Inputs, Problem, check_static, count_all, list_problems

ALL = [dataclasses.replace(problem, queries=210) for problem in list_problems("emulator", 0)]
#: The second type once with each head dim.
PROBLEMS = [
    p for p in ALL if p.dtype == "float16" or (p.dim, p.mask) in ((64, "causal"), (128, "window"))
]
IN_PARTS = [
    Problem("float16", 64, "causal", 210, split_keys=64),
    Problem("bfloat16", 128, "window", 210, split_keys=96),
    Problem("float16", 128, "dense", 210, split_keys=1024),
]


@pytest.mark.parametrize("problem", [*PROBLEMS, *IN_PARTS], ids=str)
def test_rows_are_the_same(problem):
    counts = count_all(problem)
    assert not any(counts.values()), counts


OF_WARPGROUPS = [
    Problem("float16", 64, "causal", 210, product="warpgroup"),
    Problem("bfloat16", 128, "window", 300, split_keys=128, product="warpgroup"),
]


@pytest.mark.parametrize(
    "problem", [PROBLEMS[1], PROBLEMS[-1], IN_PARTS[0], *OF_WARPGROUPS], ids=str
)
def test_rows_are_the_same_on_hopper(problem, cache_dir, monkeypatch):
    monkeypatch.setenv("FLASHCORE_CHIP", "sm_90a")
    counts = count_all(problem)
    assert not any(counts.values()), counts


def test_rows_differ_without():
    """What is asked for is not there anyway."""
    free = dataclasses.replace(PROBLEMS[1], is_invariant=False)
    assert check_static(Inputs(free)) > 0


@pytest.mark.parametrize("split_keys", [0, 64])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (20, 7), "softcap": 5.0}])
def test_rows_are_right(split_keys, options):
    q, k, v = draw_qkv(2, 4, 2, 50, 170)
    o, lse = flashcore.attention(
        q, k, v, lse=True, batch_invariant=True, schedule={"split_keys": split_keys}, **options
    )
    left, right = options.get("window", (None, None))
    expected, expected_lse = attention(
        q, k, v, options.get("causal"), left, right, options.get("softcap")
    )
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_rows_without_keys():
    q, k, v = draw_qkv(queries=100, keys=30)
    options = {"causal": True, "lse": True, "batch_invariant": True}
    for split_keys in (0, 64):
        o, lse = flashcore.attention(q, k, v, schedule={"split_keys": split_keys}, **options)
        assert (o[:, :, :70] == 0).all() and (lse[:, :, :70] == -numpy.inf).all()
        assert not numpy.signbit(o[:, :, :70]).any()


def test_parts_of_a_cache_without_keys():
    q, k, v = draw_qkv(2, 4, 2, 1, 0)
    used = numpy.array([0, 0], numpy.int32)
    longer = [numpy.full((2, 2, 130, 64), numpy.nan, numpy.float16) for _ in range(2)]
    options = {"lse": True, "batch_invariant": True, "schedule": {"split_keys": 64}}
    o, lse = flashcore.attention(q, *longer, seqused_k=used, **options)
    assert (o == 0).all() and (lse == -numpy.inf).all()


@pytest.mark.parametrize("split_keys", [0, 64])
def test_clauses(split_keys):
    """Sinks and ALiBi count in each row alone."""
    q, k, v = draw_qkv(1, 4, 2, 40, 170)
    options = {
        "causal": True,
        "sinks": numpy.array([1, -2, 0, 0.5], numpy.float32),
        "alibi_slopes": numpy.array([0.5, 0.25, 0.125, 0.1], numpy.float32),
        "batch_invariant": True,
        "schedule": {"split_keys": split_keys},
        "lse": True,
    }
    whole, whole_lse = flashcore.attention(q, k, v, **options)
    # 53 keys are one part, which is static then.
    for row, keys, static in ((0, 131, False), (17, 148, True), (39, 170, True)):
        k_seen, v_seen = (numpy.ascontiguousarray(x[:, :, :keys]) for x in (k, v))
        q_row = numpy.ascontiguousarray(q[:, :, row : row + 1])
        o, lse = flashcore.attention(q_row, k_seen, v_seen, static=static, **options)
        assert (o == whole[:, :, row : row + 1]).all()
        assert (lse == whole_lse[:, :, row : row + 1]).all()


@pytest.mark.parametrize("split_keys", [0, 64])
def test_masks_and_score_changes_of_ones_own(split_keys):
    """Chunks of a call, whose functions count from the first query of each."""
    q, k, v = draw_qkv(1, 4, 2, 170)
    slopes = flashcore.capture(numpy.array([0.5, 0.25, 0.125, 0.1], numpy.float32))
    bias = 4 * draw_qkv(1, 4, 4, 170, 170, 170, dtype=numpy.float32)[0]

    def alibi(first):
        return lambda s, b, h, i, j: s * 1.1 - slopes[h] * (i + first - j) + 0.3

    def near_and_first(first):
        return lambda b, h, i, j: ((j < 4) | (i + first - j <= 40)) & (j <= i + first)

    def run(first, end, static=False):
        results = []
        for options in (
            {"score_mod": alibi(first), "mask_mod": near_and_first(first)},
            {"bias": numpy.ascontiguousarray(bias[:, :, first:end])},
        ):
            results += flashcore.attention(
                numpy.ascontiguousarray(q[:, :, first:end]), k, v, lse=True, static=static,
                batch_invariant=True, schedule={"split_keys": split_keys}, **options,
            )  # fmt: skip
        return results

    whole = run(0, 170)
    for first, end, static in ((0, 170, True), (169, 170, False), (70, 87, False)):
        for rows, all_rows in zip(run(first, end, static), whole):
            assert (rows == all_rows[:, :, first:end]).all()


def test_one_part_is_what_several_make():
    """A merge of one part changes nothing, with and without a sink."""
    q, k, v = draw_qkv(1, 4, 2, 3, 60)
    sinks = numpy.array([1, -2, 0, 0.5], numpy.float32)
    for extra in ({}, {"sinks": sinks}):
        options = {"batch_invariant": True, "schedule": {"split_keys": 64}, "lse": True, **extra}
        one = flashcore.attention(q, k, v, static=True, **options)
        used = numpy.array([60], numpy.int32)
        longer = [numpy.concatenate([x, x, x, x], axis=2) for x in (k, v)]
        several = flashcore.attention(q, *longer, seqused_k=used, **options)
        for x, y in zip(one, several):
            assert (x == y).all()


def test_it_is_a_choice_of_the_schedule():
    words = "b1 h8 s512 d64"
    said = flashcore.inspect(words, batch_invariant=True)
    assert said.schedule["invariance"] == "batch"
    assert said.reasons["row_max"] == "invariance: the same for every batch"
    assert flashcore.inspect(words).schedule["invariance"] == "none"
    asked = flashcore.compile(words, schedule={"invariance": "batch"})
    assert asked.ptx() == flashcore.compile(words, batch_invariant=True).ptx()


def test_what_contradicts_it_is_refused():
    q, k, v = draw_qkv()
    for schedule, message in (
        ({"key_splits": 2}, "expects key-splits 1 with invariance batch"),
        ({"row_max": "stale"}, "expects row-max exact with invariance batch"),
        ({"split_keys": 100}, "expects split-keys to be 0 or a multiple of block-n = 64"),
    ):
        with pytest.raises(flashcore.Error, match=message):
            flashcore.attention(q, k, v, schedule=schedule, batch_invariant=True)
    with pytest.raises(flashcore.Error, match="expects invariance batch with split-keys 64"):
        flashcore.attention(q, k, v, schedule={"split_keys": 64})


def test_sequences_have_no_parts():
    q, k, v = draw_qkv(1, 2, 2, 40)
    ends = numpy.array([0, 40], numpy.int32)
    with pytest.raises(flashcore.Error, match="expects split-keys 0 with cu_seqlens and without"):
        flashcore.attention(
            q,
            k,
            v,
            cu_seqlens_q=ends,
            cu_seqlens_k=ends,
            batch_invariant=True,
            schedule={"split_keys": 64},
        )
