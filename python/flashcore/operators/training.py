"""Gradients of attentions that FlashCore computes, by PyTorch's own backward pass.

The backward kernels of FlashAttention read O and the log-sum-exp of a forward pass,
whoever has computed them. So a call that needs gradients runs FlashCore's kernel, and
its gradients are those of ``aten::_flash_attention_backward`` on a GPU and of
``aten::_scaled_dot_product_flash_attention_for_cpu_backward`` in host memory. It serves
until FlashCore has a backward pass of its own.
"""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from flashcore.operators import gradients
from flashcore.operators.fallback import additive_mask

__all__ = ["attention", "reason_against", "register", "sequences", "takes_sequences"]

Window = Tuple[Optional[int], Optional[int]]

#: What the backward kernels take.
_MAX_HEAD_DIM, _HEAD_DIM_STEP = 256, 8
#: The first compute capability that has them.
_OLDEST = (8, 0)


def reason_against(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Optional[str],
    window: Window,
    softcap: Optional[float],
    bias: Optional[torch.Tensor],
    lse: bool,
    layout: str,
) -> Optional[str]:
    """Why PyTorch computes the whole of a call that needs gradients.

    The arguments are those of ``flashcore.attention``; causal is "bottom_right",
    "top_left" or None.

    Returns None where its backward pass takes what FlashCore's kernel leaves.
    """
    if forward_ad._current_level >= 0 and not torch.compiler.is_compiling():
        return "it is differentiated in forward mode"
    for what, is_there in (("a softcap", softcap is not None), ("a bias", bias is not None)):
        if is_there:
            return f"it needs gradients, and has {what}"
    if lse:
        return "it needs gradients, and returns its log-sum-exp"
    if causal == "top_left" and window != (None, None):
        return "it needs gradients, and is causal at the upper left with a window"
    if any(x.dim() != 4 for x in (q, k, v)) or not _has_types(q, k, v):
        return None  # an error, which the kernel tells
    seqlen = 1 if layout == "bshd" else 2
    return _reason_against_tensors(q, k, v, seqlen) or _reason_against_sizes(
        q.shape[seqlen], k.shape[seqlen], causal, window
    )


