"""``flashcore.attention`` as operators of PyTorch.

``torch.compile``, ``torch.export`` and fake tensors see the operators
``flashcore::attention`` and ``flashcore::attention_lse``, and for calls with clauses or
functions ``flashcore::attention_with``, or ``flashcore::attention_append`` where rows of k and
v are written. Sizes are never among their arguments, so that they trace with dynamic shapes.
Eager calls on plain tensors do not go through them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import torch

from flashcore.errors import UnsupportedError
from flashcore.kinds import expect_one_of, read
from flashcore.operands import CLAUSES, NEW_ROWS
from flashcore.operators import batching, flops, gradients, training
from flashcore.operators.fallback import attention_by_torch, warn_once
from flashcore.options import (
    DEVICES, LAYOUTS, STAGES, Mods, Options, make_options, read_block_size, read_causal, read_window,
    without_gradients,
)  # fmt: skip
from flashcore.problem import schedule_of
from flashcore.resolve import call_for, check_tensors, join_results

__all__ = ["appends", "as_tensors", "attention", "attention_with", "constant_options", "expect_traceable"]

_OPTIONS = (
    "str? causal=None, int? window_left=None, int? window_right=None, float? softcap=None, "
    "float? scale=None, str layout='bhsd', str memory='bhsd', str schedule='', "
    "str? device=None, bool static=False"
)
_ARGUMENTS = f"(Tensor q, Tensor k, Tensor v, Tensor? bias=None, *, {_OPTIONS})"
#: What beside is, :mod:`flashcore.beside` says; captures are fields of a CaptureKind as text.
_MORE_OPTIONS = (
    f"bool lse, str[] regions, str[] captures, {_OPTIONS}, str? scores=None, float dropout_p=0.0, "
    "bool rotary_interleaved=False, bool? has_few_queries=None, int[]? block_size=None"
)
#: Results that nobody asked for have no element.
_ALL_RESULTS = "(Tensor o, Tensor lse, Tensor scores)"
_library: Any = torch.library.Library("flashcore", "DEF")
_tags = (torch.Tag.pt2_compliant_tag,)
_library.define(f"attention{_ARGUMENTS} -> Tensor", tags=_tags)
_library.define(f"attention_lse{_ARGUMENTS} -> (Tensor o, Tensor lse)", tags=_tags)
for _name, _caches in (
    ("attention_with", "Tensor k, Tensor v"),
    ("attention_append", "Tensor(a!) k, Tensor(b!) v"),
):
    _library.define(
        f"{_name}(Tensor q, {_caches}, Tensor? bias, Tensor?[] beside, *, {_MORE_OPTIONS}) "
        f"-> {_ALL_RESULTS}",
        tags=_tags,
    )


#: What the operators are told beside tensors, by the names of their arguments. A dict, which
#: every version of PyTorch traces.
_Asked = Dict[str, Any]


def _asked(
    *,
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
) -> _Asked:
    return {
        "causal": causal, "window_left": window_left, "window_right": window_right,
        "softcap": softcap, "scale": scale, "layout": layout, "memory": memory,
        "schedule": schedule, "device": device, "static": static,
    }  # fmt: skip


def _window_of(asked: _Asked) -> training.Window:
    return asked["window_left"], asked["window_right"]


def _reason_against_training(
    asked: _Asked,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    lse: bool,
) -> Optional[str]:
    """Why PyTorch computes the whole of a call; None if only its backward pass does."""
    return training.reason_against(
        q, k, v, causal=asked["causal"], window=_window_of(asked), softcap=asked["softcap"],
        bias=bias, lse=lse, layout=asked["layout"],
    )  # fmt: skip


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
    is_traced: bool = True,
) -> Any:
    """``flashcore.attention`` by its operator, which the tracers of PyTorch see.

    The arguments are those of ``flashcore.attention``, but for ``out`` and
    ``stream``, which a traced call may not have (UnsupportedError).

    is_traced: False for an eager call that needs gradients, which no operator is for.
    """
    expect_traceable(out, stream)
    where = read_causal(causal)
    left, right = read_window(window)
    softcap, scale = read("softcap", softcap), read("scale", scale)
    lse, static = read("lse", lse), read("static", static)
    layout = expect_one_of("layout", layout, LAYOUTS)
    device = expect_one_of("device", device, DEVICES)
    asked = _asked(
        causal=where, window_left=left, window_right=right, softcap=softcap, scale=scale,
        layout=layout, memory=_memory(q, layout), schedule=_schedule_words(schedule),
        device=device, static=static,
    )  # fmt: skip
    # What is exported has no gradient in it, whatever the parameters say.
    if gradients.needs_gradient(q, k, v, bias) and not gradients.is_exporting():
        return _with_gradients(q, k, v, bias, lse, asked, is_traced)
    operator = torch.ops.flashcore.attention_lse if lse else torch.ops.flashcore.attention
    return operator(q, k, v, bias, **asked)


def expect_traceable(out: Any, stream: Any) -> None:
    """Raises UnsupportedError for arguments that no operator has."""
    if out is not None or stream is not None:
        raise UnsupportedError(
            "expects neither out nor stream in a call that PyTorch traces, but got one: copy the "
            "result, or call it in the stream"
        )


def attention_with(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    beside: Sequence[Optional[torch.Tensor]],
    *,
    causal: Union[bool, str],
    window: Any,
    softcap: Optional[float],
    scale: Optional[float],
    lse: bool,
    layout: str,
    schedule: Any,
    device: Optional[str],
    static: bool,
    scores: Optional[str],
    dropout_p: float,
    rotary_interleaved: bool,
    has_few_queries: Optional[bool],
    block_size: Any,
    mods: Optional[Mods],
) -> Any:
    """``flashcore.attention`` with clauses or functions, by its operator.

    beside: as ``_core.Call.run`` has it.
    mods: what functions are to a kernel.

    Returns what ``flashcore.attention`` does.
    """
    left, right = read_window(window)
    lse, scores = read("lse", lse), expect_one_of("scores", scores, (None, *STAGES))
    layout = expect_one_of("layout", layout, LAYOUTS)
    regions, kinds = mods or ((), ())
    operator = (
        torch.ops.flashcore.attention_append if appends(beside) else torch.ops.flashcore.attention_with
    )
    o, of_lse, of_scores = operator(
        q, k, v, bias, list(beside), lse=lse, causal=read_causal(causal), window_left=left,
        window_right=right, softcap=read("softcap", softcap), scale=read("scale", scale),
        layout=layout, memory=_memory(q, layout), schedule=_schedule_words(schedule),
        device=expect_one_of("device", device, DEVICES), static=read("static", static),
        scores=scores, dropout_p=read("dropout_p", dropout_p),
        rotary_interleaved=read("rotary_interleaved", rotary_interleaved),
        has_few_queries=has_few_queries,
        block_size=None if block_size is None else list(read_block_size(block_size)),
        regions=list(regions), captures=[_text_of(kind) for kind in kinds],
    )  # fmt: skip
    return join_results(o, of_lse if lse else None, of_scores if scores else None)


#: Of the tensors beside the others, that whose rows are written to k.
_APPENDED = tuple(CLAUSES).index(NEW_ROWS[0])


def as_tensors(beside: Sequence[Any], q: torch.Tensor) -> Tuple[Any, ...]:
    """Arrays of NumPy that functions read as tensors where q lies: operators have no others."""
    return tuple(
        [
            x if x is None or isinstance(x, torch.Tensor) else torch.as_tensor(x, device=q.device)
            for x in beside
        ]
    )


def appends(beside: Sequence[Optional[torch.Tensor]]) -> bool:
    """Whether rows of k and v are written, which may be no copies then."""
    return beside[_APPENDED] is not None


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def constant_options(options: Tuple[Any, ...]) -> Options:
    """The arguments of ``make_options``, which torch.compile sees as numbers and text."""
    return make_options(*options)


def _text_of(kind: Tuple[Any, ...]) -> str:
    """The fields of a CaptureKind, as an operator takes them."""
    dtype, rank, converted, is_backwards = kind
    return f"{dtype} {rank} {converted or '-'} {int(is_backwards)}"


def _kind_of(text: str) -> Tuple[Any, ...]:
    dtype, rank, converted, is_backwards = text.split()
    return dtype, int(rank), None if converted == "-" else converted, is_backwards == "1"


def train(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: Union[bool, str] = False,
    scale: Optional[float] = None,
    bias: Optional[torch.Tensor] = None,
    is_traced: bool,
) -> torch.Tensor:
    """A call that needs gradients, with PyTorch's backward pass, whatever ``set_on_grad`` says.

    Raises UnsupportedError where PyTorch has none for it.
    """
    asked = _asked(causal=read_causal(causal), scale=scale, memory=_memory(q, "bhsd"))
    reason = _reason_against_training(asked, q, k, v, bias, lse=False)
    if reason is not None:
        raise UnsupportedError(reason)
    return _train(q, k, v, asked, is_traced)


def _with_gradients(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    lse: bool,
    asked: _Asked,
    is_traced: bool,
) -> Any:
    """A call that needs gradients, as ``set_on_grad`` says."""
    reason: Optional[str] = "it needs gradients"
    if gradients.on_grad() == "error":
        gradients.refuse("flashcore.attention")
    if gradients.on_grad() == "backward":
        reason = _reason_against_training(asked, q, k, v, bias, lse)
    if reason is None:
        return _train(q, k, v, asked, is_traced)
    if not is_traced:
        options = make_options(
            asked["causal"] or False, _window_of(asked), asked["softcap"], asked["scale"], lse,
            asked["layout"],
        )  # fmt: skip
        check_tensors(options, q, k, v, bias, None)
    warn_once(reason)
    return attention_by_torch(
        q, k, v, causal=asked["causal"], window=_window_of(asked), softcap=asked["softcap"],
        scale=asked["scale"], bias=bias, lse=lse, layout=asked["layout"],
    )  # fmt: skip


def _train(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, asked: _Asked, is_traced: bool
) -> torch.Tensor:
    """By the kernel, which leaves the log-sum-exp for PyTorch's backward pass."""
    o: torch.Tensor
    if is_traced:
        o, _ = torch.ops.flashcore.attention_lse(q, k, v, None, **asked)
        return o

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return _run(q, k, v, lse=True, **asked)

    return training.attention(
        attend, q, k, v, causal=asked["causal"], window=_window_of(asked), scale=asked["scale"],
        layout=asked["layout"],
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
    causal: Optional[str] = None,
    window_left: Optional[int] = None,
    window_right: Optional[int] = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    layout: str = "bhsd",
    schedule: str = "",
    device: Optional[str] = None,
    static: bool = False,
    scores: Optional[str] = None,
    dropout_p: float = 0.0,
    rotary_interleaved: bool = False,
    has_few_queries: Optional[bool] = None,
    block_size: Optional[Tuple[int, ...]] = None,
    regions: Tuple[str, ...] = (),
    captures: Tuple[str, ...] = (),
) -> Any:
    pairs = [word.partition("=")[::2] for word in schedule.split()]
    kinds = tuple(_kind_of(text) for text in captures)
    options = make_options(
        causal or False, (window_left, window_right), softcap, scale, lse, layout, pairs or None,
        device, static, False, scores, dropout_p, rotary_interleaved, has_few_queries, block_size,
        (regions, kinds),
    )  # fmt: skip
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


