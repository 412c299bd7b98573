"""Any PTX on the CPU, every access checked."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from flashcore import _core

__all__ = ["Finding", "Place", "Report", "run_ptx"]

Dim = Union[int, Sequence[int]]

_SCHEDULES = ("seq", "skew", "random")
_ASYNC = ("lazy", "eager", "random")


@dataclass(frozen=True)
class Place:
    """Who did something: a line of the PTX, a CTA, a warp and its lanes.

    lanes: bit i stands for lane i.
    source: file and line of the program that the PTX was made from, if known.
    """

    line: int
    cta: Tuple[int, int, int]
    warp: int
    lanes: int
    source: str = ""


@dataclass(frozen=True)
class Finding:
    """A mistake of a kernel.

    check: which one found it: "memory", "init", "race", "async", "sync" or
        "layout".
    kind: such as "out-of-bounds".
    message: what happened.
    place: who did it; other: the other party of a race, or a copy in flight.
    rule: the sentence of the PTX ISA that was broken.
    count: how often the same instruction did it.
    address, bytes: what was accessed.
    """

    check: str
    kind: str
    message: str
    place: Optional[Place]
    other: Optional[Place]
    rule: str
    count: int
    address: int
    bytes: int


@dataclass(frozen=True)
class Report:
    """What a run found.

    findings: mistakes; empty for a kernel without.
    counters: instructions and memory traffic.
    text: the report for people.
    json: all of it.
    """

    findings: Tuple[Finding, ...]
    counters: Dict[str, Any]
    text: str
    json: Dict[str, Any]

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        return self.text


def run_ptx(
    ptx: Union[str, bytes],
    grid: Dim,
    block: Optional[Dim],
    args: Sequence[Any],
    *,
    kernel: Optional[str] = None,
    shared: int = 0,
    checks: str = "all",
    threads: int = 1,
    schedule: str = "seq",
    asynchronous: str = "lazy",
    seed: int = 0,
    max_instructions: int = 4_000_000_000,
) -> Report:
    """Runs one kernel of a PTX module on the CPU and says what it did wrong.

    ptx: the text of a module, by any compiler.
    grid, block: CTAs, and threads of a CTA: x, or up to (x, y, z). A block of
        None is what .reqntid of the kernel asks for.
    args: the kernel's arguments in order. A NumPy array is a buffer: the kernel
        reads what it holds, and what the kernel wrote is in it afterwards, but
        for arrays that are read-only. Numbers and bytes are what they are.
    kernel: its name; may be left out if there is one.
    shared: dynamic shared memory of a CTA, in bytes.
    checks: "all", "none", or a list such as "memory,race".
    threads: to run CTAs on; 0 takes all cores. Results do not depend on it.
    schedule: order of warps: "seq", "skew" (last warp first) or "random".
    asynchronous: when cp.async moves its bytes: "lazy" (at the wait), "eager"
        (at the issue) or "random".
    seed: of what is random.
    max_instructions: warp instructions after which to stop; 0 means no limit.

    Raises Error for PTX or a launch that is wrong in itself, and ValueError and
    TypeError for arguments that the kernel cannot take.
    """
    text = ptx.decode() if isinstance(ptx, bytes) else ptx
    name, _, parameters, _, _ = _core.load_ptx(text, kernel)
    if len(args) != len(parameters):
        raise ValueError(f"expects {len(parameters)} arguments of {name}, but got {len(args)}")
    values = [_value(value, parameter, size) for value, (parameter, size) in zip(args, parameters)]
    said, shown = _core.run_ptx(
        text,
        kernel,
        _dim("grid", grid),
        _dim("block", block) if block is not None else (0, 0, 0),
        shared,
        values,
        checks,
        threads,
        _choice("schedule", schedule, _SCHEDULES),
        _choice("asynchronous", asynchronous, _ASYNC),
        seed,
        max_instructions,
    )
    report = json.loads(said)
    findings = tuple(_finding(entry) for entry in report["findings"])
    return Report(findings, report.get("counters", {}), shown, report)


def _dim(name: str, size: Dim) -> Tuple[int, int, int]:
    sizes = [size] if isinstance(size, int) else [int(one) for one in size]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1 or max(sizes) >= 1 << 32:
        raise ValueError(f"expects {name} to be one to three sizes of at least 1, but got {size}")
    x, y, z = sizes + [1] * (3 - len(sizes))
    return x, y, z


def _choice(name: str, value: str, choices: Tuple[str, ...]) -> int:
    if value not in choices:
        raise ValueError(f"expects {name} to be one of {', '.join(choices)}, but got {value!r}")
    return choices.index(value)


def _value(value: Any, parameter: str, size: int) -> Union[bytes, Tuple[str, int, int, bool]]:
    """As the extension takes it: bytes, or (name, address, bytes, is written)."""
    if isinstance(value, (bytes, bytearray)):
        literal = bytes(value)
    elif getattr(value, "ndim", 0) > 0:
        return _buffer(value, parameter, size)
    elif isinstance(value, float):
        literal = struct.pack({2: "<e", 4: "<f", 8: "<d"}.get(size, "<d"), value)
    elif hasattr(value, "tobytes"):  # a NumPy scalar has a type of its own
        literal = value.tobytes()
    elif hasattr(value, "__index__"):
        literal = _integer(value.__index__(), parameter, size)
    else:
        raise TypeError(
            f"expects arrays, numbers or bytes, but got {value!r} for parameter {parameter}"
        )
    if len(literal) != size:
        raise ValueError(
            f"expects {size} bytes for parameter {parameter}, but got {len(literal)}: {value!r}"
        )
    return literal


def _integer(value: int, parameter: str, size: int) -> bytes:
    try:
        return value.to_bytes(size, "little", signed=value < 0)
    except OverflowError:
        raise ValueError(
            f"expects a number of {size} bytes for parameter {parameter}, but got {value}"
        ) from None


def _buffer(array: Any, parameter: str, size: int) -> Tuple[str, int, int, bool]:
    interface = getattr(array, "__array_interface__", None)
    if interface is None:
        raise TypeError(
            f"expects NumPy arrays as buffers, but got {type(array)} for parameter {parameter}"
        )
    if size != 8:
        raise ValueError(
            f"expects {size} bytes for parameter {parameter}, but got an array: it is no pointer"
        )
    if interface.get("strides") is not None:
        raise ValueError(
            f"expects arrays that are contiguous, but got strides {array.strides} for parameter "
            f"{parameter}: pass numpy.ascontiguousarray"
        )
    if array.nbytes == 0:
        raise ValueError(f"expects a buffer of at least 1 byte for parameter {parameter}")
    address, is_read_only = interface["data"]
    return parameter, address, array.nbytes, not is_read_only


def _finding(entry: Dict[str, Any]) -> Finding:
    return Finding(
        entry["check"],
        entry["kind"],
        entry["message"],
        _place(entry.get("place")),
        _place(entry.get("other")),
        entry.get("rule", ""),
        entry.get("count", 1),
        entry.get("address", 0),
        entry.get("bytes", 0),
    )


def _place(entry: Optional[Dict[str, Any]]) -> Optional[Place]:
    if not entry:
        return None
    x, y, z = entry["cta"]
    return Place(
        entry["line"], (x, y, z), entry["warp"], entry.get("lanes", 0), entry.get("source", "")
    )
