"""Prints completions of subcommands, options and choices for a shell.

    source <(flashcore completion bash)                                  # ~/.bashrc
    flashcore completion zsh > "${fpath[1]}/_flashcore"                  # once
    flashcore completion fish > ~/.config/fish/completions/flashcore.fish  # once
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flashcore.errors import Error

__all__ = ["FOLDER", "SHELLS", "add_arguments", "run"]

SHELLS = ("bash", "zsh", "fish")
#: Of the package; scripts/wheel.sh has scripts/completions.py write them.
FOLDER = Path(__file__).parent.parent / "completions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which")


def run(options: argparse.Namespace) -> int:
    file = FOLDER / f"flashcore.{options.shell}"
    if not file.exists():
        raise Error(f"expects completions at {file}, but got none; scripts/completions.py writes them")
    sys.stdout.write(file.read_text())
    return 0
