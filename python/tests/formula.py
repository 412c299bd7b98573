"""What the tests draw, and the formula that they compare with."""

import numpy


def attention(q, k, v, causal=None, left=None, right=None, softcap=None, scale=None, bias=None):
    """The formula in double precision: o and lse of (batch, heads, seqlen, dim).

    Scores with a bias are sums of float32: a large mask swallows what it is added to.
    """
    q, k, v = (array.astype(numpy.float64) for array in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = numpy.repeat(k, group, 1), numpy.repeat(v, group, 1)
    queries, keys = q.shape[2], k.shape[2]
    score = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        score = softcap * numpy.tanh(score / softcap)
    if bias is not None:
        with numpy.errstate(over="ignore"):
            score = (score + bias.astype(numpy.float64)).astype(numpy.float32).astype(numpy.float64)
    i, j = numpy.arange(queries)[:, None], numpy.arange(keys)[None]
    diagonal = i + keys - queries
    seen = numpy.ones((queries, keys), bool)
    if causal == "top_left":
        seen &= j <= i
    elif causal:
        seen &= j <= diagonal
    if left is not None:
        seen &= j >= diagonal - left
    if right is not None:
        seen &= j <= diagonal + right
    score = numpy.where(seen, score, -numpy.inf)
    highest = score.max(-1, keepdims=True, initial=-numpy.inf)
    power = numpy.exp(score - numpy.where(numpy.isinf(highest), 0, highest))
    total = power.sum(-1, keepdims=True)
    with numpy.errstate(divide="ignore"):
        lse = numpy.log(total)[..., 0] + numpy.where(numpy.isinf(highest), 0, highest)[..., 0]
    return (power / numpy.where(total == 0, 1, total)) @ v, lse


def draw(*shape, seed=0, dtype=numpy.float16):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


def draw_qkv(batch=1, heads=2, heads_kv=None, queries=40, keys=None, dim=64, dim_v=None, **kw):
    heads_kv, keys, dim_v = heads_kv or heads, keys or queries, dim_v or dim
    return (
        draw(batch, heads, queries, dim, seed=1, **kw),
        draw(batch, heads_kv, keys, dim, seed=2, **kw),
        draw(batch, heads_kv, keys, dim_v, seed=3, **kw),
    )


def assert_close(actual, expected, tolerance=4e-3):
    actual = actual.astype(numpy.float64)
    apart = actual != expected  # infinities are equal, but have no difference
    assert numpy.abs(actual[apart] - expected[apart]).max(initial=0) <= tolerance
