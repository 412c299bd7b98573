"""Edits of what kernels of warpgroups are made of: wgmma and its queue,
mbarriers and cp.async that arrives at them, bulk copies, fences of proxies,
setmaxnreg.

An edit is (name, new text) of one statement; a move is (group, ordinal, name,
changes), where changes are (statement, new text) pairs.
"""

import re

import ptx
from edits import (in_braces, is_number, registers, shift, swap, with_opcode,
                   with_operand, with_result)

# Of a row of 64 columns, and of eight of them, the unit of a swizzle.
_ROW_BYTES, _PATTERN_BYTES = 128, 1024
# A matrix descriptor counts 16 bytes; see WgmmaOperand.h.
_UNIT = 16
_LEADING, _STRIDE, _SWIZZLE = 16, 32, 62


def _delete(statement, _):
    yield "delete", ""


def _delete_or_twice(statement, _):
    yield "delete", ""
    yield "twice", f"{statement}{statement}"


def _changed_number(statement, index, amount):
    operand = statement.operands[index]
    if is_number(operand):
        return with_operand(statement, index, str(int(operand, 0) + amount))
    return with_result(statement, index, "s32", "add", amount)


def _wait_group(statement, _):
    yield "delete", ""
    kept = int(statement.operands[0], 0)
    yield "one-more", with_operand(statement, 0, str(kept + 1))
    if kept:
        yield "one-less", with_operand(statement, 0, str(kept - 1))


# mbarriers are 8 bytes; both of a slot and those of the next are side by side.
_OTHERS = (8, 16)


def _init(statement, _):
    yield "delete", ""
    yield "twice", f"{statement}{statement}"
    for amount in (1, -1):
        yield f"count{amount:+}", _changed_number(statement, 1, amount)
    yield "at+8", with_operand(statement, 0, shift(statement.operands[0], 8))


def _arrive(statement, _):
    index = 1 if len(statement.operands) > 1 else 0
    yield from _delete_or_twice(statement, _)
    for distance in _OTHERS:
        yield f"at+{distance}", with_operand(
            statement, index, shift(statement.operands[index], distance))


def _arrive_behind(statement, _):
    yield from _arrive(statement, _)
    counted = ".noinc" in statement.opcode
    yield "count", with_opcode(
        statement, statement.opcode.replace(".noinc", "") if counted else
        statement.opcode.replace(".arrive", ".arrive.noinc"))
    at_once = statement.opcode.replace("cp.async.", "").replace(".noinc", "")
    yield "at-once", with_opcode(statement, f"{at_once} _,")


def _expect(statement, _):
    yield from _arrive(statement, _)
    for amount in (128, -128):
        yield f"bytes{amount:+}", _changed_number(statement, 2, amount)
    yield "no-bytes", with_operand(statement, 2, "0")


def _await(statement, _):
    predicate, barrier, parity = statement.operands[:3]
    yield "delete", f"\tsetp.eq.s32 {predicate}, 0, 0;"
    if is_number(parity):
        yield "parity", with_operand(statement, 2, str(1 - int(parity, 0)))
    else:
        yield "parity", with_result(statement, 2, "b32", "xor", 1)
    for distance in _OTHERS:
        yield f"at+{distance}", with_operand(statement, 1,
                                             shift(barrier, distance))


def _coordinates(statement, index):
    """Edits of {column, row, ...} of a tensor map: [map, {...}]."""
    head, _, names = statement.operands[index].partition("{")
    names = registers(names.rstrip("]} "))
    for axis, name in enumerate(names):
        places = [*names]
        places[axis] = "moved"
        moved = with_operand(statement, index,
                             f"{head}{in_braces(places)}]")
        yield f"axis-{axis}+1", (f"{{ .reg .s32 moved; add.s32 moved, {name}, "
                                 f"1;{moved} }}")


def _load_tile(statement, _):
    yield from _delete_or_twice(statement, _)
    to, _, barrier = statement.operands
    for distance in (_ROW_BYTES, _PATTERN_BYTES, 8 * _PATTERN_BYTES):
        yield f"to+{distance}", with_operand(statement, 0, shift(to, distance))
    for distance in _OTHERS:
        yield f"tells+{distance}", with_operand(statement, 2,
                                                shift(barrier, distance))
    yield from _coordinates(statement, 1)


def _store_tile(statement, _):
    yield "delete", ""
    yield f"from+{_PATTERN_BYTES}", with_operand(
        statement, 1, shift(statement.operands[1], _PATTERN_BYTES))
    yield from _coordinates(statement, 0)


# What setmaxnreg takes.
_REGISTER_COUNTS = range(24, 257, 8)


def _register_count(statement, _):
    yield "delete", ""
    for amount in (8, -8):
        if int(statement.operands[0]) + amount in _REGISTER_COUNTS:
            yield f"count{amount:+}", _changed_number(statement, 0, amount)


