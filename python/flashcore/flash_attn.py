"""The interface of flash-attn 2 (its release 2.8).

``from flashcore.flash_attn import flash_attn_func`` in the place of
``from flash_attn import flash_attn_func``. There is no backward pass: calls that
need gradients raise flashcore.UnsupportedError; those of the functions without
lengths go to PyTorch after ``flashcore.torch.set_on_grad("fallback")``. Pages
(block_table), rotary embeddings and padding on the left raise NotImplementedError.

Tensors are of float16 or bfloat16, on a GPU; in host memory they run on the
emulator.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple, Union

import torch

from flashcore.attention import attention
from flashcore.errors import UnsupportedError

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]

Window = Sequence[int]
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
    dropout_p: must be 0.
    softmax_scale: 1 / sqrt(head_dim) by default.
    causal: the last query sees the last key, and each query before it one key less.
    window_size: keys to the left and to the right of a query's own that it sees;
        -1 is unbounded.
    softcap: scores become softcap * tanh(score / softcap); 0 is no cap.
    alibi_slopes: float32 (heads_q,) or (batch, heads_q): -slope * |i + seqlen_k -
        seqlen_q - j| is added to the score of query i and key j. It is made as a
        bias of float32 (batch, heads_q, seqlen_q, seqlen_k) in memory, at each call.
    deterministic: the forward pass always is.
    return_attn_probs: return (out, softmax_lse, S_dmask).

    Returns out: (batch, seqlen_q, heads_q, head_dim); softmax_lse: float32 (batch,
    heads_q, seqlen_q), -inf for a query that sees no key, where flash-attn has
    +inf; S_dmask: empty, as flash-attn's is without dropout.

    Raises flashcore.UnsupportedError, a NotImplementedError, for dropout and
    gradients, and what flashcore.attention raises.
    """
    _refuse_dropout("flash_attn_func", dropout_p)
    bias = None if alibi_slopes is None else _alibi(alibi_slopes, q.shape[1], k.shape[1])
    result = attention(
        q,
        k,
        v,
        bias=bias,
        lse=return_attn_probs,
        **_options(softmax_scale, causal, window_size, softcap),
    )
    if not return_attn_probs:
        out: torch.Tensor = result
        return out
    out, softmax_lse = result
    return out, softmax_lse, q.new_empty(0)


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
    _refuse_dropout("flash_attn_kvpacked_func", dropout_p)
    k, v = _unpack("kv", kv, 2)
    return flash_attn_func(
        q, k, v, 0.0, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
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
    _refuse_dropout("flash_attn_qkvpacked_func", dropout_p)
    q, k, v = _unpack("qkv", qkv, 3)
    return flash_attn_func(
        q, k, v, 0.0, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
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
    max_seqlen_q, max_seqlen_k: not needed.
    alibi_slopes: float32 (heads_q,). Nothing is made of it in memory.
    block_table: must be None.
    The others are those of flash_attn_func; masks and ALiBi are of each sequence.

    Returns out: (total_q, heads_q, head_dim), whose rows behind the last sequence are
    not written; with return_attn_probs (out, softmax_lse, S_dmask), softmax_lse:
    float32 (heads_q, total_q).

    Raises flashcore.UnsupportedError, a NotImplementedError, for dropout, pages,
    slopes of (batch, heads_q) and gradients, and what flashcore.attention raises.
    """
    name = "flash_attn_varlen_func"
    _refuse_dropout(name, dropout_p)
    _refuse(name, block_table=block_table)
    _expect_rows(q=q, k=k, v=v)
    result = attention(
        q[None],
        k[None],
        v[None],
        alibi_slopes=_slopes(name, alibi_slopes),
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        lse=return_attn_probs,
        **_options(softmax_scale, causal, window_size, softcap),
    )
    if not return_attn_probs:
        out: torch.Tensor = result[0]
        return out
    out, softmax_lse = result
    return out[0], softmax_lse[0], q.new_empty(0)


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
    _refuse_dropout("flash_attn_varlen_kvpacked_func", dropout_p)
    k, v = _unpack("kv", kv, 2, "total")
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0.0, softmax_scale, causal,
        window_size, softcap, alibi_slopes, deterministic, return_attn_probs,
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
    _refuse_dropout("flash_attn_varlen_qkvpacked_func", dropout_p)
    q, k, v = _unpack("qkv", qkv, 3, "total")
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, 0.0, softmax_scale, causal,
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
        with cache_batch_idx.
    k, v: (batch, seqlen_new, heads_kv, head_dim), or None. They are written to the
        caches, in place, behind the keys that are there; cache_seqlens stays as it is.
    cache_seqlens: how many keys of each entry are there: int32 (batch), or one number
        for all; all of the cache by default. It is not read on the host: rows that
        do not fit are an error of PyTorch's indexing.
    cache_batch_idx: whole numbers (batch), the entry of the cache for each entry of
        q. These entries are copied, at each call.
    causal: the last query sees the last key that is there, a new one among them.
    alibi_slopes: float32 (heads_q,).
    num_splits: not needed.
    rotary_cos, rotary_sin, cache_leftpad, block_table: must be None.
    The others are those of flash_attn_func.

    Returns out: (batch, seqlen_q, heads_q, head_dim); with return_softmax_lse (out,
    softmax_lse), softmax_lse: float32 (batch, heads_q, seqlen_q).

    Raises flashcore.UnsupportedError, a NotImplementedError, for what must be None and
    gradients, ValueError for tensors that do not fit, and what flashcore.attention
    raises.
    """
    name = "flash_attn_with_kvcache"
    _refuse(
        name, rotary_cos=rotary_cos, rotary_sin=rotary_sin, cache_leftpad=cache_leftpad,
        block_table=block_table,
    )  # fmt: skip
    used = cache_seqlens
    if k is not None or v is not None:
        used = _append(k_cache, v_cache, k, v, cache_seqlens, cache_batch_idx)
    if isinstance(used, int):  # the keys that are there are a view
        k_cache, v_cache = (_first(used, cache) for cache in (k_cache, v_cache))
        used = None
    if cache_batch_idx is not None:
        k_cache, v_cache = (x.index_select(0, cache_batch_idx) for x in (k_cache, v_cache))
    result: Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]] = attention(
        q,
        k_cache,
        v_cache,
        alibi_slopes=_slopes(name, alibi_slopes),
        seqused_k=used,
        lse=return_softmax_lse,
        **_options(softmax_scale, causal, window_size, softcap),
    )
    return result


