"""Numbers that programs use and a normal distribution never draws, on the emulator.

Large scores are exact in float32, so an error is the kernel's: it must stay what it is at 1e3.
"""

import ml_dtypes
import numpy
import pytest

import flashcore
from formula import attention, draw, draw_qkv

LOWEST = float(numpy.finfo(numpy.float32).min)
#: Options of a call, by what they choose.
SCHEDULES = {
    "default": {},
    "splits": {"static": True, "schedule": {"key_splits": 4}},
    "exact": {"static": True, "schedule": {"row_max": "exact"}},
    "stale": {"static": True, "schedule": {"row_max": "stale"}},
    "unfused": {"static": True, "schedule": {"softmax": "unfused"}},
    "invariant": {"batch_invariant": True},
}
#: Of masks: those of Transformers' models, and the lowest numbers.
MASKS = {"1e4": -1e4, "1e9": -1e9, "1e10": -1e10, "lowest": LOWEST}


def assert_good(result, expected, tolerance=2e-3):
    """Of o, and of lse where there is one, which is relative to 1 + its size."""
    o, lse = result if isinstance(result, tuple) else (result, None)
    numpy.testing.assert_allclose(o.astype(numpy.float64), expected[0], rtol=0, atol=tolerance)
    if lse is not None:
        size = 1 + numpy.abs(numpy.where(numpy.isfinite(expected[1]), expected[1], 0))
        numpy.testing.assert_allclose(lse / size, expected[1] / size, rtol=0, atol=2e-5)


def steps(keys, tile, step):
    """Tiles of which each has a level of its own, up and down."""
    number = numpy.arange(keys) // tile
    return step * (5 * number % 8)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", [1e3, 1e5, 1e6, 4e6, -1e6])
def test_maxima_of_a_bias_that_rise_and_fall(size, schedule):
    q, k, v = draw_qkv(heads=1, queries=20, keys=320)
    q = numpy.zeros_like(q)
    bias = (size + steps(320, 32, 0.5)).astype(numpy.float32)[None]
    result = flashcore.attention(q, k, v, bias=bias, lse=True, **SCHEDULES[schedule])
    assert_good(result, attention(q, k, v, bias=bias))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", [2.0**10, 2.0**17, 2.0**20, 2.0**22, -(2.0**20)])
def test_maxima_of_products_that_rise_and_fall(size, schedule):
    q, k, v = draw_qkv(heads=1, queries=20, keys=320)
    q, k = numpy.zeros_like(q), k.copy()
    # The scale is 1/8: scores are size + steps.
    q[..., 0], k[..., 0] = size / 512, 4096
    q[..., 1], k[..., 1] = 8, steps(320, 32, 0.5)
    result = flashcore.attention(q, k, v, lse=True, **SCHEDULES[schedule])
    assert_good(result, attention(q, k, v))


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e6, 4e6])
def test_maxima_of_one_query(size, splits):
    q, k, v = draw_qkv(heads=2, queries=1, keys=1024)
    q = numpy.zeros_like(q)
    bias = (size + steps(1024, 64, 0.25 if size < 4e6 else 0.5)).astype(numpy.float32)[None]
    options = {"static": True, "schedule": {"key_splits": splits}}
    result = flashcore.attention(q, k, v, bias=bias, lse=True, **options)
    assert_good(result, attention(q, k, v, bias=bias))


def test_one_key_has_all_weight():
    q, k = (
        numpy.clip(2e4 * draw(1, 2, rows, 64, seed=rows, dtype=numpy.float32), -6e4, 6e4)
        for rows in (1, 1024)
    )
    q, k, v = q.astype(numpy.float16), k.astype(numpy.float16), draw(1, 2, 1024, 64)
    assert_good(flashcore.attention(q, k, v, lse=True), attention(q, k, v))


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_padding(mask, schedule):
    q, k, v = draw_qkv(batch=2, queries=20, keys=200)
    bias = numpy.zeros((2, 1, 1, 200), numpy.float32)
    bias[0, ..., 100:] = mask
    bias[1, ..., :64] = mask  # whole tiles at the front
    result = flashcore.attention(q, k, v, bias=bias, lse=True, **SCHEDULES[schedule])
    assert_good(result, attention(q, k, v, bias=bias))