def _has_types(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    return q.dtype == k.dtype == v.dtype and q.dtype in (torch.float16, torch.bfloat16)


def _has_kernel(head_dim: int) -> bool:
    return head_dim <= _MAX_HEAD_DIM and head_dim % _HEAD_DIM_STEP == 0


def _is_new_enough(device: torch.device) -> bool:
    """A GPU for its kernels."""
    return bool(torch.cuda.get_device_capability(device) >= _OLDEST)


def _reason_against_sizes(
    seqlen_q: int, seqlen_k: int, causal: Optional[str], window: Window
) -> Optional[str]:
    """Its kernels leave a bound out that is as far as there are keys, which rows in front of
    the first key are behind."""
    if seqlen_q <= seqlen_k or (causal is None and window == (None, None)):
        return None
    right = seqlen_q - seqlen_k if causal == "top_left" else 0 if causal else window[1]
    if right is not None and right < seqlen_k:
        return None
    return (
        f"it needs gradients, and has {seqlen_q} queries of {seqlen_k} keys with a mask that "
        "hides no later key from the last of them"
    )


def _reason_against_tensors(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seqlen: int
) -> Optional[str]:
    """seqlen: which axis that is."""
    dims = (q.shape[3], k.shape[3], v.shape[3])
    if dims != (dims[0],) * 3:
        return "it needs gradients, and its head_dim and head_dim_v differ"
    if not _has_kernel(dims[0]):
        return (
            f"it needs gradients, and its head_dim is {dims[0]}, and no multiple of "
            f"{_HEAD_DIM_STEP} up to {_MAX_HEAD_DIM}"
        )
    if q.shape[0] == 0 or q.shape[seqlen] == 0 or k.shape[seqlen] == 0:
        return "it needs gradients, and has no queries or no keys"
    if q.device.type == "cuda":
        if not _is_new_enough(q.device):
            return "it needs gradients, of which PyTorch has no kernel for this GPU"
    elif q.device.type != "cpu":
        return f"it needs gradients on the device {q.device.type}"
    return None


def takes_sequences(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Optional[str],
    window: Window,
    softcap: Optional[float],
    dropout_p: float = 0.0,
) -> bool:
    """Whether sequences back to back have PyTorch's backward pass; (..., head_dim) tensors.

    Lengths are not read on the host, so a bound that its kernels may leave out is none of
    theirs, and on the CPU there is no such kernel.
    """
    left, right = window
    is_on_gpu = q.device.type == "cuda" and _is_new_enough(q.device)
    has_bounds = causal == "bottom_right" or (causal is None and (left is None or right is not None))
    return (
        is_on_gpu
        and has_bounds
        and _has_types(q, k, v)
        and softcap is None
        and not dropout_p
        and q.shape[-1] == k.shape[-1] == v.shape[-1]
        and _has_kernel(q.shape[-1])
        and not torch.compiler.is_compiling()
    )


# The backward pass ----------------------------------------------------------


class _Pass(NamedTuple):
    """What the backward pass reads: the gradient of o, and what the forward pass had and left."""

    gradient: torch.Tensor
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor
    lse: torch.Tensor
    causal: Optional[str]
    window: Window
    scale: Optional[float]

    def transposed(self) -> "_Pass":
        """With heads and rows the other way round, but for lse."""
        rows = {name: getattr(self, name).transpose(1, 2) for name in ("gradient", *"qkvo")}
        return self._replace(**rows)


def _gradients_of(given: _Pass, layout: str) -> Tuple[torch.Tensor, ...]:
    """Of q, k and v, in ``layout``, as tensors of ``given`` are but lse: (batch, heads_q, seqlen_q)."""
    seqlen = 1 if layout == "bshd" else 2
    if given.q.shape[seqlen] > given.k.shape[seqlen]:
        given = given._replace(lse=_without_empty_rows(given.lse))
    is_on_gpu = given.q.device.type == "cuda"
    is_other = is_on_gpu == (layout == "bhsd")  # GPUs take (batch, seqlen, heads, head_dim)
    if is_other:
        given = given.transposed()
    results = _on_gpu(given) if is_on_gpu else _on_cpu(given)
    return tuple(x.transpose(1, 2) for x in results) if is_other else results


def _without_empty_rows(lse: torch.Tensor) -> torch.Tensor:
    """+inf for a row that sees no key: PyTorch's weights are exp(score - lse)."""
    return torch.where(lse == -math.inf, math.inf, lse)


def _on_gpu(given: _Pass) -> Tuple[torch.Tensor, ...]:
    """Of tensors of (batch, seqlen, heads, head_dim). Its masks end at the lower right."""
    gradient, q, k, v, o, lse, causal, (left, right), scale = given
    seqlen_q, seqlen_k = q.shape[1], k.shape[1]
    unseen = 0
    if causal == "top_left" and seqlen_q > seqlen_k:
        causal, right = None, seqlen_q - seqlen_k
    elif causal == "top_left" and seqlen_q < seqlen_k:
        unseen = seqlen_k - seqlen_q
        k, v = k[:, :seqlen_q], v[:, :seqlen_q]
    state = _no_random_numbers(q)
    results = torch.ops.aten._flash_attention_backward(
        gradient, q, k, v, o, lse, None, None, seqlen_q, k.shape[1], 0.0, causal is not None,
        state, state, scale=scale, window_size_left=left, window_size_right=right,
    )  # fmt: skip
    of_q, of_k, of_v = results
    if unseen:
        of_k, of_v = (torch.nn.functional.pad(x, (0, 0, 0, 0, 0, unseen)) for x in (of_k, of_v))
    return of_q, of_k, of_v


def _no_random_numbers(q: torch.Tensor) -> torch.Tensor:
    """Seed and offset of a dropout, of which there is none: nobody reads them."""
    return torch.empty(2, dtype=torch.uint64, device=q.device)


def _on_cpu(given: _Pass) -> Tuple[torch.Tensor, ...]:
    """Of tensors of (batch, heads, seqlen, head_dim)."""
    gradient, q, k, v, o, lse, causal, window, scale = given
    groups = q.shape[1] // k.shape[1]
    each_k, each_v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    of_q, of_k, of_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        gradient.contiguous(), q, each_k, each_v, o, lse, 0.0, False,
        attn_mask=additive_mask(q, k, causal, window), scale=scale,
    )  # fmt: skip
    # In the type of the sums of one head.
    of_k, of_v = (
        x.float().unflatten(1, (k.shape[1], groups)).sum(2).to(x.dtype) for x in (of_k, of_v)
    )
    return of_q, of_k, of_v


# Eager calls ----------------------------------------------------------------


