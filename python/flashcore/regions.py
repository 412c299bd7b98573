"""``score_mod`` and ``mask_mod``, functions of the caller's, as regions of the op.

:func:`trace_mods` calls them once with values that record what is done to them
(:mod:`flashcore.scalars`). What they compute becomes the text of a ``score`` and
a ``mask`` region, which is all that a kernel depends on; the tensors that they
read are data.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from dataclasses import dataclass, replace
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Set, Tuple, Union

# scalars finds them by name:
from flashcore import activations as _activations  # noqa: F401
from flashcore import functions as _functions  # noqa: F401
from flashcore.kinds import describe
from flashcore.scalars import Capture, Captures, Op, Scalar, Tracer, call_torch, is_recorded

__all__ = ["Frozen", "Regions", "TracedMods", "trace", "trace_mods"]

Mod = Callable[..., Any]

_ARGUMENTS = ("score", "batch", "head", "query", "key")
#: The number of the key among the values of a program.
KEY = _ARGUMENTS.index("key")
_WANTED = {
    "score_mod": "(score, batch, head, q_idx, kv_idx)",
    "mask_mod": "(batch, head, q_idx, kv_idx)",
}


@dataclass(frozen=True)
class Regions:
    """What a kernel has of such functions.

    named: "score" and "mask" with the text of the region, in its braces.
    captures: types of the tensors that they read, %capture0 and on.
    """

    named: Tuple[Tuple[str, str], ...] = ()
    captures: Tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As they stand behind the op's clauses."""
        return " ".join(f"{name} {region}" for name, region in self.named)

    def words(self) -> Tuple[str, ...]:
        """Those of ``--shape`` (:attr:`flashcore.Problem.regions`)."""
        tensors = (f"%capture{i}={kind}" for i, kind in enumerate(self.captures))
        return (*tensors, *(f"{name}={region}" for name, region in self.named))

    def __str__(self) -> str:
        comments = "".join(f"// %capture{i}: {kind}\n" for i, kind in enumerate(self.captures))
        return comments + self.text


@dataclass(frozen=True)
class Program:
    """One function: its ops in order, of which the first are its arguments."""

    ops: Tuple[Op, ...]
    result: int


@dataclass(frozen=True)
class Frozen:
    """A function that was traced before: its program, whose loads name these captures."""

    program: Program
    captures: Tuple[Capture, ...]


@dataclass(frozen=True)
class TracedMods:
    """Both functions, and the tensors that they read."""

    score: Optional[Program]
    mask: Optional[Program]
    captures: Tuple[Capture, ...]
    regions: Regions
    #: Whether they used tensors in no other way than to read elements at places that the
    #: kernel knows, so that they become the same with others of the same types.
    is_pure: bool = True

    def without_arrays(self) -> TracedMods:
        """The same, with what is known of captures but their memory."""
        return replace(self, captures=tuple(capture.without_array() for capture in self.captures))


_NO_MODS = TracedMods(None, None, (), Regions())


def trace(score_mod: Optional[Mod] = None, mask_mod: Optional[Mod] = None) -> str:
    """The regions of MLIR that functions become, for a look at them.

    score_mod, mask_mod: as of :func:`flashcore.attention`.

    Returns their text, after a comment a captured tensor with its type.

    Raises TypeError, with file and line, for what a region cannot have.
    """
    return str(trace_mods(score_mod, mask_mod).regions)


def trace_mods(
    score_mod: "Union[Mod, Frozen, None]", mask_mod: "Union[Mod, Frozen, None]"
) -> TracedMods:
    """Calls both functions with values that record, but for those that were traced before."""
    if score_mod is None and mask_mod is None:
        return _NO_MODS
    captures = Captures()
    given = {"score_mod": score_mod, "mask_mod": mask_mod}
    made = {
        name: _thaw(mod, captures) for name, mod in given.items() if isinstance(mod, Frozen)
    }
    with _torch_functions() as functions:
        for name, mod in given.items():
            if mod is not None and not isinstance(mod, Frozen):
                made[name] = _trace_one(name, mod, captures)
    score, mask = made.get("score_mod"), made.get("mask_mod")
    is_pure = not (captures.has_read_sizes or getattr(functions, "used_tensors", False))
    programs = [program for program in (score, mask) if program]
    loads = [op.detail for program in programs for op in program.ops if op.name == "load"]
    # The compiler names tensors in the order of their first uses.
    numbers = {number: i for i, number in enumerate(dict.fromkeys(loads))}
    kept = tuple(captures.list[number] for number in numbers)
    score, mask = (program and _renumber(program, numbers) for program in (score, mask))
    types = tuple(capture.type for capture in kept)
    named = tuple(
        (name, _text(program, types))
        for name, program in (("score", score), ("mask", mask))
        if program
    )
    return TracedMods(score, mask, kept, Regions(named, types), is_pure)


# Tracing --------------------------------------------------------------------