@pytest.mark.parametrize("dtype", [numpy.float16, ml_dtypes.bfloat16])
def test_padding_in_the_type_of_q(dtype):
    q, k, v = draw_qkv(queries=20, keys=200, dtype=dtype)
    bias = numpy.zeros((1, 200), dtype)
    bias[:, 100:] = ml_dtypes.finfo(dtype).min
    assert_good(flashcore.attention(q, k, v, bias=bias), attention(q, k, v, bias=bias), 1e-2)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_row_of_one_mask_is_finite(mask, schedule):
    """Where the mask swallows the scores, O is the mean of V; else what it is without."""
    q, k, v = draw_qkv(queries=20, keys=70)
    bias = numpy.zeros((20, 70), numpy.float32)
    bias[3] = mask
    o = flashcore.attention(q, k, v, bias=bias, **SCHEDULES[schedule])
    assert_good(o, attention(q, k, v, bias=bias))
    row = attention(q, k, v)[0] if mask == -1e4 else v.mean(2, keepdims=True, dtype=numpy.float64)
    assert_good(o[:, :, 3], [row[:, :, 3 if mask == -1e4 else 0]])


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_weights_of_a_row_of_one_mask(mask, schedule, sink):
    """Each key has its share, also beside a sink of the size of the mask."""
    keys = 70
    q, k, v = draw_qkv(queries=20, keys=keys)
    bias = numpy.zeros((20, keys), numpy.float32)
    bias[3] = bias[5, 40:] = mask
    sinks = numpy.full(2, mask, numpy.float32) if sink else None
    o, p = flashcore.attention(
        q, k, v, bias=bias, sinks=sinks, scores="probabilities", **SCHEDULES[schedule]
    )
    # A sink is a key of zeros, whose value is none.
    more = ((0, 0), (0, 0), (0, 1), (0, 0))
    if sink:
        k, v = numpy.pad(k, more), numpy.pad(v, more)
        bias = numpy.pad(bias, more[2:][::-1], constant_values=mask)
    shares = numpy.broadcast_to(numpy.eye(k.shape[2])[None, None], (*k.shape[:3], k.shape[2]))
    expected = attention(q, k, shares, bias=bias)[0][..., :keys]
    numpy.testing.assert_allclose(p, expected, rtol=2e-3, atol=1e-6)
    assert_good(o, attention(q, k, v, bias=bias))


@pytest.mark.parametrize("size", [1e3, 1e5, 1e6, -1e6])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_weights_of_maxima_that_rise_and_fall(size, schedule):
    q, k, v = draw_qkv(heads=1, queries=20, keys=320)
    q = numpy.zeros_like(q)
    bias = (size + steps(320, 32, 0.5)).astype(numpy.float32)[None]
    _, p = flashcore.attention(
        q, k, v, bias=bias, scores="probabilities", **SCHEDULES[schedule]
    )
    expected = attention(q, k, numpy.eye(320)[None, None], bias=bias)[0]
    numpy.testing.assert_allclose(p, expected, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_row_of_masks_that_are_multiplied(factor):
    """Twice the least number is -inf, which hides a key; half of it is one."""
    q, k, v = draw_qkv(queries=20, keys=70)
    bias = numpy.zeros((20, 70), numpy.float32)
    bias[3] = bias[5, 40:] = LOWEST
    o, lse = flashcore.attention(
        q, k, v, bias=bias, score_mod=lambda s, b, h, i, j: factor * s, lse=True
    )
    with numpy.errstate(over="ignore"):
        bias *= numpy.float32(factor)
    assert_good((o, lse), attention(q, k, v, scale=factor / 8, bias=bias))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("slope", [1e30, 1e38, 3e38, -LOWEST])
def test_slopes_that_exceed_float32_over_the_scale(slope, schedule):
    """Of causal keys the nearest is the query's own, and the only one."""
    q, k, v = draw_qkv(queries=70)
    slopes = numpy.array([slope, 0], numpy.float32)
    options = {"causal": True, "alibi_slopes": slopes, "lse": True, **SCHEDULES[schedule]}
    o, lse = flashcore.attention(q, k, v, **options)
    own = attention(q, k, v, left=0, right=0)
    plain = attention(q, k, v, causal=True)
    assert_good((o[:, :1], lse[:, :1]), [x[:, :1] for x in own])
    assert_good((o[:, 1:], lse[:, 1:]), [x[:, 1:] for x in plain])


@pytest.mark.parametrize("mask", [-1e9, LOWEST])
def test_masks_of_a_score_mod(mask):
    q, k, v = draw_qkv(queries=20, keys=200)
    bias = numpy.where(numpy.arange(200) < 60, 0, mask).astype(numpy.float32)[None]
    o = flashcore.attention(
        q, k, v, score_mod=lambda s, b, h, i, j: flashcore.where(j < 60, s, mask)
    )
    assert_good(o, attention(q, k, v, bias=bias))
    o = flashcore.attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s + flashcore.where(j < 60, 0.0, mask)
    )
    assert_good(o, attention(q, k, v, bias=bias))


