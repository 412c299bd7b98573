"""The kernel of ``flashcore.merge``, and what it is launched with."""

from __future__ import annotations

from functools import partial
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from flashcore import _core, kernels
from flashcore.arrays import (
    CPU, CUDA_HOST, SHORT, Library, contiguous_strides, dense, device_kind, library_of,
    name_of_device,
)  # fmt: skip
from flashcore.errors import Error, UnsupportedError, not_loaded
from flashcore.operands import CLAUSES, SINKS
from flashcore.problem import Merge, row_step

__all__ = ["check", "parts_of", "run", "run_seen", "see"]

Sizes = Tuple[int, ...]

_AXES = {
    "bhsd": "(parts, batch, heads, seqlen_q, head_dim_v)",
    "bshd": "(parts, batch, seqlen_q, heads, head_dim_v)",
}


def parts_of(name: str, parts: Any) -> Sequence[Any]:
    """An argument of merge as a sequence; one array of all parts is one of it."""
    if not isinstance(parts, (list, tuple)):
        return (parts,)
    if not parts:
        raise ValueError(f"expects {name} of one part or more, but got none")
    return parts


def _together(name: str, parts: Any) -> Any:
    """One array of all parts."""
    if not isinstance(parts, (list, tuple)):
        return parts
    library = library_of(parts[0])
    if library is None:
        raise _unknown(name, parts[0])
    _expect_alike(name, parts)
    return library.stack(parts)


def _expect_alike(name: str, parts: Sequence[Any]) -> None:
    views = [_core.view(part, None, f"part {i} of {name}") for i, part in enumerate(parts)]
    if len({(view.rank, view.shape, view.dtype) for view in views}) > 1:
        types = ", ".join(f"{view.dtype} {view.shape}" for view in views)
        raise ValueError(f"expects {name} that are all of one type and one shape, but got {types}")


def _unknown(name: str, array: Any) -> UnsupportedError:
    return UnsupportedError(
        f"expects {name} of PyTorch, NumPy or CuPy in a merge, but got {type(array)}"
    )


# Arguments ------------------------------------------------------------------


class _Sizes(NamedTuple):
    parts: int
    batch: int
    heads_q: int
    seqlen_q: int
    head_dim_v: int

    @property
    def rows(self) -> Sizes:
        return self[1:4]


def _reorder(values: Sequence[int], layout: str) -> Sizes:
    """Between (..., heads, seqlen, dim) and the caller's order, either way."""
    *outer, heads, seqlen, dim = values
    return (*outer, heads, seqlen, dim) if layout == "bhsd" else (*outer, seqlen, heads, dim)


def _check(
    outputs: "_core.View", lses: "_core.View", sinks: "Optional[_core.View]", layout: str
) -> _Sizes:
    """The sizes, which agree."""
    for name, view, kinds, rank in (
        ("outputs", outputs, tuple(SHORT), 5), ("lses", lses, ("float32",), 4),
    ):  # fmt: skip
        if view.dtype not in kinds:
            raise TypeError(f"expects {name} of {' or '.join(kinds)}, but got {view.dtype}")
        if view.rank != rank:
            axes = _AXES[layout] if rank == 5 else "(parts, batch, heads, seqlen_q)"
            raise ValueError(f"expects {name} to have {rank} axes, {axes}, but got {view.rank}")
    sizes = _Sizes(*_reorder(outputs.shape, layout))
    if lses.shape != sizes[:4]:
        raise ValueError(
            f"expects lses of {sizes[:4]}, (parts, batch, heads, seqlen_q) of the outputs, but got "
            f"{lses.shape}"
        )
    if not sizes.parts or not sizes.head_dim_v:
        raise ValueError(
            f"expects outputs of one part and one column or more, but got {outputs.shape}"
        )
    if sinks is not None and (sinks.dtype, sinks.shape) != ("float32", (sizes.heads_q,)):
        raise ValueError(
            f"expects {SINKS} of float32 ({sizes.heads_q},), one a head, but got {sinks.dtype} "
            f"{sinks.shape}"
        )
    for name, other in zip(_BESIDE, (lses, sinks)):
        if other is not None and other.device != outputs.device:
            raise ValueError(
                f"expects {name} where the outputs are, on {name_of_device(outputs.device)}, but "
                f"got them on {name_of_device(other.device)}"
            )
    return sizes


