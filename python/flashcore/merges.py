"""``flashcore.merge``: the attention to all keys, from those to parts of them."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from flashcore import _core, kernels
from flashcore.arrays import (
    CPU, CUDA_HOST, LEGACY_STREAM, SHORT, Library, contiguous_strides, dense, device_kind,
    library_of, name_of_device, run_on_stream, stream_for,
)  # fmt: skip
from flashcore.bundle import Kernel
from flashcore.errors import Error, GradientError, UnsupportedError, no_backward, not_loaded
from flashcore.kinds import expect_one_of
from flashcore.problem import row_step

__all__ = ["merge"]

Sizes = Tuple[int, ...]

_AXES = {
    "bhsd": "(parts, batch, heads, seqlen_q, head_dim_v)",
    "bshd": "(parts, batch, seqlen_q, heads, head_dim_v)",
}


def merge(
    outputs: Any,
    lses: Any,
    *,
    sinks: Any = None,
    layout: str = "bhsd",
    stream: Any = None,
    device: Optional[str] = None,
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
    of other libraries, or that need a gradient, and what else flashcore.attention raises.
    """
    layout = expect_one_of("layout", layout, tuple(_AXES))
    device = expect_one_of("device", device, (None, "cuda", "emulator"))
    first, *others = _each("outputs", outputs)
    _refuse_gradients(first, *others, *_each("lses", lses), sinks)

    def run(_: Any, handle: Optional[int]) -> Any:
        stacked = _together("outputs", outputs), _together("lses", lses)
        return _run(layout, device, *stacked, sinks, handle)

    return run(first, None) if stream is None else run_on_stream(run, (first,), stream)


def _each(name: str, parts: Any) -> Sequence[Any]:
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


def _refuse_gradients(*tensors: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    is_traced = sys.modules["flashcore.attention"].is_traced
    if any(is_traced(tensor) for tensor in tensors):
        raise UnsupportedError(
            "expects no merge where PyTorch traces a call: torch.compiler.disable keeps a function "
            "out of torch.compile"
        )
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors):
        raise GradientError(no_backward("flashcore.merge"))


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


@dataclass(frozen=True)
class _Loaded:
    kernel: Kernel
    module: "_core.Module"


_loaded: Dict[_Key, _Loaded] = {}


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


def _load(target: "_core.Device", key: _Key) -> _Loaded:
    """The kernel on a device, compiled in each process: it is small."""

    def make() -> _Loaded:
        from flashcore.compiler import compile

        compilation = compile(_source(key), chip=kernels.chip_for(target))
        kernel = Kernel.read(compilation.report["merges"][0]["kernel"])
        x, y, z = kernel.block
        module = target.load_ptx(
            compilation.ptx(), kernel.name, (x, y, z), kernel.dynamic_shared_memory
        )
        kernels.statistics.compiled += 1
        kernels.statistics.loaded += 1
        return _Loaded(kernel, module)

    return kernels.once(key, _loaded, make)


# Running --------------------------------------------------------------------


def _run(
    layout: str, device: Optional[str], outputs: Any, lses: Any, sinks: Any, stream: Optional[int]
) -> Any:
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
    arrays = {"outputs": outputs, "lses": lses, "o": o, "lse": lse, "sink_logits": sinks}
    if views[0].device[0] in (CPU, CUDA_HOST):
        _run_on_host(library, kind, sizes, layout, arrays)
    else:
        _run_on_device(library, views[0].device[1], sizes, layout, arrays, stream)
    return o, lse


def _dense(name: str, array: Any, stream: Any) -> Any:
    """Sinks, of one stride."""
    if array is None:
        return None
    view = _core.view(array, stream, name)
    return array if view.strides == contiguous_strides(view.shape) else dense(name, array)


def _arguments(
    kernel: Kernel,
    sizes: _Sizes,
    layout: str,
    views: "Dict[str, _core.View]",
    pointers: Dict[str, int],
) -> Tuple[int, ...]:
    layouts = {
        name: (_reorder(view.strides, layout) if name in ("outputs", "o") else view.strides, 0)
        for name, view in views.items()
    }
    values = kernel.values(sizes._asdict(), layouts)
    return tuple(value if isinstance(value, int) else pointers[str(value)] for value in values)


def _launch(loaded: _Loaded, sizes: _Sizes, arguments: Tuple[int, ...], stream: int) -> None:
    x, y, z = loaded.kernel.grid(sizes._asdict())
    loaded.module.launch(0, (x, y, z), arguments, stream)


def _run_on_device(
    library: Library, index: int, sizes: _Sizes, layout: str, arrays: Dict[str, Any], stream: Any
) -> None:
    """In the stream in use, which may be capturing a graph."""
    used = stream_for(library, arrays["outputs"], index, stream, "in a merge of arrays")
    target = kernels.device("cuda", index)
    views = {name: _core.view(x, used) for name, x in arrays.items() if x is not None}
    key = _Key(id(target), views["o"].dtype, sizes.head_dim_v, "sink_logits" in views)
    if library.is_capturing() and key not in _loaded:
        raise Error(not_loaded("flashcore.merge"))
    loaded = _load(target, key)
    pointers = {name: view.pointer for name, view in views.items()}
    arguments = _arguments(loaded.kernel, sizes, layout, views, pointers)
    _launch(loaded, sizes, arguments, used or LEGACY_STREAM)


def _run_on_host(
    library: Library, kind: str, sizes: _Sizes, layout: str, arrays: Dict[str, Any]
) -> None:
    """On a device that has memory of its own, where each array is as large as it is."""
    target = kernels.device(kind)
    results = "o", "lse"
    for name in ("outputs", "lses"):
        view = _core.view(arrays[name], None)
        if view.strides != contiguous_strides(view.shape):
            arrays[name] = dense(name, arrays[name])
    views = {name: _core.view(x, None) for name, x in arrays.items() if x is not None}
    key = _Key(id(target), views["o"].dtype, sizes.head_dim_v, "sink_logits" in views)
    loaded = _load(target, key)
    pointers: Dict[str, int] = {}
    try:
        for name, view in views.items():
            pointers[name] = target.allocate(_bytes_of(view))
            if name not in results:
                target.copy_to_device(
                    pointers[name], ctypes.string_at(view.pointer, _bytes_of(view))
                )
        _launch(loaded, sizes, _arguments(loaded.kernel, sizes, layout, views, pointers), 0)
        for name in results:
            data = target.copy_to_host(pointers[name], _bytes_of(views[name]))
            ctypes.memmove(views[name].pointer, data, len(data))
    finally:
        for pointer in pointers.values():
            target.free(pointer)


def _bytes_of(view: "_core.View") -> int:
    count = _BYTES[view.dtype]
    for size in view.shape:
        count *= size
    return count
