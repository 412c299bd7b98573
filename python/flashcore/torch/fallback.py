"""Attention by PyTorch's operators, for calls that FlashCore does not take."""

from __future__ import annotations

import math
import sys
import threading
import warnings
from typing import Optional, Set, Tuple, Union

import torch

__all__ = ["FallbackWarning", "attention_by_torch", "original_sdpa", "warn_once"]

#: PyTorch's own, whatever torch.nn.functional holds.
original_sdpa = torch._C._nn.scaled_dot_product_attention


class FallbackWarning(UserWarning):
    """A call went to PyTorch, and why. Each reason is told once."""


_told: Set[str] = set()
_lock = threading.Lock()


def warn_once(reason: str) -> None:
    """Says that PyTorch computes a call; silent while it is compiled."""
    if torch.compiler.is_compiling():
        return
    with _lock:
        if reason in _told:
            return
        _told.add(reason)
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
    k, v = _repeat_heads(q, k), _repeat_heads(q, v)
    if scale is None:
        scale = q.shape[-1] ** -0.5
    if softcap is not None or sinks is not None or lse:
        o, log_sum = _by_formula(q, k, v, causal, window, softcap, scale, bias, sinks, dropout_p)
    else:
        o = _by_sdpa(q, k, v, causal, window, scale, bias, dropout_p)
    if layout == "bshd":
        o = o.transpose(1, 2)
    return (o, log_sum) if lse else o


def _repeat_heads(q: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
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
