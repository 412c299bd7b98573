"""Sinks, ALiBi and lengths on NumPy arrays, on the emulator, against the formula."""

import re

import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw, draw_qkv

#: Unlike the sizes of tiles, with sequences without queries, without keys, without both.
LENGTHS = [(70, 70), (0, 0), (1, 33), (40, 17), (0, 20), (9, 0), (129, 200)]


def lengths_of(pairs):
    """cu_seqlens_q and cu_seqlens_k."""
    return [numpy.cumsum([0, *(pair[i] for pair in pairs)]).astype(numpy.int32) for i in range(2)]


def expected_of(q, k, v, causal=None, sinks=None, slopes=None, **options):
    """The formula with sinks and ALiBi: o and lse."""
    i, j = numpy.arange(q.shape[2])[:, None], numpy.arange(k.shape[2])
    bias = None
    if slopes is not None:
        bias = -slopes[:, None, None] * abs(i + k.shape[2] - q.shape[2] - j)
    o, lse = attention(q, k, v, causal, bias=bias, **options)
    if sinks is None:
        return o, lse
    whole = numpy.logaddexp(lse, sinks[:, None])
    return o * numpy.exp(lse - whole)[..., None], whole


def draw_sequences(pairs, heads=4, heads_kv=2, dim=64):
    queries, keys = (sum(pair[i] for pair in pairs) for i in range(2))
    return draw_qkv(1, heads, heads_kv, queries, keys, dim)


def split(q, k, v, pairs):
    """q, k and v of each sequence, and where its queries are."""
    cu_q, cu_k = lengths_of(pairs)
    for i in range(len(pairs)):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        yield q[:, :, rows], k[:, :, keys], v[:, :, keys], rows


def fill(like, value=numpy.nan):
    return numpy.full_like(like, value)


# Sinks and ALiBi ------------------------------------------------------------


@pytest.mark.parametrize("causal", [None, "bottom_right", "top_left"])
@pytest.mark.parametrize("queries, keys", [(40, 70), (70, 20), (1, 50), (3, 1030)])
def test_sinks(causal, queries, keys):
    q, k, v = draw_qkv(2, 4, 2, queries, keys)
    sinks = numpy.array([-3, 0, 1.5, 7], numpy.float32)
    o, lse = flashcore.attention(q, k, v, causal=causal or False, sinks=sinks, lse=True)
    expected, expected_lse = expected_of(q, k, v, causal, sinks)
    assert_close(o, expected)
    assert_close(lse, expected_lse)
    if causal == "bottom_right" and queries > keys:  # a row without keys
        assert (o[:, :, 0] == 0).all() and (lse[:, :, 0] == sinks).all()


def test_sinks_of_minus_infinity_are_none():
    q, k, v = draw_qkv(queries=20)
    o = flashcore.attention(q, k, v, sinks=numpy.full(2, -numpy.inf, numpy.float32))
    assert_close(o, attention(q, k, v)[0])


def test_sinks_without_keys():
    q, k, v = draw_qkv(2, 4, 2, 5, 8)
    sinks = draw(4, dtype=numpy.float32)
    o, lse = flashcore.attention(q, k[:, :, :0], v[:, :, :0], sinks=sinks, lse=True)
    assert (o == 0).all() and (lse == sinks[:, None]).all()


