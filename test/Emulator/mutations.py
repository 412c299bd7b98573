"""One-edit mutants of a PTX kernel.

Each keeps the line numbers of the kernel it comes from. `key` names it without
them: kernel, class, ordinal within the class, edit.
"""

import dataclasses
import re

import ptx
import warpgroup_edits
from edits import (shift, swap, swap_neighbours, with_opcode, with_operand,
                   without_guard)


@dataclasses.dataclass
class Mutant:
    kernel: str
    group: str  # class of the statement, such as "cp.async"
    ordinal: int  # of the statement in its class, from 0
    edit: str
    changes: list  # (statement, new text) pairs

    @property
    def key(self):
        return f"{self.kernel} {self.group} {self.ordinal} {self.edit}"

    @property
    def line(self):
        return self.changes[0][0].first + 1

    def apply(self, lines):
        lines = list(lines)
        # From the last one on, so that the columns of the others stay.
        for statement, text in sorted(
                self.changes, reverse=True,
                key=lambda change: (change[0].first, change[0].begin)):
            head = lines[statement.first][:statement.begin].rstrip()
            tail = lines[statement.last][statement.end:]
            blank = [""] * (statement.last - statement.first)
            lines[statement.first:statement.last + 1] = [head + text + tail,
                                                         *blank]
        return "\n".join(lines) + "\n"


# Each function below yields (edit, new text) for one statement.


def _delete(statement, _):
    yield "delete", ""


def _wait(statement, _):
    yield "delete", ""
    if statement.opcode == "cp.async.wait_group":
        more = int(statement.operands[0], 0) + 1
        yield "one-more", with_operand(statement, 0, str(more))


def _commit(statement, _):
    yield "delete", ""
    yield "twice", f"{statement}{statement}"


def _copy(statement, launch):
    to, source, *sizes = statement.operands
    yield "delete", ""
    for distance in (16, 32, 128):
        yield f"to+{distance}", with_operand(statement, 0, shift(to, distance))
    row = shift(source, launch.row_bytes)
    yield "from+row", with_operand(statement, 1, row)
    if len(sizes) == 2 and sizes[1].startswith("%"):
        yield "no-zero-fill", with_operand(statement, 3, sizes[0])


def _ldmatrix(statement, launch):
    address = statement.operands[1]
    for distance in (16, 32):
        yield f"from+{distance}", with_operand(statement, 1,
                                               shift(address, distance))
    row = shift(address, launch.shared_row_bytes)
    yield "from+row", with_operand(statement, 1, row)
    transposed = ".trans" in statement.opcode
    opcode = (statement.opcode.replace(".trans", "") if transposed else
              statement.opcode.replace(".shared", ".trans.shared"))
    yield "trans", with_opcode(statement, opcode)
    yield from swap_neighbours(statement, 0)


def _mma(statement, _):
    yield "delete", ""
    _, a, b, _ = statement.operands
    yield "swap-a0-a1", with_operand(statement, 1, swap(a, 0, 1))
    yield "swap-a1-a2", with_operand(statement, 1, swap(a, 1, 2))
    yield "swap-b0-b1", with_operand(statement, 2, swap(b, 0, 1))


_OTHER_LAYOUT = {"row": "col", "col": "row"}


def turn_layout(statement, ordinal=0):
    """The opcode of a wmma with another layout: of a load or a store, or of
    operand `ordinal` of a product."""
    words = statement.opcode.split(".")
    at = [i for i, word in enumerate(words) if word in _OTHER_LAYOUT][ordinal]
    words[at] = _OTHER_LAYOUT[words[at]]
    return with_opcode(statement, ".".join(words))


def _wmma_load(statement, launch):
    address = statement.operands[1]
    for name, distance in (("32", 32), ("row", launch.shared_row_bytes)):
        yield f"from+{name}", with_operand(statement, 1,
                                           shift(address, distance))
    yield "layout", turn_layout(statement)


def _wmma_mma(statement, _):
    yield "delete", ""
    yield "layout-a", turn_layout(statement)
    yield "layout-b", turn_layout(statement, 1)


def _wmma_store(statement, _):
    yield "delete", ""
    yield "to+32", with_operand(statement, 0, shift(statement.operands[0], 32))
    yield "layout", turn_layout(statement)
    yield from swap_neighbours(statement, 1)