def _descriptor(statement, index, name):
    """Another place, other distances, another swizzle."""
    for edit, units in ((f"+{2 * _UNIT}", 2),
                        (f"+{_PATTERN_BYTES}", _PATTERN_BYTES // _UNIT),
                        ("-leading", _PATTERN_BYTES // _UNIT << _LEADING),
                        ("-stride", _PATTERN_BYTES // _UNIT << _STRIDE)):
        yield name + edit, with_result(statement, index, "s64", "add", units)
    for edit, codes in (("-no-swizzle", 1), ("-swizzle-64", 3)):
        yield name + edit, with_result(statement, index, "b64", "xor",
                                       hex(codes << _SWIZZLE))


def _flip(statement, index):
    return with_operand(statement, index,
                        str(1 - int(statement.operands[index], 0)))


def _fewer_columns(statement):
    columns = int(re.search(r"m64n(\d+)", statement.opcode)[1]) - 8
    kept = registers(statement.operands[0])[:columns // 2]
    fewer = with_operand(statement, 0, in_braces(kept))
    return re.sub(r"m64n\d+", f"m64n{columns}", fewer)


def _product(statement, _):
    """The operands are sums, A, B, scale-d, two signs, whether A is transposed
    where it is in memory, whether B is."""
    a, scale = statement.operands[1], statement.operands[3]
    if a.startswith("{"):
        yield "swap-a0-a1", with_operand(statement, 1, swap(a, 0, 1))
        yield "swap-a1-a2", with_operand(statement, 1, swap(a, 1, 2))
    else:
        yield from _descriptor(statement, 1, "a")
        yield "trans-a", _flip(statement, 6)
    yield from _descriptor(statement, 2, "b")
    yield "trans-b", _flip(statement, -1)
    negated = with_operand(statement, 3, "other")
    yield "scale-d", (f"{{ .reg .pred other; not.pred other, {scale};{negated} "
                      "}")
    yield "n-8", _fewer_columns(statement)


EDITS = {
    "wgmma.fence": _delete_or_twice,
    "wgmma.commit_group": _delete_or_twice,
    "wgmma.wait_group": _wait_group,
    "wgmma.mma_async": _product,
    "mbarrier.init": _init,
    "mbarrier.arrive": _arrive,
    "mbarrier.arrive.expect_tx": _expect,
    "cp.async.mbarrier.arrive": _arrive_behind,
    "mbarrier.try_wait": _await,
    "mbarrier.test_wait": _await,
    "bulk-load": _load_tile,
    "bulk-store": _store_tile,
    "cp.async.bulk.commit_group": _delete_or_twice,
    "cp.async.bulk.wait_group": _wait_group,
    "fence.mbarrier_init": _delete,
    "fence.proxy.async": _delete,
    "setmaxnreg": _register_count,
}


def group(opcode):
    """What EDITS calls a bulk copy of tensors; None of all else."""
    if not opcode.startswith("cp.async.bulk.tensor."):
        return None
    return "bulk-store" if ".global.shared::cta" in opcode else "bulk-load"


def is_middle_step(statements, index):
    """Whether steps of the same product stand on both sides of a wgmma: it is
    one like them, whose operands lie further on."""
    def is_step(way):
        i = index + way
        while statements[i].opcode.startswith("add."):
            i += way
        return statements[i].opcode.startswith("wgmma.mma_async")
    return (statements[index].opcode.startswith("wgmma.mma_async") and
            is_step(-1) and is_step(1))


def _next(statements, index, prefix, way=1):
    """The index of the nearest one of an opcode, or None."""
    places = (range(index + 1, len(statements)) if way > 0
              else range(index - 1, -1, -1))
    return next((i for i in places if statements[i].opcode.startswith(prefix)),
                None)


def _behind(statements, index, lines):
    """The statement behind one that a single lane executes: where it meets the
    others, which jumped over it."""
    follower = statements[index + 1]
    if follower.opcode != "bra.uni":
        return follower
    target = ptx.labels(lines)[follower.operands[0]]
    return next(s for s in statements if s.first > target)


def moves(statements, lines):
    """Edits that move a statement past another one."""
    counts = {}
    for index, statement in enumerate(statements):
        name = next((each for each in ("wgmma.fence", "wgmma.commit_group",
                                       "wgmma.wait_group")
                     if statement.opcode.startswith(each)), None)
        if not name:
            continue
        ordinal = counts[name] = counts.get(name, -1) + 1
        gone = (statement, "")
        if name == "wgmma.fence":
            step = statements[_next(statements, index, "wgmma.mma_async")]
            yield name, ordinal, "behind-step", [gone,
                                                 (step, f"{step}{statement}")]
        elif name == "wgmma.commit_group":
            step = statements[_next(statements, index, "wgmma.mma_async", -1)]
            yield name, ordinal, "before-step", [gone,
                                                 (step, f"{statement}{step}")]
        elif (arrival := _next(statements, index, "mbarrier.arrive")) and (
                arrival < (_next(statements, index, "wgmma.") or arrival + 1)):
            other = _behind(statements, arrival, lines)
            yield name, ordinal, "behind-arrive", [
                gone, (other, f"{statement}{other}")]