def _thaw(mod: Frozen, captures: Captures) -> Program:
    """The program with its captures among those of a call."""
    numbers = {i: captures.number(capture.array) for i, capture in enumerate(mod.captures)}
    return _renumber(mod.program, numbers)


def _trace_one(name: str, mod: Mod, captures: Captures) -> Program:
    tracer = Tracer(captures)
    arguments = [Scalar(tracer, i, op.type) for i, op in enumerate(tracer.ops)]
    try:
        returned = mod(*(arguments if name == "score_mod" else arguments[1:]))
    except TypeError:
        _check_parameters(name, mod)  # here, since it takes as long as all the rest
        raise
    result = _read_result(name, mod, tracer, returned)
    return _without_dead_ops(tracer.ops, result.value)


def _check_parameters(name: str, mod: Mod) -> None:
    if not callable(mod):
        raise TypeError(f"expects {name} to be a function or None, but got {describe(mod)}")
    try:
        signature = inspect.signature(mod)
    except ValueError:  # of a function in C
        return
    try:
        signature.bind(*_WANTED[name].split(", "))
    except TypeError:
        raise TypeError(
            f"{_definition(mod)}: expects {name} to take {_WANTED[name]}, but got one that "
            f"takes {signature}"
        ) from None


def _definition(mod: Any) -> str:
    """FILE:LINE where a function begins."""
    while isinstance(mod, functools.partial):
        mod = mod.func
    code = getattr(mod, "__code__", None) or getattr(type(mod).__call__, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(mod)


def _read_result(name: str, mod: Mod, tracer: Tracer, returned: Any) -> Scalar:
    wanted = {"score_mod": "a score (a float32)", "mask_mod": "whether the key is seen (a bool)"}
    try:
        (result,) = tracer.promote(returned)
    except TypeError:
        raise TypeError(
            f"{_definition(mod)}: expects {name} to return {wanted[name]}, but got {returned!r}"
        ) from None
    if (result.kind == "i1") != (name == "mask_mod"):
        kinds = {"f32": "a float32", "i1": "a bool"}
        raise TypeError(
            f"{_definition(mod)}: expects {name} to return {wanted[name]}, but got "
            f"{kinds.get(result.kind, 'a whole number')}"
        )
    return result if name == "mask_mod" else tracer.cast(result, "f32")


def _torch_functions() -> ContextManager[Any]:
    """Lets PyTorch hand over ``tensor[q_idx]``, which it does to a mode alone."""
    if not hasattr(sys.modules.get("torch"), "Tensor"):
        return contextlib.nullcontext()
    mode: ContextManager[Any] = _mode_class()()
    return mode


@functools.lru_cache(maxsize=None)
def _mode_class() -> Any:
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        #: Whether tensors alone were asked for something, be it their sizes.
        used_tensors = False

        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), options: Any = None
        ) -> Any:
            if not is_recorded(args, options or {}):
                self.used_tensors = True
            return call_torch(function, args, options or {})

    return Mode


def _without_dead_ops(ops: Sequence[Op], result: int) -> Program:
    """What the result needs, and the arguments."""
    used: Set[int] = {*range(len(_ARGUMENTS)), result}
    for value in reversed(range(len(ops))):
        if value in used:
            used.update(ops[value].operands)
    places = {value: i for i, value in enumerate(sorted(used))}
    kept = [
        ops[value]._replace(operands=tuple(places[x] for x in ops[value].operands))
        for value in places
    ]
    return Program(tuple(kept), places[result])


def _renumber(program: Program, numbers: Dict[int, int]) -> Program:
    ops = [
        op._replace(detail=numbers[op.detail]) if op.name == "load" else op for op in program.ops
    ]
    return Program(tuple(ops), program.result)


# Text -----------------------------------------------------------------------


def _text(program: Program, captures: Sequence[str]) -> str:
    names = [f"%{argument}" for argument in _ARGUMENTS]
    arguments = ", ".join(f"{name}: {op.type}" for name, op in zip(names, program.ops))
    lines = ["{", f"  ^bb0({arguments}):"]
    for op in program.ops[len(_ARGUMENTS) :]:
        result = f"%{len(names) - len(_ARGUMENTS)}"
        lines.append(f"    {result} = {_op_text(op, names, program.ops, captures)}")
        names.append(result)
    kind = program.ops[program.result].type
    lines.append(f"    flashcore.yield {names[program.result]} : {kind}")
    return "\n".join([*lines, "  }"])


def _op_text(op: Op, names: List[str], ops: Sequence[Op], captures: Sequence[str]) -> str:
    operands = ", ".join(names[operand] for operand in op.operands)
    if op.name == "constant":
        return f"arith.constant {op.detail}" + ("" if op.type == "i1" else f" : {op.type}")
    if op.name == "load":
        return f"memref.load %capture{op.detail}[{operands}] : {captures[op.detail]}"
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return f"{op.name} {op.detail}, {operands} : {ops[op.operands[0]].type}"
    if op.detail is not None:  # a cast
        return f"{op.name} {operands} : {op.detail} to {op.type}"
    return f"{op.name} {operands} : {op.type}"
