"""The interface of FlashAttention-3 (flash_attn_interface), as serving engines call it.

``from flashcore.flash_attn_interface import flash_attn_varlen_func`` in the place of
``from flash_attn_interface import ...``, of vLLM's ``vllm.vllm_flash_attn`` and of SGLang's
``sgl_kernel.flash_attn``: the arguments that these have beside FlashAttention-3's
(``out``, ``sinks`` or ``s_aux``, ``block_table``, ``fa_version``) are there, too.

What only steers FlashAttention-3's kernels (``num_splits``, ``pack_gqa``, ``sm_margin``,
``scheduler_metadata``, ``deterministic``, ``fa_version``) changes nothing. Tensors are of
float16 or bfloat16; scales of float8 are not looked at then, as there.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Optional, Tuple, Union

import torch

from flashcore import flash_attn_seen as seen
from flashcore.attention import attention
from flashcore.errors import UnsupportedError
from flashcore.flash_attn import attend_to_cache, is_batch_invariant
from flashcore.flash_attn_caches import Caches, in_pages
from flashcore.flash_attn_options import Window, common_options
from flashcore.kinds import read
from flashcore.tensor_arguments import expect_optional, expect_rank, expect_tensors
from flashcore.merges import merge
from flashcore.scalars import number

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
]

#: out, or (out, softmax_lse).
Result = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    qv: Optional[torch.Tensor] = None,
    q_descale: Optional[torch.Tensor] = None,
    k_descale: Optional[torch.Tensor] = None,
    v_descale: Optional[torch.Tensor] = None,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: Optional[bool] = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    *,
    sinks: Optional[torch.Tensor] = None,
    s_aux: Optional[torch.Tensor] = None,
    out: Optional[torch.Tensor] = None,
) -> Result:
    """softmax(softcap(softmax_scale * q k^T), masked) v.

    q: (batch, seqlen_q, heads_q, head_dim).
    k: (batch, seqlen_k, heads_kv, head_dim); heads_q is a multiple of heads_kv.
    v: (batch, seqlen_k, heads_kv, head_dim_v).
    qv: must be None.
    window_size: keys to the left and to the right of a query's own; -1 is unbounded.
    attention_chunk: a query sees the keys of the chunk of so many that its own key is in
        (chunked local attention); 0 is none.
    sinks, s_aux: float32 or the type of q (heads_q), a logit of each head without a value; one
        thing by two names.
    out: where the result goes.
    return_attn_probs: return (out, softmax_lse).
    The others are those of :func:`flashcore.flash_attn.flash_attn_func`.

    Returns out: (batch, seqlen_q, heads_q, head_dim_v), and softmax_lse: float32 (batch,
    heads_q, seqlen_q).

    Raises UnsupportedError for qv and float8, and what flashcore.attention raises.
    """
    expect_tensors(q=q, k=k, v=v)
    expect_optional(out=out)
    _refuse(q, qv=qv)
    chunk = _chunk_mod(attention_chunk, causal, q, lambda: k.shape[1] - q.shape[1])
    result: Result = attention(
        q, k, v, lse=read("return_attn_probs", return_attn_probs), mask_mod=chunk,
        sinks=_sinks(sinks, s_aux), out=out,
        **_options(softmax_scale, causal, window_size, softcap),
    )  # fmt: skip
    return result


def flash_attn_qkvpacked_func(
    qkv: torch.Tensor,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    q_descale: Optional[torch.Tensor] = None,
    k_descale: Optional[torch.Tensor] = None,
    v_descale: Optional[torch.Tensor] = None,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    deterministic: bool = False,
    num_heads_q: Optional[int] = None,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Result:
    """:func:`flash_attn_func` of qkv: (batch, seqlen, 3, heads, head_dim), or with num_heads_q
    (batch, seqlen, num_heads_q + 2 * heads_kv, head_dim). Nothing is copied."""
    expect_tensors(qkv=qkv)
    if num_heads_q is None:
        if qkv.dim() != 5 or qkv.shape[2] != 3:
            raise ValueError(
                "expects qkv of (batch, seqlen, 3, heads, head_dim), but got "
                f"{tuple(qkv.shape)}; num_heads_q is for heads side by side"
            )
        q, k, v = qkv.unbind(2)
    else:
        expect_rank("(batch, seqlen, heads, head_dim) with num_heads_q", qkv=qkv)
        if read("num_heads_q", num_heads_q) < 1:
            raise ValueError(f"expects num_heads_q of at least 1, but got {num_heads_q}")
        heads_kv, rest = divmod(qkv.shape[2] - num_heads_q, 2)
        if rest or heads_kv < 1:
            raise ValueError(
                f"expects qkv of (batch, seqlen, {num_heads_q} + 2 * heads_kv, head_dim), but got "
                f"{tuple(qkv.shape)}"
            )
        q, k, v = qkv.split([num_heads_q, heads_kv, heads_kv], 2)
    return flash_attn_func(
        q, k, v, softmax_scale, causal, window_size=window_size, attention_chunk=attention_chunk,
        softcap=softcap, return_attn_probs=return_attn_probs,
    )  # fmt: skip


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: Optional[torch.Tensor] = None,
    cu_seqlens_k: Optional[torch.Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    seqused_q: Optional[torch.Tensor] = None,
    seqused_k: Optional[torch.Tensor] = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    qv: Optional[torch.Tensor] = None,
    q_descale: Optional[torch.Tensor] = None,
    k_descale: Optional[torch.Tensor] = None,
    v_descale: Optional[torch.Tensor] = None,
    window_size: Optional[Window] = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: Optional[bool] = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    *,
    page_table: Optional[torch.Tensor] = None,
    block_table: Optional[torch.Tensor] = None,
    alibi_slopes: Optional[torch.Tensor] = None,
    sinks: Optional[torch.Tensor] = None,
    s_aux: Optional[torch.Tensor] = None,
    out: Optional[torch.Tensor] = None,
    return_softmax_lse: bool = False,
    scheduler_metadata: Any = None,
    q_v: Optional[torch.Tensor] = None,
    dropout_p: float = 0.0,
    fa_version: int = 3,
    ver: int = 3,
) -> Result:
    """:func:`flash_attn_func` of sequences back to back, each as long as it is.

    q: (total_q, heads_q, head_dim).
    k, v: (total_k, heads_kv, head_dim), or with page_table (pages, page_size, heads_kv,
        head_dim).
    cu_seqlens_q: int32 (batch + 1), where sequences of q begin, and the last ends.
    cu_seqlens_k: the same of k; None with page_table, and where seqused_k alone says how many
        keys there are.
    max_seqlen_q: which of two kernels runs, one for 16 or fewer.
    max_seqlen_k: not needed.
    seqused_q: must be None.
    seqused_k: int32 (batch), how many keys of each sequence are there.
    page_table, block_table: int32 (batch, pages of each), by two names.
    alibi_slopes: float32 (heads_q,).
    return_softmax_lse, return_attn_probs: return (out, softmax_lse).
    dropout_p: must be 0.
    The others are those of :func:`flash_attn_func`.

    Returns out: (total_q, heads_q, head_dim_v), and softmax_lse: float32 (heads_q, total_q).
    """
    wants_lse = read("return_attn_probs", return_attn_probs) or read(
        "return_softmax_lse", return_softmax_lse
    )
    table = _one_of("page_table", page_table, "block_table", block_table)
    logits = _sinks(sinks, s_aux)
    window = _NO_WINDOW if window_size is None else window_size
    arguments = None
    ends = None if table is not None and isinstance(cu_seqlens_k, torch.Tensor) else cu_seqlens_k
    if (
        qv is q_v is seqused_q is None
        and (seqused_k is not None or table is None and ends is not None)
        and seen.are_lengths(max_seqlen_q, attention_chunk)
        and attention_chunk == 0
        and seen.is_plain(q, dropout_p)
    ):
        arguments = seen.of_sequences(
            q, k, v, cu_seqlens_q, ends, seqused_k, table, alibi_slopes, logits, out, softmax_scale,
            causal, window, softcap, wants_lse, max_seqlen_q, is_batch_invariant(),
        )  # fmt: skip
        known = seen.sequences.run_seen(*arguments)
        if known is not NotImplemented:
            return known
    expect_tensors(q=q, k=k, v=v)
    if cu_seqlens_q is None:
        raise ValueError("expects cu_seqlens_q, but got None: flash_attn_func is for batches")
    expect_tensors(cu_seqlens_q=cu_seqlens_q)
    expect_optional(
        cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k, page_table=page_table, out=out,
        block_table=block_table, alibi_slopes=alibi_slopes,
    )  # fmt: skip
    expect_rank("(total, heads, head_dim)", q=q)
    expect_rank("(sequences + 1,)", cu_seqlens_q=cu_seqlens_q)
    _refuse(q, qv=qv, q_v=q_v, seqused_q=seqused_q, dropout_p=dropout_p or None)
    if table is None:
        expect_rank("(total, heads, head_dim)", k=k, v=v)
    used = seqused_k
    if table is not None and used is None:
        if cu_seqlens_k is None:
            raise ValueError(
                "expects seqused_k or cu_seqlens_k with page_table, but got neither: it says how "
                "many keys each sequence has"
            )
        used = cu_seqlens_k.diff()

    if used is None and cu_seqlens_k is None:
        raise ValueError(
            "expects cu_seqlens_k or seqused_k, but got neither: one says how many keys each "
            "sequence has"
        )

    def offsets() -> Any:
        of_q = cu_seqlens_q.diff()
        return (used if used is not None else cu_seqlens_k.diff()) - of_q  # type: ignore[union-attr]

    paged = table is not None
    result = attention(
        q[None],
        k if paged else k[None],
        v if paged else v[None],
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=None if paged else cu_seqlens_k,
        seqused_k=used,
        page_table=table,
        # Never read from a device: some callers have it there.
        max_seqlen_q=max_seqlen_q if isinstance(max_seqlen_q, int) else None,
        alibi_slopes=alibi_slopes,
        sinks=logits,
        mask_mod=_chunk_mod(attention_chunk, causal, q, offsets),
        lse=wants_lse,
        out=None if out is None else out[None],
        **_options(softmax_scale, causal, window, softcap),
    )
    if arguments is not None:
        seen.sequences.see(*arguments)
    return (result[0][0], result[1][0]) if wants_lse else result[0]


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: Optional[torch.Tensor] = None,
    v: Optional[torch.Tensor] = None,
    qv: Optional[torch.Tensor] = None,
    rotary_cos: Optional[torch.Tensor] = None,
    rotary_sin: Optional[torch.Tensor] = None,
    cache_seqlens: Optional[Union[int, torch.Tensor]] = None,
    cache_batch_idx: Optional[torch.Tensor] = None,
    cache_leftpad: Optional[torch.Tensor] = None,
    page_table: Optional[torch.Tensor] = None,
    cu_seqlens_q: Optional[torch.Tensor] = None,
    cu_seqlens_k_new: Optional[torch.Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    rotary_seqlens: Optional[torch.Tensor] = None,
    q_descale: Optional[torch.Tensor] = None,
    k_descale: Optional[torch.Tensor] = None,
    v_descale: Optional[torch.Tensor] = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Any = None,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
    *,
    sinks: Optional[torch.Tensor] = None,
    s_aux: Optional[torch.Tensor] = None,
    block_table: Optional[torch.Tensor] = None,
    alibi_slopes: Optional[torch.Tensor] = None,
    out: Optional[torch.Tensor] = None,
    fa_version: int = 3,
    ver: int = 3,
) -> Result:
    """Attention to the keys of a cache, after new ones were appended to it.

    q: (batch, seqlen_q, heads_q, head_dim), or with cu_seqlens_q (total_q, heads_q, head_dim),
        whose sequences have the caches of their numbers.
    k_cache, v_cache: (batch_cache, seqlen_cache, heads_kv, head_dim), or with page_table (pages,
        page_size, heads_kv, head_dim).
    k, v: (batch, seqlen_new, heads_kv, head_dim), written to the caches first; not with
        cu_seqlens_q, whose callers write them themselves.
    cache_seqlens: how many keys are there, int32 (batch) or one number for all.
    cu_seqlens_k_new, rotary_seqlens: must be None.
    page_table, block_table: int32 (batch, pages of each), by two names.
    The others are those of :func:`flash_attn_func` and of
    :func:`flashcore.flash_attn.flash_attn_with_kvcache`.

    Returns out, as q is, and with return_softmax_lse softmax_lse: float32 (batch, heads_q,
    seqlen_q), or (heads_q, total_q).
    """
    table = _one_of("page_table", page_table, "block_table", block_table)
    logits = _sinks(sinks, s_aux)
    if (
        qv is cu_seqlens_q is cu_seqlens_k_new is rotary_seqlens is None
        and cache_leftpad is cache_batch_idx is None
        and seen.are_lengths(attention_chunk)
        and attention_chunk == 0
        and seen.is_plain(q)
    ):
        known = seen.caches.run_seen(*seen.of_cache(
            q, k_cache, v_cache, k, v, rotary_cos, rotary_sin, cache_seqlens, table, alibi_slopes,
            logits, out, softmax_scale, causal, window_size, softcap, rotary_interleaved,
            return_softmax_lse, is_batch_invariant(),
        ))  # fmt: skip
        if known is not NotImplemented:
            return known
    expect_tensors(q=q, k_cache=k_cache, v_cache=v_cache)
    expect_optional(
        k=k, v=v, cu_seqlens_q=cu_seqlens_q, page_table=page_table, block_table=block_table,
        alibi_slopes=alibi_slopes, out=out,
    )  # fmt: skip
    if cache_seqlens is not None and not isinstance(cache_seqlens, torch.Tensor):
        cache_seqlens = read("cache_seqlens", cache_seqlens)
    _refuse(q, qv=qv, cu_seqlens_k_new=cu_seqlens_k_new, rotary_seqlens=rotary_seqlens)
    caches = Caches(k_cache, v_cache, cache_batch_idx, table)
    if attention_chunk and cache_leftpad is not None:
        raise UnsupportedError(
            "expects attention_chunk or cache_leftpad, but got both: what is in front of a chunk "
            "is hidden anyway"
        )
    if cu_seqlens_q is None:
        new = 0 if k is None else k.shape[1]

        def offset() -> Any:
            count = caches.rows if cache_seqlens is None else cache_seqlens
            return count + (new - q.shape[1])

        result: Result = attend_to_cache(
            q, caches, k, v, rotary_cos, rotary_sin, cache_seqlens,
            cache_leftpad, softmax_scale, causal, window_size, softcap,
            rotary_interleaved, alibi_slopes, return_softmax_lse,
            mask_mod=_chunk_mod(attention_chunk, causal, q, offset), sinks=logits,
            out=out,
        )  # fmt: skip
        return result
    expect_rank("(sequences + 1,)", cu_seqlens_q=cu_seqlens_q)
    given = {"k": k, "v": v, "rotary_cos": rotary_cos, "cache_leftpad": cache_leftpad}
    _refuse(q, "with cu_seqlens_q", **given)
    batch = cu_seqlens_q.shape[0] - 1
    paged = in_pages(caches, batch)
    if paged is None:
        raise UnsupportedError(
            "expects caches of entries that are whole pages with cu_seqlens_q, but got "
            f"k_cache of {tuple(k_cache.shape)} with strides {k_cache.stride()}: pass a page_table"
        )
    used = cache_seqlens
    if used is None or isinstance(used, int):
        count = paged.rows if used is None else used
        if not 0 <= count <= paged.rows:
            raise ValueError(
                f"expects cache_seqlens from 0 to {paged.rows}, the rows of the cache, but got {count}"
            )
        used = torch.full((batch,), count, dtype=torch.int32, device=q.device)
    return flash_attn_varlen_func(
        q, paged.k, paged.v, cu_seqlens_q, None, max_seqlen_q, None, None, used, softmax_scale,
        causal, window_size=window_size, attention_chunk=attention_chunk, softcap=softcap,
        page_table=paged.table, alibi_slopes=alibi_slopes, sinks=logits, out=out,
        return_softmax_lse=return_softmax_lse,
    )  # fmt: skip


def flash_attn_combine(
    out_partial: torch.Tensor,
    lse_partial: torch.Tensor,
    out: Optional[torch.Tensor] = None,
    out_dtype: Optional[torch.dtype] = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The attention to all keys, from those to parts of them (:func:`flashcore.merge`).

    out_partial: (splits, batch, seqlen, heads, head_dim).
    lse_partial: float32 (splits, batch, seqlen, heads).
    out: where the result goes, (batch, seqlen, heads, head_dim).
    out_dtype: that of the result; by default that of out_partial.

    Returns the result, and its lse (batch, seqlen, heads).
    """
    expect_tensors(out_partial=out_partial, lse_partial=lse_partial)
    expect_optional(out=out)
    expect_rank("(splits, batch, seqlen, heads, head_dim)", out_partial=out_partial)
    expect_rank("(splits, batch, seqlen, heads)", lse_partial=lse_partial)
    if lse_partial.dtype != torch.float32 or lse_partial.shape != out_partial.shape[:4]:
        raise ValueError(
            f"expects lse_partial of float32 {tuple(out_partial.shape[:4])}, as out_partial has "
            f"rows, but got {lse_partial.dtype} {tuple(lse_partial.shape)}"
        )
    if out_dtype not in (None, torch.float16, torch.bfloat16, torch.float32):
        raise TypeError(
            "expects out_dtype of torch.float16, bfloat16 or float32, or None, but got "
            f"{out_dtype!r}"
        )
    if out is not None and out.shape != out_partial.shape[1:]:
        raise ValueError(
            f"expects out of {tuple(out_partial.shape[1:])}, but got {tuple(out.shape)}"
        )
    result, lse = merge(out_partial, lse_partial.transpose(2, 3), layout="bshd")
    if out_dtype is not None:
        result = result.to(out_dtype)
    if out is not None:
        result = out.copy_(result)
    return result, lse.transpose(1, 2)


