"""Attention by PyTorch's operators, for calls that FlashCore does not take."""

from __future__ import annotations

import math
import sys
import threading
import warnings
from typing import Dict, Optional, Tuple, Union

import torch

__all__ = [
    "FallbackWarning",
    "additive_mask",
    "attention_by_torch",
    "fallbacks",
    "note",
    "original_sdpa",
    "repeat_heads",
    "sequences_by_torch",
    "warn_once",
]

#: PyTorch's own, whatever torch.nn.functional holds.
original_sdpa = torch._C._nn.scaled_dot_product_attention


class FallbackWarning(UserWarning):
    """A call went to PyTorch, and why. Each reason is told once."""


#: In the order in which they were told.
_told: Dict[str, None] = {}
_lock = threading.Lock()


def fallbacks() -> Tuple[str, ...]:
    """Why calls of this process did not go to a kernel, or not within a graph of torch.compile.

    Each reason is there once, as its warning says it, those of calls that were compiled among
    them. The order is that in which they came.
    """
    return tuple(_told)


# As warn_once.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def note(reason: str) -> None:
    """Adds a reason to :func:`fallbacks` without a warning."""
    _told.setdefault(reason)


# torch.compile runs it while it traces, and has nothing of it in the graph.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def warn_once(reason: str) -> None:
    """Says that PyTorch computes a call, once; of one that is compiled, while it is."""
    with _lock:
        if reason in _told:
            return
        _told[reason] = None
    warnings.warn(
        f"flashcore: PyTorch computes this attention: {reason}", FallbackWarning, _callers_level()
    )


def _callers_level() -> int:
    """The stacklevel of the code that called FlashCore, seen from warn_once."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("flashcore."):
        level, frame = level + 1, frame.f_back
    return level


def attention_by_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Optional[str] = None,
    window: Tuple[Optional[int], Optional[int]] = (None, None),
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    bias: Optional[torch.Tensor] = None,
    sinks: Optional[torch.Tensor] = None,
    lse: bool = False,
    layout: str = "bhsd",
    dropout_p: float = 0.0,
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """``flashcore.attention``, differentiable, of any type and on any device.

    With a softcap, sinks or lse the scores are in memory, as float32 (batch, heads_q,
    seqlen_q, seqlen_k); a window, and a causal mask at the lower right, are in
    memory otherwise.
    """
    if layout == "bshd":
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    k, v = repeat_heads(q, k), repeat_heads(q, v)
    if scale is None:
        scale = q.shape[-1] ** -0.5
    if softcap is not None or sinks is not None or lse:
        o, log_sum = _by_formula(q, k, v, causal, window, softcap, scale, bias, sinks, dropout_p)
    else:
        o = _by_sdpa(q, k, v, causal, window, scale, bias, dropout_p)
    if layout == "bshd":
        o = o.transpose(1, 2)
    return (o, log_sum) if lse else o


def sequences_by_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: Optional[str] = None,
    window: Tuple[Optional[int], Optional[int]] = (None, None),
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    sinks: Optional[torch.Tensor] = None,
    dropout_p: float = 0.0,
) -> torch.Tensor:
    """The same of sequences back to back: q, k, v and o are (rows, heads, head_dim).

    A mask of (rows of q, rows of k) is in memory. Lengths are not read on the host.
    Rows of no sequence are 0. causal is "bottom_right" or None.
    """
    of_q, row, count_q = _places(cu_seqlens_q, q.shape[0])
    of_k, column, count_k = _places(cu_seqlens_k, k.shape[0])
    lengths = (count_k - count_q)[of_q.clamp(0, count_q.shape[0] - 1)]
    # How far behind a query's own key another is.
    distance = (row + lengths)[:, None] - column[None, :]
    left, right = window
    right = 0 if causal is not None else right
    visible = of_q[:, None] == of_k[None, :]
    for of_rows, count in ((of_q[:, None], count_q), (of_k[None, :], count_k)):
        visible = visible & (of_rows >= 0) & (of_rows < count.shape[0])
    if left is not None:
        visible = visible & (distance <= left)
    if right is not None:
        visible = visible & (distance >= -right)
    # What lies in rows of no sequence may be anything.
    is_key = visible.any(0)[:, None, None]
    k, v = (torch.where(is_key, tensor, 0) for tensor in (k, v))
    is_query = visible.any(1)[:, None, None]
    bias = torch.zeros(visible.shape, dtype=q.dtype, device=q.device)
    o = attention_by_torch(
        *(tensor[None] for tensor in (torch.where(is_query, q, 0), k, v)),
        bias=bias.masked_fill(~visible, -math.inf), softcap=softcap, scale=scale, sinks=sinks,
        layout="bshd", dropout_p=dropout_p,
    )  # fmt: skip
    assert isinstance(o, torch.Tensor)
    return o[0]


def _places(cu_seqlens: torch.Tensor, rows: int) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The sequence of each row, its number in it, and how many rows each sequence has.

    A row of no sequence has a number that no sequence has.
    """
    row = torch.arange(rows, dtype=cu_seqlens.dtype, device=cu_seqlens.device)
    sequence = torch.searchsorted(cu_seqlens, row, right=True) - 1
    first = cu_seqlens[sequence.clamp(0, cu_seqlens.shape[0] - 1)]
    return sequence, row - first, cu_seqlens.diff()


