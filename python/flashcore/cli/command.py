"""What the subcommands that are Python have in common: arguments and errors."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any, NoReturn, Tuple

from flashcore.finite import finite

__all__ = ["Parser", "UsageError", "number", "print_json"]


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


def print_json(value: Any) -> None:
    """Prints a value; JSON has no NaN and no infinity, they are null."""
    print(json.dumps(finite(value), indent=2))
