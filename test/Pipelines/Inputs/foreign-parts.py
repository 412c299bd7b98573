"""Checks that a pipeline left everything foreign in a module as it was.

usage: foreign-parts.py BEFORE.mlir AFTER.mlir

Both files are as mlir-opt prints them with -mlir-print-local-scope. A top-level
op of BEFORE that says nothing of FlashCore must be in AFTER, byte for byte. Of
one that does, every other line must be in AFTER's op of that symbol, in order and
the same but for the numbers of SSA values.
"""

import pathlib
import re
import sys


def top_level_ops(path):
    """Symbol of each op in the module -> its text."""
    ops, lines = {}, []
    for line in pathlib.Path(path).read_text().splitlines()[1:-1]:
        lines.append(line)
        # One-line ops and closing braces are indented as the op itself.
        if line.startswith("  ") and line[2] not in " " and not line.endswith("{"):
            text = "\n".join(lines)
            ops[re.search(r"@[\w.$-]+", text).group()] = text
            lines = []
    return ops


def without_numbers(text):
    return re.sub(r"%[\w$]+(:\d+|#\d+)?", "%", text)


def missing_line(before, after):
    """The first line of `before` that `after` does not have in this order."""
    rest = iter(without_numbers(after).splitlines())
    for line in before.splitlines():
        if "flashcore." not in line and without_numbers(line) not in rest:
            return line
    return None


def main():
    before, after = map(top_level_ops, sys.argv[1:])
    identical = 0
    for symbol, text in before.items():
        if symbol not in after:
            sys.exit(f"{symbol} is gone")
        if "flashcore." in text:
            if line := missing_line(text, after[symbol]):
                sys.exit(f"{symbol} lost or moved: {line}")
        elif text != after[symbol]:
            sys.exit(f"{symbol} was\n{text}\nand is\n{after[symbol]}")
        else:
            identical += 1
    print(f"{identical} identical, {len(before) - identical} with attention")
    print("new:", *[symbol for symbol in after if symbol not in before])


if __name__ == "__main__":
    main()
