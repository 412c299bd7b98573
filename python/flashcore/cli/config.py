"""Prints what a program in C or C++ needs to use the library of this package.

    cc program.c $(flashcore config --cflags --libs) -o program
    cmake -S . -B build -DFlashCore_DIR="$(flashcore config --cmakedir)"
    PKG_CONFIG_PATH="$(flashcore config --pkgconfigdir)" pkg-config --libs flashcore
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Callable, Dict

from flashcore import _core
from flashcore.cli.command import UsageError

__all__ = ["add_arguments", "run"]

FOLDER = Path(_core.__file__).parent


def _flags_of_libraries() -> str:
    # By its full name: wheels have no links, so there is no libflashcore.so.
    library = next((FOLDER / "lib").glob("libflashcore.so*"))
    flags = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    return shlex.join(flags)


#: By option: what it prints, and how that is made.
_PRINTS: Dict[str, Callable[[], str]] = {
    "cflags": lambda: shlex.join([f"-I{FOLDER / 'include'}"]),
    "libs": _flags_of_libraries,
    "cmakedir": lambda: str(FOLDER / "lib" / "cmake" / "FlashCore"),
    "pkgconfigdir": lambda: str(FOLDER / "lib" / "pkgconfig"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, what in (
        ("cflags", "flags for the compiler"),
        ("libs", "flags for the linker"),
        ("cmakedir", "the folder of the CMake package, for FlashCore_DIR"),
        ("pkgconfigdir", "the folder of flashcore.pc, for PKG_CONFIG_PATH"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=what)


def run(options: argparse.Namespace) -> int:
    chosen = [name for name in _PRINTS if getattr(options, name)]
    if not chosen:
        listed = ", ".join(f"--{name}" for name in _PRINTS)
        raise UsageError(f"expects one of {listed}, but got none; see flashcore config --help")
    if not (FOLDER / "include").is_dir():
        raise UsageError(
            f"expects headers in {FOLDER / 'include'}, but got none: the package of a build folder has "
            "none; install a wheel, or use cmake --install with --component CAPI"
        )
    print(*(_PRINTS[name]() for name in chosen))
    return 0
