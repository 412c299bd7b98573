"""The interface of flash-attn 2 (its release 2.8).

``from flashcore.flash_attn import flash_attn_func`` in the place of
``from flash_attn import flash_attn_func``. Gradients are those of PyTorch's backward
pass on what the kernel leaves, where it takes that, and of PyTorch's operators as a
whole where not, with one warning for each reason: docs/PyTorch.md lists both.

Tensors are of float16 or bfloat16, on a GPU; in host memory they run on the
emulator. :func:`set_batch_invariant`, which flash-attn does not have, makes the bits
of a row the same in any batch.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Optional, Tuple, Union

import torch

from flashcore import flash_attn_seen as seen
from flashcore.attention import attention
from flashcore.flash_attn_caches import (
    LEAST_PAGE, Caches, check_caches, check_count, check_lengths, check_new, check_rotary,
    copy_back, fill, leftpad_mod, to_append_to, whole_pages,
)  # fmt: skip
from flashcore.flash_attn_options import Window, common_options, sides
from flashcore.kinds import FLAG, read
from flashcore.operands import CLAUSES, ENDS
from flashcore.operators import gradients, training
from flashcore.operators.fallback import attention_by_torch, sequences_by_torch, warn_once
from flashcore.operators.gradients import needs_gradient
from flashcore.options import make_options, read_dropout
from flashcore.resolve import check_tensors
from flashcore.tensor_arguments import expect_optional, expect_rank, expect_tensors
from flashcore.torch import dropped
from flashcore.torch.dropout import dropout_options

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "is_batch_invariant",
    "register",
    "set_batch_invariant",
]

#: out, or (out, softmax_lse, S_dmask).
Result = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """softmax(softcap(softmax_scale * q k^T) + alibi, masked) v.

    q: (batch, seqlen_q, heads_q, head_dim).
    k: (batch, seqlen_k, heads_kv, head_dim); heads_q is a multiple of heads_kv.
    v: (batch, seqlen_k, heads_kv, head_dim).
    dropout_p: the probability that an element of the softmax is dropped, drawn with
        PyTorch's generator of the device; other elements than flash-attn drops.
    softmax_scale: 1 / sqrt(head_dim) by default.
    causal: the last query sees the last key, and each query before it one key less.
    window_size: keys to the left and to the right of a query's own that it sees;
        -1 is unbounded.
    softcap: scores become softcap * tanh(score / softcap); 0 is no cap.
    alibi_slopes: float32 (heads_q,) or (batch, heads_q): -slope * |i + seqlen_k -
        seqlen_q - j| is added to the score of query i and key j. Those of batch entries
        under torch.compile, and any where PyTorch computes gradients, are a bias of float32
        (batch, heads_q, seqlen_q, seqlen_k) in memory.
    deterministic: the forward pass always is.
    return_attn_probs: return (out, softmax_lse, S_dmask).

    Returns out: (batch, seqlen_q, heads_q, head_dim); softmax_lse: float32 (batch,
    heads_q, seqlen_q), -inf for a query that sees no key, where flash-attn has
    +inf; S_dmask: with dropout_p the softmax before it, of the type of q (batch, heads_q,
    seqlen_q, seqlen_k), both up to the next multiple of 128, by a kernel of its own: what
    is negative, or -0, was dropped, and keys that are hidden are 0. It is empty without.

    Raises flashcore.GradientError where nothing computes its gradients, and what
    flashcore.attention raises.
    """
    expect_tensors(q=q, k=k, v=v)
    expect_optional(alibi_slopes=alibi_slopes)
    return_attn_probs = _read_flags(return_attn_probs, deterministic)
    if dropout_p and not return_attn_probs and gradients.falls_back(q, k, v, alibi_slopes):
        return _by_torch(
            q, k, v, dropout_p, **_alibi_options(alibi_slopes, q, k),
            **common_options(softmax_scale, causal, window_size, softcap),
        )  # fmt: skip
    dropout = dropout_options(dropout_p, q)
    result = attention(
        q,
        k,
        v,
        lse=return_attn_probs,
        scores="probabilities" if return_attn_probs and dropout else None,
        **dropout,
        **_alibi_options(alibi_slopes, q, k),
        **_options(softmax_scale, causal, window_size, softcap),
    )
    if not return_attn_probs:
        out: torch.Tensor = result
        return out
    out, softmax_lse, *scores = result
    if not scores:
        return out, softmax_lse, q.new_empty(0)
    return out, softmax_lse, dropped.s_dmask(scores[0], dtype=q.dtype, **dropout)


def flash_attn_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """:func:`flash_attn_func` of kv: (batch, seqlen_k, 2, heads_kv, head_dim).

    Nothing is copied. Raises ValueError for another number of axes, or of tensors.
    """
    k, v = _unpack("kv", kv, 2)
    return flash_attn_func(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
        return_attn_probs,
    )  # fmt: skip


def flash_attn_qkvpacked_func(
    qkv: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """:func:`flash_attn_func` of qkv: (batch, seqlen, 3, heads, head_dim).

    Nothing is copied. Raises ValueError for another number of axes, or of tensors.
    """
    q, k, v = _unpack("qkv", qkv, 3)
    return flash_attn_func(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
        return_attn_probs,
    )  # fmt: skip


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Optional[torch.Tensor] = None,
) -> Result:
    """:func:`flash_attn_func` of sequences back to back, each as long as it is.

    q: (total_q, heads_q, head_dim).
    k: (total_k, heads_kv, head_dim); heads_q is a multiple of heads_kv.
    v: (total_k, heads_kv, head_dim).
    cu_seqlens_q, cu_seqlens_k: int32 (batch + 1), where q and k lie: sequence b has
        the rows from entry b to before entry b + 1. Entries do not fall, and are
        not read on the host. Any sequence may be empty.
    max_seqlen_q: which of two kernels runs, one for 16 or fewer.
    max_seqlen_k: not needed but for S_dmask.
    alibi_slopes: float32 (heads_q,) or (batch, heads_q). Nothing is made of it in
        memory.
    block_table: int32 (batch, blocks of each): k and v are then (num_blocks, page_size,
        heads_kv, head_dim), of any page_size, and entry (b, p) names the block that
        holds keys p * page_size and on of sequence b. Of cu_seqlens_k only the
        differences count.
    The others are those of flash_attn_func; masks and ALiBi are of each sequence.

    Returns out: (total_q, heads_q, head_dim), whose rows behind the last sequence are
    not written; with return_attn_probs (out, softmax_lse, S_dmask), softmax_lse:
    float32 (heads_q, total_q), and S_dmask: with dropout_p (batch, heads_q, max_seqlen_q,
    max_seqlen_k), both up to the next multiple of 128, by one more attention to sequences
    that are padded for it, which reads nothing on the host but these two.

    Raises flashcore.GradientError where nothing computes its gradients, and what
    flashcore.attention raises.
    """
    arguments = None
    is_plain = block_table is None and return_attn_probs is False and type(deterministic) is bool
    if is_plain and seen.are_lengths(max_seqlen_q, max_seqlen_k) and seen.is_plain(q, dropout_p):
        arguments = seen.of_sequences(
            q, k, v, cu_seqlens_q, cu_seqlens_k, None, None, alibi_slopes, None, None,
            softmax_scale, causal, window_size, softcap, False, max_seqlen_q, _is_batch_invariant,
        )  # fmt: skip
        known: Any = seen.sequences.run_seen(*arguments)
        if known is not NotImplemented:
            result: Result = known
            return result
    expect_tensors(q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    expect_optional(block_table=block_table, alibi_slopes=alibi_slopes)
    expect_rank("(sequences + 1,)", cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    _expect_most(max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k)
    if block_table is None:
        expect_rank(_ROWS, q=q, k=k, v=v)
        if gradients.falls_back(q, k, v) and not return_attn_probs and alibi_slopes is None:
            options = common_options(softmax_scale, causal, window_size, softcap)
            if not _has_backward(q, k, v, dropout_p, **options):
                return _by_torch(q, k, v, dropout_p, (cu_seqlens_q, cu_seqlens_k), **options)
        k, v = k[None], v[None]
        keys = {"cu_seqlens_k": cu_seqlens_k}
    else:
        expect_rank(_ROWS, q=q)
        keys = {"seqused_k": _count(cu_seqlens_k, cu_seqlens_q), "page_table": block_table}

    def lengths() -> Tuple[torch.Tensor, torch.Tensor]:
        return cu_seqlens_q.diff(), cu_seqlens_k.diff()

    return_attn_probs = _read_flags(return_attn_probs, deterministic)
    dropout = dropout_options(dropout_p, q)
    of_batch = attention(
        q[None],
        k,
        v,
        cu_seqlens_q=cu_seqlens_q,
        # Never read from a device: some callers have it there.
        max_seqlen_q=max_seqlen_q if isinstance(max_seqlen_q, int) else None,
        lse=return_attn_probs,
        **keys,
        **dropout,
        **_slopes(alibi_slopes, q.shape[1], lengths),
        **_options(softmax_scale, causal, window_size, softcap),
    )
    if not return_attn_probs:
        if arguments is not None and (alibi_slopes is None or alibi_slopes.dim() == 1):
            seen.sequences.see(*arguments)
        out: torch.Tensor = of_batch[0]
        return out
    out, softmax_lse = of_batch
    mask = q.new_empty(0)
    if dropout:
        most = _most("max_seqlen_q", max_seqlen_q), _most("max_seqlen_k", max_seqlen_k)
        probabilities = _probabilities(
            q, k, cu_seqlens_q, cu_seqlens_k, most, block_table, alibi_slopes,
            **_options(softmax_scale, causal, window_size, softcap),
        )  # fmt: skip
        mask = dropped.s_dmask(probabilities, dtype=q.dtype, **dropout)
    return out[0], softmax_lse[0], mask


def _has_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float,
    *,
    causal: bool,
    window: "Tuple[Optional[int], Optional[int]]",
    softcap: Optional[float],
    **others: Any,
) -> bool:
    """Whether sequences that need gradients run the kernel, and PyTorch's backward pass."""
    return gradients.on_grad() == "backward" and training.takes_sequences(
        q, k, v, causal="bottom_right" if causal else None, window=window, softcap=softcap,
        dropout_p=dropout_p,
    )  # fmt: skip


