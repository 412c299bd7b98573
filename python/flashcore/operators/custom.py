"""``flashcore.attention`` as operators of PyTorch.

``torch.compile``, ``torch.export`` and fake tensors see the operators
``flashcore::attention`` and ``flashcore::attention_lse``. Sizes are never among
their arguments, so that they trace with dynamic shapes. Eager calls on plain
tensors do not go through them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Optional, Sequence, Tuple, Union

import torch

from flashcore.errors import UnsupportedError
from flashcore.kinds import expect_one_of, read
from flashcore.operators import gradients
from flashcore.operators.fallback import attention_by_torch, warn_once
from flashcore.options import (
    DEVICES, LAYOUTS, make_options, read_causal, read_window, without_gradients,
)  # fmt: skip
from flashcore.problem import schedule_of
from flashcore.resolve import call_for

__all__ = ["attention"]

_ARGUMENTS = (
    "(Tensor q, Tensor k, Tensor v, Tensor? bias=None, *, str? causal=None, "
    "int? window_left=None, int? window_right=None, float? softcap=None, float? scale=None, "
    "str layout='bhsd', str memory='bhsd', str schedule='', str? device=None, "
    "bool static=False)"
)
_library: Any = torch.library.Library("flashcore", "DEF")
_tags = (torch.Tag.pt2_compliant_tag,)
_library.define(f"attention{_ARGUMENTS} -> Tensor", tags=_tags)
_library.define(f"attention_lse{_ARGUMENTS} -> (Tensor o, Tensor lse)", tags=_tags)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Union[bool, str] = False,
    window: Any = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    bias: Optional[torch.Tensor] = None,
    lse: bool = False,
    layout: str = "bhsd",
    out: Any = None,
    stream: Any = None,
    schedule: Any = None,
    device: Optional[str] = None,
    static: bool = False,
) -> Any:
    """``flashcore.attention`` by its operator, which the tracers of PyTorch see.

    The arguments are those of ``flashcore.attention``, but for ``out`` and
    ``stream``, which a traced call may not have (UnsupportedError).
    """
    if out is not None or stream is not None:
        raise UnsupportedError(
            "expects neither out nor stream in a call that PyTorch traces, but got one: copy the "
            "result, or call it in the stream"
        )
    where = read_causal(causal)
    left, right = read_window(window)
    softcap, scale = read("softcap", softcap), read("scale", scale)
    lse, static = read("lse", lse), read("static", static)
    layout = expect_one_of("layout", layout, LAYOUTS)
    device = expect_one_of("device", device, DEVICES)
    # What is exported has no gradient in it, whatever the parameters say.
    if gradients.needs_gradient(q, k, v, bias) and not gradients.is_exporting():
        if gradients.on_grad() == "error":
            gradients.refuse("flashcore.attention")
        return fall_back(q, k, v, causal, window, softcap, scale, bias, lse, layout)
    operator = torch.ops.flashcore.attention_lse if lse else torch.ops.flashcore.attention
    return operator(
        q,
        k,
        v,
        bias,
        causal=where,
        window_left=left,
        window_right=right,
        softcap=softcap,
        scale=scale,
        layout=layout,
        memory=_memory(q, layout),
        schedule=_schedule_words(schedule),
        device=device,
        static=static,
    )


def fall_back(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: Union[bool, str],
    window: Any,
    softcap: Optional[float],
    scale: Optional[float],
    bias: Optional[torch.Tensor],
    lse: bool,
    layout: str,
) -> Any:
    """A call that needs gradients, by PyTorch."""
    warn_once("it needs gradients")
    return attention_by_torch(
        q, k, v, causal=read_causal(causal), window=read_window(window), softcap=softcap,
        scale=scale, bias=bias, lse=lse, layout=layout,
    )  # fmt: skip


def _schedule_words(schedule: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in schedule_of(schedule))


def _memory(q: torch.Tensor, layout: str) -> str:
    """The order of the result in memory: that of q.

    It is an argument of the operators, since the strides of q may differ
    between tracing and running, and those of the result must not.
    """
    if layout == "bshd":
        return "bshd"
    is_transposed = q.shape[1] > 1 and q.shape[2] > 1 and q.stride(2) > q.stride(1)
    return "bshd" if is_transposed else "bhsd"


# Implementations ------------------------------------------------------------


def _new_o(q: torch.Tensor, v: torch.Tensor, layout: str, memory: str) -> torch.Tensor:
    if layout == "bshd" or memory == "bhsd":
        return q.new_empty((*q.shape[:3], v.shape[3]))
    batch, heads, seqlen, _ = q.shape
    return q.new_empty((batch, seqlen, heads, v.shape[3])).transpose(1, 2)


def _lse_shape(q: torch.Tensor, layout: str) -> Tuple[int, int, int]:
    """(batch, heads, seqlen_q) in either layout."""
    if layout == "bshd":
        return q.shape[0], q.shape[2], q.shape[1]
    return q.shape[0], q.shape[1], q.shape[2]


@lru_cache(maxsize=1024)
def _call(
    lse: bool,
    causal: Optional[str],
    window_left: Optional[int],
    window_right: Optional[int],
    softcap: Optional[float],
    scale: Optional[float],
    layout: str,
    schedule: str,
    device: Optional[str],
    static: bool,
) -> Any:
    pairs = [word.partition("=")[::2] for word in schedule.split()]
    options = make_options(
        causal or False,
        (window_left, window_right),
        softcap,
        scale,
        lse,
        layout,
        pairs or None,
        device,
        static,
    )
    return call_for(without_gradients(options))


def _run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor] = None,
    *,
    lse: bool,
    causal: Optional[str] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    layout: str = "bhsd",
    memory: str = "bhsd",
    schedule: str = "",
    device: Optional[str] = None,
    static: bool = False,
) -> Any:
    call = _call(
        lse, causal, window_left, window_right, softcap, scale, layout, schedule, device, static,
    )  # fmt: skip
    return call.run(q, k, v, bias, _new_o(q, v, layout, memory), None)


def _attention(q: Any, k: Any, v: Any, bias: Any = None, **options: Any) -> torch.Tensor:
    result: torch.Tensor = _run(q, k, v, bias, lse=False, **options)
    return result


def _attention_lse(
    q: Any, k: Any, v: Any, bias: Any = None, **options: Any
) -> Tuple[torch.Tensor, torch.Tensor]:
    o, lse = _run(q, k, v, bias, lse=True, **options)
    return o, lse


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layout: str) -> None:
    """What a wrong trace would hide; a run checks the rest."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        _check_tensor(name, tensor, q.dtype)
    torch._check(
        q.shape[3] == k.shape[3],
        lambda: f"expects head_dim of k to be {q.shape[3]}, but got {k.shape[3]}",
    )
    seqlen = 1 if layout == "bshd" else 2
    torch._check(
        k.shape[seqlen] == v.shape[seqlen],
        lambda: f"expects seqlen of v to be {k.shape[seqlen]}, but got {v.shape[seqlen]}",
    )


