"""``flashcore.merge``: the attention to all keys, from those to parts of them."""

from __future__ import annotations

import sys
from typing import Any, Literal, Optional, Sequence, Tuple, TypeVar, get_args, overload

from flashcore.arrays import run_on_stream
from flashcore.kinds import describe, expect_one_of
from flashcore.merge_kernel import check, parts_of, run, run_seen, see
from flashcore.operands import SINKS
from flashcore.options import LAYOUTS, Layout

__all__ = ["merge"]

#: Of one library.
Array = TypeVar("Array")
_Device = Literal["cuda", "emulator"]


@overload
def merge(
    outputs: Sequence[Array], lses: Sequence[Array], *, sinks: Optional[Array] = ...,
    layout: Layout = ..., stream: Any = ..., device: Optional[_Device] = ...,
) -> Tuple[Array, Array]: ...  # fmt: skip


@overload
def merge(
    outputs: Array, lses: Array, *, sinks: Optional[Array] = ..., layout: Layout = ...,
    stream: Any = ..., device: Optional[_Device] = ...,
) -> Tuple[Array, Array]: ...  # fmt: skip


def merge(
    outputs: Any,
    lses: Any,
    *,
    sinks: Any = None,
    layout: Layout = "bhsd",
    stream: Any = None,
    device: Optional[_Device] = None,
) -> Any:
    """The attention to all keys, from those to disjoint parts of them.

    ``flashcore.attention(..., lse=True)`` of each part gives o and lse; this is o and lse
    of all of them: lse = log(sum of exp(lse of each)), o = sum of exp(lse of each - lse)
    times the o of each. Parts may be chunks of a long sequence on several devices, a
    prefix that many sequences share and what follows it, or keys that change and that
    do not. On a GPU the call is asynchronous and may be captured into a CUDA graph.

    outputs: the o of each part, of float16, bfloat16 or float32: arrays of (batch, heads,
        seqlen_q, head_dim_v), or one array of all with an axis in front, (parts, ...),
        which is not copied.
    lses: the lse of each part, natural logarithms of float32: arrays of (batch, heads,
        seqlen_q), or one array with an axis in front. -inf is a row that saw no key of
        the part; its o must be finite, as the zeros of ``flashcore.attention`` are.
    sinks: float32 (heads): a logit of each head without a value, that no part has counted.
    layout: "bhsd", or "bshd" for outputs and o of (batch, seqlen_q, heads, head_dim_v).
    stream: as that of ``flashcore.attention``.
    device: None: where the arrays are. For arrays in host memory also "cuda" (copied
        there and back) or "emulator".

    Returns (o, lse): o as one of the outputs, of their type, and lse, float32 (batch,
    heads, seqlen_q). A row that saw no key has an o of 0, and an lse of -inf or its
    sink. Sums are in float32, in one order: equal calls give equal bits.

    Raises ValueError and TypeError for arrays that do not fit, UnsupportedError for those
    of other libraries, and what else flashcore.attention raises. Where a gradient is needed,
    PyTorch computes the call, as ``flashcore.torch.set_on_grad`` says.
    """
    is_whole = stream is None and not isinstance(outputs, (list, tuple))
    if is_whole and not _is_traced(outputs):
        known = run_seen(layout, device, outputs, lses, sinks)
        if known is not NotImplemented:
            return known
    expect_one_of("layout", layout, LAYOUTS)
    expect_one_of("device", device, (None, *get_args(_Device)))
    first, *others = parts_of("outputs", outputs)
    for name, parts in (("outputs", (first, *others)), ("lses", parts_of("lses", lses))):
        for part in parts:
            if _is_of_python(part):
                raise TypeError(f"expects {name} to be arrays, but got {describe(part)}")
    if sinks is not None and _is_of_python(sinks):
        raise TypeError(f"expects {SINKS} to be an array or None, but got {describe(sinks)}")
    if "torch" in sys.modules:
        every = (first, *others, *parts_of("lses", lses), sinks)
        if any(_is_traced(tensor) for tensor in every):
            from flashcore.operators import merging

            return merging.merge(outputs, lses, sinks, layout=layout, device=device, stream=stream)
        if _needs_gradients(every):
            from flashcore.operators import merging

            check(outputs, lses, sinks, layout)
            return merging.with_gradients(outputs, lses, sinks, layout=layout)

    if stream is None:
        result = run(layout, device, outputs, lses, sinks, None)
        if is_whole and not isinstance(lses, (list, tuple)):
            see(layout, device, outputs, lses, sinks)
        return result
    return run_on_stream(
        lambda _, handle: run(layout, device, outputs, lses, sinks, handle), (first,), stream
    )


def _is_traced(tensor: Any) -> bool:
    return "torch" in sys.modules and bool(sys.modules["flashcore.attention"].is_traced(tensor))


def _is_of_python(value: object) -> bool:
    """Whether it is of a type of Python's own, of which none is an array."""
    return type(value).__module__ == "builtins"


def _needs_gradients(tensors: Sequence[Any]) -> bool:
    return any(getattr(x, "requires_grad", False) for x in tensors) and bool(
        sys.modules["torch"].is_grad_enabled()
    )
