"""The kernel of ``flashcore.merge``, and what it is launched with."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from flashcore import _core, kernels
from flashcore.arrays import (
    CPU, CUDA_HOST, LEGACY_STREAM, SHORT, contiguous_strides, dense, device_kind,
    library_of, name_of_device, stream_for,
)  # fmt: skip
from flashcore.errors import Error, UnsupportedError, not_loaded
from flashcore.problem import row_step

__all__ = ["parts_of", "run"]

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
    views = [_core.view(part, None, f"part {i} of {name}") for i, part in enumerate(parts)]
    if len({(view.rank, view.shape, view.dtype) for view in views}) > 1:
        types = ", ".join(f"{view.dtype} {view.shape}" for view in views)
        raise ValueError(f"expects {name} that are all of one type and one shape, but got {types}")
    return library.stack(parts)


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
            f"expects sinks of float32 ({sizes.heads_q},), one a head, but got {sinks.dtype} "
            f"{sinks.shape}"
        )
    for name, other in (("lses", lses), ("sinks", sinks)):
        if other is not None and other.device != outputs.device:
            raise ValueError(
                f"expects {name} where the outputs are, on {name_of_device(outputs.device)}, but "
                f"got them on {name_of_device(other.device)}"
            )
    return sizes


_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
_RESULTS = "o", "lse"


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


class _Key(NamedTuple):
    """Which kernel: the device's id(), and what changes its code."""

    device: int
    dtype: str
    head_dim: int
    has_sinks: bool


_modules: Dict[_Key, "_core.Module"] = {}
_plans: "OrderedDict[Tuple[Any, ...], _core.Plan]" = OrderedDict()
#: Of the calls that were made last.
_MOST_PLANS = 256


def _source(key: _Key) -> str:
    """A merge of any sizes and strides."""
    element = SHORT[key.dtype]
    types = {
        "outputs": f"memref<?x?x?x?x{key.head_dim}x{element}, strided<[?, ?, ?, ?, 1]>>",
        "lses": "memref<?x?x?x?xf32, strided<[?, ?, ?, ?]>>",
        "o": f"memref<?x?x?x{key.head_dim}x{element}, strided<[?, ?, ?, 1]>>",
        "lse": "memref<?x?x?xf32>",
    }
    sink = ""
    if key.has_sinks:
        types["sink"] = "memref<?xf32>"
        sink = f"sink(%sink : {types['sink']}) "
    parameters = ", ".join(f"%{name}: {kind}" for name, kind in types.items())
    return (
        f"func.func @merge({parameters}) {{\n"
        f"  flashcore.merge ins(%outputs, %lses : {types['outputs']}, {types['lses']}) {sink}"
        f"outs(%o : {types['o']}) lse(%lse : {types['lse']})\n"
        "  return\n}\n"
    )


def _load(target: "_core.Device", key: _Key) -> "_core.Module":
    """The kernel on a device, compiled in each process: it is small."""

    def make() -> "_core.Module":
        from flashcore.compiler import compile

        compilation = compile(_source(key), chip=kernels.chip_for(target))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "merge.fcb")
            compilation.write_bundle(path)
            module = target.load(_core.load_bundle(path))
        kernels.statistics.compiled += 1
        kernels.statistics.loaded += 1
        return module

    return kernels.once(key, _modules, make)


def _plan(
    target: "_core.Device", layout: str, views: "Dict[str, _core.View]", is_capturing: bool
) -> "_core.Plan":
    """The call with these sizes and strides; a plan is kept for the next one like it."""
    specs = tuple(
        (name, _BYTES[view.dtype], name in _RESULTS, *_axes(name, view, layout))
        for name, view in views.items()
    )
    o = views["o"]
    key = _Key(id(target), o.dtype, o.shape[-1], "sink_logits" in views)
    if is_capturing and key not in _modules:
        raise Error(not_loaded("flashcore.merge"))
    found = _plans.get((key, specs))
    if found is None:
        found = _load(target, key).plan(specs)
        while len(_plans) >= _MOST_PLANS:
            _plans.popitem(last=False)
        _plans[key, specs] = found
    return found


def _axes(name: str, view: "_core.View", layout: str) -> Tuple[Sizes, Sizes]:
    """Sizes and strides in the kernel's order."""
    if name not in ("outputs", "o"):
        return view.shape, view.strides
    return _reorder(view.shape, layout), _reorder(view.strides, layout)


# Running --------------------------------------------------------------------


def run(
    layout: str, device: Optional[str], outputs: Any, lses: Any, sinks: Any, stream: Optional[int]
) -> Any:
    """o and lse, as ``flashcore.merge`` returns them, in the stream of a handle or that in use."""
    parts_of("outputs", outputs), parts_of("lses", lses)
    outputs, lses = _together("outputs", outputs), _together("lses", lses)
    library = library_of(outputs)
    if library is None:
        raise _unknown("outputs", outputs)
    sinks = _dense("sinks", sinks, stream)
    named = zip(("outputs", "lses", "sinks"), (outputs, lses, sinks))
    views = [None if x is None else _core.view(x, stream, name) for name, x in named]
    assert views[0] is not None and views[1] is not None
    sizes = _check(views[0], views[1], views[2], layout)
    kind = device_kind("outputs", views[0].device, device)
    if not _has_rows(views[0]):
        outputs = dense("outputs", outputs)
    if min(views[1].strides) < 0:
        lses = dense("lses", lses)
    shape = _reorder(sizes[1:], layout)
    o = library.empty(outputs, shape, contiguous_strides(shape), views[0].dtype)
    lse = library.empty(outputs, sizes.rows, contiguous_strides(sizes.rows), "float32")
    if 0 in sizes.rows:
        return o, lse
    arrays = {"outputs": outputs, "lses": lses, "sink_logits": sinks, "o": o, "lse": lse}
    on_host = views[0].device[0] in (CPU, CUDA_HOST)
    if on_host:
        target, used = kernels.device(kind), None
    else:
        index = views[0].device[1]
        used = stream_for(library, outputs, index, stream, "in a merge of arrays")
        target = kernels.device("cuda", index)
    given = {name: _core.view(x, used) for name, x in arrays.items() if x is not None}
    plan = _plan(target, layout, given, not on_host and library.is_capturing())
    pointers = [view.pointer for view in given.values()]
    if on_host:
        plan.run_on_host(pointers)
    else:
        # In the stream in use, which may be capturing a graph.
        plan.launch(pointers, 0, used or LEGACY_STREAM)
    return o, lse


def _dense(name: str, array: Any, stream: Any) -> Any:
    """Sinks, of one stride."""
    if array is None:
        return None
    view = _core.view(array, stream, name)
    return array if view.strides == contiguous_strides(view.shape) else dense(name, array)