def _check_tensor(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    torch._check(
        tensor.dim() == 4, lambda: f"expects {name} to have 4 axes, but got {tensor.dim()}"
    )
    torch._check(
        tensor.dtype in (torch.float16, torch.bfloat16) and tensor.dtype == dtype,
        lambda: f"expects {name} of float16 or bfloat16 as q, but got {tensor.dtype}",
    )


def _fake_attention(
    q: Any, k: Any, v: Any, bias: Any = None, *, layout: str = "bhsd", memory: str = "bhsd",
    **options: Any,
) -> torch.Tensor:  # fmt: skip
    _check(q, k, v, layout)
    return _new_o(q, v, layout, memory)


def _fake_attention_lse(
    q: Any, k: Any, v: Any, bias: Any = None, *, layout: str = "bhsd", memory: str = "bhsd",
    **options: Any,
) -> Tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    _check(q, k, v, layout)
    lse = q.new_empty(_lse_shape(q, layout), dtype=torch.float32)
    return _new_o(q, v, layout, memory), lse


def _no_backward(context: Any, *gradients_of_outputs: Any) -> None:
    gradients.refuse("torch.ops.flashcore.attention")


def _register() -> None:
    implementations: Sequence[Tuple[str, Any, Any]] = (
        ("attention", _attention, _fake_attention),
        ("attention_lse", _attention_lse, _fake_attention_lse),
    )
    for name, run, fake in implementations:
        for key in ("CPU", "CUDA"):
            _library.impl(name, run, key)
        torch.library.register_fake(f"flashcore::{name}", fake, lib=_library)
        torch.library.register_autograd(f"flashcore::{name}", _no_backward, lib=_library)


_register()
