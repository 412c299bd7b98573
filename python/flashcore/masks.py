"""What a mask_mod hides, as text."""

from __future__ import annotations

import operator
from typing import Any, List, Sequence

from flashcore.kinds import describe, read
from flashcore.regions import Mod, Program, trace_mods
from flashcore.scalars import Capture, Op

__all__ = ["show_mask"]


def show_mask(
    mask_mod: Mod,
    seqlen_q: int,
    seqlen_k: int,
    block_m: int = 128,
    block_n: int = 64,
    batch: int = 0,
    head: int = 0,
) -> str:
    """The tiles of a mask: "#" is seen, "." is hidden, and "+" is both in part.

    mask_mod: as of :func:`flashcore.attention`.
    seqlen_q, seqlen_k: queries, which go down, and keys, which go to the right.
    block_m, block_n: queries and keys of a tile.
    batch, head: batch entry and query head that are looked at.

    Returns a line for each block_m queries, of a character for each block_n keys.

    Raises TypeError for what a mask_mod cannot have, and IndexError where it
    reads outside of a tensor.
    """
    import numpy

    sizes = {"seqlen_q": seqlen_q, "seqlen_k": seqlen_k, "block_m": block_m, "block_n": block_n}
    batch, head = read("batch", batch), read("head", head)
    for name, size in sizes.items():
        if read(name, size) < 1:
            raise ValueError(f"expects {name} to be at least 1, but got {size}")
    if not callable(mask_mod):
        raise TypeError(f"expects mask_mod to be a function, but got {describe(mask_mod)}")
    for name, place in (("batch", batch), ("head", head)):
        if place < 0:
            raise ValueError(f"expects {name} to be at least 0, but got {place}")
    traced = trace_mods(None, mask_mod)
    assert traced.mask
    tensors = [_on_host(capture) for capture in traced.captures]
    keys = numpy.arange(seqlen_k)[None]
    starts = numpy.arange(0, seqlen_k, block_n)
    lines = []
    for first in range(0, seqlen_q, block_m):
        queries = numpy.arange(first, min(first + block_m, seqlen_q))[:, None]
        arguments = [numpy.float32(0), numpy.int64(batch), numpy.int64(head), queries, keys]
        with numpy.errstate(all="ignore"):  # of what is not chosen, as in a kernel
            result = _evaluate(traced.mask, tensors, arguments)
        seen = numpy.broadcast_to(result, (len(queries), seqlen_k))
        some = numpy.logical_or.reduceat(seen.any(0), starts)
        every = numpy.logical_and.reduceat(seen.all(0), starts)
        lines.append("".join("#" if e else "+" if s else "." for s, e in zip(some, every)))
    return "\n".join(lines)


def _on_host(capture: Capture) -> Any:
    """The tensor as a NumPy array, of the type that regions compute with."""
    import numpy

    array = capture.array
    if hasattr(array, "detach"):  # PyTorch's; NumPy has no bfloat16
        array = array.detach().cpu()
        array = array.float() if array.is_floating_point() else array
    elif hasattr(array, "get"):  # CuPy's
        array = array.get()
    wide = {"i32": "int32", "i8": capture.dtype}.get(capture.element, "float32")
    return numpy.asarray(array).astype(wide)


def _evaluate(program: Program, tensors: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """What a region computes, on arrays of arguments that broadcast."""
    values: List[Any] = list(arguments)
    for op in program.ops[len(arguments) :]:
        values.append(_compute(op, [values[i] for i in op.operands], tensors))
    return values[program.result]


def _compute(op: Op, operands: List[Any], tensors: Sequence[Any]) -> Any:
    import numpy

    if op.name == "constant":
        return _constant(op)
    if op.name == "load":
        return _load(tensors[op.detail], operands)
    if op.name == "arith.select":
        return numpy.where(*operands)
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return getattr(operator, op.detail[-2:])(*operands)  # slt, olt: lt
    if op.name == "math.rsqrt":
        return 1 / numpy.sqrt(operands[0])
    if op.detail is not None:  # a cast
        return operands[0].astype({"f32": "float32", "i32": "int32"}.get(op.type, "int64"))
    name = _NUMPYS.get(op.name, op.name.partition(".")[2])
    return getattr(numpy, name)(*operands)


def _constant(op: Op) -> Any:
    import numpy

    if op.type == "i1":
        return numpy.bool_(op.detail == "true")
    if op.type != "f32":
        return (numpy.int32 if op.type == "i32" else numpy.int64)(int(op.detail))
    if op.detail.startswith("0x"):
        return numpy.uint32(int(op.detail, 16)).view("float32")
    return numpy.float32(op.detail)


def _load(tensor: Any, indices: List[Any]) -> Any:
    for axis, (index, size) in enumerate(zip(indices, tensor.shape)):
        if (index < 0).any() or (index >= size).any():
            raise IndexError(
                f"expects indices of axis {axis} of a captured tensor from 0 to {size - 1}, but "
                f"got {index.min()} to {index.max()}"
            )
    return tensor[tuple(indices)]


#: NumPy's names of ops that it calls otherwise.
_NUMPYS = {
    "arith.addf": "add", "arith.addi": "add",
    "arith.subf": "subtract", "arith.subi": "subtract",
    "arith.mulf": "multiply", "arith.muli": "multiply",
    "arith.divf": "divide", "arith.negf": "negative",
    "arith.floordivsi": "floor_divide", "arith.divui": "floor_divide",
    "arith.remui": "remainder",
    "arith.maximumf": "maximum", "arith.maxsi": "maximum",
    "arith.minimumf": "minimum", "arith.minsi": "minimum",
    "arith.andi": "bitwise_and", "arith.ori": "bitwise_or",
    "arith.xori": "bitwise_xor", "arith.shli": "left_shift", "arith.shrsi": "right_shift", "math.absf": "abs", "math.absi": "abs",
}  # fmt: skip