def _run_with(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    beside: Sequence[Optional[torch.Tensor]],
    *,
    lse: bool,
    regions: Sequence[str],
    captures: Sequence[str],
    layout: str = "bhsd",
    memory: str = "bhsd",
    scores: Optional[str] = None,
    block_size: Optional[Sequence[int]] = None,
    **options: Any,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    call = _call(
        lse, layout=layout, scores=scores,
        block_size=None if block_size is None else tuple(block_size), regions=tuple(regions),
        captures=tuple(captures), **options,
    )  # fmt: skip
    expected = _new_o(q, v, layout, memory)
    if scores is None:
        result = call.run(q, k, v, bias, expected, None, tuple(beside))
        o, of_lse = result if lse else (result, _no_result(q))
        return o, of_lse, _no_result(q)
    o, *others = call.run(q, k, v, bias, None, None, tuple(beside))
    if o.stride() != expected.stride():
        o = expected.copy_(o)
    return o, others[0] if lse else _no_result(q), others[-1]


def _no_result(q: torch.Tensor) -> torch.Tensor:
    return q.new_empty((0,), dtype=torch.float32)


def _fake_with(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    beside: Sequence[Optional[torch.Tensor]],
    *,
    lse: bool,
    layout: str = "bhsd",
    memory: str = "bhsd",
    scores: Optional[str] = None,
    **options: Any,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _check(q, k, v, layout)
    rows = _lse_shape(q, layout)
    keys = k.shape[1 if layout == "bshd" else 2]
    return (
        _new_o(q, v, layout, memory),
        q.new_empty(rows, dtype=torch.float32) if lse else _no_result(q),
        q.new_empty((*rows, keys), dtype=torch.float32) if scores else _no_result(q),
    )


def _no_gradient(ctx: Any, *gradients_of_results: Any) -> Any:
    gradients.refuse("torch.ops.flashcore.attention_with")


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


def _register() -> None:
    implementations: Sequence[Tuple[str, Any, Any]] = (
        ("attention", _attention, _fake_attention),
        ("attention_lse", _attention_lse, _fake_attention_lse),
    )
    for name, run, fake in implementations:
        for key in ("CPU", "CUDA"):
            _library.impl(name, run, key)
        torch.library.register_fake(f"flashcore::{name}", fake, lib=_library)
        training.register(name, _library)
        batching.register_folded(name, _library)
    for name in ("attention_with", "attention_append"):
        for key in ("CPU", "CUDA"):
            _library.impl(name, _run_with, key)
        torch.library.register_fake(f"flashcore::{name}", _fake_with, lib=_library)
        batching.register_looped(name, _library)
    torch.library.register_autograd("flashcore::attention_with", _no_gradient, lib=_library)
    flops.register()


_register()
