"""Kernels by the compiler: what one depends on, and what writes its bundle."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

from flashcore import _core
from flashcore.errors import Error, UnsupportedError
from flashcore.problem import Schedule, abridge, module_of

__all__ = ["Kernel", "Statistics", "assembler", "statistics", "writer"]


@dataclass
class Statistics:
    """What this process did for kernels: how many it compiled and loaded."""

    compiled: int = 0
    loaded: int = 0


statistics = Statistics()


@dataclass(frozen=True)
class Kernel:
    """What is compiled: the words of a problem, for a chip, with a schedule."""

    words: str
    chip: str
    schedule: Schedule = ()
    #: Which assembler makes the cubin; "" without.
    assembler: str = ""

    def record(self) -> Dict[str, Any]:
        """What an entry says of itself."""
        return {
            "words": self.words,
            "chip": self.chip,
            "schedule": [list(option) for option in self.schedule],
        }


_assembler: Optional[Tuple[Optional[str], str]] = None


def assembler() -> str:
    """Which ptxas makes cubins: its path, size and time; "" for none.

    It is the one that ``FLASHCORE_PTXAS`` names ("none" for none), else the one
    in ``$CUDA_HOME/bin``, on ``PATH`` or beside the library. Without one the
    driver assembles.
    """
    global _assembler
    setting = os.environ.get("FLASHCORE_PTXAS")
    if _assembler is None or _assembler[0] != setting:
        _assembler = (setting, _find_assembler(setting))
    return _assembler[1]


def _find_assembler(setting: Optional[str]) -> str:
    if setting == "none":
        return ""
    try:
        found = _core.find_ptxas(setting or "")
        info = os.stat(found)
    except (Error, OSError):
        if setting:
            raise Error(
                f"expects FLASHCORE_PTXAS to name a ptxas, or none, but got {setting!r}"
            ) from None
        return ""
    return f"{found} {info.st_size} {info.st_mtime_ns}"


def writer(kernel: Kernel) -> Callable[[Path], None]:
    """What compiles a kernel and writes its bundle."""

    def write(path: Path) -> None:
        ptxas = kernel.assembler.rsplit(" ", 2)[0] or None
        try:
            compilation = _compile(kernel, ptxas)
        except UnsupportedError:
            raise
        except Error as error:
            if ptxas is None:
                raise
            # An old toolkit on PATH must not keep the driver from its work.
            compilation = _compile(kernel, None)
            warnings.warn(f"flashcore: {ptxas} failed, the driver assembles: {error}", stacklevel=2)
        compilation.write_bundle(0, path)
        statistics.compiled += 1

    return write


def _compile(kernel: Kernel, ptxas: Optional[str]) -> "_core.Compilation":
    text = module_of(kernel.words).encode()
    name = abridge(kernel.words)
    return _core.compile(text, name, kernel.chip, list(kernel.schedule), ptxas, False)