@pytest.mark.parametrize("softcap", [None, 20.0])
def test_head_scales(softcap):
    """Heads of one scale are those of a call with that scale, which may be below 0 here alone."""
    q, k, v = draw_qkv(2, 4, 2, 40, 70)
    scales = numpy.array([0.5, 2, -1, 0], numpy.float32)
    o, lse = flashcore.attention(
        q, k, v, causal=True, scale=0.2, softcap=softcap, head_scales=scales, lse=True
    )
    for head, (sign, scale) in enumerate([(1, 0.1), (1, 0.4), (-1, 0.2), (0, 0.2)]):
        one, key = slice(head, head + 1), slice(head // 2, head // 2 + 1)
        expected, expected_lse = flashcore.attention(
            sign * q[:, one], k[:, key], v[:, key], causal=True, scale=scale, softcap=softcap,
            lse=True, device="reference",
        )  # fmt: skip
        assert_close(o[:, one], expected)
        assert_close(lse[:, one], expected_lse)


def test_alibi():
    q, k, v = draw_qkv(2, 4, 2, 40, 70)
    slopes = numpy.array([0.5, 0.25, 0.1, 0.02], numpy.float32)
    o, lse = flashcore.attention(q, k, v, causal=True, alibi_slopes=slopes, lse=True)
    expected, expected_lse = expected_of(q, k, v, True, slopes=slopes)
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_with_all_else():
    """A bias, a window, a function and a head_dim that is no multiple of 8."""
    q, k, v = draw_qkv(2, 4, 2, 40, 70, dim=20)
    sinks, bias, table = draw(4, dtype=numpy.float32), draw(40, 70), draw(4, dtype=numpy.float32)
    captured = flashcore.capture(table)
    o = flashcore.attention(
        q, k, v, window=30, bias=bias, sinks=sinks,
        score_mod=lambda score, b, h, i, j: score + captured[h],
    )  # fmt: skip
    whole = bias.astype(numpy.float64) + table[:, None, None]
    assert_close(o, expected_of_bias(q, k, v, whole, sinks))


def expected_of_bias(q, k, v, bias, sinks):
    o, lse = attention(q, k, v, left=30, bias=bias)
    return o / (1 + numpy.exp(sinks[:, None] - lse))[..., None]


# Lengths --------------------------------------------------------------------


@pytest.mark.parametrize("queries", [1, 5, 40])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (20, 3)}])
@pytest.mark.parametrize("dim", [64, 20])
def test_seqused_k(queries, options, dim):
    used = numpy.array([1100, 0, 3, 517], numpy.int32)
    q, k, v = draw_qkv(4, 4, 2, queries, 1100, dim)
    sinks = draw(4, dtype=numpy.float32)
    for i, count in enumerate(used):
        k[i, :, count:] = v[i, :, count:] = numpy.nan
    o, lse = flashcore.attention(q, k, v, seqused_k=used, sinks=sinks, lse=True, **options)
    left, right = options.get("window", (None, None))
    for i, count in enumerate(used):
        expected, expected_lse = expected_of(
            q[i : i + 1], k[i : i + 1, :, :count], v[i : i + 1, :, :count],
            options.get("causal"), sinks, left=left, right=right,
        )  # fmt: skip
        assert_close(o[i : i + 1], expected)
        assert_close(lse[i : i + 1], expected_lse)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("causal, window", [(None, None), (True, None), (None, (30, 4))])
def test_cu_seqlens(layout, causal, window):
    q, k, v = draw_sequences(LENGTHS)
    cu_q, cu_k = lengths_of(LENGTHS)
    inputs = (q, k, v)
    if layout == "bshd":
        inputs = (numpy.ascontiguousarray(x.swapaxes(1, 2)) for x in inputs)
    o, lse = flashcore.attention(
        *inputs, causal=causal or False, window=window, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k,
        lse=True, layout=layout,
    )  # fmt: skip
    o = o.swapaxes(1, 2) if layout == "bshd" else o
    left, right = window or (None, None)
    for *parts, rows in split(q, k, v, LENGTHS):
        expected, expected_lse = expected_of(*parts, causal, left=left, right=right)
        assert_close(o[:, :, rows], expected)
        assert_close(lse[:, :, rows], expected_lse)


