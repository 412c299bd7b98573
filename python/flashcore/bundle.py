"""What a bundle says: which code runs, and how its kernels are launched.

    bundle = flashcore.Bundle("attention.fcb")
    for launch in bundle.launches(bundle.sizes(batch=2, seqlen_k=4096)):
        print(launch.kernel.name, launch.grid, launch.kernel.resources)

docs/Bundle.md describes the format. This module needs nothing but the standard
library, so that tools of the source tree may read it where the package is not
built. It trusts what the compiler wrote; loading a bundle on a device
(:meth:`flashcore.Device.load`) checks it.
"""

from __future__ import annotations

import ast
import copy
import json
import math
import operator
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

__all__ = [
    "Argument",
    "Bundle",
    "BundleError",
    "Kernel",
    "Launch",
    "Resources",
    "Tensor",
    "TensorMap",
]

VERSION = 11
WORKSPACE = "workspace"

Sizes = Mapping[str, int]
#: Strides, and the offset of the first element, of a tensor; in elements.
Layout = Tuple[Sequence[int], int]


class BundleError(ValueError):
    """A bundle that cannot be read, or that sizes do not fit."""


@dataclass(frozen=True)
class Resources:
    """What a thread and a block of a kernel use, as ptxas says.

    registers: 32-bit registers a thread.
    spill_stores, spill_loads: bytes a thread.
    static_shared_memory: bytes a block, beside the dynamic ones.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    static_shared_memory: int

    @staticmethod
    def read(said: Optional[Mapping[str, Any]]) -> Optional[Resources]:
        """Those of a manifest or of a report; None where ptxas did not run."""
        if said is None:
            return None
        return Resources(
            said["registers"],
            said["spill_stores"],
            said["spill_loads"],
            said["static_shared_memory"],
        )

    @property
    def spills(self) -> int:
        """Bytes a thread, stored and loaded."""
        return self.spill_stores + self.spill_loads


@dataclass(frozen=True)
class Tensor:
    """A tensor of the call.

    axes: the name of the size of each axis, outermost first, or "1".
    strides, offset: in elements; None is chosen at run time.
    """

    name: str
    role: str
    dtype: str
    axes: Tuple[str, ...]
    strides: Tuple[Optional[int], ...]
    offset: Optional[int]

    @staticmethod
    def read(said: Mapping[str, Any]) -> Tensor:
        """That of a manifest."""
        return Tensor(
            said["name"],
            said["role"],
            said["dtype"],
            tuple(said["axes"]),
            tuple(said["strides"]),
            said["offset"],
        )

    @property
    def is_output(self) -> bool:
        return self.role == "output"

    @property
    def element_bytes(self) -> int:
        return {"f32": 4, "i32": 4, "i8": 1}.get(self.dtype, 2)

    def shape(self, sizes: Sizes) -> Tuple[int, ...]:
        return tuple(1 if axis == "1" else sizes[axis] for axis in self.axes)

    def dense_strides(self, sizes: Sizes) -> Tuple[int, ...]:
        """Row-major strides without padding."""
        shape = self.shape(sizes)
        return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))

    def layout(self, sizes: Sizes) -> Layout:
        """The strides and the offset that the bundle fixes, dense where it fixes none."""
        pairs = zip(self.strides, self.dense_strides(sizes))
        strides = tuple(dense if fixed is None else fixed for fixed, dense in pairs)
        return strides, self.offset or 0

    def emulator_argument(self, sizes: Sizes, fill: str, layout: Optional[Layout] = None) -> str:
        """The ``--arg`` of flashcore-emu for this tensor, such as "f16[1,8,64,64]:randn:1".

        It ends with the last element, so that a step further is out of bounds.
        """
        strides, offset = layout or self.layout(sizes)
        shape = ",".join(map(str, self.shape(sizes)))
        if tuple(strides) != self.dense_strides(sizes) or offset:
            shape += ":" + ",".join(map(str, strides))
        if offset:
            shape += f"+{offset}"
        return f"{self.dtype}[{shape}]:{fill}"


@dataclass(frozen=True)
class TensorMap:
    """What a kernel takes of a tensor that it moves by bulk copies.

    box: elements that a copy moves along each axis of ``tensor``.
    swizzle: of shared memory, in bytes.
    ragged: the axis of ``tensor`` that ends where one more coordinate says, if any:
        ``box`` has a side more in front then.
    group: rows of a group, if the axes are those of groups of panels, else 0.
    """

    tensor: str
    box: Tuple[int, ...]
    swizzle: int
    ragged: Optional[int] = None
    group: int = 0

    def emulator_argument(self, buffer: str) -> str:
        """The ``--arg`` of flashcore-emu for a map of such a buffer."""
        box = ",".join(map(str, self.box))
        ragged = "" if self.ragged is None else f";{self.ragged}"
        group = f"/{self.group}" if self.group else ""
        return f"tensormap{self.swizzle or ''}[{box}{ragged}{group}]:{buffer}"


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel, of 8 bytes or, for a tensor map, of 128.

    kind: "pointer", "offset" and "tensor_map" are of ``tensor``, "stride" of its
        ``axis``, and "size" is ``dim``.
    box, swizzle, ragged, group: of a tensor map.
    copy_of, row: of the workspace, that what is meant is a copy of this tensor there, and
        the elements from row to row of it.
    """

    kind: str
    tensor: Optional[str] = None
    dim: Optional[str] = None
    axis: int = 0
    box: Tuple[int, ...] = ()
    swizzle: int = 0
    ragged: Optional[int] = None
    copy_of: Optional[str] = None
    row: int = 0
    group: int = 0

    @staticmethod
    def read(said: Mapping[str, Any]) -> Argument:
        """That of a manifest."""
        return Argument(
            said["kind"],
            said.get("tensor"),
            said.get("dim"),
            said.get("axis", 0),
            tuple(said.get("box", ())),
            said.get("swizzle", 0),
            said.get("ragged"),
            said.get("copy_of"),
            said.get("row", 0),
            said.get("group", 0),
        )

    @property
    def buffer(self) -> str:
        """The name of the tensor, or of the copy of one."""
        assert self.tensor
        return f"{self.tensor}:{self.copy_of}" if self.copy_of else self.tensor


