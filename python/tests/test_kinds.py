"""Arguments that are no arrays: what each kind takes, whatever was passed before."""

import inspect
import random
import sys

import ml_dtypes
import numpy
import pytest

import flashcore
from formula import draw, draw_qkv
from flashcore import _core, kinds
from flashcore.options import make_options
from flashcore.resolve import call_for


class Array:
    """Of a library that nobody knows, with one element."""

    def __init__(self, held):
        self.held = held

    def __dlpack__(self, **options):
        raise AssertionError("it is not looked at")

    def __float__(self):
        return float(self.held)

    def __index__(self):
        return int(self.held)

    def __bool__(self):
        return bool(self.held)


#: Of each kind, what is taken, with what it is, and what is refused.
GOOD = {
    kinds.NUMBER: [
        (0.5, 0.5), (1, 1.0), (numpy.float32(0.5), 0.5), (numpy.float64(0.5), 0.5),
        (numpy.float16(0.5), 0.5), (numpy.int32(2), 2.0), (ml_dtypes.bfloat16(0.5), 0.5),
    ],
    kinds.WHOLE: [(5, 5), (numpy.int64(5), 5), (numpy.uint8(5), 5)],
    kinds.FLAG: [(True, True), (False, False), (numpy.bool_(True), True)],
    kinds.WORD: [("word", "word"), (numpy.str_("word"), "word")],
}  # fmt: skip
BAD = {
    kinds.NUMBER: [True, numpy.bool_(True), "0.5", b"0.5", 1j, numpy.complex64(1), [0.5]],
    kinds.WHOLE: [5.0, True, numpy.float32(5), numpy.bool_(True), "5", None],
    kinds.FLAG: [1, 0, "no", 1.0, None, [True]],
    kinds.WORD: [1, True, b"word", ["word"]],
}
ARRAYS = [numpy.array(1), numpy.ones(1), Array(1)]


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.what)
def test_kinds(kind):
    for value, wanted in GOOD[kind]:
        got = kinds.read("an argument", value, kind)
        assert got == wanted and type(got).__module__ == "builtins"
    for value in [*BAD[kind], *ARRAYS]:
        with pytest.raises(TypeError, match=f"^expects an argument to be {kind.what}, but got "):
            kinds.read("an argument", value, kind)


def test_an_array_is_told_what_to_write():
    message = r"expects scale to be a number or None, but got an array \(numpy.ndarray\): float\(scale\) is"
    with pytest.raises(TypeError, match=message):
        flashcore.attention(*draw_qkv(queries=20), scale=numpy.array(0.5))


#: Functions, and what makes a call of them right but for one argument.
def functions():
    q, k, v = draw_qkv(queries=20)
    outputs, lses = draw(2, 1, 2, 20, 64), numpy.zeros((2, 1, 2, 20), "float32")

    def mask(b, h, i, j):
        return i >= j

    return {
        flashcore.attention: lambda **one: flashcore.attention(q, k, v, **one),
        flashcore.merge: lambda **one: flashcore.merge(outputs, lses, **one),
        flashcore.flex_attention: lambda **one: flashcore.flex_attention(q, k, v, **one),
        flashcore.show_mask: lambda **one: flashcore.show_mask(
            mask, **{"seqlen_q": 20, "seqlen_k": 20, **one}
        ),
    }


CASES = [
    (function.__name__, name)
    for function in functions()
    for name in inspect.signature(function).parameters
    if name in kinds._KIND_OF and name != "max_seqlen_q"  # which comes with cu_seqlens_q
]


def test_the_table_has_all_of_them():
    """Each argument with a number, bool or str for a default is in it."""
    for function in functions():
        for name, parameter in inspect.signature(function).parameters.items():
            if isinstance(parameter.default, (bool, int, float, str)):
                assert name in kinds._KIND_OF, name


@pytest.mark.parametrize("function, name", CASES)
def test_arguments(function, name):
    """Drawn anew with each name: what is refused stays so after what equals it was taken."""
    draws = random.Random(f"{function} {name}")
    call = {each.__name__: run for each, run in functions().items()}[function]
    kind = kinds._KIND_OF[name]
    bad = BAD.get(kind, [1, 2.0, [True]]) + ARRAYS
    for value in draws.sample(bad, len(bad)):
        if value is None and (name in kinds._OPTIONAL or kind is kinds.WHOLE):
            continue
        with pytest.raises(TypeError, match=f"expects {name} to be "):
            call(**{name: value})