def test_cu_seqlens_with_all_else():
    q, k, v = draw_sequences(LENGTHS)
    cu_q, cu_k = lengths_of(LENGTHS)
    used = numpy.array([max(0, pair[1] - 5) for pair in LENGTHS], numpy.int32)
    for first, count, pair in zip(cu_k, used, LENGTHS):
        k[:, :, first + count : first + pair[1]] = numpy.nan
        v[:, :, first + count : first + pair[1]] = numpy.nan
    sinks, slopes = draw(4, dtype=numpy.float32), draw(4, seed=1, dtype=numpy.float32)
    arguments = {"cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k, "seqused_k": used, "sinks": sinks}
    arguments |= {"alibi_slopes": slopes, "causal": True, "lse": True}
    for device in (None, "reference"):
        o, lse = flashcore.attention(q, k, v, device=device, **arguments)
        for (a, b, c, rows), count in zip(split(q, k, v, LENGTHS), used):
            expected, expected_lse = expected_of(
                a, b[:, :, :count], c[:, :, :count], True, sinks, slopes
            )
            assert_close(o[:, :, rows], expected)
            assert_close(lse[:, :, rows], expected_lse)


def test_functions_know_the_sequence():
    pairs = [(20, 20), (30, 40)]
    q, k, v = draw_sequences(pairs)
    cu_q, cu_k = lengths_of(pairs)
    o = flashcore.attention(
        q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k,
        mask_mod=lambda sequence, head, i, j: j <= i + 10 * sequence,
    )  # fmt: skip
    for (*parts, rows), right in zip(split(q, k, v, pairs), (0, 10)):
        shift = parts[0].shape[2] - parts[1].shape[2]
        assert_close(o[:, :, rows], attention(*parts, right=right + shift)[0])


def test_rows_of_no_sequence_are_left_alone():
    q, k, v = draw_qkv(queries=50, keys=60)
    cu = numpy.array([10, 20, 40], numpy.int32)
    out = fill(q, 7)
    o = flashcore.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu, out=out)
    assert (o[:, :, :10] == 7).all() and (o[:, :, 40:] == 7).all()
    for rows in (slice(10, 20), slice(20, 40)):
        assert_close(o[:, :, rows], attention(*(x[:, :, rows] for x in (q, k, v)))[0])


def test_two_kernels_serve_all_lengths(cache_dir, compiled):
    for pairs in (LENGTHS, LENGTHS[:3], [(1, 1100)], [(3, 5)] * 9):
        q, k, v = draw_sequences(pairs, heads=4, heads_kv=2)
        cu_q, cu_k = lengths_of(pairs)
        o = flashcore.attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
        for *parts, rows in split(q, k, v, pairs):
            assert_close(o[:, :, rows], attention(*parts)[0])
    assert compiled() == 2


def test_the_longest_length_chooses_the_kernel(cache_dir, compiled):
    pairs = [(20, 30), (1, 700), (1, 3), (1, 0)]  # six queries each on average
    q, k, v = draw_sequences(pairs, heads=4, heads_kv=2)
    cu_q, cu_k = lengths_of(pairs)
    for most, kernels in ((None, 1), (16, 1), (20, 2)):
        o = flashcore.attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=most)
        for *parts, rows in split(q, k, v, pairs):
            assert_close(o[:, :, rows], attention(*parts)[0])
        assert compiled() == kernels
    with pytest.raises(ValueError, match="without cu_seqlens_q, but got 20"):
        flashcore.attention(q, k, v, max_seqlen_q=20)
    with pytest.raises(TypeError, match="max_seqlen_q to be a whole number or None"):
        flashcore.attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=2.0)


def test_lengths_are_data(cache_dir, compiled):
    q, k, v = draw_qkv(2, 2, 1, 40, 60)
    for used in ([60, 1], [3, 0]):
        flashcore.attention(q, k, v, seqused_k=numpy.array(used, numpy.int32))
    o = flashcore.attention(q, k, v, seqused_k=numpy.array([7, 9, 7, 9], numpy.int32)[::2][::-1])
    assert_close(o, attention(q, k[:, :, :7], v[:, :, :7])[0])
    assert compiled() == 1


