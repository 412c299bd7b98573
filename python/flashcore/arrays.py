"""What the libraries of arrays have in common.

A :class:`Library` allocates and copies arrays as the caller's library does, so
that results are arrays of that library.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Callable, ContextManager, Dict, NamedTuple, Optional, Sequence, Tuple

from flashcore import _core
from flashcore.errors import UnsupportedError
from flashcore.operands import ENDS

__all__ = [
    "Library", "dense", "device_kind", "error_of_view", "is_tensor", "library_of", "run_on_stream",
    "stream_for", "wrap", "wrap_on_host",
]  # fmt: skip

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
#: CUDA's legacy default stream, which others' `__dlpack__` calls 1 as well.
LEGACY_STREAM = 1

#: The compiler's names of types.
SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}

Allocation = Tuple[Any, Optional[Tuple[Any, ...]], Dict[str, Any]]


class Library:
    """Arrays of one library, on the device where ``like`` lies."""

    #: Whether it makes arrays whose order in memory is not that of their axes.
    has_permuted_outputs = True

    def allocation(
        self, like: Any, shape: Sequence[int], strides: Sequence[int], dtype: str
    ) -> Allocation:
        """A function with its arguments that makes such an array."""
        raise NotImplementedError

    def same_allocation(self) -> Optional[Any]:
        """A function of q that makes an array of its sizes, strides and type.

        It is for those that are dense, and None if :meth:`allocation` is as fast.
        """
        return None

    def current_stream(self) -> Any:
        """A function of a device's number that tells the stream in use there.

        None where only the C exchange API tells it.
        """
        return None

    def stream_in_use(self, index: int) -> Optional[int]:
        """The handle of that stream, if it can be told."""
        tell = self.current_stream()
        return None if tell is None else int(tell(index))

    def is_capturing(self) -> bool:
        """Whether the stream in use records a CUDA graph."""
        return False

    def on_stream(self, like: Any, stream: Any, handle: int) -> ContextManager[None]:
        """Makes a stream the one in use, for allocations too.

        ``handle`` is that of ``stream``, which may be an object of the library.
        """
        raise ValueError(
            f"expects stream=None for arrays of {type(like)}, whose library has no way to "
            "allocate for another stream; make it the current one"
        )

    def empty(self, like: Any, shape: Sequence[int], strides: Sequence[int], dtype: str) -> Any:
        function, arguments, options = self.allocation(like, shape, strides, dtype)
        return function(*(arguments or ()), **options)

    def full(self, like: Any, shape: Sequence[int], value: float, dtype: str) -> Any:
        """A contiguous array of one value."""
        raise _cannot(like, "filled")

    def dense(self, array: Any) -> Any:
        """A contiguous copy, which allocators align."""
        raise _cannot(array, "copied to aligned rows")

    def stack(self, parts: Sequence[Any]) -> Any:
        """A contiguous copy of arrays of one shape, with an axis in front."""
        raise _cannot(parts[0], "stacked")

    def convert(self, array: Any, dtype: str) -> Any:
        """A contiguous copy, of another type."""
        raise _cannot(array, f"converted to {dtype}")

    def beside(self, array: Any, other: Any) -> Any:
        """The array, or a copy of it on the device of ``other``."""
        return array

    def copy(self, target: Any, source: Any) -> None:
        """``target[...] = source``."""
        raise _cannot(target, "copied to")

    def autocasts(self, q: Any, k: Any, v: Any) -> bool:
        """Whether the library computes an attention of these in another type just now."""
        return False

    def autocast(self, q: Any, k: Any, v: Any) -> Tuple[Any, Any, Any]:
        """These in that type."""
        return q, k, v


def _cannot(array: Any, what: str) -> ValueError:
    return ValueError(
        f"expects arrays that need not be {what}, of a library that is not PyTorch, NumPy or "
        f"CuPy, but got {type(array)}"
    )


class Torch(Library):
    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def allocation(
        self, like: Any, shape: Sequence[int], strides: Sequence[int], dtype: str
    ) -> Allocation:
        options = {"dtype": getattr(self.torch, dtype), "device": like.device}
        if tuple(strides) == contiguous_strides(shape):
            return self.torch.empty, (tuple(shape),), options
        return self.torch.empty_strided, (tuple(shape), tuple(strides)), options

    def same_allocation(self) -> Optional[Any]:
        return self.torch.empty_like

    def current_stream(self) -> Any:
        return self.torch._C._cuda_getCurrentRawStream

    def is_capturing(self) -> bool:
        return bool(self.torch.cuda.is_current_stream_capturing())

    def on_stream(self, like: Any, stream: Any, handle: int) -> ContextManager[None]:
        cuda = self.torch.cuda
        if not isinstance(stream, cuda.Stream):
            stream = cuda.ExternalStream(handle, device=like.device)
        return cuda.stream(stream)  # type: ignore[no-any-return]

    def full(self, like: Any, shape: Sequence[int], value: float, dtype: str) -> Any:
        return self.torch.full(
            tuple(shape), value, dtype=getattr(self.torch, dtype), device=like.device
        )

    def dense(self, array: Any) -> Any:
        return array.clone(memory_format=self.torch.contiguous_format)

    def stack(self, parts: Sequence[Any]) -> Any:
        return self.torch.stack(tuple(parts))

    def convert(self, array: Any, dtype: str) -> Any:
        return array.to(getattr(self.torch, dtype), memory_format=self.torch.contiguous_format)

    def beside(self, array: Any, other: Any) -> Any:
        return array.to(other.device) if isinstance(other, self.torch.Tensor) else array

    def copy(self, target: Any, source: Any) -> None:
        target.copy_(source)

    def autocasts(self, q: Any, k: Any, v: Any) -> bool:
        if self.torch.float32 not in [getattr(x, "dtype", None) for x in (q, k, v)]:
            return False
        from flashcore.operators import autocast

        return autocast.type_of(q) is not None

    def autocast(self, q: Any, k: Any, v: Any) -> Tuple[Any, Any, Any]:
        from flashcore.operators import autocast

        return autocast.cast(q, k, v)


class NumPyLike(Library):
    """NumPy and CuPy."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def _dtype(self, name: str) -> Any:
        if name != "bfloat16":
            return self.module.dtype(name)
        import ml_dtypes  # the input is of it, so it is there

        return self.module.dtype(ml_dtypes.bfloat16)

    def allocation(
        self, like: Any, shape: Sequence[int], strides: Sequence[int], dtype: str
    ) -> Allocation:
        order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
        if tuple(strides) == contiguous_strides(shape):
            return self._empty, (self._device(like), tuple(shape), self._dtype(dtype)), {}
        memory = tuple(shape[axis] for axis in order)
        back = tuple(order.index(axis) for axis in range(len(shape)))
        arguments = (self._device(like), memory, back, self._dtype(dtype))
        return self._permuted, arguments, {}

    def _device(self, like: Any) -> Any:
        return None

    def _empty(self, device: Any, shape: Tuple[int, ...], dtype: Any) -> Any:
        return self.module.empty(shape, dtype)

    def _permuted(
        self, device: Any, memory: Tuple[int, ...], back: Tuple[int, ...], dtype: Any
    ) -> Any:
        return self._empty(device, memory, dtype).transpose(back)

    def full(self, like: Any, shape: Sequence[int], value: float, dtype: str) -> Any:
        result = self._empty(self._device(like), tuple(shape), self._dtype(dtype))
        result.fill(value)
        return result

    def dense(self, array: Any) -> Any:
        return array.copy(order="C")

    def stack(self, parts: Sequence[Any]) -> Any:
        return self.module.stack(parts)

    def convert(self, array: Any, dtype: str) -> Any:
        return array.astype(self._dtype(dtype), order="C")

    def copy(self, target: Any, source: Any) -> None:
        target[...] = source


