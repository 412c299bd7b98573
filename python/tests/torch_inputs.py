"""Tensors for the tests, and attention in double precision."""

import contextlib
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


def check_dropped(out, mask, q, k, v, p, scale=None, **same):
    """out is what the probabilities, (heads, seqlen_q, seqlen_k), and their signs say."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    identity = torch.eye(k.shape[1], dtype=q.dtype, device=q.device)
    identity = identity[None, :, None].expand(1, -1, k.shape[2], -1)
    softmax = reference(q, k, identity, layout="bshd", scale=scale, **same)[0].transpose(0, 1)
    assert_same_as(mask.abs(), softmax, 1e-3)
    held = torch.where(torch.signbit(mask), 0, mask).double() / (1 - round(65536 * p) / 65536)
    values = v[0].double().repeat_interleave(q.shape[2] // v.shape[2], 1).transpose(0, 1)
    assert_same_as(out.transpose(0, 1), held @ values, 6e-3)


# Sequences back to back ----------------------------------------------------


def draw_sequences(pairs, heads=4, heads_kv=2, dim=64, dtype=torch.float16, device="cpu"):
    """q, k and v of (total, heads, dim), and cu_seqlens_q and cu_seqlens_k."""
    queries, keys = (sum(pair[i] for pair in pairs) for i in range(2))
    q, k, v = make(1, heads, heads_kv, queries, keys, dim, None, dtype, "bshd", device)
    ends = [torch.tensor([0, *(pair[i] for pair in pairs)]).cumsum(0) for i in range(2)]
    return q[0], k[0], v[0], *(x.to(device, torch.int32) for x in ends)


def sequences(q, k, v, pairs):
    """q, k and v of each sequence, of (1, seqlen, heads, dim), and where its rows are."""
    first_q = first_k = 0
    for queries, keys in pairs:
        rows = slice(first_q, first_q + queries)
        of_keys = slice(first_k, first_k + keys)
        yield q[None, rows], k[None, of_keys], v[None, of_keys], rows
        first_q, first_k = rows.stop, of_keys.stop


@contextlib.contextmanager
def no_host_reads(device):
    """Refuses what would wait for a GPU to look at a tensor's values."""
    names = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__index__", "__float__")
    kept = {name: getattr(torch.Tensor, name) for name in names}

    def refuse(*args):
        raise AssertionError("expects no value of a tensor to be read on the host")

    for name in names:
        setattr(torch.Tensor, name, refuse)
    mode = torch.cuda.get_sync_debug_mode() if device == "cuda" else None
    try:
        if mode is not None:
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        for name, method in kept.items():
            setattr(torch.Tensor, name, method)
        if mode is not None:
            torch.cuda.set_sync_debug_mode(mode)
