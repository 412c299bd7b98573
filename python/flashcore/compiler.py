"""Compiling without running: ``compile``, ``explain`` and ``inspect``."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

from flashcore import _core
from flashcore.bundle import Resources
from flashcore.kinds import read
from flashcore.problem import Problem, abridge, invariant_schedule, schedule_of

__all__ = ["Compilation", "Inspection", "Resources", "compile", "explain", "inspect"]

Source = Union[str, bytes, Problem]


@dataclass(frozen=True)
class Inspection:
    """One attention, compiled for one chip.

    name: of its function.
    chip: such as "sm_90".
    schedule: every choice about the kernel, by name.
    reasons: why each of them was made.
    limiter: what bounds its speed.
    shared_memory: dynamic bytes a block.
    occupancy: blocks and warps that an SM holds, if ptxas ran.
    resources: of each kernel by name; None without ptxas.
    phases: the IR after each phase; 0 is the input.
    ptx: its code.
    report: all that ``flashcore-compile --json`` says.
    """

    name: str
    chip: str
    schedule: Dict[str, Union[int, str]]
    reasons: Dict[str, str]
    limiter: str
    shared_memory: int
    occupancy: Optional[Dict[str, Any]]
    resources: Dict[str, Optional[Resources]]
    phases: Tuple[str, ...]
    ptx: str
    report: Dict[str, Any]


class Compilation:
    """What became of a module, or of the words of ``--shape``."""

    def __init__(self, handle: "_core.Compilation") -> None:
        self._handle = handle

    @property
    def names(self) -> Tuple[str, ...]:
        """The attentions' names."""
        return self._handle.names

    @property
    def chips(self) -> Tuple[str, ...]:
        """What they were compiled for."""
        return self._handle.chips

    @property
    def warnings(self) -> str:
        """What the compiler warned of; "" without."""
        return self._handle.warnings

    @property
    def report(self) -> Dict[str, Any]:
        """What ``flashcore-compile --json`` says."""
        return dict(json.loads(self._handle.report))

    def explain(self) -> str:
        """What was chosen and why, what the kernel uses and what limits it."""
        return self._handle.explanation

    def ptx(self, attention: int = 0, chip: int = 0) -> str:
        """The code of one attention for one chip."""
        self._expect(attention, chip)
        return self._handle.ptx(attention, chip)

    def phases(self, chip: int = 0) -> Tuple[str, ...]:
        """The IR after each phase of docs/Pipeline.md; 0 is the input.

        Empty unless compiled with keep_phases=True.
        """
        self._expect(0, chip)
        texts = tuple(self._handle.phase(chip, phase) for phase in range(8))
        return texts if any(texts) else ()

    def write_bundle(self, path: "str | os.PathLike[str]", attention: int = 0) -> None:
        """Writes a bundle; one that is there is replaced."""
        self._expect(attention, 0)
        self._handle.write_bundle(attention, path)

    def inspect(self, attention: int = 0, chip: int = 0) -> Inspection:
        """All there is to know of one attention for one chip.

        Raises ValueError for what is no attention: another op, or a program of several.
        """
        self._expect(attention, chip)
        name, target = self.names[attention], self.chips[chip]
        found = [
            entry
            for entry in self.report["attentions"]
            if entry["name"] == name and entry["chip"] == target
        ]
        if not found:
            raise ValueError(
                f"expects an attention, but '{name}' is another op, or a program of several: "
                "Compilation.report has what was chosen for each of its attentions"
            )
        said = found[0]
        return Inspection(
            name,
            target,
            said["schedule"],
            said["reasons"],
            said["limiter"],
            said["shared_memory"],
            said["occupancy"],
            {kernel["name"]: Resources.read(kernel["resources"]) for kernel in said["kernels"]},
            self.phases(chip),
            self.ptx(attention, chip),
            said,
        )

    def _expect(self, attention: int, chip: int) -> None:
        for what, index, items in (
            ("attention", attention, self.names),
            ("chip", chip, self.chips),
        ):
            if not 0 <= index < len(items):
                raise IndexError(f"expects {what} below {len(items)}, but got {index}")


def compile(
    source: Source,
    *,
    chip: Union[None, str, Iterable[str]] = None,
    schedule: Any = None,
    ptxas: Union[bool, str] = False,
    keep_phases: bool = False,
    batch_invariant: bool = False,
) -> Compilation:
    """Compiles attentions to PTX.

    source: MLIR (text or bytecode), a :class:`flashcore.Problem`, or words of
        ``flashcore-compile --shape`` such as "b1 h32/8 s4096 d128 bf16 causal".
    chip: "sm_90", or several; by default that of the module, else sm_89.
    schedule: choices such as {"block_n": 64}; the others follow.
    ptxas: True also makes cubins, which tells registers and spills; a str is
        the path of ptxas.
    keep_phases: keep the IR after each phase.
    batch_invariant: as that of :func:`flashcore.attention`.

    Raises ValueError for words that are none, UnsupportedError for what this
    version cannot lower, and Error for what else is wrong, with its place.
    """
    batch_invariant = read("batch_invariant", batch_invariant)
    module, name = _module_of(source)
    chips = chip if chip is None or isinstance(chip, str) else ",".join(chip)
    path = None
    if ptxas:
        path = ptxas if isinstance(ptxas, str) else ""
    choices = invariant_schedule(schedule) if batch_invariant else schedule_of(schedule)
    return Compilation(_core.compile(module, name, chips, list(choices), path, keep_phases))


def _module_of(source: Source) -> Tuple[bytes, str]:
    """The MLIR of a source, and what errors call it."""
    if isinstance(source, bytes):
        return source, "module"
    if isinstance(source, Problem):
        source = source.words()
    elif not _is_words(source):
        return source.encode(), "module"
    return _core.write_shape(source).encode(), abridge(source)


def _is_words(source: str) -> bool:
    """A module has a line end, a call, a type or a symbol; words have them in regions alone."""
    for word in source.split(" "):
        if "=" in word and word.lower().startswith(("%", "score=", "mask=")):
            return True
        if any(mark in word for mark in "\n{(%@"):
            return False
    return True


def explain(source: Source, **options: Any) -> str:
    """What the compiler chooses for an attention and why; see :func:`compile`."""
    return compile(source, **options).explain()


def inspect(source: Source, **options: Any) -> Union[Inspection, List[Inspection]]:
    """Phases, PTX, schedule and resources of an attention; see :func:`compile`.

    A list where the module has several attentions, or is for several chips.
    """
    compilation = compile(source, keep_phases=True, **options)
    found = [
        compilation.inspect(attention, chip)
        for attention in range(len(compilation.names))
        for chip in range(len(compilation.chips))
    ]
    return found[0] if len(found) == 1 else found