def get_scheduler_metadata(*arguments: Any, **options: Any) -> torch.Tensor:
    """An empty tensor: what FlashAttention-3 plans ahead is found at the launch here."""
    device = next((x.device for x in (*arguments, *options.values()) if isinstance(x, torch.Tensor)), None)
    return torch.empty(0, dtype=torch.int32, device=device)


# Arguments ------------------------------------------------------------------


def _refuse(q: torch.Tensor, when: str = "here", **given: Any) -> None:
    """What no kernel has."""
    if q.dtype.itemsize == 1:
        raise UnsupportedError(f"expects q, k and v of float16 or bfloat16, but got {q.dtype}")
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"expects {name}=None {when}, but got one")


_NO_WINDOW = (-1, -1)


def _one_of(first: str, one: Any, second: str, other: Any) -> Any:
    """Of two names of one thing."""
    if one is not None and other is not None:
        raise ValueError(f"expects {first} or {second}, which are one thing, but got both")
    return other if one is None else one


def _sinks(sinks: Optional[torch.Tensor], s_aux: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    expect_optional(sinks=sinks, s_aux=s_aux)
    given: Optional[torch.Tensor] = _one_of("sinks", sinks, "s_aux", s_aux)
    return given if given is None or given.dtype is torch.float32 else given.float()


def _options(
    softmax_scale: Optional[float], causal: bool, window_size: Window, softcap: float
) -> Dict[str, Any]:
    return {
        **common_options(softmax_scale, causal, window_size, softcap),
        "batch_invariant": is_batch_invariant(),
    }


def _chunk_mod(
    chunk: int, causal: bool, q: torch.Tensor, offset: Callable[[], Any]
) -> Optional[Callable[..., Any]]:
    """The mask_mod of chunks: keys of the chunk that a query's own key is in.

    offset: makes what a query's number is less than its own key's, a number or int32 (batch).
    """
    size = read("attention_chunk", chunk)
    if size < 0:
        raise ValueError(f"expects attention_chunk of at least 0, but got {chunk!r}")
    if size == 0:
        return None
    behind = offset()
    if isinstance(behind, torch.Tensor):
        if causal:  # which hides what is behind the chunk
            return lambda b, h, i, j: j >= (i + behind[b]) // size * size
        return lambda b, h, i, j: (i + behind[b]) // size == j // size
    if not sys.modules["flashcore.attention"].is_traced(q):
        behind = number(behind)  # one kernel for all lengths
    if causal:
        return lambda b, h, i, j: j >= (i + behind) // size * size
    return lambda b, h, i, j: (i + behind) // size == j // size
