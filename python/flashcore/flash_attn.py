"""The interface of flash-attn 2 (its release 2.8).

``from flashcore.flash_attn import flash_attn_func`` in the place of
``from flash_attn import flash_attn_func``. The functions for sequences of
several lengths and for caches have their arguments, and raise
NotImplementedError. There is no backward pass: calls that need gradients raise
flashcore.UnsupportedError, or go to PyTorch after
``flashcore.torch.set_on_grad("fallback")``.

Tensors are of float16 or bfloat16, on a GPU; in host memory they run on the
emulator.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

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
    window = _sides(window_size)
    # A causal call sees nothing to the right, whatever its window says.
    left, right = (window[0], None) if causal else window
    bias = None if alibi_slopes is None else _alibi(alibi_slopes, q.shape[1], k.shape[1])
    result = attention(
        q,
        k,
        v,
        causal=bool(causal),
        window=(left, right),
        softcap=softcap if softcap > 0 else None,
        scale=softmax_scale,
        bias=bias,
        lse=return_attn_probs,
        layout="bshd",
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
    """Raises NotImplementedError: the compiler does not lower cu_seqlens yet."""
    raise _lacks("flash_attn_varlen_func", "cu_seqlens")


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
    """Raises NotImplementedError: the compiler does not lower cu_seqlens yet."""
    raise _lacks("flash_attn_varlen_kvpacked_func", "cu_seqlens")


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
    """Raises NotImplementedError: the compiler does not lower cu_seqlens yet."""
    raise _lacks("flash_attn_varlen_qkvpacked_func", "cu_seqlens")


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
    """Raises NotImplementedError: the compiler does not lower seqused_k yet."""
    raise _lacks("flash_attn_with_kvcache", "seqused_k")


def _refuse_dropout(name: str, dropout_p: float) -> None:
    if dropout_p != 0.0:
        raise UnsupportedError(
            f"flashcore.flash_attn.{name} has no dropout: expects dropout_p to be 0, but got "
            f"{dropout_p}"
        )


def _lacks(name: str, feature: str) -> UnsupportedError:
    return UnsupportedError(
        f"flashcore.flash_attn.{name} needs {feature}, which this version cannot lower yet"
    )


def _sides(window_size: Window) -> Tuple[Optional[int], Optional[int]]:
    if len(window_size) != 2:
        raise ValueError(f"expects window_size to be (left, right), but got {window_size!r}")
    left, right = (int(side) for side in window_size)
    return left if left >= 0 else None, right if right >= 0 else None


def _unpack(name: str, packed: torch.Tensor, count: int) -> Any:
    if packed.dim() != 5 or packed.shape[2] != count:
        raise ValueError(
            f"expects {name} of (batch, seqlen, {count}, heads, head_dim), but got "
            f"{tuple(packed.shape)}"
        )
    return packed.unbind(2)


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