def repeat_heads(q: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    """k or v with as many heads as q; all are (batch, heads, seqlen, head_dim)."""
    groups = q.shape[1] // of.shape[1] if of.shape[1] else 1
    return of if groups == 1 else of.repeat_interleave(groups, dim=1)


def _visible(
    q: torch.Tensor,
    k: torch.Tensor,
    causal: Optional[str],
    window: Tuple[Optional[int], Optional[int]],
) -> Optional[torch.Tensor]:
    """Which key (column) each query (row) sees; None for all."""
    seqlen_q, seqlen_k = q.shape[2], k.shape[2]
    left, right = window
    if causal is None and left is None and right is None:
        return None
    row = torch.arange(seqlen_q, device=q.device)[:, None]
    column = torch.arange(seqlen_k, device=q.device)[None, :]
    own = row + (seqlen_k - seqlen_q)
    visible = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool, device=q.device)
    if causal is not None:
        visible = visible & (column <= (own if causal == "bottom_right" else row))
    if left is not None:
        visible = visible & (column >= own - left)
    if right is not None:
        visible = visible & (column <= own + right)
    return visible


def additive_mask(
    q: torch.Tensor,
    k: torch.Tensor,
    causal: Optional[str],
    window: Tuple[Optional[int], Optional[int]],
) -> Optional[torch.Tensor]:
    """0 where a query (row) sees a key (column) and -inf elsewhere, of the type of q; None for 0.

    q, k: (batch, heads, seqlen, head_dim).
    """
    visible = _visible(q, k, causal, window)
    if visible is None:
        return None
    return torch.zeros_like(visible, dtype=q.dtype).masked_fill(~visible, -math.inf)


def _by_sdpa(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: Optional[str],
    window: Tuple[Optional[int], Optional[int]],
    scale: float,
    bias: Optional[torch.Tensor],
    dropout_p: float,
) -> torch.Tensor:
    is_square = q.shape[2] == k.shape[2]
    if (
        causal is not None
        and (causal == "top_left" or is_square)
        and window == (None, None)
        and bias is None
    ):
        return original_sdpa(q, k, v, dropout_p=dropout_p, is_causal=True, scale=scale)
    mask = _visible(q, k, causal, window)
    if bias is not None:
        bias = bias.to(q.dtype)
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return original_sdpa(q, k, v, mask, dropout_p=dropout_p, scale=scale)


def _by_formula(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: Optional[str],
    window: Tuple[Optional[int], Optional[int]],
    softcap: Optional[float],
    scale: float,
    bias: Optional[torch.Tensor],
    sinks: Optional[torch.Tensor],
    dropout_p: float,
) -> Tuple[torch.Tensor, torch.Tensor]:
    scores = (q.float() @ k.float().transpose(-1, -2)) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.float()
    visible = _visible(q, k, causal, window)
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    if sinks is not None:  # a key without a value
        column = sinks.to(scores.dtype).reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], dim=-1)
        v = torch.nn.functional.pad(v, (0, 0, 0, 1))
    log_sum = torch.logsumexp(scores, dim=-1)
    # A query that sees no key has o = 0, and no NaN in its gradient.
    is_empty = (scores == -math.inf).all(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(is_empty, 0.0), dim=-1).masked_fill(is_empty, 0.0)
    if dropout_p > 0.0:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    return (weights @ v.float()).to(q.dtype), log_sum
