#!/usr/bin/env python3
"""Fails when a function of C++ has more lines than .clang-tidy allows.

The same limit as readability-function-size of clang-tidy (the lines from the
brace that opens the body to the one that closes it), without a parse of MLIR's
headers: over the whole tree in a second, where clang-tidy takes an hour. It
counts braces in clang-formatted text, so a function that a macro opens or
closes is not seen; scripts/check-tidy.sh --all sees it.

usage: function-size.py [--limit=LINES] [FILE]...
  --limit=LINES: that of .clang-tidy if not given
  FILE: those of lib, include, tools and runtime that git knows if none is given
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKEN = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?\*/            # comments
      |R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)" # raw strings
      |"(?:\\.|[^"\\\n])*"                     # strings
      |(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'     # characters, not 1'000
      |^[ \t]*\#(?:\\\n|[^\n])*                # preprocessor
      """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
CONTAINER = re.compile(r"\b(?:namespace|class|struct|union|extern)\b(?![^()]*\))")
NAME = re.compile(r"(operator\s*[^\s\w]+|[~\w:]+)\s*\(")


def blanked(text):
    """`text` with comments, strings and directives as spaces, line by line."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def functions(text):
    """(line, name, lines) of each function that is not inside another one."""
    text = blanked(text)
    kinds, head, opened = [], 0, None
    for match in re.finditer(r"[{};]|(?<=public|rivate):|(?<=protected):", text):
        at, char = match.start(), match[0]
        inside = "body" in kinds
        if char == "{":
            declared = text[head:at]
            if CONTAINER.search(declared) and not inside:
                kinds.append("container")
            elif not inside and "(" in declared and not re.search(r"=\s*(?!default|delete)\w*\s*$", declared):
                kinds.append("body")
                opened = (at, declared)
            else:
                kinds.append("other")
        elif char == "}" and kinds and kinds.pop() == "body":
            start, declared = opened
            name = NAME.search(declared)
            yield text.count("\n", 0, start) + 1, name[1] if name else "?", text.count("\n", start, at)
        if "body" not in kinds:
            head = at + 1


def limit_of_tidy():
    """The LineThreshold of .clang-tidy: one place has the number."""
    found = re.search(r"function-size\.LineThreshold\W+value:\W*(\d+)", (ROOT / ".clang-tidy").read_text())
    if not found:
        sys.exit("function-size: expects .clang-tidy to set readability-function-size.LineThreshold, but it does not")
    return int(found[1])


def known_files():
    listed = subprocess.run(
        ["git", "ls-files", "lib", "include", "tools", "runtime"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    return [ROOT / name for name in listed if name.endswith((".h", ".cpp")) and "unittests/" not in name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--limit", type=int, help="lines of a body (default: that of .clang-tidy)")
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    limit = limit_of_tidy() if arguments.limit is None else arguments.limit
    failed = False
    for path in arguments.files or known_files():
        shown = str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
        for line, name, lines in functions(path.read_text()):
            if lines <= limit:
                continue
            failed = True
            print(f"{shown}:{line}: function '{name}' has {lines} lines, but expects at most {limit}: break it up")
    return failed


if __name__ == "__main__":
    sys.exit(main())
