"""score_mod and mask_mod as the text of regions, and what they are refused for."""

import functools
import inspect
import math
import re

import numpy
import pytest

import flashcore
from flashcore.regions import trace_mods

SLOPES = numpy.array([0.5, 0.25], numpy.float32)
TABLE = numpy.zeros((32, 4), numpy.float16)
DOCUMENT = numpy.zeros((2, 100), numpy.int32)


def lines(score_mod=None, mask_mod=None):
    """The ops of the regions, and what they yield."""
    text = flashcore.trace(score_mod, mask_mod)
    return [line.strip() for line in text.splitlines() if line.startswith(("    ", "//"))]


def test_causal():
    assert flashcore.trace(mask_mod=lambda b, h, q, k: q >= k) == (
        "mask {\n"
        "  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):\n"
        "    %0 = arith.cmpi sge, %query, %key : index\n"
        "    flashcore.yield %0 : i1\n"
        "  }"
    )


def test_window():
    assert lines(mask_mod=lambda b, h, q, k: (q >= k) & (q - k <= 128)) == [
        "%0 = arith.cmpi sge, %query, %key : index",
        "%1 = arith.subi %query, %key : index",
        "%2 = arith.constant 128 : index",
        "%3 = arith.cmpi sle, %1, %2 : index",
        "%4 = arith.andi %0, %3 : i1",
        "flashcore.yield %4 : i1",
    ]


def test_alibi():
    slopes = flashcore.capture(SLOPES)
    assert lines(lambda s, b, h, q, k: s + slopes[h] * (k - q)) == [
        "// %capture0: memref<?xf32, strided<[1]>>",
        "%0 = memref.load %capture0[%head] : memref<?xf32, strided<[1]>>",
        "%1 = arith.subi %key, %query : index",
        "%2 = arith.index_cast %1 : index to i32",
        "%3 = arith.sitofp %2 : i32 to f32",
        "%4 = arith.mulf %0, %3 : f32",
        "%5 = arith.addf %score, %4 : f32",
        "flashcore.yield %5 : f32",
    ]


def test_relative_bias():
    table = flashcore.capture(TABLE)
    assert lines(lambda s, b, h, q, k: s + table[flashcore.clamp(q - k, 0, 31), h])[1:] == [
        "%0 = arith.subi %query, %key : index",
        "%1 = arith.constant 0 : index",
        "%2 = arith.maxsi %0, %1 : index",
        "%3 = arith.constant 31 : index",
        "%4 = arith.minsi %2, %3 : index",
        "%5 = memref.load %capture0[%4, %head] : memref<?x?xf16, strided<[?, 1]>>",
        "%6 = arith.extf %5 : f16 to f32",
        "%7 = arith.addf %score, %6 : f32",
        "flashcore.yield %7 : f32",
    ]


def test_documents():
    document = flashcore.capture(DOCUMENT)
    assert lines(mask_mod=lambda b, h, q, k: document[b, q] == document[b][k])[1:] == [
        "%0 = memref.load %capture0[%batch, %query] : memref<?x?xi32, strided<[?, 1]>>",
        "%1 = memref.load %capture0[%batch, %key] : memref<?x?xi32, strided<[?, 1]>>",
        "%2 = arith.cmpi eq, %0, %1 : i32",
        "flashcore.yield %2 : i1",
    ]


@pytest.mark.parametrize("tanh", [flashcore.tanh, numpy.tanh, lambda x: x.tanh()])
def test_softcap(tanh):
    assert lines(lambda s, b, h, q, k: 20 * tanh(s / 20)) == [
        "%0 = arith.constant 20.0 : f32",
        "%1 = arith.divf %score, %0 : f32",
        "%2 = math.tanh %1 : f32",
        "%3 = arith.mulf %0, %2 : f32",
        "flashcore.yield %3 : f32",
    ]