def test_a_repeated_call_gives_the_same_bits():
    q, k, v = draw_sequences(LENGTHS)
    cu_q, cu_k = lengths_of(LENGTHS)
    one, two = (
        flashcore.attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k) for _ in range(2)
    )
    assert numpy.array_equal(one, two)


def test_reference_refuses_lengths_outside():
    q, k, v = draw_qkv(2, queries=20)
    with pytest.raises(flashcore.Error, match=r"seqused_k\[1\] to be from 0 to 20"):
        used = numpy.array([20, 21], numpy.int32)
        flashcore.attention(q, k, v, seqused_k=used, device="reference")


# What is refused ------------------------------------------------------------


def i32(*values):
    return numpy.array(values, numpy.int32)


def f32(*values):
    return numpy.array(values, numpy.float32)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"sinks": draw(2)}, TypeError, "expects sinks of float32, but got float16: convert"),
        ({"sinks": f32(1)}, ValueError, "expects sinks of (2,), one a head of q, but got (1,)"),
        ({"sinks": f32(1, 2)[None]}, ValueError, "expects sinks to have one axis, but got 2"),
        ({"head_scales": f32(1)}, ValueError, "expects head_scales of (2,), one a head of q, but"),
        ({"head_scales": draw(2)}, TypeError, "expects head_scales of float32, but got float16"),
        ({"alibi_slopes": f32(1, 2, 3)}, ValueError, "expects alibi_slopes of (2,), one a head"),
        ({"alibi_slopes": i32(1, 2)}, TypeError, "expects alibi_slopes of float32, but got int32"),
        ({"seqused_k": numpy.array([20])}, TypeError, "seqused_k of int32, but got int64: conv"),
        (
            {"seqused_k": i32(20, 20)},
            ValueError,
            "seqused_k of (1,), one a batch entry, but got (2",
        ),
        ({"seqused_k": [20]}, TypeError, "expects an array with __dlpack__"),
        (
            {"cu_seqlens_q": i32(0, 20)},
            ValueError,
            "expects cu_seqlens_q and cu_seqlens_k together, but got cu_seqlens_q alone: pass "
            "cu_seqlens_k too",
        ),
        (
            {"cu_seqlens_k": i32(0, 20)},
            ValueError,
            "expects cu_seqlens_q and cu_seqlens_k together, but got cu_seqlens_k alone: pass "
            "cu_seqlens_q too",
        ),
        (
            {"cu_seqlens_q": i32(0, 20), "cu_seqlens_k": i32(0, 9, 20)},
            ValueError,
            "of as many entries, one more than there are sequences, but got 2 and 3",
        ),
        (
            {"cu_seqlens_q": i32(), "cu_seqlens_k": i32()},
            ValueError,
            "of as many entries, one more than there are sequences, but got 0 and 0",
        ),
        (
            {"cu_seqlens_q": i32(0, 20), "cu_seqlens_k": i32(0, 20), "bias": draw(20, 20)},
            ValueError,
            "expects no bias with cu_seqlens_q, but got one: score_mod adds",
        ),
        (
            {"cu_seqlens_q": i32(0, 9, 20), "cu_seqlens_k": i32(0, 9, 20), "seqused_k": i32(1)},
            ValueError,
            "expects seqused_k of (2,), one a sequence, but got (1,)",
        ),
        (
            {"cu_seqlens_q": numpy.array([0, 20]), "cu_seqlens_k": i32(0, 20)},
            TypeError,
            "expects cu_seqlens_q of int32, but got int64: convert it first",
        ),
    ],
)
def test_refused(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        flashcore.attention(*draw_qkv(queries=20), **arguments)


def test_sequences_have_no_batch():
    cu = i32(0, 20)
    with pytest.raises(ValueError, match="of batch 1 with cu_seqlens_q, but got 2: sequences lie"):
        flashcore.attention(*draw_qkv(2, queries=20), cu_seqlens_q=cu, cu_seqlens_k=cu)
