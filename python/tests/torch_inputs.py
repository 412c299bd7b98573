"""Tensors for the tests, and attention in double precision."""

import math

import torch


def make(
    batch=2, heads=2, heads_kv=None, queries=16, keys=None, dim=32, dim_v=None,
    dtype=torch.float16, layout="bhsd", device="cpu", seed=0,
):  # fmt: skip
    """q, k, v of normal numbers, contiguous in their layout."""
    heads_kv, keys, dim_v = heads_kv or heads, keys or queries, dim_v or dim
    generator = torch.Generator().manual_seed(seed)

    def tensor(heads, seqlen, dim):
        sizes = (batch, heads, seqlen, dim) if layout == "bhsd" else (batch, seqlen, heads, dim)
        return torch.randn(sizes, generator=generator).to(device, dtype)

    return tensor(heads, queries, dim), tensor(heads_kv, keys, dim), tensor(heads_kv, keys, dim_v)


def reference(
    q, k, v, causal=None, window=None, softcap=None, scale=None, bias=None, lse=False,
    layout="bhsd", dtype=torch.float64,
):  # fmt: skip
    """The formula in ``dtype``: o, or (o, lse)."""
    if layout == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    q, k, v = (x.to(dtype) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    score = (q * (q.shape[-1] ** -0.5 if scale is None else scale)) @ k.transpose(-1, -2)
    if softcap is not None:
        score = softcap * torch.tanh(score / softcap)
    if bias is not None:
        score = score + bias.to(dtype)
    seen = torch.ones(score.shape[-2:], dtype=torch.bool, device=q.device)
    i, j = torch.arange(seen.shape[0])[:, None], torch.arange(seen.shape[1])[None]
    i, j = i.to(q.device), j.to(q.device)
    diagonal = i + seen.shape[1] - seen.shape[0]
    left, right = window if isinstance(window, tuple) else (window, None)
    if causal:
        seen &= j <= (i if causal == "top_left" else diagonal)
    if left is not None and left >= 0:
        seen &= j >= diagonal - left
    if right is not None and right >= 0:
        seen &= j <= diagonal + right
    score = score.masked_fill(~seen, -math.inf)
    empty = (score == -math.inf).all(-1, keepdim=True)
    weights = torch.softmax(score.masked_fill(empty, 0), -1).masked_fill(empty, 0)
    o = weights @ v
    if layout == "bshd":
        o = o.transpose(1, 2)
    return (o, torch.logsumexp(score, -1)) if lse else o


def assert_same_as(actual, expected, tolerance=4e-3):
    """Equal, infinities too, but for rounding: an absolute and relative tolerance."""
    assert actual.shape == expected.shape
    torch.testing.assert_close(
        actual.double(), expected.double(), atol=tolerance, rtol=tolerance * 4
    )
