"""Prints completions of subcommands, options and choices for a shell.

    source <(flashcore completion bash)                                  # ~/.bashrc
    flashcore completion zsh > "${fpath[1]}/_flashcore"                  # once
    flashcore completion fish > ~/.config/fish/completions/flashcore.fish  # once
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["FOLDER", "SHELLS", "add_arguments", "run"]

SHELLS = ("bash", "zsh", "fish")
#: Written by scripts/completions.py.
FOLDER = Path(__file__).parent / "completions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which")


def run(options: argparse.Namespace) -> int:
    sys.stdout.write((FOLDER / f"flashcore.{options.shell}").read_text())
    return 0