#: A number, the name of the tensor whose pointer it is, or a map of a tensor; a copy in the
#: workspace is "workspace:" and the name of what it is of.
Value = Union[int, str, TensorMap]


@dataclass(frozen=True)
class Kernel:
    """A kernel, in the order in which they run.

    block: threads.
    dynamic_shared_memory: bytes a block.
    resources: what ptxas said; None if it did not run.
    grid_expressions: blocks in each direction, as docs/Bundle.md says; of a persistent
        kernel they name "multiprocessors".
    when: the expression that says whether a call launches it; None for all.
    source: the file that says all this, or "the PTX".
    """

    name: str
    block: Tuple[int, ...]
    dynamic_shared_memory: int
    arguments: Tuple[Argument, ...]
    resources: Optional[Resources]
    grid_expressions: Tuple[str, ...]
    when: Optional[str] = None
    source: str = field(default="the PTX", compare=False, repr=False)

    @staticmethod
    def read(said: Mapping[str, Any], source: str = "the PTX") -> Kernel:
        """That of a manifest, or of the comment in PTX, which has no resources."""
        arguments = tuple(map(Argument.read, said["arguments"]))
        return Kernel(
            said["name"],
            tuple(said["block"]),
            said["dynamic_shared_memory"],
            arguments,
            Resources.read(said.get("resources")),
            tuple(said["grid"]),
            said.get("when"),
            source,
        )

    @property
    def shared_memory(self) -> int:
        """Bytes a block, with the static ones that ptxas tells of."""
        static = self.resources.static_shared_memory if self.resources else 0
        return self.dynamic_shared_memory + static

    def grid(self, sizes: Sizes, multiprocessors: Optional[int] = None) -> Tuple[int, ...]:
        """Blocks; those of a persistent kernel follow the device's multiprocessors."""
        known = _UNKNOWN_MULTIPROCESSORS if multiprocessors is None else multiprocessors
        numbers = {**sizes, "multiprocessors": known}
        return tuple(evaluate(blocks, numbers) for blocks in self.grid_expressions)

    def runs(self, sizes: Sizes) -> bool:
        """Whether a call of these sizes launches it."""
        return self.when is None or bool(evaluate(self.when, sizes))

    def values(self, sizes: Sizes, layouts: Mapping[str, Layout]) -> Tuple[Value, ...]:
        """The arguments in order: numbers, the names of the tensors whose pointers
        they are, and tensor maps; ``layouts`` has those of all tensors."""
        return tuple(self._value(argument, sizes, layouts) for argument in self.arguments)

    def _value(self, argument: Argument, sizes: Sizes, layouts: Mapping[str, Layout]) -> Value:
        if argument.kind == "size" and argument.dim:
            return sizes[argument.dim]
        if argument.kind == "pointer" and argument.tensor:
            return argument.buffer
        if argument.kind == "tensor_map" and argument.tensor:
            return TensorMap(
                argument.buffer, argument.box, argument.swizzle, argument.ragged, argument.group
            )
        if argument.kind in ("stride", "offset") and argument.tensor:
            strides, offset = layouts[argument.tensor]
            return strides[argument.axis] if argument.kind == "stride" else offset
        raise BundleError(
            f"{self.source}: expects arguments of '{self.name}' that are a pointer, a size, a "
            f"stride, an offset or a tensor map, but got the kind '{argument.kind}'"
        )


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and arguments: numbers, the names of the tensors whose
    pointers they are ("workspace" among them), and tensor maps."""

    kernel: Kernel
    grid: Tuple[int, ...]
    arguments: Tuple[Value, ...]

    def emulator_options(self, pointers: Mapping[str, str]) -> List[str]:
        """The options of flashcore-emu; ``pointers`` has the ``--arg`` of each tensor."""
        options = [
            "--kernel", self.kernel.name,
            "--grid", ",".join(map(str, self.grid)),
            "--block", ",".join(map(str, self.kernel.block)),
            "--shared", str(self.kernel.dynamic_shared_memory),
        ]  # fmt: skip
        first: Dict[str, int] = {}  # the argument that has the buffer of a tensor
        for index, value in enumerate(self.arguments):
            if isinstance(value, int):
                options += ["--arg", f"i64:{value}"]
                continue
            name = value if isinstance(value, str) else value.tensor
            buffer = f"@{first[name]}" if name in first else pointers[name]
            first.setdefault(name, index)
            if isinstance(value, TensorMap):
                buffer = value.emulator_argument(buffer)
            options += ["--arg", buffer]
        return options


class Bundle:
    """A folder that ``flashcore-compile --emit=bundle`` or
    :meth:`flashcore.Compilation.write_bundle` wrote.

    path: the folder.
    chip: of several variants the one that such a device runs: that with a cubin
        for it, else the newest whose PTX it runs. The oldest by default.
    shared_memory: bytes that a block of that device may have; variants with kernels
        that need more are passed over. Without a limit by default.

    Raises BundleError (a ValueError) if it cannot be read.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        chip: Optional[str] = None,
        shared_memory: Optional[int] = None,
    ) -> None:
        self.path = Path(path)
        self._manifest_path = self.path / "manifest.json"
        self.manifest = _read(self._manifest_path)
        self._variant = _choose(self.manifest["variants"], chip, shared_memory)

    def variant(self, chip: str) -> Bundle:
        """The same with the variant for exactly this chip, one of :attr:`chips`."""
        (said,) = [each for each in self.manifest["variants"] if each["chip"] == chip]
        other = copy.copy(self)
        other._variant = said
        return other

    @property
    def chip(self) -> str:
        """What the variant was compiled for."""
        return str(self._variant["chip"])

    @property
    def chips(self) -> Tuple[str, ...]:
        """Of all variants, oldest first."""
        return tuple(variant["chip"] for variant in self.manifest["variants"])

    @property
    def assembler(self) -> Optional[str]:
        """The version of ptxas that made the cubins; None without."""
        return self._variant["assembler"]  # type: ignore[no-any-return]

    @property
    def ptx(self) -> Path:
        return Path(self.path, self._variant["ptx"]["file"])

    @property
    def checksum(self) -> str:
        """Of the PTX."""
        return str(self._variant["ptx"]["fnv1a64"])

    @property
    def op(self) -> str:
        """What the kernels compute: "attention" or "merge", or "program", which is the
        several :attr:`ops` of a function."""
        ops = self.ops
        return ops[0] if len(ops) == 1 else "program"

    @property
    def ops(self) -> Tuple[str, ...]:
        """What runs in one call, in order."""
        return tuple(str(op["op"]) for op in self.manifest["ops"])

    @property
    def attention(self) -> Mapping[str, Any]:
        """Scale, mask and softcap; ``dims`` has the sizes, None where they are open. Of a
        program the sizes alone."""
        ops = self.manifest["ops"]
        attributes = ops[0]["attributes"] if len(ops) == 1 else {}
        return {**attributes, "dims": self.manifest["sizes"]}

    def _expect_one_op(self) -> None:
        """Views and intermediates are placed by the runtime alone."""
        if len(self.ops) > 1:
            raise BundleError(
                f"'{self.path}' is a program of {', '.join(self.ops)}, whose launches only "
                "the runtime plans: run it with flashcore.Device.load or flashcore-run"
            )

    @property
    def tensors(self) -> Dict[str, Tensor]:
        return {
            tensor.name: tensor for tensor in map(Tensor.read, self.manifest["tensors"])
        }

    @property
    def kernels(self) -> Tuple[Kernel, ...]:
        source = f"'{self._manifest_path}'"
        return tuple(Kernel.read(said, source) for said in self._variant["kernels"])

    def sizes(self, **chosen: int) -> Dict[str, int]:
        """All sizes: those that the bundle fixes, which ``chosen`` may repeat, and
        those that it leaves open, which it must have. Values that the manifest computes
        of them are there, too, and so are the numbers of blocks of lists, which may be
        larger."""
        known = self.attention["dims"]
        sizes = {**known, **chosen}
        blocks = zip(("query_blocks", "key_blocks"), ("seqlen_q", "seqlen_k"), (0, 1))
        for (name, rows, least), size in zip(blocks, self.attention.get("block_size", ())):
            if sizes[name] is None and sizes[rows] is not None:
                sizes[name] = max(-(-sizes[rows] // size), least)
        for name, size in sizes.items():
            if size is None:
                raise BundleError(f"'{self.path}' leaves {name} open: give it")
            if known.get(name) not in (None, size):
                raise BundleError(
                    f"'{self.path}' was compiled for {name} {known[name]}, but got {size}"
                )
        for value in self._variant["values"]:
            sizes[value["name"]] = evaluate(value["is"], sizes)
        return sizes

    def emulator_copies(self, sizes: Sizes, fill: str) -> Dict[str, str]:
        """The ``--arg`` of flashcore-emu for each copy in the workspace, as a buffer of its own."""
        self._expect_one_op()
        copies = {}
        for argument in (each for kernel in self.kernels for each in kernel.arguments):
            if not argument.copy_of:
                continue
            tensor = self.tensors[argument.copy_of]
            shape = (*tensor.shape(sizes)[:-1], argument.row)
            strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
            copies[argument.buffer] = tensor.emulator_argument(sizes, fill, (strides, 0))
        return copies

    def workspace_bytes(self, sizes: Sizes) -> int:
        self._expect_one_op()
        return sum(
            evaluate(term["bytes"], sizes)
            for term in self._variant["workspace"]
            if evaluate(term.get("when", "1"), sizes)
        )

    def launches(
        self,
        sizes: Sizes,
        layouts: Mapping[str, Layout] = {},
        multiprocessors: Optional[int] = None,
    ) -> List[Launch]:
        """What runs for these sizes, in order.

        sizes: as :meth:`sizes` returns them.
        layouts: of tensors whose strides the bundle does not fix; dense by default.
        multiprocessors: of the device; without, persistent kernels get whole grids.
        """
        self._expect_one_op()
        tensors = self.tensors
        places = {
            name: layouts.get(name) or tensor.layout(sizes) for name, tensor in tensors.items()
        }
        return [
            Launch(
                kernel,
                kernel.grid(sizes, multiprocessors),
                kernel.values(sizes, places),
            )
            for kernel in self.kernels
            if kernel.runs(sizes)
        ]


def _read(path: Path) -> Dict[str, Any]:
    try:
        manifest: Dict[str, Any] = json.loads(path.read_text())
    except OSError as error:
        raise BundleError(f"cannot read '{path}': {error.strerror}") from None
    except ValueError as error:
        raise BundleError(f"'{path}' is not JSON: {error}") from None
    found = manifest.get("format"), manifest.get("version")
    if found != ("flashcore-bundle", VERSION):
        raise BundleError(
            f"'{path}': expects a flashcore-bundle of version {VERSION}, but got {found[0]} of "
            f"version {found[1]}; compile the bundle again"
        )
    return manifest


def _choose(
    variants: Sequence[Mapping[str, Any]], chip: Optional[str], shared_memory: Optional[int]
) -> Mapping[str, Any]:
    """The variant whose kernels a device runs, as chooseVariant of the runtime."""
    by_age = sorted(variants, key=lambda variant: _age(variant["chip"]))
    if chip is None:
        return by_age[0]
    number = chip_number(chip)
    fitting = [
        each for each in by_age if shared_memory is None or _shared_memory(each) <= shared_memory
    ]
    assembled = [
        each
        for each in fitting
        if any(chip_number(cubin["chip"]) == number for cubin in each["cubins"])
    ]
    runnable = [each for each in fitting if _runs_on(each["chip"], number)]
    return (assembled or runnable or by_age[:1])[-1]


def _shared_memory(variant: Mapping[str, Any]) -> int:
    """Bytes that a block of one of its kernels has, of those the most."""
    return max(
        int(kernel["dynamic_shared_memory"])
        + int((kernel.get("resources") or {}).get("static_shared_memory", 0))
        for kernel in variant["kernels"]
    )


def _age(chip: str) -> Tuple[int, int]:
    """Of two chips of one number that comes last whose code runs on fewer others."""
    return chip_number(chip), " fa".index(chip[-1]) if chip[-1] in "fa" else 0


def _runs_on(chip: str, device: int) -> bool:
    """Whether a device assembles PTX for this chip: code with an "a" runs on no other,
    with an "f" on newer ones of its family."""
    number = chip_number(chip)
    if chip.endswith("a"):
        return number == device
    if chip.endswith("f"):
        return number // 10 == device // 10 and number <= device
    return number <= device


def chip_number(chip: str) -> int:
    """89 for sm_89, 90 for sm_90a."""
    return int("".join(filter(str.isdigit, chip)))


#: For a host that does not know them: more than there are blocks.
_UNKNOWN_MULTIPROCESSORS = 1 << 30

_WORDS = re.compile(r"[A-Za-z0-9_$%]+|[<>=!]=|\S")
#: How Python spells a word: its operators bind as those of expressions do, "@" as "*".
_SPELLINGS = {"floordiv": "//", "ceildiv": "@"}
_SIGNS = frozenset(("+", "-", "*", "<", ">", "<=", ">=", "==", "!=", "(", ")", ",", "and", "min", "max"))
_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.MatMult: lambda a, b: -(-a // b),
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(expression: str, numbers: Sizes) -> int:
    """The value of an expression of docs/Bundle.md, such as "(seqlen_q ceildiv 64) * batch".

    numbers: has what it names.

    Raises BundleError for what is no expression, names something else, divides by a number
    that is not positive or leaves the signed numbers of 64 bits. The runtime has a reader of
    its own, for it may have no Python; runtime/unittests/Inputs/expressions.json is what both
    must answer.
    """
    names: List[str] = []
    try:
        words = [_spell(word, names) for word in _WORDS.findall(expression)]
        tree = ast.parse(" ".join(words), mode="eval")
        return _evaluate(tree.body, {f"_{i}": numbers[name] for i, name in enumerate(names)})
    except KeyError as error:
        raise BundleError(f"cannot evaluate '{expression}': nothing is named {error}") from None
    except SyntaxError as error:
        raise BundleError(f"cannot evaluate '{expression}': {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise BundleError(f"cannot evaluate '{expression}': {error}") from None


def _spell(word: str, names: List[str]) -> str:
    """It in Python; ``names`` gets what is a name, which Python may not allow."""
    if word in _SPELLINGS:
        return _SPELLINGS[word]
    if word in _SIGNS:
        return word
    if word[0] in "0123456789":
        return str(int(word))
    if not _WORDS.fullmatch(word) or not (word[0].isascii() and word[0].isalpha() or word[0] in "_$%"):
        raise ValueError(f"'{word}' is no part of an expression")
    names.append(word)
    return f"_{len(names) - 1}"


def _evaluate(node: ast.AST, numbers: Sizes) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        value: int = node.value
    elif isinstance(node, ast.Name) and node.id in numbers:
        value = numbers[node.id]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = -_evaluate(node.operand, numbers)
    elif isinstance(node, ast.BoolOp):
        value = all([_evaluate(each, numbers) for each in node.values])
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        extreme = {"min": min, "max": max}.get(node.func.id)
        if not extreme:
            raise ValueError("it is no expression of docs/Bundle.md")
        value = extreme(_evaluate(each, numbers) for each in node.args)
    elif isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, numbers), _evaluate(node.right, numbers)
        if isinstance(node.op, (ast.FloorDiv, ast.MatMult)) and right <= 0:
            raise ValueError(f"it divides by {right}")
        value = _OPERATORS[type(node.op)](left, right)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _evaluate(node.left, numbers), _evaluate(node.comparators[0], numbers)
        value = _OPERATORS[type(node.ops[0])](left, right)
    else:
        raise ValueError("it is no expression of docs/Bundle.md")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} needs more than 64 bits")
    return int(value)
