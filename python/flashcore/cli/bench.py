"""Times FlashCore beside other attentions: benchmarks/README.md."""

from __future__ import annotations

import argparse
from typing import List

__all__ = ["main", "make_parser"]


def make_parser() -> argparse.ArgumentParser:
    from flashcore._benchmarks import bench

    parser: argparse.ArgumentParser = bench.make_parser()
    return parser


def main(arguments: List[str]) -> int:
    from flashcore._benchmarks import bench

    return int(bench.main(arguments))
