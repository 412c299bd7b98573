#!/usr/bin/env python3
"""Prints how long each phase takes from `.mlir` to cubin, for docs/performance.md.

Of each phase the fastest of RUNS calls of `flashcore-compile --timing`, in ms.
"""
import argparse
import importlib.util
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("make_bundles", ROOT / "scripts/make-bundles.py")
make_bundles = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_bundles)

# The lines of --timing by column of the table; the rest goes to "other".
COLUMNS = {"phases 1 to 5": r"Phase [1-5]:", "6 threads": "Phase 6:", "7 target": "Phase 7:", "to LLVM IR": "Translation to LLVM IR",
           "LLVM passes": "LLVM passes", "backend": "NVPTX backend", "ptxas": "ptxas"}


def kernels():
    """Name and MLIR of each row."""
    reference = (1, 8, 8, 512, 512)
    for mask in ("none", "bottom_right"):
        yield f"reference shape{', causal' if mask != 'none' else ''}", make_bundles.attention("f16", 64, mask, reference)
    for d in (64, 128, 256):
        large = (4, 2048 // d, 2048 // d, 4096, 4096)
        yield f"D {d}", make_bundles.attention("f16", d, "none", large)
        yield f"D {d}, causal", make_bundles.attention("f16", d, "bottom_right", large)
        yield f"D {d}, causal, sizes at run time", make_bundles.attention("f16", d, "bottom_right")
    yield "decoding, D 128", make_bundles.attention("f16", 128, "none", (1, 32, 8, 1, 8192))


def measure(compiler, mlir):
    """The time in ms of each column, and the total, of one call."""
    command = [*compiler, "-", "--emit=cubin", "-o", "/dev/null", "--timing"]
    result = subprocess.run(command, input=mlir, text=True, capture_output=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stderr}")
    lines = [(name.strip(), 1000 * float(seconds)) for seconds, name in re.findall(r"^ *([\d.]+) \( *[\d.]+%\)(.*)$", result.stderr, re.M)]
    times = {column: sum(ms for name, ms in lines if re.match(pattern, name)) for column, pattern in COLUMNS.items()}
    total = dict(lines)["Total"]
    return {**times, "other": total - sum(times.values()), "total": total}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", nargs="+", default=[str(ROOT / "build/release/bin/flashcore"), "compile"],
                        help="command to call, by default `flashcore compile`")
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    names = [*COLUMNS, "other", "total"]
    print(f"| ms | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for kernel, mlir in kernels():
        runs = [measure(args.compiler, mlir) for _ in range(args.runs)]
        print(f"| {kernel} | {' | '.join(f'{min(run[name] for run in runs):.0f}' for name in names)} |", flush=True)


if __name__ == "__main__":
    main()
