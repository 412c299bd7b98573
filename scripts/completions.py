#!/usr/bin/env python3
"""Writes the completions that `flashcore completion` prints.

Needs shtab, and the Python package, into which it writes them: run it with the
Python that both are installed for. scripts/wheel.sh does, so that the package needs
no shtab. --check fails where the files differ from what it would write.
"""
import argparse
import re
import subprocess
import sys

import shtab
from flashcore.cli import COMMANDS, TOOLS, command, dispatch, tools
from flashcore.cli.completion import FOLDER, SHELLS

# Options whose value is a place; others are completed by their choices alone.
DIRECTORIES = ("--out", "--bundles", "folder")
FILES = ("--mlir", "--tuning-file", "--tools", "--compiler", "-o", "--json", "results", "input")
# Of a positional argument. zsh inserts no option where it may show a message, as
# it does for an argument without completions: an empty command shows none.
NOTHING = {"zsh": "{:}"}
# As LLVM and CLI11 list it: "  --emit=<value>  - What to write:" before lines of
# choices, "  -k,--kernel TEXT  Kernel", "  --device TEXT:{auto,cuda}".
OPTION = r"^  (-[-\w,]+)(\[?[= ][^\s{]+(?:\{(\S+)\})?)?(?:\n? +(?:- +)?(.*))?\n((?: {4,}=.*\n)*)"


def whole_parser():
    """One parser that has all subcommands."""
    parser = command.Parser(prog="flashcore", description="FlashCore, a compiler for attention on GPUs")
    parser.add_argument("--version", action="store_true", help="print the version")
    subcommands = parser.add_subparsers(parser_class=make_parser)
    for name, what in {**TOOLS, **COMMANDS}.items():
        subcommands.add_parser(name, help=what)
    return parser


def make_parser(prog, **_):
    name = prog.split()[-1]
    parser = tool_parser(name) if name in TOOLS else dispatch.make_parser(name)
    mark_places(parser)
    return parser


def tool_parser(name):
    """The options that a tool's --help lists; of opt, which has those of MLIR's
    hundreds of passes, none."""
    parser = command.Parser(prog=f"flashcore {name}", add_help=False)
    parser.add_argument("input", nargs="*", help="file")
    if name != "opt":
        text = subprocess.run([tools.executable(), name, "--help"], check=True, capture_output=True, text=True).stdout
        named = set()
        for match in re.finditer(OPTION, text, re.M):
            flags, value, listed, what, choices = match.groups()
            if not named.isdisjoint(flags.split(",")):
                continue  # in an example
            named.update(flags.split(","))
            choices = re.findall(r"^ +=(\S+)", choices, re.M) or (listed or "").split(",")
            kind = {"choices": choices if any(choices) else None} if value else {"action": "store_true"}
            parser.add_argument(*flags.split(","), help=(what or "").replace("%", "%%"), **kind)
    return parser


def mark_places(parser):
    for action in parser._actions:
        names = {*action.option_strings, action.dest}
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                mark_places(each)
        elif action.nargs == 0:
            continue
        elif names & set(DIRECTORIES):
            action.complete = shtab.DIRECTORY
        elif names & set(FILES) and not action.choices:
            action.complete = shtab.FILE
        elif not action.option_strings and not action.choices:
            action.complete = NOTHING


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    stale = []
    for shell in SHELLS:
        path = FOLDER / f"flashcore.{shell}"
        text = shtab.complete(whole_parser(), shell).rstrip() + "\n"
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if not args.check:
                path.write_text(text)
    if args.check and stale:
        sys.exit(f"completions: expects what the arguments are, but got other {', '.join(stale)}: run scripts/completions.py")


if __name__ == "__main__":
    main()