def _by_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float,
    cu_seqlens: Optional[Tuple[torch.Tensor, torch.Tensor]] = None,
    *,
    causal: bool,
    layout: str,
    **options: Any,
) -> torch.Tensor:
    """A call that needs gradients, with a warning; what is dropped is drawn by PyTorch."""
    if dropout_p:
        read_dropout(dropout_p)
    _check_for_torch(q, k, v, cu_seqlens, causal=causal, layout=layout, **options)
    warn_once("it needs gradients")
    options |= {"causal": "bottom_right" if causal else None, "dropout_p": dropout_p}
    if cu_seqlens is not None:
        return sequences_by_torch(q, k, v, *cu_seqlens, **options)
    o: Any = attention_by_torch(q, k, v, layout=layout, **options)
    result: torch.Tensor = o
    return result


def _check_for_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: Optional[Tuple[torch.Tensor, torch.Tensor]],
    *,
    causal: bool,
    layout: str,
    window: Any,
    softcap: Optional[float],
    scale: Optional[float],
    bias: Optional[torch.Tensor] = None,
) -> None:
    """What the kernel checks of a call that PyTorch computes."""
    if sys.modules["flashcore.attention"].is_traced(q):
        return
    options = make_options(causal, window, softcap, scale, False, layout)
    if cu_seqlens is None:
        check_tensors(options, q, k, v, bias, None)
        return
    ends = dict(zip(ENDS, cu_seqlens))
    beside = tuple(ends.get(name) for name in CLAUSES)
    check_tensors(options, q[None], k[None], v[None], bias, beside)


