"""Finds the module of a subcommand that is Python, and runs it.

It has ``add_arguments(parser)`` and ``run(options)``, which returns the exit code; or, with a
parser of its own, ``make_parser()`` and ``main(arguments)``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from typing import Any, List

from flashcore.cli.command import Parser, UsageError
from flashcore.errors import Error

__all__ = ["make_parser", "run"]


def make_parser(name: str) -> argparse.ArgumentParser:
    """The arguments of a subcommand."""
    module: Any = importlib.import_module(f"flashcore.cli.{name}")
    if hasattr(module, "make_parser"):
        return module.make_parser()  # type: ignore[no-any-return]
    parser = Parser(
        prog=f"flashcore {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def run(name: str, arguments: List[str]) -> int:
    """Runs a subcommand; returns the exit code."""
    module: Any = importlib.import_module(f"flashcore.cli.{name}")
    try:
        if hasattr(module, "main"):  # it has a parser of its own
            return int(module.main(arguments))
        code = int(module.run(make_parser(name).parse_args(arguments)))
        sys.stdout.flush()
        return code
    except (UsageError, Error, ValueError, TypeError) as error:
        print(f"flashcore: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return _end_by_pipe()
    except KeyboardInterrupt:
        return _end_by(signal.SIGINT)


def _end_by_pipe() -> int:
    # What is left in the buffer would fail once more at the end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _end_by(signal.SIGPIPE)


def _end_by(number: signal.Signals) -> int:
    """Whoever waits for this process learns which signal ended it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