PAIRS = [
    ("window", 5, 5.0), ("window", (5, 1), (5.0, True)), ("causal", True, 1), ("causal", False, 0.0),
    ("window", 5, (5,)), ("lse", True, 1), ("static", False, 0), ("scale", 1.0, True),
    ("softcap", 1, True),
]  # fmt: skip


@pytest.mark.parametrize("name, taken, refused", PAIRS)
@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_equal_keys_are_not_equal_options(name, taken, refused, count, with_sinks):
    q, k, v = draw_qkv(queries=20)
    beside = {"sinks": numpy.zeros(q.shape[1], "float32")} if with_sinks else {}
    for _ in range(count):
        flashcore.attention(q, k, v, **beside)
        flashcore.attention(q, k, v, **beside, **{name: taken})
    for _ in range(2):
        with pytest.raises((TypeError, ValueError), match=f"expects {name} to be "):
            flashcore.attention(q, k, v, **beside, **{name: refused})
        flashcore.attention(q, k, v, **beside, **{name: taken})


def test_options_beside_clauses_are_checked_once(monkeypatch):
    """Which takes longer than the rest of such a call."""
    module = sys.modules["flashcore.attention"]
    made, checked = module.make_options, []
    monkeypatch.setattr(module, "_calls", module._new_calls())
    monkeypatch.setattr(module, "make_options", lambda *given: checked.append(given) or made(*given))
    q, k, v = draw_qkv(queries=20)
    sinks = numpy.zeros(q.shape[1], "float32")
    for window in (5, (5, None), 5, (5, None), 6):
        for schedule in (None, {"block_n": 32}):
            for _ in range(2):
                flashcore.attention(q, k, v, sinks=sinks, window=window, schedule=schedule)
    assert [given[1] for given in checked] == [5, 5, (5, None), (5, None), 6, 6]


def test_a_scale_is_what_it_is_at_each_call():
    q, k, v = draw_qkv(queries=20)
    for scale in (0.5, 1, 1.0, 0.25, numpy.float32(0.5), numpy.float64(0.3), 0.5, 2):
        o = flashcore.attention(q, k, v, scale=scale)
        scaled = (q.astype("float32") * (float(scale) * 8)).astype("float16")
        assert abs(o - flashcore.attention(scaled, k, v)).max() < 1e-2


def test_numbers_of_numpy_are_no_keys():
    """Nor do they make a call of their own."""
    call = call_for(make_options(scale=0.5))
    for scale in (numpy.float32(0.5), numpy.float64(0.5), ml_dtypes.bfloat16(0.5)):
        assert call_for(make_options(scale=scale)) is call


def test_more_options_than_are_kept():
    """The table of options starts over, and what is no key is asked for each time."""
    call, made = call_for(make_options(device="reference")), []

    def make(*options):
        made.append(options)
        return call

    calls = _core.make_calls(make)
    arrays = (*draw_qkv(queries=16, heads=1, dim=16), None, None, None, None)
    rest = (None,) * 15
    for number in range(2100):
        calls.run(*arrays, number, *rest)
        calls.run(*arrays, number, *rest)
    assert len(made) == 2100
    for _ in range(3):
        calls.run(*arrays, ["a list"], *rest)
    assert len(made) == 2103
    with pytest.raises(TypeError, match="expects a Call, but got 5"):
        _core.make_calls(lambda *options: 5).run(*arrays, 1, *rest)


def test_shares_are_told_as_kernels_round_them():
    """At the ends of what there is a kernel for, as rounding to float32 says."""
    from flashcore.options import is_share, round_to_float32

    for end in (2**-17, 1 - 2**-17):
        for step in (2**-41, 2**-42, 2**-43, 2**-24, 2**-25, 2**-26, 2**-27, 0):
            for factor in (-1.5, -1, -0.75, 0.75, 1, 1.5):
                share = end + factor * step
                assert is_share(share) == (2**-17 <= round_to_float32(share) < 1 - 2**-17), share