class _Attention(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """``attend``(q, k, v) gives o and lse. Faster than an operator's gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        attend: "Callable[..., Tuple[torch.Tensor, torch.Tensor]]",
        options: Any,
    ) -> torch.Tensor:
        o, lse = attend(q, k, v)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.options = options
        return o

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Any, ...]:
        options = dict(ctx.options)
        layout = options.pop("layout")
        return (*_gradients_of(_Pass(gradient, *ctx.saved_tensors, **options), layout), None, None)


def attention(
    attend: "Callable[..., Tuple[torch.Tensor, torch.Tensor]]",
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    **options: Any,
) -> torch.Tensor:
    """o of an eager call, with gradients.

    attend: gives o and lse of q, k and v, without gradients.
    options: causal, window, scale and layout, as ``attend`` has them.
    """
    o: torch.Tensor = _Attention.apply(q, k, v, attend, options)
    return o


class _Sequences(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """The same of sequences back to back, of tensors of (1, rows, heads, head_dim)."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        of_q: torch.Tensor,
        of_k: torch.Tensor,
        attend: "Callable[..., Tuple[torch.Tensor, torch.Tensor]]",
        options: Any,
    ) -> torch.Tensor:
        o, lse = attend(q, k, v)
        ctx.save_for_backward(q, k, v, o, lse, of_q, of_k)
        ctx.options = options
        return o

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Any, ...]:
        q, k, v, o, lse, of_q, of_k = ctx.saved_tensors
        left, right = ctx.options["window"]
        gradient, q, k, v, o = (x[0] for x in (gradient, q, k, v, o))
        # Of (heads, rows); what no sequence has was not written.
        lse = torch.where(lse[0].isfinite(), lse[0], math.inf)
        state = _no_random_numbers(q)
        results = torch.ops.aten._flash_attention_backward(
            gradient.contiguous(), q, k, v, o, lse, of_q, of_k, q.shape[0], k.shape[0], 0.0,
            ctx.options["causal"] is not None, state, state, scale=ctx.options["scale"],
            window_size_left=left, window_size_right=right,
        )  # fmt: skip
        return (*(x[None] for x in results), None, None, None, None)


def sequences(
    attend: "Callable[..., Tuple[torch.Tensor, torch.Tensor]]",
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    layout: str,
    **options: Any,
) -> torch.Tensor:
    """o of sequences back to back, with gradients, where :func:`takes_sequences` says so.

    attend: gives o and lse of q, k and v of (1, rows, heads, head_dim), without gradients.
    options: causal, window and scale, as ``attend`` has them.
    """
    if layout == "bhsd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    o: torch.Tensor = _Sequences.apply(q, k, v, cu_seqlens_q, cu_seqlens_k, attend, options)
    return o.transpose(1, 2) if layout == "bhsd" else o


# Operators ------------------------------------------------------------------


def _save(ctx: Any, inputs: Sequence[Any], keyword_only_inputs: Any, output: Any) -> None:
    """What the backward pass of ``flashcore::attention_lse``, or of that without, reads."""
    ctx.set_materialize_grads(False)
    q, k, v, bias = inputs
    o, lse = output if isinstance(output, tuple) else (output, None)
    ctx.save_for_backward(q, k, v, o, lse)
    ctx.has_bias = bias is not None
    ctx.options = dict(keyword_only_inputs)


def _backward(ctx: Any, gradient: Any, of_lse: Any = None) -> Tuple[Any, ...]:
    q, k, v, o, lse = ctx.saved_tensors
    options = ctx.options
    window = (options["window_left"], options["window_right"])
    reason = reason_against(
        q, k, v, causal=options["causal"], window=window, softcap=options["softcap"],
        bias=q if ctx.has_bias else None, lse=of_lse is not None, layout=options["layout"],
    )  # fmt: skip
    if reason is not None:
        gradients.refuse("torch.ops.flashcore.attention", reason)
    if gradient is None:
        return None, None, None, None
    if lse is None:
        _, lse = torch.ops.flashcore.attention_lse(q, k, v, **options)
    given = _Pass(gradient, q, k, v, o, lse, options["causal"], window, options["scale"])
    results = _gradients_of(given, options["layout"])
    return (*results, None)


def register(name: str, library: Any) -> None:
    """Lets the operator ``flashcore::NAME`` have gradients."""
    torch.library.register_autograd(
        f"flashcore::{name}", _backward, setup_context=_save, lib=library
    )
