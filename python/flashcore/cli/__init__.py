"""The command ``flashcore``.

``opt``, ``compile``, ``run`` and ``emu`` are the tools of the compiler, an
executable of their own. Every other subcommand is a module here, imported when
it is asked for.
"""

from __future__ import annotations

import sys
from typing import List, Optional

# As flashcore.attention: another __init__.py may be in the place of ours.
from flashcore import distribution as _distribution

__all__ = ["main"]

TOOLS = {
    "opt": "run any pass on MLIR",
    "compile": "compile MLIR to PTX, cubin or a bundle",
    "run": "run a bundle on a GPU or the emulator, and check",
    "emu": "run PTX on the CPU and check every access",
}
COMMANDS = {
    "attention": "run, check and time flashcore.attention on one problem",
    "doctor": "say what kernels can run on here, and what is missing",
    "cache": "list, clear or fill the folder of compiled kernels",
    "bench": "compare with the attentions of PyTorch and others on this GPU",
    "tune": "search for faster schedules on this GPU",
    "config": "print what programs in C and C++ need to use the library",
    "completion": "print completions for bash, zsh or fish",
}


def help_text() -> str:
    every = {**TOOLS, **COMMANDS}
    listed = "".join(f"  {name:12}{what}\n" for name, what in every.items())
    return (
        "OVERVIEW: FlashCore, a compiler for attention on GPUs\n\n"
        "USAGE: flashcore SUBCOMMAND [arguments]\n\n"
        f"SUBCOMMANDS:\n{listed}\n"
        "'flashcore SUBCOMMAND --help' lists the arguments.\n"
    )


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs a subcommand; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words:
        return _fail("expects a subcommand, but got none; see flashcore --help")
    name, rest = words[0], words[1:]
    if name in TOOLS:
        from flashcore.cli import tools

        return tools.execute(name, rest)
    if name in ("--help", "-h", "help"):
        print(help_text(), end="")
        return 0
    if name == "--version":
        from flashcore import _core

        print(_core.version())
        return 0
    if name in COMMANDS:
        from flashcore.cli import dispatch

        return dispatch.run(name, rest)
    listed = ", ".join([*TOOLS, *COMMANDS])
    return _fail(f"expects one of {listed} as subcommand, but got '{name}'; see flashcore --help")


def _fail(text: str) -> int:
    print(f"flashcore: error: {text}", file=sys.stderr)
    return 2
