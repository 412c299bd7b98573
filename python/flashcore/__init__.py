"""FlashCore: attention kernels by an MLIR compiler, on the GPU or checked on the CPU.

    import flashcore
    o = flashcore.attention(q, k, v, causal=True)

``attention`` runs where its arrays are: PyTorch, CuPy and JAX on a GPU, NumPy
on the emulator. ``compile``, ``explain`` and ``inspect`` show what the compiler
does, ``run_ptx`` runs any PTX on the emulator, ``cache`` keeps kernels.
``Bundle`` reads what the compiler wrote, and ``open_device`` loads and launches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashcore import _core
from flashcore.attention import attention as attention
from flashcore.errors import (
    Error,
    GradientError,
    KernelFault,
    NoDeviceError,
    UnsupportedError,
)
from flashcore.problem import Problem

if TYPE_CHECKING:
    from flashcore import cache
    from flashcore.bundle import Bundle
    from flashcore.compiler import (
        Compilation,
        Inspection,
        Resources,
        compile,
        explain,
        inspect,
    )
    from flashcore.device import Device, open_device
    from flashcore.emulator import Buffer, Finding, Report, Struct, describe_ptx, run_ptx

__version__ = _core.version().split()[1].rstrip(",")

__all__ = [
    "Buffer",
    "Bundle",
    "Compilation",
    "Device",
    "Error",
    "Finding",
    "GradientError",
    "Inspection",
    "KernelFault",
    "NoDeviceError",
    "Problem",
    "Report",
    "Resources",
    "Struct",
    "UnsupportedError",
    "attention",
    "cache",
    "compile",
    "describe_ptx",
    "explain",
    "inspect",
    "open_device",
    "run_ptx",
]

#: Imported when they are used first.
_LAZY = {
    "Buffer": "emulator",
    "Bundle": "bundle",
    "Compilation": "compiler",
    "Device": "device",
    "Finding": "emulator",
    "Inspection": "compiler",
    "Report": "emulator",
    "Resources": "compiler",
    "Struct": "emulator",
    "compile": "compiler",
    "describe_ptx": "emulator",
    "explain": "compiler",
    "inspect": "compiler",
    "open_device": "device",
    "run_ptx": "emulator",
}
_SUBMODULES = (
    "bundle", "cache", "compiler", "device", "emulator", "flash_attn", "kernels", "torch",
    "transformers",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"flashcore.{name}")
    if name in _LAZY:
        value = getattr(importlib.import_module(f"flashcore.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'flashcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