def _first(count: int, cache: torch.Tensor) -> torch.Tensor:
    """The first keys of each entry."""
    if not 0 <= count <= cache.shape[1]:
        raise ValueError(
            f"expects cache_seqlens, with what is appended, from 0 to {cache.shape[1]}, the rows "
            f"of the cache, but got {count}"
        )
    return cache[:, :count]


def _append(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: Optional[torch.Tensor],
    v: Optional[torch.Tensor],
    cache_seqlens: Optional[Union[int, torch.Tensor]],
    cache_batch_idx: Optional[torch.Tensor],
) -> Union[int, torch.Tensor]:
    """Writes new rows to the caches. Returns how many are there then."""
    if k is None or v is None:
        raise ValueError(
            f"expects k and v together, but got {'v' if k is None else 'k'} alone: both are "
            "appended to the cache"
        )
    if cache_seqlens is None:
        raise ValueError(
            "expects cache_seqlens with k and v, but got None: it says where they are appended"
        )
    batch, count = k.shape[:2]
    if isinstance(cache_seqlens, int):
        _first(cache_seqlens + count, k_cache)
        first: Any = torch.full((batch,), cache_seqlens, device=k.device)
    else:
        _check_cache_seqlens(cache_seqlens, batch)
        first = cache_seqlens.long()
    entries = torch.arange(batch, device=k.device) if cache_batch_idx is None else cache_batch_idx
    rows = first[:, None] + torch.arange(count, device=k.device)
    with torch.no_grad():
        for cache, new in ((k_cache, k), (v_cache, v)):
            if new.dtype != cache.dtype:
                raise TypeError(
                    f"expects k and v of the type of their caches, {cache.dtype}, but got "
                    f"{new.dtype}"
                )
            cache.index_put_((entries.long()[:, None], rows), new)
    return cache_seqlens + count


