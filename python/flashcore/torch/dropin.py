"""``torch.nn.functional.scaled_dot_product_attention`` by FlashCore."""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from flashcore import _core
from flashcore.attention import attention
from flashcore.errors import UnsupportedError
from flashcore.kinds import read
from flashcore.operators import gradients
from flashcore.operators.custom import train
from flashcore.operators.fallback import original_sdpa, warn_once
from flashcore.options import Causal, is_scale, is_share, make_options
from flashcore.resolve import resolve
from flashcore.torch.dropout import dropout_options

__all__ = ["scaled_dot_product_attention"]

#: `flashcore.attention` is the function; the module changes what its is_traced is.
attention_module = sys.modules["flashcore.attention"]

_MAX_HEAD_DIM = 256
_TYPES = (torch.float16, torch.bfloat16)
#: Those that the operators take. Others, such as DTensor, have rules of their own.
_KINDS = (torch.Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Attention with the signature and meaning of PyTorch's function.

    query: (..., heads_q, seqlen_q, head_dim), of float16 or bfloat16, or of
        float32 under autocast. At least 2 axes.
    key: (..., heads_kv, seqlen_k, head_dim).
    value: (..., heads_kv, seqlen_k, head_dim_v).
    attn_mask: broadcastable to (..., heads_q, seqlen_q, seqlen_k). Boolean: True
        keeps a key. Of a floating type: added to the scores, -inf hides a key.
        A query all of whose keys are hidden gives 0, as in PyTorch from 2.5 on.
    dropout_p: the probability that an element of the softmax is dropped, drawn with
        PyTorch's generator of the device; other elements than PyTorch drops.
    is_causal: the first query sees the first key only (the mask is aligned to the
        upper left, as in PyTorch, and unlike ``flashcore.attention(causal=True)``
        if seqlen_q and seqlen_k differ).
    scale: of query key^T; 1 / sqrt(head_dim) by default.
    enable_gqa: heads_q may be a multiple of heads_kv.

    Returns (..., heads_q, seqlen_q, head_dim_v).

    What FlashCore does not take (float32, head_dim over 256, dropout under
    torch.compile or where gradients are needed, ...) goes to PyTorch, with one
    FallbackWarning for each reason. Gradients are those of PyTorch's backward pass on
    what the kernel leaves, and with a mask those of PyTorch's function as a whole;
    ``flashcore.torch.set_on_grad`` chooses. Tensors in host memory run on the
    emulator. Which backends ``torch.nn.attention.sdpa_kernel`` allows plays no role.
    """
    return run(
        original_sdpa, True, gradients.on_grad(),
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
    )  # fmt: skip


def run(
    fallback: Callable[..., torch.Tensor],
    emulate: bool,
    on_grad: str,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor],
    dropout_p: float,
    is_causal: bool,
    scale: Optional[float],
    enable_gqa: bool,
) -> torch.Tensor:
    """:func:`scaled_dot_product_attention`, with what it falls back to.

    emulate: whether tensors in host memory run on the emulator.
    """
    is_usual = _is_usual(query, attn_mask, dropout_p)
    if is_usual:
        options = is_causal, scale, enable_gqa, emulate, *_UNUSED
        bias = None if attn_mask is None else _bias(attn_mask, query.dtype)
        known = _seen.run_seen(query, key, value, bias, None, None, None, *options)
        if known is not NotImplemented:
            o: torch.Tensor = known
            return o
    dropout_p, scale = read("dropout_p", dropout_p), read("scale", scale)
    is_causal, enable_gqa = read("is_causal", is_causal), read("enable_gqa", enable_gqa)
    is_training = False
    reason = _reason_against(
        emulate, query, key, value, attn_mask, is_causal, scale, enable_gqa
    )
    if reason is None and dropout_p:
        reason = _reason_against_dropout(dropout_p, query, key, value, attn_mask)
    if reason is None and gradients.needs_gradient(query, key, value, attn_mask):
        is_training = not gradients.is_exporting()
        if is_training and on_grad == "error":
            gradients.refuse("flashcore.torch.scaled_dot_product_attention")
        if is_training and on_grad == "fallback":
            reason = "it needs gradients"
    if reason is None:
        try:
            result = _run(query, key, value, attn_mask, dropout_p, is_causal, scale, is_training)
            has_batches = query.dim() == 4 and query.shape[0] == key.shape[0] == value.shape[0]
            if is_usual and has_batches:  # which go to the kernel as they are
                _seen.see(query, key, value, bias, None, None, None, *options)
            return result
        except UnsupportedError as error:
            reason = str(error)
    result = fallback(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
    warn_once(reason)
    return result


# Calls that were taken before -----------------------------------------------


def _make_call(is_causal: Any, scale: Any, *others: Any) -> "_core.Call":
    options = make_options("top_left" if is_causal else False, scale=scale)
    return _core.make_call(partial(resolve, options), True, (), "q")


#: All that the checks of a call look at is what these tell calls apart by. They take longer
#: than a kernel of a short sequence, and models repeat calls.
_seen = _core.make_calls(_make_call)
#: Options of _core.Calls behind ours.
_UNUSED = (None,) * 12


def _is_usual(query: Any, mask: Any, dropout_p: Any) -> bool:
    """Whether a call may be one that was seen."""
    kind = torch.Tensor
    # PyTorch's default, and what its modules pass in evaluation.
    if type(query) is not kind or type(dropout_p) is not float or dropout_p != 0.0:
        return False
    if mask is not None and (type(mask) is not kind or mask.requires_grad):
        return False
    if mask is not None and (mask.is_nested or mask.layout is not torch.strided):
        return False
    is_seen_by_torch = attention_module.is_traced(query) or attention_module.is_profiled()
    return not is_seen_by_torch and not torch._C._is_any_autocast_enabled()


# What FlashCore takes -------------------------------------------------------


def _reason_against(
    emulate: bool,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    is_causal: bool,
    scale: Optional[float],
    enable_gqa: bool,
) -> Optional[str]:
    """Why FlashCore does not take a call; None if it does.

    PyTorch gets what is wrong by its own rules, too, and raises its own errors.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        reason = _reason_against_tensor(name, tensor, query)
        if reason:
            return reason
    device = query.device.type
    if device != "cuda" and (device != "cpu" or not emulate):
        hint = "; emulate=True runs it on the emulator" if device == "cpu" else ""
        return f"it is on the device {device}{hint}"
    if scale is not None and not is_scale(scale):
        what = "no normal number of float32" if scale > 0 else "not positive"
        return f"its scale {scale} is {what}"
    if attn_mask is not None:
        if type(attn_mask) not in _KINDS:
            return f"attn_mask is a {type(attn_mask).__name__}"
        if is_causal:
            return "it is causal and has a mask"
        if not _is_mask(attn_mask, query):
            return f"attn_mask is of {attn_mask.dtype}, or not where query is"
    return _reason_against_sizes(query, key, value, attn_mask, enable_gqa)


def _reason_against_dropout(
    dropout_p: float, query: torch.Tensor, *others: Optional[torch.Tensor]
) -> Optional[str]:
    """Of a call that FlashCore takes without."""
    if gradients.needs_gradient(query, *others):
        return "it has dropout and needs gradients"
    if not is_share(dropout_p):
        return f"its dropout_p {dropout_p} is not from 2^-17 to below 1 - 2^-17"
    return None


def _reason_against_tensor(name: str, tensor: Any, query: Any) -> Optional[str]:
    if type(tensor) not in _KINDS:
        return f"{name} is a {type(tensor).__name__}"
    if tensor.layout != torch.strided or tensor.is_nested:
        return f"{name} is nested or sparse"
    dtype = _dtype(tensor)
    if dtype not in _TYPES:
        return f"{name} is of {dtype}, and not of float16 or bfloat16"
    if dtype != _dtype(query) or tensor.device != query.device:
        return "query, key and value are of several types or on several devices"
    if tensor.dim() < 2:
        return f"{name} has {tensor.dim()} axes"
    return None


def _dtype(tensor: torch.Tensor) -> torch.dtype:
    """Under autocast attention is computed in its type, as PyTorch's is."""
    device = tensor.device.type
    if tensor.dtype in (torch.float32, *_TYPES) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def _is_mask(mask: torch.Tensor, query: torch.Tensor) -> bool:
    types = (torch.bool, torch.float32, query.dtype, _dtype(query))
    return mask.dtype in types and mask.device == query.device


def _reason_against_sizes(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor],
    enable_gqa: bool,
) -> Optional[str]:
    if not query.dim() == key.dim() == value.dim():
        return "query, key and value differ in their number of axes"
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        return "the sizes of query, key and value do not agree"
    for head_dim in (query.shape[-1], value.shape[-1]):
        if not 0 < head_dim <= _MAX_HEAD_DIM:
            return f"its head_dim is {head_dim}, and not in 1 to {_MAX_HEAD_DIM}"
    if query.dim() > 2 and not _agree_in_heads(query, key, value, enable_gqa):
        return "the heads of query, key and value do not agree"
    for other in (key, value):
        if not _broadcast(query.shape[:-3], other.shape[:-3]):
            return "the batches of query, key and value do not agree"
    if attn_mask is not None:
        scores = (*query.shape[:-1], key.shape[-2])
        if attn_mask.dim() > len(scores) or not _fits(attn_mask.shape, scores):
            return "attn_mask does not broadcast to (..., heads_q, seqlen_q, seqlen_k)"
    return None


