"""Kernels in memory: what is compiled, loaded on a device, and planned."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass
from typing import (
    Callable, Dict, Hashable, Iterable, List, NamedTuple, Optional, Tuple, TypeVar, Union,
)  # fmt: skip

from flashcore import _core, cache
from flashcore.codegen import Kernel, assembler, statistics, writer
from flashcore.errors import Error, UnsupportedError
from flashcore.problem import Merge, Problem, Schedule, without_sizes

__all__ = ["chip_for", "device", "export", "load", "statistics"]


Name = TypeVar("Name", bound=Hashable)
Made = TypeVar("Made")


#: One a device and kernel, so that threads wait for each other's compilation.
_lock = threading.Lock()
_locks: Dict[object, threading.Lock] = {}
_devices: Dict[Tuple[str, int], "_core.Device"] = {}
_modules: Dict["KernelKey", "Loaded"] = {}


class KernelKey(NamedTuple):
    """Which kernel: the device's id(), and what was compiled for it."""

    device: int
    words: str
    schedule: Schedule


@dataclass(frozen=True)
class Loaded:
    """A kernel on a device."""

    bundle: "_core.Bundle"
    module: "_core.Module"


def once(key: Name, table: Dict[Name, Made], make: Callable[[], Made]) -> Made:
    """``table[key]``, made by one thread if it is not there."""
    found = table.get(key)
    if found is not None:
        return found
    with _lock:
        lock = _locks.setdefault(key, threading.Lock())
    with lock:
        if key not in table:
            table[key] = make()
        return table[key]


def device(kind: str, index: int = 0) -> "_core.Device":
    """GPU ``index`` for "cuda", or the "emulator"; opened once.

    ``FLASHCORE_EMULATOR`` has options of flashcore-emu for the latter, such as
    "check=none"; by default it checks all and takes all cores.
    """
    open_device = {
        "cuda": lambda: _core.open_cuda(index),
        "emulator": lambda: _core.open_emulator(os.environ.get("FLASHCORE_EMULATOR", "threads=0")),
    }[kind]
    return once((kind, index), _devices, open_device)


def chip_for(target: "_core.Device") -> str:
    """The chip of the compiler whose code is best on the device.

    On a GPU of compute capability 9.0 it is "sm_90a", whose code runs on no other;
    elsewhere the newest whose code the device and newer ones run, and whose kernels
    ask for no more shared memory than it has. The environment variable
    ``FLASHCORE_CHIP`` names another.
    """
    return _chips_for(target)[0]


def _chips_for(target: "_core.Device") -> List[str]:
    """That chip, and after one whose code runs on it alone what can stand in."""
    chosen = os.environ.get("FLASHCORE_CHIP")
    if chosen:
        if chosen not in _core.chips():
            names = ", ".join(_core.chips())
            raise Error(f"expects FLASHCORE_CHIP to be one of {names}, but got {chosen!r}")
        return [chosen]
    chips = _core.chips_for(target.chip, target.shared_memory_per_block)
    if not chips:
        room = f"{target.shared_memory_per_block // 1024} KiB of shared memory a block"
        raise UnsupportedError(
            f"expects a GPU of {_core.chips()[0]} or newer, but got {target.name} "
            f"({target.chip}, {room})"
        )
    portable = next(chip for chip in chips if cache.is_portable(chip))
    # The emulator has no chip of its own, and nothing runs faster there.
    best = chips[0] if target.kind == "cuda" else portable
    return [best] if best == portable else [best, portable]


def is_loaded(target: "_core.Device", problem: "Problem | Merge", schedule: Schedule) -> bool:
    """Whether :func:`load` would neither compile nor load."""
    return KernelKey(id(target), problem.words(), schedule) in _modules


def find_for_other_sizes(target: "_core.Device", problem: "Problem | Merge") -> Optional[Loaded]:
    """A kernel of the problem that :func:`load` has loaded for calls of whatever sizes."""
    words, device = problem.words(), id(target)
    return next(
        (
            made
            for key, made in loaded().items()
            if key.device == device and key.words == words and not without_sizes(key.schedule)
        ),
        None,
    )


def loaded() -> Dict[KernelKey, Loaded]:
    """All kernels of this process, in the order in which they were loaded."""
    return dict(_modules)


def export(
    folder: "Union[str, os.PathLike[str]]", *, chips: Optional[Iterable[str]] = None
) -> List["cache.Entry"]:
    """Puts all kernels that this process has called into ``folder``.

    So a program that makes the calls of a server once, on the emulator or on a GPU, leaves
    what a server with ``FLASHCORE_KERNELS`` set to the folder needs, which then compiles
    nothing: kernels with clauses and functions, and merges, among them. Calls of other sizes
    run, too, by the kernel for large ones where theirs is not there.

    chips: such as "sm_80"; by default those that this process's kernels are for. Schedules
        are those of the device that they ran on.

    Returns the entries of the folder.
    """
    wanted, target = cache.read_chips(chips), cache.read_folder(folder)
    for key, made in loaded().items():
        for chip in wanted or [made.module.chip]:
            # And the kernel for calls of other sizes than this process had.
            for schedule in dict.fromkeys([key.schedule, without_sizes(key.schedule)]):
                cache.put(target, Kernel(key.words, chip, schedule, assembler()))
    return cache.entries(target)


def load(
    target: "_core.Device",
    problem: "Problem | Merge",
    schedule: Schedule,
    is_of_sizes: bool = False,
) -> Loaded:
    """The kernel of a problem on a device: from memory, from disk, or compiled.

    is_of_sizes: whether the schedule is that of the sizes of a call, so that a kernel for
        calls of other sizes may stand in where ``FLASHCORE_KERNELS`` has that alone.

    Raises UnsupportedError where the compiler has none.
    """

    def make() -> Loaded:
        best, *others = _chips_for(target)
        try:
            return _load_for(target, best, problem, schedule, is_of_sizes)
        except Error as error:
            if not others:
                raise
            loaded = _load_for(target, others[0], problem, schedule, is_of_sizes)
            warnings.warn(
                f"flashcore: a kernel for {others[0]} runs, which is slower, since that for {best} "
                f"cannot be had: {error}",
                stacklevel=2,
            )
            return loaded

    # Devices live as long as the process.
    key = KernelKey(id(target), problem.words(), schedule)
    return once(key, _modules, make)


def _load_for(
    target: "_core.Device",
    chip: str,
    problem: "Problem | Merge",
    schedule: Schedule,
    is_of_sizes: bool,
) -> Loaded:
    used = assembler() if target.kind == "cuda" else ""
    kernel = Kernel(problem.words(), chip, schedule, used)
    bundle = cache.fetch(kernel, writer(kernel), target.runs, is_of_sizes)
    loaded = Loaded(bundle, target.load(bundle))
    statistics.loaded += 1
    return loaded
