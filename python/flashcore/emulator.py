"""Any PTX on the CPU, every access checked."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from flashcore import _core
from flashcore.errors import Error
from flashcore.findings import Finding, Place, read_finding, read_findings
from flashcore.kinds import expect_one_of, read

__all__ = [
    "Buffer",
    "Finding",
    "KernelInfo",
    "ModuleInfo",
    "Parameter",
    "Place",
    "Report",
    "Struct",
    "describe_ptx",
    "run_ptx",
]

Dim = Union[int, Sequence[int]]

_SCHEDULES = ("seq", "skew", "random")
_ASYNC = ("lazy", "eager", "random")
_SHARED_BASES = ("driver", "declared")


class Struct:
    """A struct by value, for `run_ptx`.

    size: its bytes; members: what lies at which offset, as `run_ptx` takes
    arguments: an array is a pointer to a buffer. The rest is zero.
    """

    def __init__(self, size: int, members: Mapping[int, Any]) -> None:
        self.size = size
        self.members = dict(members)


class Buffer:
    """A buffer of values and pointers, for `run_ptx`.

    values: one behind the other, as `run_ptx` takes arguments: an array is a
    pointer to a buffer of its own. NumPy scalars have their size; a Python
    number does not say what it is, so it is refused.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)


@dataclass(frozen=True)
class Parameter:
    """One of a kernel: kind is "pointer", "number" or "struct"; type is that of
    PTX, such as "u64"."""

    name: str
    kind: str
    type: str
    bytes: int
    align: int
    offset: int


@dataclass(frozen=True)
class KernelInfo:
    """What there is to know of a kernel before it is launched.

    block: that it requires, if it does; max_threads: the most it allows.
    shared: static shared memory in bytes; has_dynamic_shared: whether it takes
        more at the launch.
    uses: such as "mma", "cp.async" and "atomics".
    error: why the emulator cannot run it; all else is then empty.
    """

    name: str
    parameters: Tuple[Parameter, ...] = ()
    block: Optional[Tuple[int, int, int]] = None
    max_threads: Optional[int] = None
    shared: int = 0
    has_dynamic_shared: bool = False
    uses: Tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class ModuleInfo:
    """A module of PTX: its target, its kernels, and how flashcore-compile says
    that they are launched (the fields of a bundle's manifest), if it does."""

    target: str
    version: Tuple[int, int]
    kernels: Tuple[KernelInfo, ...]
    launch: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class Report:
    """What a run found.

    findings: mistakes; empty for a kernel without.
    notes: what is worth knowing but no mistake, such as warps that store one and
        the same value.
    counters: instructions and memory traffic.
    text: the report for people.
    json: all of it.
    """

    findings: Tuple[Finding, ...]
    notes: Tuple[Finding, ...]
    counters: Dict[str, Any]
    text: str
    json: Dict[str, Any]

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        return self.text


def describe_ptx(ptx: Union[str, bytes]) -> ModuleInfo:
    """What is in a module: its kernels, what they take and what they use.

    Raises Error for a text that is no PTX.
    """
    found = json.loads(_core.describe_ptx(_text(ptx)))
    if "launch_error" in found:
        error = found["launch_error"]
        raise Error(f"line {error['line']}, column {error['column']}: {error['message']}")
    major, minor = found["ptx_version"]
    kernels = tuple(_kernel(entry) for entry in found["kernels"])
    return ModuleInfo(found["target"], (major, minor), kernels, found.get("launch"))


def run_ptx(
    ptx: Union[str, bytes],
    grid: Optional[Dim],
    block: Optional[Dim],
    args: Union[Sequence[Any], Mapping[str, Any]],
    *,
    kernel: Optional[str] = None,
    shared: Optional[int] = None,
    checks: str = "all",
    threads: int = 1,
    schedule: str = "seq",
    asynchronous: str = "lazy",
    seed: int = 0,
    max_instructions: int = 4_000_000_000,
    shared_base: str = "driver",
) -> Report:
    """Runs one kernel of a PTX module on the CPU and says what it did wrong.

    ptx: the text of a module, by any compiler.
    grid, block: CTAs, and threads of a CTA: x, or up to (x, y, z). A block of
        None is what .reqntid of the kernel asks for. A grid of None is for PTX
        of flashcore-compile, which says how it is launched; `block` and
        `shared` are then those it says.
    args: the kernel's arguments in order. A NumPy array is a buffer: the kernel
        reads what it holds, and what the kernel wrote is in it afterwards, but
        for arrays that are read-only. The layout check takes its shape for that
        of a tensor. Numbers and bytes are what they are;
        `Struct` and `Buffer` are made of others. With a grid of None, arrays by
        the names of tensors.
    kernel: its name; may be left out if there is one.
    shared: dynamic shared memory of a CTA, in bytes; None means 0.
    checks: "all", "none", or a list such as "memory,race".
    threads: to run CTAs on; 0 takes all cores. Results do not depend on it.
    schedule: order of warps: "seq", "skew" (last warp first) or "random".
    asynchronous: when cp.async moves its bytes: "lazy" (at the wait), "eager"
        (at the issue) or "random".
    seed: of what is random.
    max_instructions: warp instructions after which to stop; 0 means no limit.
    shared_base: where dynamic shared memory begins behind the static part:
        "driver" (at a multiple of 1024) or "declared" (at a multiple of what
        the kernel declares, and of nothing more).

    Raises Error for PTX or a launch that is wrong in itself, and ValueError and
    TypeError for arguments that the kernel cannot take.
    """
    text = _text(ptx)
    if grid is None:
        from flashcore.launch_comment import described_launch

        kernel, grid, block, shared, args = described_launch(describe_ptx(text).launch, args)
    if isinstance(args, Mapping):
        raise TypeError("expects arguments in order; names are for a grid of None")
    name, _, parameters, _, _ = _core.load_ptx(text, kernel)
    if len(args) != len(parameters):
        raise ValueError(f"expects {len(parameters)} arguments of {name}, but got {len(args)}")
    values = [_value(value, parameter, size) for value, (parameter, size) in zip(args, parameters)]
    said, shown = _core.run_ptx(
        text,
        kernel,
        _dim("grid", grid),
        _dim("block", block) if block is not None else (0, 0, 0),
        0 if shared is None else read("shared", shared),
        values,
        read("checks", checks),
        read("threads", threads),
        _choice("schedule", schedule, _SCHEDULES),
        _choice("asynchronous", asynchronous, _ASYNC),
        read("seed", seed),
        read("max_instructions", max_instructions),
        _choice("shared_base", shared_base, _SHARED_BASES),
    )
    report = json.loads(said)
    notes = tuple(map(read_finding, report["notes"]))
    return Report(read_findings(said), notes, report.get("counters", {}), shown, report)