def _agree_in_heads(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool
) -> bool:
    heads_q, heads_k, heads_v = query.shape[-3], key.shape[-3], value.shape[-3]
    if enable_gqa:
        return bool(heads_k == heads_v and heads_k > 0 and heads_q % heads_k == 0)
    return bool(heads_k == heads_v and (heads_q == heads_k or heads_k == 1))


def _broadcast(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether sizes broadcast to each other."""
    return all(x == y or x == 1 or y == 1 for x, y in zip(a, b))


def _fits(sizes: Sequence[int], to: Sequence[int]) -> bool:
    """Whether sizes broadcast to others."""
    return all(x == y or x == 1 for x, y in zip(reversed(sizes), reversed(to)))


# Running --------------------------------------------------------------------


def _run(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor],
    dropout_p: float,
    is_causal: bool,
    scale: Optional[float],
    is_training: bool,
) -> torch.Tensor:
    """By the kernel; with ``is_training`` so that PyTorch's backward pass has what it reads.

    Raises UnsupportedError where it does not take that.
    """
    dtype = _dtype(query)
    query, key, value = (_materialize(x).to(dtype) for x in (query, key, value))
    bias = None if attn_mask is None else _bias(_materialize(attn_mask), dtype)
    leading = query.shape[:-3]
    if query.dim() != 4:
        shapes = [tensor.shape[:-3] for tensor in (query, key, value)]
        leading = torch.broadcast_shapes(*shapes)
        if bias is not None and bias.dim() > 4:
            bias = bias.expand(*leading, *bias.shape[-3:]).reshape(-1, *bias.shape[-3:])
        q, k, v = (_flatten(tensor, leading) for tensor in (query, key, value))
    else:
        q, k, v = _expand_batches(query, key, value)
    causal: Causal = "top_left" if is_causal else False
    o: torch.Tensor
    if is_training:
        is_traced = attention_module.is_traced(q)
        o = train(q, k, v, causal=causal, scale=scale, bias=bias, is_traced=is_traced)
    else:
        dropout = dropout_options(dropout_p, q)
        o = attention(q, k, v, causal=causal, scale=scale, bias=bias, **dropout)
    if query.dim() == 4:
        return o
    heads = query.shape[-3:-2]
    return o.reshape(*leading, *heads, *o.shape[-2:])


def _materialize(tensor: torch.Tensor) -> torch.Tensor:
    """With what it holds in memory: negative bits and zeros without memory are taken away."""
    if attention_module.is_traced(tensor):
        return tensor
    return tensor.clone() if tensor.is_neg() or tensor._is_zerotensor() else tensor


def _flatten(tensor: torch.Tensor, leading: Sequence[int]) -> torch.Tensor:
    """As (batch, heads, seqlen, head_dim)."""
    if tensor.dim() == 2:
        return tensor[None, None]
    if tensor.dim() == 3:
        return tensor[None]
    return tensor.expand(*leading, *tensor.shape[-3:]).reshape(-1, *tensor.shape[-3:])


def _expand_batches(
    *tensors: torch.Tensor,
) -> Tuple[torch.Tensor, ...]:
    batch = tensors[0].shape[0]
    if all(tensor.shape[0] == batch for tensor in tensors):
        return tensors
    batch = max(tensor.shape[0] for tensor in tensors)
    return tuple(tensor.expand(batch, *tensor.shape[1:]) for tensor in tensors)


def _bias(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores."""
    mask = _unexpand(mask)
    return additive(mask, dtype) if mask.dtype == torch.bool else mask


def additive(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """0 where a boolean mask keeps a key, and -inf where it hides it."""
    if attention_module.is_traced(mask):
        return torch.where(mask, torch.zeros((), dtype=dtype, device=mask.device), -math.inf)
    numbers = _numbers.get((dtype, mask.device))
    if numbers is None:
        with torch.inference_mode(False):
            kept, hidden = (
                torch.full((), number, dtype=dtype, device=mask.device)
                for number in (0.0, -math.inf)
            )
        numbers = kept, hidden
        if not (mask.is_cuda and torch.cuda.is_current_stream_capturing()):
            _numbers[dtype, mask.device] = numbers
    return torch.where(mask, *numbers)


#: 0 and -inf, which take longer to make than a mask of a short sequence.
_numbers: Dict[Tuple[torch.dtype, torch.device], Tuple[torch.Tensor, torch.Tensor]] = {}


def _unexpand(mask: torch.Tensor) -> torch.Tensor:
    """With size 1 where all elements are one in memory."""
    for axis in range(mask.dim()):
        if mask.shape[axis] > 1 and mask.stride(axis) == 0:
            mask = mask.narrow(axis, 0, 1)
    return mask