def _width(statement):
    """Bytes that a lane loads or stores."""
    match = re.search(r"(?:\.v(\d))?\.[bfsu](\d+)$", statement.opcode)
    return int(match[1] or 1) * int(match[2]) // 8


def _store(statement, _):
    yield "delete", ""
    distance = max(4, _width(statement))
    yield f"to+{distance}", with_operand(
        statement, 0, shift(statement.operands[0], distance))
    yield from swap_neighbours(statement, 1)


def _load_shared(statement, _):
    distance = max(4, _width(statement))
    yield f"from+{distance}", with_operand(
        statement, 1, shift(statement.operands[1], distance))
    yield from swap_neighbours(statement, 0)


def _store_matrix(statement, _):
    yield "delete", ""
    yield "to+16", with_operand(statement, 0, shift(statement.operands[0], 16))
    yield from swap_neighbours(statement, 1)


def _shuffle(statement, _):
    if statement.operands[2].startswith("%"):
        return
    offset = int(statement.operands[2], 0)
    yield "offset", with_operand(statement, 2, str(offset ^ 3))


_OFF_BY_ONE = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne",
               "ne": "eq"}


def _compare(statement, _):
    head, comparison, rest = statement.opcode.split(".", 2)
    if other := _OFF_BY_ONE.get(comparison):
        yield f"{comparison}-{other}", with_opcode(
            statement, f"{head}.{other}.{rest}")


def _guard(statement, _):
    negated = re.sub(r"@(!?)", lambda m: "@" if m[1] else "@!",
                     statement.guard)
    yield "remove", without_guard(statement)
    yield "negate", str(dataclasses.replace(statement, guard=negated))


_EDITS = {
    "bar.sync": _delete,
    "bar.warp.sync": _delete,
    "cp.async.wait_group": _wait,
    "cp.async.wait_all": _wait,
    "cp.async.commit_group": _commit,
    "cp.async": _copy,
    "ldmatrix": _ldmatrix,
    "mma": _mma,
    "wmma.load": _wmma_load,
    "wmma.mma": _wmma_mma,
    "wmma.store": _wmma_store,
    "st.global": _store,
    "st.shared": _store,
    "ld.shared": _load_shared,
    "stmatrix": _store_matrix,
    "shfl.sync": _shuffle,
    "setp": _compare,
    **warpgroup_edits.EDITS,
}
# A longer name first: cp.async.wait_group is no cp.async.
_BY_LENGTH = sorted(_EDITS, key=len, reverse=True)


def _group(statement):
    if name := warpgroup_edits.group(statement.opcode):
        return name
    for name in _BY_LENGTH:
        if statement.opcode == name or statement.opcode.startswith(name + "."):
            return name
    return None


def _swap_steps(kernel, products):
    """Exchanges an operand of two mma that add to the same accumulators one
    after the other: the k-steps of one tile of the product."""
    producers = {}
    for ordinal, statement in enumerate(products):
        d, a, b, c = statement.operands
        if c in producers:
            other = producers[c]
            for name, index in (("a", 1), ("b", 2)):
                mine, theirs = statement.operands[index], other.operands[index]
                changes = [(statement, with_operand(statement, index, theirs)),
                           (other, with_operand(other, index, mine))]
                yield Mutant(kernel, "mma", ordinal, f"swap-steps-{name}",
                             changes)
        producers[d] = statement


def mutants(launch, lines):
    """All mutants of one kernel, in the order of its statements."""
    result, counts, products = [], {}, []

    def add(group, statement, edits):
        ordinal = counts.get(group, 0)
        counts[group] = ordinal + 1
        for edit, text in edits:
            result.append(Mutant(launch.name, group, ordinal, edit,
                                 [(statement, text)]))

    statements = ptx.statements(lines, launch.kernel)
    for index, statement in enumerate(statements):
        if group := _group(statement):
            is_middle = warpgroup_edits.is_middle_step(statements, index)
            edits = _delete if is_middle else _EDITS[group]
            add(group, statement, edits(statement, launch))
        if statement.guard:
            add("guard", statement, _guard(statement, launch))
        if statement.opcode.startswith("mma."):
            products.append(statement)
    result += _swap_steps(launch.name, products)
    result += [Mutant(launch.name, *each)
               for each in warpgroup_edits.moves(statements, lines)]
    return result
