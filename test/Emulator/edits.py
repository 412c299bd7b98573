"""What the edits of mutations.py are made of: statements with one operand, or
the opcode, replaced."""

import dataclasses
import re


def shift(address, distance):
    """[%r1+16] moved by `distance` bytes."""
    base, _, offset = address.strip("[]").partition("+")
    return f"[{base.strip()}+{int(offset or '0', 0) + distance}]"


def registers(operand):
    return [r.strip() for r in operand.strip("{}").split(",")]


def in_braces(names):
    return "{" + ", ".join(names) + "}"


def swap(operand, i, j):
    """{%r1, %r2} with two registers exchanged."""
    names = registers(operand)
    names[i], names[j] = names[j], names[i]
    return in_braces(names)


def swap_neighbours(statement, index):
    """Edits that exchange two registers that stand side by side."""
    for i in range(len(registers(statement.operands[index])) - 1):
        yield f"swap-{i}-{i + 1}", with_operand(
            statement, index, swap(statement.operands[index], i, i + 1))


def with_operand(statement, index, operand):
    operands = list(statement.operands)
    operands[index] = operand
    return str(dataclasses.replace(statement, operands=operands))


def with_opcode(statement, opcode):
    return str(dataclasses.replace(statement, opcode=opcode))


def without_guard(statement):
    return str(dataclasses.replace(statement, guard=""))


def is_number(operand):
    return re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)", operand) is not None


def with_result(statement, index, kind, operation, value):
    """The statement with what an operation (add, xor) makes of a register, in
    one of its own."""
    changed = with_operand(statement, index, "changed")
    return (f"{{ .reg .{kind} changed; {operation}.{kind} changed, "
            f"{statement.operands[index]}, {value};{changed} }}")
