#!/usr/bin/env python3
"""Measures how long each phase takes from `.mlir` to cubin.

Of each phase the fastest of RUNS calls of `flashcore-compile --timing`, in ms. Of
no use where other work runs. --write puts the table into docs/performance.md;
--check looks whether the table there has the kernels and phases of this script.
"""
import argparse
import datetime
import pathlib
import re
import subprocess
import sys

import kernel_grids
import marked_blocks

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/performance.md"

# The lines of --timing by column of the table; the rest goes to "other".
COLUMNS = {"phases 1 to 5": r"Phase [1-5]:", "6 threads": "Phase 6:", "7 target": "Phase 7:", "to LLVM IR": "Translation to LLVM IR",
           "LLVM passes": "LLVM passes", "backend": "NVPTX backend", "ptxas": "ptxas"}


def kernels():
    """Name and MLIR of each row."""
    reference = (1, 8, 8, 512, 512)
    for mask in ("none", "bottom_right"):
        yield f"reference shape{', causal' if mask != 'none' else ''}", kernel_grids.attention("f16", 64, mask, reference)
    for d in (64, 128, 256):
        large = (4, 2048 // d, 2048 // d, 4096, 4096)
        yield f"D {d}", kernel_grids.attention("f16", d, "none", large)
        yield f"D {d}, causal", kernel_grids.attention("f16", d, "bottom_right", large)
        yield f"D {d}, causal, sizes at run time", kernel_grids.attention("f16", d, "bottom_right")
    yield "decoding, D 128", kernel_grids.attention("f16", 128, "none", (1, 32, 8, 1, 8192))


def measure(compiler, source):
    """The time in ms of each column, and the total, of one call."""
    named, text = kernel_grids.source_arguments(source)
    command = [*compiler, *named, "--emit=cubin", "-o", "/dev/null", "--timing"]
    result = subprocess.run(command, input=text, text=True, capture_output=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stderr}")
    lines = [(name.strip(), 1000 * float(seconds)) for seconds, name in re.findall(r"^ *([\d.]+) \( *[\d.]+%\)(.*)$", result.stderr, re.M)]
    times = {column: sum(ms for name, ms in lines if re.match(pattern, name)) for column, pattern in COLUMNS.items()}
    total = dict(lines)["Total"]
    return {**times, "other": total - sum(times.values()), "total": total}


NAMES = [*COLUMNS, "other", "total"]
HEADING = f"| ms | {' | '.join(NAMES)} |\n|---|{'---|' * len(NAMES)}\n"


def measure_all(compiler, num_runs):
    """The rows of the table, as they are done."""
    for kernel, source in kernels():
        runs = [measure(compiler, source) for _ in range(num_runs)]
        yield f"| {kernel} | {' | '.join(f'{min(run[name] for run in runs):.0f}' for name in NAMES)} |\n"


def is_current(block):
    rows = block[block.index("| ms |"):].splitlines(keepends=True) if "| ms |" in block else []
    return "".join(rows[:2]) == HEADING and [row.split(" | ")[0] for row in rows[2:]] == [f"| {kernel}" for kernel, _ in kernels()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", nargs="+", default=[str(ROOT / "build/release/bin/flashcore"), "compile"],
                        help="command to call, by default `flashcore compile`")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    parser.add_argument("--check", action="store_true", help="measure nothing, look at docs/performance.md")
    args = parser.parse_args()
    if args.check:
        return 0 if is_current(marked_blocks.read(PAGE, "compile-times")) else f"{PAGE}: has other kernels or phases than this script"
    text = HEADING
    print(text, end="")
    for row in measure_all(args.compiler, args.runs):
        print(row, end="", flush=True)
        text += row
    if args.write:
        day = datetime.date.today()
        marked_blocks.write(PAGE, "compile-times", f"One core of the build machine, ms; of each phase the fastest of {args.runs} calls, "
                                                   f"{day.day} {day:%B %Y}.\n\n{text}")


if __name__ == "__main__":
    sys.exit(main())
