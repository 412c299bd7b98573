"""Searches for faster schedules on this GPU: docs/Tuning.md."""

from __future__ import annotations

import argparse
from typing import List

__all__ = ["main", "make_parser"]


def make_parser() -> argparse.ArgumentParser:
    from flashcore._benchmarks import tune

    parser: argparse.ArgumentParser = tune.make_parser()
    return parser


def main(arguments: List[str]) -> int:
    from flashcore._benchmarks import tune

    return int(tune.main(arguments))