class CuPy(NumPyLike):
    def _device(self, like: Any) -> Any:
        return like.device

    def _empty(self, device: Any, shape: Tuple[int, ...], dtype: Any) -> Any:
        with device:
            return self.module.empty(shape, dtype)

    def current_stream(self) -> Any:
        return lambda index: self.module.cuda.get_current_stream(index).ptr

    def is_capturing(self) -> bool:
        return bool(self.module.cuda.get_current_stream().is_capturing())

    def on_stream(self, like: Any, stream: Any, handle: int) -> ContextManager[None]:
        return self.module.cuda.ExternalStream(handle, like.device.id)  # type: ignore[no-any-return]


class Exchange(Library):
    """A library that has DLPack's C exchange API, and is not one of the others."""

    has_permuted_outputs = False

    def allocation(
        self, like: Any, shape: Sequence[int], strides: Sequence[int], dtype: str
    ) -> Allocation:
        device = _core.view(like, None).device
        return _core.exchange_empty, (type(like), tuple(shape), dtype, *device), {}


def library_of(array: Any) -> Optional[Library]:
    """The library of an array; None for one that is not known."""
    found = _libraries.get(type(array))
    if found is None:
        found = _find_library(array)
        if found is not None:
            _libraries[type(array)] = found
    return found


def is_tensor(name: str, array: Any) -> bool:
    """Whether an argument is a PyTorch tensor.

    Raises TypeError, by the name of the argument, unless it is that or a NumPy array.
    """
    import numpy

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return True
    if isinstance(array, numpy.ndarray):
        return False
    raise TypeError(
        f"expects {name} to be a NumPy array or a PyTorch tensor, but got {type(array)!r}"
    )