def test_two_masks_that_overflow_together():
    q, k, v = draw_qkv(queries=20, keys=70)
    bias = numpy.zeros((20, 70), numpy.float32)
    bias[:, 40:] = LOWEST
    hidden = flashcore.capture(numpy.where(numpy.arange(70) < 50, 0, LOWEST).astype("float32"))
    o = flashcore.attention(
        q, k, v, bias=bias, score_mod=lambda s, b, h, i, j: s + hidden[j]
    )
    assert_good(o, attention(q, k, v, bias=bias))


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("sink", [1e30, -1e30, 3e38, 1e4, 0.5, -numpy.inf])
def test_sinks(sink, splits):
    q, k, v = draw_qkv(queries=1, keys=512)
    sinks = numpy.full(2, sink, numpy.float32)
    options = {"static": True, "schedule": {"key_splits": splits}}
    o, lse = flashcore.attention(q, k, v, sinks=sinks, lse=True, **options)
    plain, plain_lse = attention(q, k, v)
    expected = numpy.logaddexp(plain_lse, float(numpy.float32(sink)))
    weight = numpy.exp(plain_lse - expected)
    assert_good((o, lse), (plain * weight[..., None], expected))


@pytest.mark.parametrize("size", [1e3, 1e5, 1e6, -1e6, 1e7])
@pytest.mark.parametrize("spread", [0, 1, 1e5])
def test_merges_of_large_lses(size, spread):
    """Parts whose LSEs are equal, next to each other, and far apart; some saw nothing."""
    outputs = draw(5, 1, 2, 9, 64, dtype=numpy.float32)
    lses = (size + spread * numpy.array([2, 0, 3, 3, 1])).astype(numpy.float32)
    lses = numpy.broadcast_to(lses[:, None, None, None], outputs.shape[:-1]).copy()
    lses[1, :, :, 2:4] = lses[:, :, :, 4] = -numpy.inf
    exact = lses.astype(numpy.float64)
    top = exact.max(0)
    with numpy.errstate(invalid="ignore"):
        weights = numpy.where(numpy.isneginf(exact), 0, numpy.exp(exact - top))
    total = weights.sum(0)
    share = weights / numpy.where(total == 0, 1, total)
    with numpy.errstate(divide="ignore"):
        expected = (share[..., None] * outputs).sum(0), top + numpy.log(total)
    assert_good(flashcore.merge(outputs, lses), expected)


@pytest.mark.parametrize("dtype", [numpy.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("queries, keys, dim", [(70, 130, 64), (64, 128, 128), (1, 512, 64)])
def test_lse_is_of_float32(queries, keys, dim, dtype):
    """Whatever is rounded on its way to P V."""
    q, k, v = draw_qkv(heads=2, queries=queries, keys=keys, dim=dim, dtype=dtype)
    for factor in (1, 3):
        scaled = (q * dtype(factor)).astype(dtype)
        _, lse = flashcore.attention(scaled, k, v, lse=True)
        error = numpy.abs(lse - attention(scaled, k, v)[1])
        assert (error <= 2e-5 * (1 + numpy.abs(lse))).all()