def check(outputs: Any, lses: Any, sinks: Any, layout: str) -> None:
    """Checks a merge of PyTorch's tensors that PyTorch computes, as the kernel's are.

    Nothing is copied: parts are looked at one by one, and the first stands for all.
    """
    shapes = []
    for name, parts in (("outputs", outputs), ("lses", lses)):
        if not isinstance(parts, (list, tuple)):
            shapes.append(parts.detach())
            continue
        first, *_ = parts
        _expect_alike(name, [x.detach() for x in parts])
        shapes.append(first.detach().expand(len(parts), *first.shape))
    of_outputs, of_lses = (_core.view(x, None, name) for x, name in zip(shapes, ("outputs", "lses")))
    of_sinks = None if sinks is None else _core.view(sinks.detach(), None, SINKS)
    _check(of_outputs, of_lses, of_sinks, layout)


_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


def _has_rows(view: "_core.View") -> bool:
    """Whether kernels take outputs as they are: rows of columns side by side, as they move them."""
    bytes_each = _BYTES[view.dtype]
    step = min(row_step(view.shape[-1]), 16 // bytes_each)
    *outer, (columns, stride) = zip(view.shape, view.strides)
    return (
        (columns == 1 or stride == 1)
        and all(size <= 1 or (s >= 0 and s % step == 0) for size, s in outer)
        and view.pointer % (step * bytes_each) == 0
    )


# Kernels --------------------------------------------------------------------


def _plan(
    target: "_core.Device", of_o: Tuple[str, Sizes], specs: Specs, is_capturing: bool
) -> "_core.Plan":
    """A call with these sizes and strides."""
    has_sinks = any(name == _SINK_LOGITS for name, *_ in specs)
    problem = Merge(of_o[1][-1], SHORT[of_o[0]], has_sinks)
    if is_capturing and not kernels.is_loaded(target, problem, ()):
        raise Error(not_loaded("flashcore.merge"))
    return kernels.load(target, problem, ()).module.plan(specs)


# Calls ----------------------------------------------------------------------


def run(
    layout: str, device: Optional[str], outputs: Any, lses: Any, sinks: Any, stream: Optional[int]
) -> Any:
    """o and lse, as ``flashcore.merge`` returns them, in the stream of a handle or that in use."""
    outputs, lses = _together("outputs", outputs), _together("lses", lses)
    if library_of(outputs) is None:
        raise _unknown("outputs", outputs)
    return _calls.run(outputs, None, None, None, None, stream, (lses, sinks), layout, device, *_AS_IT_IS)


def run_seen(layout: Any, device: Any, outputs: Any, lses: Any, sinks: Any) -> Any:
    """The same of a merge that :func:`see` was told of, whose checks need not be made again;
    NotImplemented for others, and where gradients are needed."""
    return _calls.run_seen(outputs, None, None, None, None, None, (lses, sinks), layout, device, *_CHECKED)


def see(layout: Any, device: Any, outputs: Any, lses: Any, sinks: Any) -> None:
    """Remembers a merge that has run."""
    _calls.see(outputs, None, None, None, None, None, (lses, sinks), layout, device, *_CHECKED)


def _make_call(layout: str, device: Optional[str], is_checked: bool, *unused: None) -> "_core.Call":
    resolve = partial(_resolve, layout, device)
    return _core.make_call(resolve, is_checked, _BESIDE, "outputs")


#: By layout, device, and whether all checks of a merge have been made, that for gradients too.
_calls = _core.make_calls(_make_call)
_AS_IT_IS, _CHECKED = ((is_checked, *(None,) * 13) for is_checked in (False, True))
#: The tensors that _core.Call takes beside the first.
_BESIDE = ("lses", SINKS)
_SINK_LOGITS = CLAUSES[SINKS].tensor
#: Which of its tensors are those of a plan: outputs are where an attention has q.
_SOURCES = {"outputs": 0, "o": 4, "lse": 5, "lses": 7, _SINK_LOGITS: 8}


def _resolve(
    layout: str,
    device: Optional[str],
    call: "_core.Call",
    outputs: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    out_lse: Any,
    stream: Any,
    beside: Tuple[Any, Any],
) -> Tuple[Any, int]:
    """What to do for such tensors, again and again, as :func:`flashcore.resolve.resolve`."""
    library = library_of(outputs)
    assert library is not None
    named = zip(("outputs", *_BESIDE), (outputs, *beside))
    views = [None if x is None else _core.view(x, stream, name) for name, x in named]
    assert views[0] is not None and views[1] is not None
    sizes = _check(views[0], views[1], views[2], layout)
    kind = device_kind("outputs", views[0].device, device)
    copied = (
        not _has_rows(views[0]),
        min(views[1].strides) < 0,
        views[2] is not None and views[2].strides != contiguous_strides(views[2].shape),
    )
    if any(copied):
        return partial(_run_copied, call, copied), 0
    if 0 in sizes.rows:
        return partial(_run_empty, library, layout, sizes), 0
    o_shape = _reorder(sizes[1:], layout)
    of_o = views[0].dtype, o_shape
    specs = _specs(layout, views, of_o, sizes.rows)
    if views[0].device[0] in (CPU, CUDA_HOST):
        plan = _plan(kernels.device(kind), of_o, specs, is_capturing=False)
        return partial(_run_on_host, library, plan, of_o, sizes.rows), 0
    target = kernels.device("cuda", views[0].device[1])
    plan = _plan(target, of_o, specs, library.is_capturing())
    launch = _core.make_launch(
        plan,
        library.allocation(outputs, o_shape, contiguous_strides(o_shape), views[0].dtype),
        library.allocation(outputs, sizes.rows, contiguous_strides(sizes.rows), "float32"),
        None,
        None,
        library.current_stream(),
        contiguous_strides(o_shape),
        tuple(_SOURCES[name] for name, *_ in specs),
        True,
    )
    return launch, 0


Specs = Tuple[Tuple[str, int, bool, Sizes, Sizes], ...]


def _specs(
    layout: str,
    views: "Sequence[Optional[_core.View]]",
    of_o: Tuple[str, Sizes],
    rows: Sizes,
) -> Specs:
    """The tensors of a plan, in the kernel's order of axes."""
    dtype, o_shape = of_o
    outputs, lses, logits = views
    assert outputs is not None and lses is not None
    strides = contiguous_strides(o_shape)
    specs: List[Tuple[str, int, bool, Sizes, Sizes]] = [
        (
            "outputs", _BYTES[dtype], False, _reorder(outputs.shape, layout),
            _reorder(outputs.strides, layout),
        ),
        ("lses", 4, False, lses.shape, lses.strides),
    ]  # fmt: skip
    if logits is not None:
        specs.append((_SINK_LOGITS, 4, False, logits.shape, logits.strides))
    specs.append(
        ("o", _BYTES[dtype], True, _reorder(o_shape, layout), _reorder(strides, layout))
    )
    specs.append(("lse", 4, True, rows, contiguous_strides(rows)))
    return tuple(specs)


def _run_copied(
    call: "_core.Call", copied: Tuple[bool, bool, bool], outputs: Any, k: Any, v: Any, bias: Any,
    out: Any, stream: Any, beside: Tuple[Any, Any],
) -> Any:  # fmt: skip
    """With copies of what the kernel does not take as it is."""
    named = zip(("outputs", *_BESIDE), (outputs, *beside), copied)
    outputs, *others = (dense(name, x) if is_copied else x for name, x, is_copied in named)
    return call.run(outputs, None, None, None, None, stream, tuple(others))


def _run_empty(
    library: Library, layout: str, sizes: _Sizes, outputs: Any, *others: Any
) -> Tuple[Any, Any]:
    """Of no rows."""
    shape, dtype = _reorder(sizes[1:], layout), _core.view(outputs, None).dtype
    o = library.empty(outputs, shape, contiguous_strides(shape), dtype)
    return o, library.empty(outputs, sizes.rows, contiguous_strides(sizes.rows), "float32")


def _run_on_host(
    library: Library, plan: "_core.Plan", of_o: Tuple[str, Sizes], rows: Sizes, outputs: Any,
    k: Any, v: Any, bias: Any, out: Any, stream: Any, beside: Tuple[Any, Any],
) -> Tuple[Any, Any]:  # fmt: skip
    dtype, shape = of_o
    o = library.empty(outputs, shape, contiguous_strides(shape), dtype)
    lse = library.empty(outputs, rows, contiguous_strides(rows), "float32")
    every = [outputs, *(x for x in beside if x is not None), o, lse]
    views = [_core.view(array, None) for array in every]
    plan.run_on_host([view.pointer for view in views])
    return o, lse
