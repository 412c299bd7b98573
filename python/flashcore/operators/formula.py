"""Attention with clauses and functions by its formula, in PyTorch, for gradients of all of it.

Scores are in memory, as float32 (batch, heads_q, seqlen_q, seqlen_k).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import torch

from flashcore.errors import GradientError
from flashcore.operands import ENDS, LENGTHS, LISTS, NEW_ROWS, PAGES, SEED, SINKS, of_use
from flashcore.operators import gradients, training
from flashcore.operators.fallback import repeat_heads, sequences_by_torch, warn_once
from flashcore.options import Options

__all__ = ["attention_by_formula", "takes", "with_gradients"]

#: Clauses of which there is no gradient here, or none at all: pages, new rows, block_mask.
_WITHOUT = {PAGES, *NEW_ROWS, *LISTS}
#: What sequences back to back may have.
_OF_SEQUENCES = {*ENDS, SINKS, SEED}


def takes(options: Options, score_mod: Any, mask_mod: Any, beside: Mapping[str, Any]) -> bool:
    """Whether :func:`with_gradients` computes a call."""
    if _WITHOUT & set(beside) or options.scores:
        return False
    if ENDS[0] not in beside:
        return True
    has_functions = score_mod is not None or mask_mod is not None
    is_plain = not options.lse and options.causal != "top_left"
    return not has_functions and set(beside) <= _OF_SEQUENCES and is_plain


def with_gradients(
    attend: "Callable[..., Tuple[torch.Tensor, torch.Tensor]]",
    options: Options,
    score_mod: "Optional[Callable[..., Any]]",
    mask_mod: "Optional[Callable[..., Any]]",
    beside: Dict[str, Any],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
) -> Any:
    """A call that needs gradients and :func:`takes` names.

    attend: the call of the kernel with other options, of q, k and v.
    """
    where = options.causal, (options.window_left, options.window_right)
    if (
        gradients.on_grad() == "backward"
        and set(beside) == set(ENDS)
        and training.takes_sequences(
            q, k, v, causal=where[0], window=where[1], softcap=options.softcap
        )
    ):
        with_lse = replace(options, layout="bshd", lse=True)
        return training.sequences(
            lambda *tensors: attend(with_lse, *tensors), q, k, v,
            *(beside[name] for name in ENDS), layout=options.layout, causal=where[0], window=where[1],
            scale=options.scale,
        )  # fmt: skip
    names = [name for name in beside if name != SEED]
    names += [name for name, mod in (("score_mod", score_mod), ("mask_mod", mask_mod)) if mod]
    names += ["dropout_p"] if SEED in beside else []
    warn_once(f"it needs gradients, and has {' and '.join(names)}")
    return attention_by_formula(options, score_mod, mask_mod, beside, q, k, v, bias)


def attention_by_formula(
    options: Options,
    score_mod: "Optional[Callable[..., Any]]",
    mask_mod: "Optional[Callable[..., Any]]",
    beside: Dict[str, Any],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
) -> Any:
    """``flashcore.attention`` with these clauses and functions, differentiable.

    What is dropped is drawn by PyTorch, and ``rng`` is not looked at. Functions are called
    with tensors: their result must be one that PyTorch's operators make.

    Returns o, or (o, lse). Raises GradientError for a function that takes no tensors.
    """
    dropout_p = options.dropout or 0.0
    if ENDS[0] in beside:
        if options.layout == "bhsd":
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        o = sequences_by_torch(
            q[0], k[0], v[0], *(beside[name] for name in ENDS),
            causal=options.causal, window=(options.window_left, options.window_right),
            softcap=options.softcap, scale=options.scale, sinks=beside.get(SINKS),
            dropout_p=dropout_p,
        )[None]  # fmt: skip
        return o.transpose(1, 2) if options.layout == "bhsd" else o
    if options.layout == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = repeat_heads(q, k), repeat_heads(q, v)
    places = _Places(q, k, beside.get(LENGTHS))
    of_scores = {name: beside[name] for name in of_use("Score") if name in beside}
    scores = _scores(options, score_mod, q, k, bias, places, **of_scores)
    hidden = ~_visible(options, mask_mod, places)
    o, lse = _softmax(scores, hidden, beside.get(SINKS), v, dropout_p)
    o = o.to(q.dtype)
    if options.layout == "bshd":
        o = o.transpose(1, 2)
    return (o, lse) if options.lse else o


class _Places:
    """Batch entry, head, query and key of each score, each along an axis of its own."""

    def __init__(self, q: torch.Tensor, k: torch.Tensor, used: Optional[torch.Tensor]) -> None:
        sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        self.sizes = sizes
        self.batch, self.head, self.query, self.key = (
            torch.arange(size, device=q.device, dtype=torch.int32).view(
                [-1 if i == axis else 1 for i in range(4)]
            )
            for axis, size in enumerate(sizes)
        )
        self.lengths: Any = sizes[3] if used is None else used.view(-1, 1, 1, 1).clamp(0, sizes[3])
        #: The key that masks and distances are counted from.
        self.own = self.query + (self.lengths - sizes[2])

    def call(self, function: "Callable[..., Any]", *first: Any) -> Any:
        try:
            return function(*first, self.batch, self.head, self.query, self.key)
        except Exception as error:
            name = getattr(function, "__name__", "a function")
            raise GradientError(
                f"expects {name} to take tensors where a gradient is needed, as PyTorch computes "
                f"it then, but it raised {type(error).__name__}: {error}; write it with operators "
                "of PyTorch (torch.where), or call it under torch.no_grad()"
            ) from error


def _each_head(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.float().view(1, -1, 1, 1)


def _scores(
    options: Options,
    score_mod: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    bias: Optional[torch.Tensor],
    places: _Places,
    head_scales: Optional[torch.Tensor] = None,
    alibi_slopes: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    scale = q.shape[-1] ** -0.5 if options.scale is None else options.scale
    scores = (q.float() @ k.float().transpose(-1, -2)) * scale
    if head_scales is not None:
        scores = scores * _each_head(head_scales)
    if options.softcap is not None:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    if bias is not None:
        scores = scores + bias.float()
    if alibi_slopes is not None:
        distance = (places.own - places.key).abs()
        scores = scores - _each_head(alibi_slopes) * distance
    if score_mod is not None:
        scores = places.call(score_mod, scores)
    return scores


def _visible(options: Options, mask_mod: Any, places: _Places) -> torch.Tensor:
    own, key = places.own, places.key
    visible = key < places.lengths if isinstance(places.lengths, torch.Tensor) else key >= 0
    if options.causal is not None:
        visible = visible & (key <= (own if options.causal == "bottom_right" else places.query))
    if options.window_left is not None:
        visible = visible & (key >= own - options.window_left)
    if options.window_right is not None:
        visible = visible & (key <= own + options.window_right)
    if mask_mod is not None:
        visible = visible & places.call(mask_mod)
    return visible


def _softmax(
    scores: torch.Tensor,
    hidden: torch.Tensor,
    sinks: Optional[torch.Tensor],
    v: torch.Tensor,
    dropout_p: float,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """o in float32, and lse. A query that sees no key has o = 0, and no NaN in its gradient."""
    scores = scores.masked_fill(hidden, -math.inf)
    v = v.float()
    if sinks is not None:  # a key without a value
        sink = _each_head(sinks).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sink], dim=-1)
        v = torch.nn.functional.pad(v, (0, 0, 0, 1))
    is_empty = (scores == -math.inf).all(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(is_empty, 0.0), dim=-1).masked_fill(is_empty, 0.0)
    if dropout_p > 0.0:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    return weights @ v, torch.logsumexp(scores, dim=-1)