def _probabilities(
    q: torch.Tensor,
    k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    most: Tuple[int, int],
    block_table: Optional[torch.Tensor],
    alibi_slopes: Optional[torch.Tensor],
    **options: Any,
) -> torch.Tensor:
    """Of sequences back to back, (batch, heads_q, max_seqlen_q, max_seqlen_k)."""
    used = _count(cu_seqlens_k, cu_seqlens_q)
    if block_table is None:
        keys = dropped.keys_of_sequences(k[0], cu_seqlens_k, most[1])
    else:
        keys = dropped.keys_of_pages(k, block_table, most[1])

    def lengths() -> Tuple[torch.Tensor, torch.Tensor]:  # as rows are padded
        return fill(most[0], used.shape[0], q), used

    return dropped.probabilities_of_sequences(
        q, keys, cu_seqlens_q, used, most[0],
        **_slopes(alibi_slopes, q.shape[1], lengths), **options,
    )  # fmt: skip


def _count(cu_seqlens_k: torch.Tensor, cu_seqlens_q: torch.Tensor) -> torch.Tensor:
    """How many keys each sequence has."""
    if cu_seqlens_k.dtype != torch.int32:
        raise TypeError(f"expects cu_seqlens_k of int32, but got {cu_seqlens_k.dtype}")
    if cu_seqlens_k.dim() != 1 or cu_seqlens_k.shape != cu_seqlens_q.shape:
        raise ValueError(
            "expects cu_seqlens_q and cu_seqlens_k of as many entries, one more than there are "
            f"sequences, but got {tuple(cu_seqlens_q.shape)} and {tuple(cu_seqlens_k.shape)}"
        )
    return cu_seqlens_k.diff()


