"""The tools of the compiler: an executable beside the library."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import List

from flashcore import _core

__all__ = ["execute", "executable"]


def executable() -> Path:
    """The executable ``flashcore`` of the compiler, without Python."""
    return Path(_core.__file__).parent / "bin" / "flashcore"


def execute(name: str, arguments: List[str]) -> int:
    """Becomes the tool, so that output, signals and exit code are its own."""
    path = str(executable())
    # Python ignores these, and what is ignored stays so.
    for each in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(each, signal.SIG_DFL)
    try:
        os.execv(path, [path, name, *arguments])
    except OSError as error:
        print(
            f"flashcore: error: expects the tools at {path}, but got: {error.strerror}; "
            "install the package again",
            file=sys.stderr,
        )
        return 2
