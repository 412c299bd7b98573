"""FlashCore: attention kernels by an MLIR compiler, on the GPU or checked on the CPU.

    import flashcore
    o = flashcore.attention(q, k, v, causal=True)

``attention`` runs where its arrays are: PyTorch, CuPy and JAX on a GPU, NumPy
on the emulator; ``flex_attention`` is the same by PyTorch's name, and ``merge`` joins
attentions to parts of the keys. ``trace`` and
``show_mask`` show what a score_mod and a mask_mod say. ``compile``, ``explain``
and ``inspect`` show what the compiler does, ``run_ptx`` runs any PTX on the
emulator, ``cache`` keeps kernels.
``Bundle`` reads what the compiler wrote, and ``open_device`` loads and launches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# First: another distribution may have files of this package replaced.
from flashcore import distribution as _distribution
from flashcore import _core
from flashcore import deprecation as _deprecation
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
    from flashcore.blocks import BlockLists, block_lists
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
    from flashcore.documents import document_bounds
    from flashcore.emulator import Buffer, Report, Struct, describe_ptx, run_ptx
    from flashcore.findings import Finding
    from flashcore.flex import flex_attention
    from flashcore.functions import (
        ceil,
        clamp,
        cos,
        erf,
        exp,
        exp2,
        floor,
        isin,
        log,
        log2,
        maximum,
        minimum,
        rsqrt,
        sigmoid,
        sin,
        sqrt,
        tanh,
        where,
    )
    from flashcore.masks import show_mask
    from flashcore.merges import merge
    from flashcore.mods import mask, score
    from flashcore.regions import trace
    from flashcore.scalars import capture, number

__version__ = _core.version().split()[1].rstrip(",")

__all__ = [
    "BlockLists",
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
    "block_lists",
    "cache",
    "capture",
    "ceil",
    "clamp",
    "compile",
    "cos",
    "describe_ptx",
    "document_bounds",
    "erf",
    "exp",
    "exp2",
    "explain",
    "flex_attention",
    "floor",
    "inspect",
    "isin",
    "log",
    "log2",
    "mask",
    "maximum",
    "merge",
    "minimum",
    "number",
    "open_device",
    "rsqrt",
    "run_ptx",
    "score",
    "show_mask",
    "sigmoid",
    "sin",
    "sqrt",
    "tanh",
    "trace",
    "where",
]

#: Imported when they are used first.
_LAZY = {
    "BlockLists": "blocks",
    "Buffer": "emulator",
    "Bundle": "bundle",
    "Compilation": "compiler",
    "Device": "device",
    "Finding": "findings",
    "Inspection": "compiler",
    "Report": "emulator",
    "Resources": "compiler",
    "Struct": "emulator",
    "block_lists": "blocks",
    "capture": "scalars",
    "ceil": "functions",
    "clamp": "functions",
    "compile": "compiler",
    "cos": "functions",
    "describe_ptx": "emulator",
    "document_bounds": "documents",
    "erf": "functions",
    "exp": "functions",
    "exp2": "functions",
    "explain": "compiler",
    "flex_attention": "flex",
    "floor": "functions",
    "inspect": "compiler",
    "isin": "functions",
    "log": "functions",
    "log2": "functions",
    "mask": "mods",
    "maximum": "functions",
    "merge": "merges",
    "minimum": "functions",
    "number": "scalars",
    "open_device": "device",
    "rsqrt": "functions",
    "run_ptx": "emulator",
    "score": "mods",
    "show_mask": "masks",
    "sigmoid": "functions",
    "sin": "functions",
    "sqrt": "functions",
    "tanh": "functions",
    "trace": "regions",
    "where": "functions",
}
_SUBMODULES = (
    "bundle", "cache", "compiler", "device", "emulator", "flash_attn", "flash_attn_interface",
    "kernels", "torch", "transformers",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if f"flashcore.{name}" in _deprecation.DEPRECATED:
        _deprecation.warn(f"flashcore.{name}", stacklevel=2)
        name = _deprecation.DEPRECATED[f"flashcore.{name}"][1].removeprefix("flashcore.")
        if name in globals():
            return globals()[name]
    if name in _SUBMODULES:
        return importlib.import_module(f"flashcore.{name}")
    if name in _LAZY:
        value = getattr(importlib.import_module(f"flashcore.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'flashcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