def flash_attn_varlen_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """:func:`flash_attn_varlen_func` of kv: (total_k, 2, heads_kv, head_dim).

    Nothing is copied. Raises ValueError for another number of axes, or of tensors.
    """
    k, v = _unpack("kv", kv, 2, "total")
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
        causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs,
    )  # fmt: skip


def flash_attn_varlen_qkvpacked_func(
    qkv: torch.Tensor,
    cu_seqlens: torch.Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """:func:`flash_attn_varlen_func` of qkv: (total, 3, heads, head_dim).

    Nothing is copied. Raises ValueError for another number of axes, or of tensors.
    """
    q, k, v = _unpack("qkv", qkv, 3, "total")
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p, softmax_scale, causal,
        window_size, softcap, alibi_slopes, deterministic, return_attn_probs,
    )  # fmt: skip


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: Optional[torch.Tensor] = None,
    v: Optional[torch.Tensor] = None,
    rotary_cos: Optional[torch.Tensor] = None,
    rotary_sin: Optional[torch.Tensor] = None,
    cache_seqlens: Optional[Union[int, torch.Tensor]] = None,
    cache_batch_idx: Optional[torch.Tensor] = None,
    cache_leftpad: Optional[torch.Tensor] = None,
    block_table: Optional[torch.Tensor] = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Optional[torch.Tensor] = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """Attention to the keys of a cache, after new ones were appended to it.

    q: (batch, seqlen_q, heads_q, head_dim).
    k_cache, v_cache: (batch, seqlen_cache, heads_kv, head_dim), or (batch_cache, ...)
        with cache_batch_idx, or (num_blocks, page_size, heads_kv, head_dim) with
        block_table.
    k, v: (batch, seqlen_new, heads_kv, head_dim), or None. They are written to the
        caches, in place, behind the keys that are there; cache_seqlens stays as it is.
        Caches that kernels do not take as they are, since their rows are not aligned or
        their entries no pages of one table, are copied whole for it, and the rows that
        may have been written are copied back.
    rotary_cos, rotary_sin: (positions, rotary_dim / 2), of the type of q, with at least
        as many positions as an entry of the cache may have keys; or None. Row i of k is
        turned by position cache_seqlens + i before it is written. So is row i of q if
        causal, or with a window; else all rows of q by position cache_seqlens.
    cache_seqlens: how many keys of each entry are there: int32 (batch), or one number
        for all; all of the cache by default. It is not read on the host: rows that
        do not fit are not written.
    cache_batch_idx: int32 or int64 (batch), the entry of the cache for each entry of q,
        which are not read on the host. Of caches whose seqlen_cache is a multiple of 8,
        and their steps from entry to entry too, nothing is copied: they are taken for
        pages of the largest power of two up to 256, each of which has a kernel. The
        entries of others are copied, at each call. Where rows are appended pages may be
        of fewer rows.
    cache_leftpad: int32 (batch), how many keys at the beginning of each entry are not
        seen. They must be finite: they are masked, not skipped.
    block_table: int32 (batch, blocks of each), the block that holds keys p * page_size
        and on of each entry. Each page_size has a kernel.
    causal: the last query sees the last key that is there, a new one among them.
    rotary_interleaved: pairs of rotary embeddings are columns 0 and 1, 2 and 3, and so
        on (GPT-J); False: 0 and rotary_dim / 2, and so on (GPT-NeoX).
    alibi_slopes: float32 (heads_q,) or (batch, heads_q). Nothing is made of it in
        memory.
    num_splits: not needed.
    The others are those of flash_attn_func.

    Returns out: (batch, seqlen_q, heads_q, head_dim); with return_softmax_lse (out,
    softmax_lse), softmax_lse: float32 (batch, heads_q, seqlen_q).

    Raises flashcore.GradientError, a NotImplementedError, for gradients, ValueError
    and TypeError for tensors that do not fit, and what flashcore.attention raises.
    """
    return attend_to_cache(
        q, Caches(k_cache, v_cache, cache_batch_idx, block_table), k, v, rotary_cos, rotary_sin,
        cache_seqlens, cache_leftpad, softmax_scale, causal, window_size, softcap,
        rotary_interleaved, alibi_slopes, return_softmax_lse,
    )  # fmt: skip