def name_of_device(device: Tuple[int, int]) -> str:
    """Of a type and a number of DLPack, such as "cuda:0"."""
    kind, index = device
    names = {CPU: "cpu", CUDA_HOST: "cpu", CUDA: f"cuda:{index}", CUDA_MANAGED: f"cuda:{index}"}
    return names.get(kind, f"device type {kind} of DLPack")


_libraries: Dict[type, Library] = {}


def _find_library(array: Any) -> Optional[Library]:
    for kind in type(array).__mro__:
        root = kind.__module__.partition(".")[0]
        module = sys.modules.get(root)
        if root == "torch" and hasattr(module, "Tensor"):
            return Torch(module)
        if root == "numpy":
            return NumPyLike(module)
        if root == "cupy":
            return CuPy(module)
    return Exchange() if _core.has_exchange_api(array) else None


def contiguous_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """Strides, in elements, of an array in C order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(strides[::-1])


def dense(name: str, array: Any) -> Any:
    """A contiguous copy of an argument, by its library, or by NumPy where that has no copies."""
    wrapped = array if library_of(array) is not None else wrap_on_host(name, array)
    library = library_of(wrapped)
    if library is None:
        raise _cannot(array, "copied to aligned rows")
    return library.dense(wrapped)


def wrap_on_host(name: str, array: Any) -> Any:
    """An array of a library that has DLPack alone, as NumPy's on its memory in host memory.

    On a GPU it is the array as it is.
    """
    view = _core.view(array, None, name)
    if view.device[0] not in (CPU, CUDA_HOST):
        return array
    return wrap(view)


def wrap(view: "_core.View") -> Any:
    """A NumPy array on the memory of a view, which it keeps."""
    import numpy

    if view.dtype == "bfloat16":
        import ml_dtypes

        dtype = numpy.dtype(ml_dtypes.bfloat16)
    else:
        dtype = numpy.dtype(view.dtype)
    if 0 in view.shape:
        return numpy.empty(view.shape, dtype)
    steps = [(size - 1) * step for size, step in zip(view.shape, view.strides)]
    before = -sum(step for step in steps if step < 0)  # elements in front of the first
    span = 1 + sum(abs(step) for step in steps)
    address = view.pointer - before * dtype.itemsize
    memory = (ctypes.c_char * (span * dtype.itemsize)).from_address(address)
    memory.view = view
    strides = tuple(step * dtype.itemsize for step in view.strides)
    array = numpy.ndarray(view.shape, dtype, memory, before * dtype.itemsize, strides)
    array.flags.writeable = False
    return array


# Devices and streams --------------------------------------------------------


def device_kind(name: str, device: Tuple[int, int], wanted: Optional[str]) -> str:
    """Where a call runs: "cuda", or for arrays in host memory what the caller wants.

    name, device: of an argument, a type and a number of DLPack.
    wanted: the caller's; None is "cuda" on a GPU, and "emulator" for host memory.

    Raises ValueError where the arrays cannot be had there.
    """
    kind, place = device[0], name_of_device(device)
    if kind in (CUDA, CUDA_MANAGED):
        if wanted in (None, "cuda"):
            return "cuda"
        raise ValueError(
            f"expects arrays in host memory for device={wanted!r}, but got {name} on {place}: copy "
            "them to the host first"
        )
    if kind not in (CPU, CUDA_HOST):
        raise ValueError(f"expects arrays on a GPU of CUDA or in host memory, but got {place}")
    return wanted or "emulator"


def stream_for(library: Library, array: Any, index: int, stream: Optional[int], what: str) -> int:
    """The handle of the caller's stream, or without one of that which is in use on a GPU.

    what: of the array, as errors say it. Raises UnsupportedError if its library tells of none.
    """
    used = library.stream_in_use(index) if stream is None else stream
    if used is None:
        raise UnsupportedError(
            f"expects stream= {what} of {type(array)}, whose library does not tell the stream in use"
        )
    return used


def run_on_stream(run: Callable[..., Any], arrays: Tuple[Any, ...], stream: Any) -> Any:
    """``run(*arrays, handle)`` in a stream, which it allocates for as well."""
    handle = _stream_handle(stream)
    kind, index = _core.view(arrays[0], None, "q").device
    if kind not in (CUDA, CUDA_MANAGED):
        raise ValueError(f"expects no stream for arrays in host memory, but got {stream!r}")
    library = library_of(arrays[0])
    if library is None or handle == library.stream_in_use(index):
        return run(*arrays, handle)
    with library.on_stream(arrays[0], stream, handle):
        return run(*arrays, handle)


def _stream_handle(stream: Any) -> int:
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    try:
        return int(stream.__index__())
    except AttributeError:
        raise TypeError(
            "expects stream to be an int, or an object with cuda_stream, ptr or "
            f"__cuda_stream__, but got {stream!r}"
        ) from None


# Arrays that are more than memory --------------------------------------------


class Trait(NamedTuple):
    """What an array of a library may be, so that its memory is not what it holds.

    has: whether an array is one. what: as errors say it. instead: what to write, with {x}
    for the name of the argument.
    """

    has: Callable[[Any], bool]
    what: str
    instead: str


def _is_tracer(array: Any) -> bool:
    return any(
        (kind.__module__.partition(".")[0], kind.__name__) == ("jax", "Tracer")
        for kind in type(array).__mro__
    )


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, getattr(torch, "Tensor", ()))


def _of_torch(test: Callable[[Any], Any]) -> Callable[[Any], bool]:
    return lambda array: _is_torch(array) and bool(test(array))


#: The first that an array has is named.
TRAITS = (
    Trait(
        _is_tracer,
        "a value that JAX traces, which holds nothing yet",
        "call it outside of jax.jit, or by jax.pure_callback",
    ),
    Trait(
        _of_torch(lambda x: x.is_nested),
        "a nested tensor that is not jagged",
        f"make it of the layout torch.jagged, pass its values with {' and '.join(ENDS)}, or {{x}}.to_padded_tensor(0.0)",
    ),
    Trait(
        _of_torch(lambda x: x.is_quantized), "a quantized tensor", "pass {x}.dequantize().half()"
    ),
    Trait(
        _of_torch(lambda x: x.is_mkldnn), "a tensor in the layout of mkldnn", "pass {x}.to_dense()"
    ),
    Trait(
        _of_torch(lambda x: str(x.layout) != "torch.strided"),
        "a sparse tensor",
        "pass {x}.to_dense()",
    ),
    Trait(
        _of_torch(lambda x: x.is_meta),
        "a tensor on the device meta, which has no memory",
        "make it on a GPU or in host memory",
    ),
    Trait(
        _of_torch(lambda x: x._is_zerotensor()),
        "a tensor of zeros without memory",
        "pass {x}.clone()",
    ),
    Trait(
        _of_torch(lambda x: x.is_neg()),
        "a tensor with the negative bit, whose memory holds the other sign",
        "pass {x}.resolve_neg()",
    ),
    Trait(
        _of_torch(lambda x: type(x).__name__ == "FakeTensor"),
        "a fake tensor, which has no memory",
        "call it outside of FakeTensorMode",
    ),
    Trait(
        _of_torch(lambda x: x.numel() > 0 and x.untyped_storage().nbytes() == 0),
        "a tensor whose storage is empty",
        "give its storage the memory back, as the library that took it away does",
    ),
)


def error_of_view(name: str, array: Any, cause: Optional[BaseException]) -> BaseException:
    """The exception for an argument whose elements cannot be read where they lie.

    cause: what its library raised, if it did.
    """
    for trait in TRAITS:
        if trait.has(array):
            instead = trait.instead.format(x=name)
            return TypeError(
                f"expects {name} to be an array of plain memory, but got {trait.what}: {instead}"
            )
    if cause is None:
        return ValueError(f"expects {name} with memory, but got an array without an address")
    if isinstance(cause, RuntimeError) and _is_torch(array):  # with a trace of its C++ behind
        said = str(cause).partition("\n")[0]
        return TypeError(f"expects {name} whose memory can be read, but PyTorch says: {said}")
    if type(cause) in (BufferError, TypeError, ValueError):
        return type(cause)(f"{name}: {cause}")
    return cause
