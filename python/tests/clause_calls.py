"""A call with each clause and kind of function, on PyTorch tensors."""

import flashcore
import flashcore.flash_attn
import torch
from flashcore import flash_attn

BATCH, HEADS, HEADS_KV, QUERIES, KEYS, DIM = 2, 4, 2, 20, 48, 32
WIDTH = 7


def near(b, h, i, j):
    return i - j < WIDTH


def halved(score, b, h, i, j):
    return score * 0.5


def make_calls(device="cpu"):
    """By names: a function of tensors, and tensors, of which it may write some."""
    generator = torch.Generator().manual_seed(0)

    def halves(*shape):
        return torch.randn(shape, generator=generator).to(device, torch.float16)

    def ints(*numbers):
        return torch.tensor(numbers, dtype=torch.int32, device=device)

    q, k, v = (halves(BATCH, heads, rows, DIM) for heads, rows in (
        (HEADS, QUERIES), (HEADS_KV, KEYS), (HEADS_KV, KEYS)))  # fmt: skip
    qkv, one, new = (q, k, v), halves(BATCH, HEADS, 1, DIM), halves(BATCH, HEADS_KV, 1, DIM)
    packed = [halves(1, heads, 2 * QUERIES, DIM) for heads in (HEADS, HEADS_KV, HEADS_KV)]
    pages = [halves(8, HEADS_KV, 16, DIM) for _ in range(2)]
    of_heads = torch.rand(HEADS, generator=generator).to(device)
    ends, used = ints(0, QUERIES - 5, 2 * QUERIES), ints(10, 40)
    table, rng = ints(5, 1, 2, 7, 3, 0).reshape(2, 3), torch.tensor([1, 2], device=device)
    cos = halves(KEYS, DIM // 2)
    lists = flashcore.block_lists(torch.ones(QUERIES, KEYS, dtype=torch.bool, device=device).tril(30), (16, 16))
    documents = ints(*(j // 8 for j in range(KEYS)))
    rows = [x.transpose(1, 2) for x in qkv]
    flat = [x[0].transpose(0, 1) for x in packed]
    handle = flashcore.mask(near)

    def reads(b, h, i, j):
        return documents[j] > 1

    attention = flashcore.attention
    return {
        "head_scales": (lambda q, k, v, x: attention(q, k, v, head_scales=x), *qkv, of_heads),
        "alibi_slopes": (
            lambda q, k, v, x: attention(q, k, v, alibi_slopes=x, causal=True, lse=True), *qkv,
            of_heads,
        ),
        "sinks": (lambda q, k, v, x: attention(q, k, v, sinks=x, window=9), *qkv, of_heads),
        "seqused_k": (lambda q, k, v, x: attention(q, k, v, seqused_k=x), *qkv, used),
        "cu_seqlens": (
            lambda q, k, v, x: attention(
                q, k, v, cu_seqlens_q=x, cu_seqlens_k=x, max_seqlen_q=25, causal=True
            ), *packed, ends,
        ),
        "page_table": (
            lambda q, k, v, x, y: attention(q, k, v, page_table=x, seqused_k=y), q, *pages, table,
            used,
        ),
        "k_new": (
            lambda q, k, v, x, y: attention(q, k, v, k_new=x, v_new=x, seqused_k=y), one, k, v, new,
            used,
        ),
        "rotary": (
            lambda q, k, v, x, y, z: attention(
                q, k, v, k_new=x, v_new=x, seqused_k=y, rotary_cos=z, rotary_sin=z,
                rotary_interleaved=True,
            ), one, k, v, new, used, cos,
        ),
        "dropout_p": (
            lambda q, k, v, x: attention(q, k, v, dropout_p=0.25, rng=x), *qkv, rng
        ),
        "scores": (lambda q, k, v: attention(q, k, v, scores="masked", lse=True, causal=True), *qkv),
        "probabilities": (lambda q, k, v: attention(q, k, v, scores="probabilities"), *qkv),
        "block_mask": (lambda q, k, v: attention(q, k, v, block_mask=lists), *qkv),
        "mask_mod": (lambda q, k, v: attention(q, k, v, mask_mod=near), *qkv),
        "mask_mod of a tensor": (lambda q, k, v: attention(q, k, v, mask_mod=reads), *qkv),
        "mask_mod of a handle": (lambda q, k, v: attention(q, k, v, mask_mod=handle), *qkv),
        "score_mod, mask_mod": (
            lambda q, k, v: attention(q, k, v, score_mod=halved, mask_mod=reads, lse=True), *qkv
        ),
        "bshd, invariant": (
            lambda q, k, v, x: attention(q, k, v, sinks=x, layout="bshd", batch_invariant=True),
            *rows, of_heads,
        ),
        "flash_attn_func": (
            lambda q, k, v: flash_attn.flash_attn_func(q, k, v, causal=True, softcap=20.0), *rows
        ),
        "flash_attn_varlen_func": (
            lambda q, k, v, x: flash_attn.flash_attn_varlen_func(
                q, k, v, x, x, QUERIES, QUERIES, causal=True
            ), *flat, ends,
        ),
        "flash_attn_with_kvcache": (
            lambda q, k, v, x, y: flash_attn.flash_attn_with_kvcache(
                q, k, v, x, x, cache_seqlens=y, causal=True
            ), one.transpose(1, 2), *rows[1:], new.transpose(1, 2), used,
        ),
        "flex_attention": (
            lambda q, k, v: flashcore.flex_attention(q, k, v, score_mod=halved, enable_gqa=True),
            *qkv,
        ),
    }  # fmt: skip