def attend_to_cache(
    q: torch.Tensor,
    caches: Caches,
    k: Optional[torch.Tensor],
    v: Optional[torch.Tensor],
    rotary_cos: Optional[torch.Tensor],
    rotary_sin: Optional[torch.Tensor],
    cache_seqlens: Optional[Union[int, torch.Tensor]],
    cache_leftpad: Optional[torch.Tensor],
    softmax_scale: Optional[float],
    causal: bool,
    window_size: Window,
    softcap: float,
    rotary_interleaved: bool,
    alibi_slopes: Optional[torch.Tensor],
    return_softmax_lse: bool,
    mask_mod: Optional[Callable[..., Any]] = None,
    **more: Any,
) -> Any:
    """:func:`flash_attn_with_kvcache` of caches, with ``more`` arguments of attention.

    mask_mod: in the place of that of cache_leftpad.
    """
    arguments = None
    if caches.entries is None and cache_leftpad is None and mask_mod is None and seen.is_plain(q):
        arguments = seen.of_cache(
            q, caches.k, caches.v, k, v, rotary_cos, rotary_sin, cache_seqlens, caches.table,
            alibi_slopes, more.get("sinks"), more.get("out"), softmax_scale, causal, window_size,
            softcap, rotary_interleaved, return_softmax_lse, _is_batch_invariant,
        )  # fmt: skip
        known = seen.caches.run_seen(*arguments)
        if known is not NotImplemented:
            return known
    result, is_as_given = _attend_to_cache(
        q, caches, k, v, rotary_cos, rotary_sin, cache_seqlens, cache_leftpad, softmax_scale,
        causal, window_size, softcap, rotary_interleaved, alibi_slopes, return_softmax_lse,
        mask_mod, **more,
    )  # fmt: skip
    if arguments is not None and is_as_given and (alibi_slopes is None or alibi_slopes.dim() == 1):
        seen.caches.see(*arguments)
    return result


