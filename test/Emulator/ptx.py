"""The statements of a PTX kernel, as text with positions."""

import dataclasses
import re


@dataclasses.dataclass
class Statement:
    first: int  # line, from 0
    last: int
    guard: str  # "@%p1 ", "@!%p1 " or ""
    opcode: str
    operands: list

    def __str__(self):
        return f"\t{self.guard}{self.opcode} {', '.join(self.operands)};"


def split_operands(text):
    """Splits at commas outside of braces and brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "{[") - (c in "}]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


_STATEMENT = re.compile(r"\s*(@!?%\w+\s+)?([a-z][\w.]*)\s*(.*);\s*$", re.S)


def statements(lines):
    """All instructions of the kernel body, in order. Directives, labels and
    braces are none."""
    result, pending, first = [], "", 0
    body = lines.index("{") + 1
    for number, line in enumerate(lines[body:], body):
        if not pending:
            first = number
            stripped = line.strip()
            if not stripped or stripped[0] in ".{}/$" or stripped[-1] == ":":
                continue
        pending += line + "\n"
        if ";" not in line:
            continue
        match = _STATEMENT.match(pending)
        assert match, f"line {first + 1}: {pending}"
        guard, opcode, operands = match.groups()
        result.append(Statement(first, number, guard or "", opcode,
                                split_operands(operands)))
        pending = ""
    return result


def labels(lines):
    """Line of each label."""
    return {line.strip()[:-1]: number for number, line in enumerate(lines)
            if re.fullmatch(r"\s*\$\w+:\s*", line)}
