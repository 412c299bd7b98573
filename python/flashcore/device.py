"""Bundles, and single kernels of any PTX, on a GPU or on the emulator.

    gpu = flashcore.open_device("cuda")
    module = gpu.load("attention.fcb")
    plan = module.plan({"q": (shape, strides), ...})
    plan.launch([q.data_ptr(), ...], stream=torch.cuda.current_stream().cuda_stream)

``flashcore.attention`` is made of this; here the caller allocates, chooses the
bundle and the stream, and times with its own events or graphs.
"""

from __future__ import annotations

import os
import warnings
from typing import Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from flashcore import _core, kernels
from flashcore.bundle import Bundle

__all__ = ["Device", "Kernel", "LoadedKernel", "Module", "Plan", "open_device"]

Dim = Union[int, Sequence[int]]
#: Sizes and strides of a tensor, in elements.
Place = Tuple[Sequence[int], Sequence[int]]

#: CU_STREAM_LEGACY of cuda.h, which the driver takes for CUDA's default stream:
#: its 0 is the device's own stream here.
_LEGACY_STREAM = 1


class LoadedKernel(NamedTuple):
    """What a kernel uses on its device.

    registers, local_bytes: a thread; 0 on the emulator. Spills are local memory.
    shared_bytes: a block, static and dynamic.
    """

    name: str
    registers: int
    local_bytes: int
    shared_bytes: int


def open_device(kind: str = "cuda", index: int = 0) -> Device:
    """GPU ``index`` for "cuda", or the "emulator".

    Raises NoDeviceError where there is none, and ValueError for another kind.
    """
    if kind not in ("cuda", "emulator"):
        raise ValueError(f"expects a device of kind 'cuda' or 'emulator', but got {kind!r}")
    return Device(kernels.device(kind, index))


class Device:
    """A GPU in its primary context, which PyTorch uses too, or the emulator."""

    def __init__(self, handle: "_core.Device") -> None:
        self._handle = handle

    @property
    def kind(self) -> str:
        """ "cuda" or "emulator"."""
        return self._handle.kind

    @property
    def name(self) -> str:
        """Such as "NVIDIA H100"."""
        return self._handle.name

    @property
    def chip(self) -> str:
        """Such as "sm_90"."""
        return self._handle.chip

    @property
    def multiprocessors(self) -> int:
        return self._handle.multiprocessors

    def load(self, bundle: Union[Bundle, str, os.PathLike[str]]) -> Module:
        """Checks a bundle and loads the variant of it that is best on the device.

        Where that cannot be loaded, another that the device runs is, with a warning.
        """
        if not isinstance(bundle, Bundle):
            bundle = Bundle(bundle)
        handle = self._handle.load(_core.load_bundle(bundle.path))
        if handle.warning:
            warnings.warn(f"flashcore: {handle.warning}", stacklevel=2)
        return Module(bundle.variant(handle.chip), handle)

    def load_ptx(self, ptx: str, kernel: str, block: Dim, shared: int = 0) -> Kernel:
        """Loads one kernel of a PTX text, all of whose parameters have 8 bytes.

        block: threads, up to three numbers.
        shared: bytes of dynamic shared memory a block.
        """
        return Kernel(self._handle.load_ptx(ptx, kernel, _dim(block), shared))

    def allocate(self, size: int) -> int:
        """A pointer to so many bytes, until :meth:`free`."""
        return self._handle.allocate(size)

    def free(self, pointer: int) -> None:
        self._handle.free(pointer)

    def write(self, pointer: int, data: bytes) -> None:
        """Copies to the device, and waits."""
        self._handle.copy_to_device(pointer, data)

    def read(self, pointer: int, size: int) -> bytes:
        """Waits for the device's own stream, and copies from it."""
        return self._handle.copy_to_host(pointer, size)

    def synchronize(self, stream: Optional[int] = None) -> None:
        """Waits for what is in a stream; None is the device's own."""
        self._handle.synchronize(_stream(stream))


class Module:
    """A bundle on a device."""

    def __init__(self, bundle: Bundle, handle: "_core.Module") -> None:
        self.bundle = bundle
        self._handle = handle

    @property
    def code(self) -> str:
        """What runs, such as "cubin sm_89" or "PTX sm_90, cached"."""
        return self._handle.code

    @property
    def kernels(self) -> Tuple[LoadedKernel, ...]:
        return tuple(LoadedKernel(*kernel) for kernel in self._handle.kernels)

    def plan(self, tensors: Mapping[str, Place]) -> Plan:
        """A call with these sizes and strides of each tensor of the bundle.

        Raises Error for those that the kernels do not take.
        """
        specs = []
        for name, (sizes, strides) in tensors.items():
            known = self.bundle.tensors.get(name)
            # What the bundle lacks, the plan refuses by its name.
            element, is_output = (known.element_bytes, known.is_output) if known else (1, False)
            specs.append((name, element, is_output, tuple(sizes), tuple(strides)))
        return Plan(self._handle.plan(specs))


class Plan:
    """A call with all sizes and strides fixed: made once, launched often."""

    def __init__(self, handle: "_core.Plan") -> None:
        self._handle = handle

    @property
    def workspace_bytes(self) -> int:
        """What a launch needs for itself on the device, aligned to 256 bytes; often 0."""
        return self._handle.workspace_bytes

    def __str__(self) -> str:
        """Words of ``--shape`` for the call."""
        return self._handle.text

    def launch(
        self, pointers: Sequence[int], workspace: int = 0, stream: Optional[int] = None
    ) -> None:
        """Starts the kernels, and waits for nothing.

        pointers: to the first elements, in the order of :meth:`Module.plan`.
        stream: a CUstream, which may be capturing a graph; 0 is CUDA's default
            stream, and None the device's own.
        """
        self._handle.launch(pointers, workspace, _stream(stream))


class Kernel:
    """One kernel of a PTX text on a device."""

    def __init__(self, handle: "_core.Module") -> None:
        self._handle = handle

    @property
    def resources(self) -> LoadedKernel:
        return LoadedKernel(*self._handle.kernels[0])

    def launch(self, grid: Dim, arguments: Sequence[int], stream: Optional[int] = None) -> None:
        """Starts it with pointers and 64-bit numbers; otherwise as :meth:`Plan.launch`."""
        self._handle.launch(0, _dim(grid), tuple(arguments), _stream(stream))


def _dim(sizes: Dim) -> Tuple[int, int, int]:
    x, y, z = (*([sizes] if isinstance(sizes, int) else sizes), 1, 1, 1)[:3]
    return x, y, z


def _stream(stream: Optional[int]) -> int:
    return 0 if stream is None else stream or _LEGACY_STREAM
