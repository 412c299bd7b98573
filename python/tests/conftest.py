"""What the tests share: a cache of their own, inputs, and the formula."""

import os
import tempfile

# Before flashcore is imported anywhere, so that no user's cache is touched.
_cache = tempfile.TemporaryDirectory(prefix="flashcore-tests-")
os.environ["FLASHCORE_CACHE_DIR"] = _cache.name
os.environ.pop("FLASHCORE_KERNELS", None)
os.environ.pop("FLASHCORE_CACHE_SIZE", None)

import numpy
import pytest


def attention(q, k, v, causal=None, left=None, right=None, softcap=None, scale=None, bias=None):
    """The formula in double precision: o and lse of (batch, heads, seqlen, dim)."""
    q, k, v = (array.astype(numpy.float64) for array in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = numpy.repeat(k, group, 1), numpy.repeat(v, group, 1)
    queries, keys = q.shape[2], k.shape[2]
    score = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        score = softcap * numpy.tanh(score / softcap)
    if bias is not None:
        score = score + bias.astype(numpy.float64)
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


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """An empty cache, also for kernels that this process has in memory."""
    from flashcore import attention as _, kernels
    import sys

    monkeypatch.setenv("FLASHCORE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_modules", {})
    module = sys.modules["flashcore.attention"]
    monkeypatch.setattr(module, "_calls", {})
    monkeypatch.setattr(module, "_calls_of_options", {})
    return tmp_path / "cache"


@pytest.fixture
def compiled():
    """Says how many kernels were compiled since."""
    from flashcore import kernels

    before = kernels.statistics.compiled
    return lambda: kernels.statistics.compiled - before