def test_floor_division_and_remainders_are_pythons():
    assert lines(mask_mod=lambda b, h, q, k: q // 16 == k % 16)[:4] == [
        "%0 = arith.constant 16 : index",
        "%1 = arith.divui %query, %0 : index",
        "%2 = arith.remui %key, %0 : index",
        "%3 = arith.cmpi eq, %1, %2 : index",
    ]
    text = flashcore.trace(mask_mod=lambda b, h, q, k: (q - k) % 3 == (q - k) // -2)
    assert text.count("arith.floordivsi") == 2 and "rem" not in text


@pytest.mark.parametrize(
    "mod, expected",
    [
        (lambda s, b, h, q, k: abs(q - k), "math.absi"),
        (lambda s, b, h, q, k: -abs(s), "arith.negf"),
        (lambda s, b, h, q, k: s * (q > k), "arith.select %0, %1, %2 : f32"),
        (lambda s, b, h, q, k: s + -math.inf, "arith.constant 0xFF800000 : f32"),
        (lambda s, b, h, q, k: s * 1e-5, "arith.constant 1.0e-05 : f32"),
        (lambda s, b, h, q, k: s * numpy.float32(0.1), "arith.constant 0.1 : f32"),
        (lambda s, b, h, q, k: numpy.float64(0.1) * s, "arith.constant 0.1 : f32"),
        (lambda s, b, h, q, k: s + numpy.int64(3), "arith.constant 3.0 : f32"),
        (lambda s, b, h, q, k: s**2, "arith.mulf %score, %score : f32"),
        (lambda s, b, h, q, k: flashcore.sigmoid(s), "math.exp"),
        (lambda s, b, h, q, k: flashcore.where(~(q < k), s, 0), "arith.xori"),
        (lambda s, b, h, q, k: numpy.where(q < k, s, 0), "arith.select %0, %score, %1 : f32"),
        (lambda s, b, h, q, k: s.to("int32") + q, "arith.fptosi %score : f32 to i32"),
        (lambda s, b, h, q, k: flashcore.floor(s // 2), "math.floor"),
        (lambda s, b, h, q, k: flashcore.maximum(s, q), "arith.maximumf %score, %1 : f32"),
        (lambda s, b, h, q, k: numpy.where(numpy.bool_(True), q, s), "arith.sitofp %0"),
        (lambda s, b, h, q, k: s * numpy.True_, "arith.constant 1.0 : f32"),
        (lambda s, b, h, q, k: 1.5, "arith.constant 1.5 : f32"),
    ],
)
def test_ops(mod, expected):
    assert expected in flashcore.trace(mod)


def test_python_around_it():
    """Closures, defaults, partial functions, methods and objects."""

    class Softcap:
        cap = 20

        def __call__(self, score, batch, head, q_idx, kv_idx):
            return self.cap * flashcore.tanh(score / self.cap)

        def method(self, *args):
            return self(*args)

    def of(cap, score, batch, head, q_idx, kv_idx):
        return cap * flashcore.tanh(score / cap)

    texts = {
        flashcore.trace(mod)
        for mod in (Softcap(), Softcap().method, functools.partial(of, 20), lambda *a: of(20, *a))
    }
    assert len(texts) == 1


def test_what_is_not_used_is_not_read():
    one, two = flashcore.capture(SLOPES), flashcore.capture(TABLE)

    def score_mod(score, batch, head, q_idx, kv_idx):
        two[q_idx, head] + flashcore.exp(score)
        return score + one[head]

    traced = trace_mods(score_mod, lambda b, h, q, k: two[q, h] > 0)
    assert [capture.array for capture in traced.captures] == [SLOPES, TABLE]
    assert "exp" not in traced.regions.text
    assert "%capture0[%head]" in traced.regions.text
    assert "%capture1[%query, %head]" in traced.regions.text


@pytest.mark.parametrize(
    "dtype, kind",
    [
        *(("f4", "f32"), ("f8", "f32"), ("f2", "f16"), ("i4", "i32"), ("i8", "i32")),
        *(("i1", "i8"), ("u1", "i8"), ("?", "i8")),
    ],
)
def test_types_of_captured_arrays(dtype, kind):
    array = flashcore.capture(numpy.zeros(5, dtype))
    (comment, *ops) = lines(lambda s, b, h, q, k: s + array[q])
    assert comment == f"// %capture0: memref<?x{kind}, strided<[1]>>"
    reads = {"i1": "extsi %0 : i8", "u1": "extui %0 : i8", "?": "cmpi ne, %0, %1 : i8"}
    assert any(reads.get(dtype, "") in op for op in ops)
    assert any("arith.cmpi" in op for op in ops) == (dtype == "?")


def test_ranks_and_strides_of_captured_arrays():
    number = flashcore.capture(numpy.array(3, "i4"))
    assert lines(mask_mod=lambda b, h, q, k: q > number)[0] == "// %capture0: memref<i32>"
    turned = flashcore.capture(numpy.zeros((3, 4, 5), "f4").T)
    assert lines(lambda s, b, h, q, k: s + turned[b, h, q])[0] == (
        "// %capture0: memref<?x?x?xf32, strided<[?, ?, ?]>>"
    )


def refused(message, mod, name="score_mod"):
    """The message, after this file and the line of the function."""
    with pytest.raises(TypeError) as caught:
        flashcore.trace(**{name: mod})
    line = inspect.getsourcelines(mod)[1]
    where, _, text = str(caught.value).partition(": ")
    assert re.fullmatch(rf".*test_regions\.py:({line}|{line + 1})", where), where
    assert message in text


def test_branches():
    def branches(score, batch, head, q_idx, kv_idx):
        return score if q_idx > kv_idx else 0.0

    message = "expects no branch on values of the function (if, and, or, not, a < b < c, min, max)"
    refused(message, branches)
    refused(message, lambda s, b, h, q, k: max(s, 0))
    refused(message, lambda b, h, q, k: 0 <= q - k < 5, "mask_mod")


@pytest.mark.parametrize(
    "message, mod",
    [
        ("expects an op that score_mod and mask_mod have, but got 'sinh'",
         lambda s, b, h, q, k: numpy.sinh(s)),
        ("expects an op that score_mod and mask_mod have, but got 'lgamma'",
         lambda s, b, h, q, k: s.lgamma()),
        ("expects no float of values of the function", lambda s, b, h, q, k: math.exp(s)),
        ("expects no index of values of the function", lambda s, b, h, q, k: [1, 2][h]),
        ("arrays of NumPy are read by flashcore.capture(array)",
         lambda s, b, h, q, k: SLOPES[h]),
        ("expects functions of single values, but got numpy.add.reduce",
         lambda s, b, h, q, k: numpy.add.reduce(s)),
        ("expects values of the function or numbers as operands, but got 'x'",
         lambda s, b, h, q, k: s + "x"),
        ("expects bools or whole numbers in and, but got a float32",
         lambda s, b, h, q, k: s & 1),
        ("expects an exponent that is a number or a value, but got '2'",
         lambda s, b, h, q, k: s ** "2"),
        ("expects a divisor other than 0", lambda s, b, h, q, k: s + q // 0),
        ("expects a condition of where that is a bool, but got index",
         lambda s, b, h, q, k: flashcore.where(q, s, 0)),
        ("expects other arguments of clamp", lambda s, b, h, q, k: s.clamp(1, 2, 3)),
        ("expects whole numbers of 64 bits, but got 1000000000000000000000",
         lambda s, b, h, q, k: q + 10**21),
        ("expects a conversion to float32, int32, int64 or bool, but got float16",
         lambda s, b, h, q, k: s.to(numpy.float16)),
    ],
)  # fmt: skip
def test_ops_that_are_refused(message, mod):
    refused(message, mod)


@pytest.mark.parametrize(
    "message, mod",
    [
        ("expects at most 1 indices of a captured tensor, but got 2",
         lambda s, b, h, q, k: flashcore.capture(SLOPES)[h, q]),
        ("expects an element of a captured tensor, but got one with 1 axes left: index them",
         lambda s, b, h, q, k: s + flashcore.capture(TABLE)[h]),
        ("expects whole numbers as indices of a captured tensor, but got a float32",
         lambda s, b, h, q, k: flashcore.capture(SLOPES)[s]),
        ("expects whole numbers as indices of a captured tensor, but got slice(0, 1, None)",
         lambda s, b, h, q, k: flashcore.capture(TABLE)[h, 0:1]),
        ("expects indices of a captured tensor of at least 0, but got -1",
         lambda s, b, h, q, k: flashcore.capture(TABLE)[h, -1]),
        ("expects captured tensors of float16, bfloat16, float32, float64, int32, int64, int16, int8, "
         "uint8, bool, but got complex64",
         lambda s, b, h, q, k: flashcore.capture(SLOPES.astype("c8"))[h]),
        ("expects captured tensors of at most 4 axes, but got 5",
         lambda s, b, h, q, k: flashcore.capture(numpy.ones((1,) * 5))[h, h, h, h, h]),
    ],
)  # fmt: skip
def test_reads_that_are_refused(message, mod):
    refused(message, mod)


def test_parameters_and_results():
    refused(
        "expects score_mod to take (score, batch, head, q_idx, kv_idx), but got one that takes "
        "(batch, head, q_idx, kv_idx)",
        lambda batch, head, q_idx, kv_idx: q_idx,
    )
    refused(
        "expects score_mod to return a score (a float32), but got a bool",
        lambda s, b, h, q, k: q > k,
    )
    refused(
        "expects mask_mod to return whether the key is seen (a bool), but got a whole number",
        lambda b, h, q, k: q - k,
        "mask_mod",
    )
    refused(
        "expects score_mod to return a score (a float32), but got None",
        lambda s, b, h, q, k: None,
    )
    with pytest.raises(TypeError, match="expects mask_mod to be a function or None, but got 3"):
        flashcore.trace(mask_mod=3)


def test_values_stay_in_their_function():
    kept = []

    def score_mod(score, batch, head, q_idx, kv_idx):
        kept.append(score)
        return score + kept[0]

    flashcore.trace(score_mod)
    with pytest.raises(TypeError, match="expects values of this call of the function"):
        flashcore.trace(score_mod)
    with pytest.raises(TypeError, match="expects a value of score_mod or mask_mod in exp"):
        flashcore.exp(1.0)