def _check_cache_seqlens(cache_seqlens: torch.Tensor, batch: int) -> None:
    """Before the caches are written."""
    if cache_seqlens.dtype != torch.int32:
        raise TypeError(f"expects cache_seqlens of int32, but got {cache_seqlens.dtype}")
    if cache_seqlens.shape != (batch,):
        raise ValueError(
            f"expects cache_seqlens of ({batch},), one a batch entry, but got "
            f"{tuple(cache_seqlens.shape)}"
        )


def _options(
    softmax_scale: Optional[float], causal: bool, window_size: Window, softcap: float
) -> Dict[str, Any]:
    """What flashcore.attention is told of all of these functions."""
    left, right = _sides(window_size)
    return {
        "causal": bool(causal),
        # A causal call sees nothing to the right, whatever its window says.
        "window": (left, None if causal else right),
        "softcap": softcap if softcap > 0 else None,
        "scale": softmax_scale,
        "layout": "bshd",
    }


def _refuse_dropout(name: str, dropout_p: float) -> None:
    if dropout_p != 0.0:
        raise UnsupportedError(
            f"flashcore.flash_attn.{name} has no dropout: expects dropout_p to be 0, but got "
            f"{dropout_p}"
        )


def _refuse(name: str, **arguments: Any) -> None:
    """Arguments that must be None."""
    for argument, value in arguments.items():
        if value is not None:
            raise UnsupportedError(
                f"flashcore.flash_attn.{name} has no {argument} yet: expects None, but got "
                f"{type(value).__name__}"
            )


def _slopes(name: str, slopes: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    if slopes is not None and slopes.dim() == 2:
        raise UnsupportedError(
            f"flashcore.flash_attn.{name} has no alibi_slopes of (batch, heads): expects (heads,), "
            f"but got {tuple(slopes.shape)}"
        )
    return slopes


def _expect_rows(**tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.dim() != 3:
            raise ValueError(
                f"expects {name} of (total, heads, head_dim), but got {tuple(tensor.shape)}"
            )


def _sides(window_size: Window) -> Tuple[Optional[int], Optional[int]]:
    if len(window_size) != 2:
        raise ValueError(f"expects window_size to be (left, right), but got {window_size!r}")
    left, right = (int(side) for side in window_size)
    return left if left >= 0 else None, right if right >= 0 else None


def _unpack(name: str, packed: torch.Tensor, count: int, rows: str = "batch, seqlen") -> Any:
    axis = 1 + rows.count(",")
    if packed.dim() != axis + 3 or packed.shape[axis] != count:
        raise ValueError(
            f"expects {name} of ({rows}, {count}, heads, head_dim), but got {tuple(packed.shape)}"
        )
    return packed.unbind(axis)


def _alibi(slopes: torch.Tensor, seqlen_q: int, seqlen_k: int) -> torch.Tensor:
    """The bias: (batch or 1, heads, seqlen_q, seqlen_k)."""
    if slopes.dim() not in (1, 2):
        raise ValueError(
            f"expects alibi_slopes of (heads,) or (batch, heads), but got {tuple(slopes.shape)}"
        )
    row = torch.arange(seqlen_q, device=slopes.device)[:, None] + (seqlen_k - seqlen_q)
    distance = (row - torch.arange(seqlen_k, device=slopes.device)).abs()
    slopes = slopes.float().reshape(-1, slopes.shape[-1], 1, 1)
    return -slopes * distance