def _attend_to_cache(
    q: torch.Tensor,
    caches: Caches,
    k: Optional[torch.Tensor],
    v: Optional[torch.Tensor],
    rotary_cos: Optional[torch.Tensor],
    rotary_sin: Optional[torch.Tensor],
    cache_seqlens: Optional[Union[int, torch.Tensor]],
    cache_leftpad: Optional[torch.Tensor],
    softmax_scale: Optional[float],
    causal: bool,
    window_size: Window,
    softcap: float,
    rotary_interleaved: bool,
    alibi_slopes: Optional[torch.Tensor],
    return_softmax_lse: bool,
    mask_mod: Optional[Callable[..., Any]],
    **more: Any,
) -> Tuple[Any, bool]:
    """What it returns, and whether the kernel took all tensors as they were given."""
    expect_tensors(q=q, k_cache=caches.k, v_cache=caches.v)
    expect_optional(
        k=k, v=v, rotary_cos=rotary_cos, rotary_sin=rotary_sin, alibi_slopes=alibi_slopes,
        cache_leftpad=cache_leftpad, cache_batch_idx=caches.entries, block_table=caches.table,
    )  # fmt: skip
    expect_rank("(batch, seqlen_q, heads, head_dim)", q=q)
    expect_rank("(entries or pages, rows, heads, head_dim)", k_cache=caches.k, v_cache=caches.v)
    rotary_interleaved = read("rotary_interleaved", rotary_interleaved)
    return_softmax_lse = read("return_softmax_lse", return_softmax_lse)
    causal = read("causal", causal, FLAG)
    if cache_seqlens is not None and not isinstance(cache_seqlens, torch.Tensor):
        cache_seqlens = read("cache_seqlens", cache_seqlens)
    check_caches(caches, q.shape[0])
    if rotary_cos is not None or rotary_sin is not None:
        is_one_place = not causal and sides(window_size) == (None, None)
        check_rotary(q, k, rotary_cos, rotary_sin, cache_seqlens, is_one_place, caches.rows)
    if k is not None or v is not None:
        return _append_and_attend(
            q, caches, k, v, cache_seqlens, alibi_slopes,
            rotary_cos=rotary_cos,
            rotary_sin=rotary_sin,
            rotary_interleaved=rotary_interleaved,
            mask_mod=mask_mod or leftpad_mod(cache_leftpad, q.shape[0]),
            lse=return_softmax_lse,
            **_options(softmax_scale, causal, window_size, softcap),
            **more,
        )  # fmt: skip
    caches = whole_pages(caches, LEAST_PAGE)
    used = cache_seqlens
    if isinstance(used, int):
        check_count(used, caches.rows)
    batch, seqlen_q, heads = q.shape[:3]
    count = caches.rows if used is None else used
    keys, values = caches.k, caches.v
    if isinstance(count, int) and caches.table is None:  # the keys that are there are a view
        keys, values = keys[:, :count], values[:, :count]
        used = None
    elif isinstance(used, int):
        used = fill(used, batch, q)
    if caches.entries is not None:
        keys, values = (x.index_select(0, caches.entries) for x in (keys, values))

    def lengths() -> Tuple[torch.Tensor, torch.Tensor]:
        of_k = fill(count, batch, q) if isinstance(count, int) else count
        return fill(seqlen_q, batch, q), of_k

    result = attention(
        q,
        keys,
        values,
        mask_mod=mask_mod or leftpad_mod(cache_leftpad, batch),
        seqused_k=used,
        page_table=caches.table,
        lse=return_softmax_lse,
        **_slopes(alibi_slopes, heads, lengths),
        **_options(softmax_scale, causal, window_size, softcap),
        **more,
    )
    return result, not isinstance(cache_seqlens, int)


def _append_and_attend(
    q: torch.Tensor,
    caches: Caches,
    k: Optional[torch.Tensor],
    v: Optional[torch.Tensor],
    cache_seqlens: Optional[Union[int, torch.Tensor]],
    alibi_slopes: Optional[torch.Tensor],
    **options: Any,
) -> Tuple[Any, bool]:
    """One call for all of it."""
    k, v = check_new(caches, k, v)
    batch, seqlen_q, heads = q.shape[:3]
    count = k.shape[1]
    given = check_lengths(caches, cache_seqlens, batch, count)
    used = fill(given, batch, q) if isinstance(given, int) else given

    def lengths() -> Tuple[torch.Tensor, torch.Tensor]:
        return fill(seqlen_q, batch, q), used + count

    held, copies = to_append_to(caches, batch)
    result = attention(
        q,
        held.k,
        held.v,
        seqused_k=used,
        page_table=held.table,
        k_new=k,
        v_new=v,
        **options,
        **_slopes(alibi_slopes, heads, lengths),
    )
    if copies is not None:
        copy_back(caches, copies, used, count)
    return result, copies is None and used is given


# Options --------------------------------------------------------------------

_is_batch_invariant = False


def set_batch_invariant(on: bool) -> None:
    """Chooses whether rows depend on their batch, for all calls of these functions.

    on: out and softmax_lse of a query are the same to the bit whatever the batch, the
        number of queries and its place among them, however long the cache is, and in
        whichever of these functions, as ``flashcore.attention(batch_invariant=True)``
        has them. It holds for the process and all its threads; what is compiled by
        torch.compile is compiled again. By default they are as fast as they can be.

    Raises TypeError for what is no bool.
    """
    global _is_batch_invariant
    if not isinstance(on, bool):
        raise TypeError(f"expects a bool of set_batch_invariant, but got {on!r}")
    _is_batch_invariant = on


def register() -> bool:
    """Makes these functions importable as ``flash_attn``, for code that imports that name.

    The module has ``flash_attn_interface`` and ``bert_padding``, too.

    Returns False, and changes nothing, where flash-attn is installed.
    """
    from flashcore import flash_attn_module

    names = (name for name in __all__ if name.startswith("flash_attn"))
    return flash_attn_module.register({name: globals()[name] for name in names})


