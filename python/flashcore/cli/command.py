"""What the subcommands that are Python have in common: arguments and errors.

The module of a subcommand has ``add_arguments(parser)`` and ``run(options)``,
which returns the exit code.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import sys
from typing import Any, List, NoReturn, Tuple

from flashcore.cli import COMMANDS
from flashcore.errors import Error
from flashcore.finite import finite

__all__ = ["Parser", "UsageError", "make_parser", "print_json", "run"]


class UsageError(Exception):
    """What the user can repair. The text is all that is printed; exit code 2."""


class Parser(argparse.ArgumentParser):
    """Says errors as the rest of FlashCore does."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{_reword(message)}; see {self.prog} --help")


#: What argparse says, and what we say.
_WORDINGS: Tuple[Tuple[str, str], ...] = (
    (r"unrecognized arguments: (.*)", r"expects no further arguments, but got '\1'"),
    (r"the following arguments are required: (.*)", r"expects \1, but got none"),
    (r"argument (.*): expected one argument", r"expects a value for \1, but got none"),
    (r"argument (.*): expected at least one argument", r"expects values for \1, but got none"),
    (
        r"argument (.*): invalid choice: '?(.*?)'? \(choose from (.*)\)",
        r"expects \1 to be one of \3, but got '\2'",
    ),
    (r"argument (.*): ignored explicit argument '?(.*?)'?", r"expects no value for \1, but got '\2'"),
    (r"argument .*: (expects --.*)", r"\1"),
    (r"argument (.*): expects (.*), but got (.*)", r"expects \1 to be \2, but got \3"),
    (r"ambiguous option: (.*) could match (.*)", r"expects one of \2, but got \1"),
)


def _reword(message: str) -> str:
    for pattern, wording in _WORDINGS:
        match = re.fullmatch(pattern, message, re.DOTALL)
        if match:
            return match.expand(wording)
    return message


def number(text: str) -> int:
    """For arguments: a whole number from 0 on."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expects a whole number, but got '{text}'")
    return int(text)


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
    """Runs a subcommand of COMMANDS; returns the exit code."""
    assert name in COMMANDS
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


def print_json(value: Any) -> None:
    """Prints a value; JSON has no NaN and no infinity, they are null."""
    print(json.dumps(finite(value), indent=2))