def _text(ptx: Union[str, bytes]) -> str:
    return ptx.decode() if isinstance(ptx, bytes) else ptx


def _kernel(entry: Dict[str, Any]) -> KernelInfo:
    if "error" in entry:
        error = entry["error"]
        where = f"line {error['line']}, column {error['column']}: " if error["line"] else ""
        return KernelInfo(entry["name"], error=where + error["message"])
    block, most = entry["required_block"], entry["max_block"]
    return KernelInfo(
        entry["name"],
        tuple(
            Parameter(
                one["name"], one["kind"], one["type"], one["bytes"], one["align"], one["offset"]
            )
            for one in entry["parameters"]
        ),
        (block[0], block[1], block[2]) if block else None,
        most[0] * most[1] * most[2] if most else None,
        entry["static_shared_memory"],
        entry["uses_dynamic_shared_memory"],
        tuple(entry["uses"]),
    )


def _dim(name: str, size: Dim) -> Tuple[int, int, int]:
    given = size if isinstance(size, (tuple, list)) else [size]
    sizes = [read(name, one, whole=size) for one in given]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1 or max(sizes) >= 1 << 32:
        raise ValueError(f"expects {name} to be one to three sizes of at least 1, but got {size}")
    x, y, z = sizes + [1] * (3 - len(sizes))
    return x, y, z


def _choice(name: str, value: str, choices: Tuple[str, ...]) -> int:
    return choices.index(expect_one_of(name, value, choices))


def _value(value: Any, parameter: str, size: int) -> Any:
    """As the extension takes it: bytes; (name, address, bytes, is written, item
    size, shape) for an array; (name, bytes, members) for what has members, of which the name is
    empty if it is by value."""
    if isinstance(value, Struct):
        if value.size != size:
            raise ValueError(
                f"expects {size} bytes for parameter {parameter}, but got a Struct of {value.size}"
            )
        return "", bytes(size), _members(value.members, parameter, size)
    if isinstance(value, Buffer):
        return _value_buffer(value, parameter, size)
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


def _size_of(value: Any, place: str) -> int:
    """Bytes that a value takes inside a struct or a buffer."""
    if isinstance(value, Struct):
        return value.size
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    if isinstance(value, Buffer) or getattr(value, "ndim", 0) > 0:
        return 8
    if hasattr(value, "tobytes"):
        return len(value.tobytes())
    raise TypeError(
        f"expects arrays, NumPy scalars, bytes, Struct or Buffer at {place}, but got {value!r}"
    )


def _members(members: Mapping[int, Any], parameter: str, size: int) -> List[Tuple[int, Any]]:
    converted = []
    end, last = 0, 0
    for offset, value in sorted(members.items()):
        place = f"{parameter}+{offset}"
        bytes_here = _size_of(value, place)
        if offset < 0 or offset + bytes_here > size:
            raise ValueError(
                f"expects members within the {size} bytes of {parameter}, but got "
                f"{bytes_here} bytes at {offset}"
            )
        if offset < end:
            raise ValueError(
                f"expects members of {parameter} that do not overlap, but got one at {offset} "
                f"and one at {last} that ends with byte {end - 1}"
            )
        converted.append((offset, _value(value, place, bytes_here)))
        end, last = offset + bytes_here, offset
    return converted


def _value_buffer(value: Buffer, parameter: str, size: int) -> Any:
    if size != 8:
        raise ValueError(
            f"expects {size} bytes for parameter {parameter}, but got a Buffer: it is no pointer"
        )
    members: Dict[int, Any] = {}
    end = 0
    for one in value.values:
        bytes_here = _size_of(one, f"{parameter}+{end}")
        align = 8 if isinstance(one, Struct) else max(bytes_here, 1)
        end = -(-end // align) * align
        members[end] = one
        end += bytes_here
    if not end:
        raise ValueError(f"expects a Buffer of at least 1 byte for parameter {parameter}")
    return parameter, bytes(end), _members(members, parameter, end)


def _integer(value: int, parameter: str, size: int) -> bytes:
    try:
        return value.to_bytes(size, "little", signed=value < 0)
    except OverflowError:
        raise ValueError(
            f"expects a number of {size} bytes for parameter {parameter}, but got {value}"
        ) from None


def _buffer(
    array: Any, parameter: str, size: int
) -> Tuple[str, int, int, bool, int, Tuple[int, ...]]:
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
    return parameter, address, array.nbytes, not is_read_only, array.itemsize, array.shape