def is_batch_invariant() -> bool:
    """What :func:`set_batch_invariant` said last."""
    return _is_batch_invariant


def _read_flags(return_attn_probs: Any, deterministic: Any) -> bool:
    read("deterministic", deterministic)
    return bool(read("return_attn_probs", return_attn_probs))


def _options(
    softmax_scale: Optional[float], causal: bool, window_size: Window, softcap: float
) -> Dict[str, Any]:
    """The same, and what is promised of rows."""
    return {
        **common_options(softmax_scale, causal, window_size, softcap),
        "batch_invariant": _is_batch_invariant,
    }


def _alibi_options(
    slopes: Optional[torch.Tensor], q: torch.Tensor, k: torch.Tensor
) -> Dict[str, Any]:
    """The same where all batch entries are of one length."""
    if slopes is None:
        return {}
    if slopes.dim() not in (1, 2):
        raise ValueError(
            f"expects alibi_slopes of (heads,) or (batch, heads), but got {tuple(slopes.shape)}"
        )
    # torch.compile has no constant of a function that is made here, as those of entries are.
    is_traced = sys.modules["flashcore.attention"].is_traced(q)
    if is_traced and slopes.dim() == 2 or needs_gradient(q, k, slopes):
        return {"bias": _alibi(slopes, q.shape[1], k.shape[1])}

    def lengths() -> Tuple[torch.Tensor, torch.Tensor]:
        of_q, of_k = (
            torch.full((q.shape[0],), each.shape[1], dtype=torch.int32, device=q.device)
            for each in (q, k)
        )
        return of_q, of_k

    return _slopes(slopes.float(), q.shape[2], lengths)


def _slopes(
    slopes: Optional[torch.Tensor],
    heads: int,
    lengths: Callable[[], Tuple[torch.Tensor, torch.Tensor]],
) -> Dict[str, Any]:
    """What flashcore.attention is told of ALiBi.

    lengths: makes the numbers of queries and of keys of each batch entry, int32 (batch).
    """
    if slopes is None or slopes.dim() == 1:
        return {"alibi_slopes": slopes}
    of_q, of_k = lengths()
    batch = of_q.shape[0]
    if slopes.dtype != torch.float32 or slopes.shape != (batch, heads):
        raise ValueError(
            f"expects alibi_slopes of float32 ({heads},) or ({batch}, {heads}), but got "
            f"{slopes.dtype} {tuple(slopes.shape)}"
        )
    of_entry = slopes
    return {
        "score_mod": lambda score, entry, head, i, j: (
            score - of_entry[entry, head] * abs(i - j + (of_k[entry] - of_q[entry]))
        )
    }


#: Of sequences back to back.
_ROWS = "(total, heads, head_dim)"


def _expect_most(**lengths: Any) -> None:
    """Numbers that may be tensors on a GPU, which nobody reads."""
    for name, length in lengths.items():
        if length is not None and not isinstance(length, torch.Tensor):
            if read(name, length) < 0:
                raise ValueError(f"expects {name} of at least 0, but got {length}")


def _most(name: str, length: Any) -> int:
    """Of a call whose results have as many rows or columns."""
    if length is None:
        raise ValueError(f"expects {name} with dropout_p and return_attn_probs, but got None")
    return int(length)


def _unpack(name: str, packed: torch.Tensor, count: int, rows: str = "batch, seqlen") -> Any:
    axis = 1 + rows.count(",")
    expect_tensors(**{name: packed})
    if packed.dim() != axis + 3 or packed.shape[axis] != count:
        raise ValueError(
            f"expects {name} of ({rows}, {count}, heads, head_dim), but got {tuple(packed.shape)}"
        )
    return packed.unbind(axis)


def _alibi(slopes: torch.Tensor, seqlen_q: int, seqlen_k: int) -> torch.Tensor:
    """The bias: (batch or 1, heads, seqlen_q, seqlen_k)."""
    row = torch.arange(seqlen_q, device=slopes.device)[:, None] + (seqlen_k - seqlen_q)
    distance = (row - torch.arange(seqlen_k, device=slopes.device)).abs()
    slopes = slopes.float().reshape(-1, slopes.shape[-1], 1, 1)
    return -slopes * distance
