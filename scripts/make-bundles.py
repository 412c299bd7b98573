#!/usr/bin/env python3
"""Compiles the bundles that scripts/gpu-check.sh takes to a GPU.

Writes into OUT (default build/gpu-check): one bundle a kernel, check.json,
warpgroups.json (for chips that have products of warpgroups) and time.json (lists
of runs for `flashcore-run --grid`), and sanitize.json (a few small runs for
compute-sanitizer). Needs flashcore-compile and ptxas, no GPU.
flashcore-run goes with them and, where it was built (FLASHCORE_STATIC_LLVM), the
executable that compiles without LLVM, as flashcore.gz with the examples; and the
package's wheel, if scripts/wheel.sh made it.
"""
import argparse
import gzip
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import shares
from kernel_grids import GRIDS, Bundles, CompileError


def copy_card_scripts(root, build, out):
    """What scripts/card-check.sh runs, so that the folder may travel alone."""
    names = ["scripts/card-check.sh", "scripts/compare-with-card.py", "scripts/compare-counters.py"]
    names += [str(path.relative_to(root)) for path in (root / "runtime/emulator/conformance").glob("*.py")]
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, out / name)
    copy_package(root, build, out)


def copy_package(root, build, out):
    """The Python package of the build, which launches on the GPU; of a build
    that has none, its reader of bundles alone."""
    target = out / "python/flashcore"
    shutil.rmtree(target, ignore_errors=True)
    built = build / "python/flashcore"
    if (built / "lib/libflashcore.so.0").exists():
        shutil.copytree(built, target, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["strip", "--strip-all", target / "lib/libflashcore.so.0"], check=True)
    else:
        target.mkdir(parents=True)
        shutil.copy2(root / "python/flashcore/bundle.py", target)
        print(f"no Python package in {built}: card-check.sh needs one on PYTHONPATH there", file=sys.stderr)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=root / "build/gpu-check")
    parser.add_argument("--compiler", type=pathlib.Path, default=root / "build/release/bin/flashcore-compile")
    parser.add_argument("--only", choices=list(GRIDS), nargs="+", default=["check", "warpgroups", "sanitize", "time"], help="which lists to make")
    parser.add_argument("--emulator", type=pathlib.Path, help="flashcore-emu to take along, by default that beside the compiler")
    parser.add_argument("--no-cubin", action="store_true", help="PTX only, without ptxas")
    parser.add_argument("--share", type=shares.Share.parse, default=shares.WHOLE, metavar="I/N", help="the kernels of the part I of N parts, with their runs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    # The tools travel with the bundles.
    for tool in ("flashcore-run", "flashcore-emu") if args.only != ["card"] else ("flashcore-emu",):
        source = args.emulator if args.emulator and tool == "flashcore-emu" else args.compiler.parent / tool
        if source == args.emulator or source.exists():
            shutil.copy2(source, args.out / tool)
    if "card" in args.only:
        copy_card_scripts(root, args.compiler.parent.parent, args.out)
    # So does the executable that compiles without LLVM, where the bundles go to
    # a GPU; packed, it is a third.
    static = args.compiler.parent / "flashcore"
    if static.exists() and not set(args.only) <= {"emulate", "card", "chips", "far", "far-whole"}:
        with static.open("rb") as plain, gzip.open(args.out / "flashcore.gz", "wb", compresslevel=6) as packed:
            shutil.copyfileobj(plain, packed)
        for example in (root / "docs/examples").glob("*.mlir"):
            shutil.copy2(example, args.out)
        for wheel in (root / "build/wheel").glob("*.whl"):
            shutil.copy2(wheel, args.out)
    bundles = Bundles(args.out, args.compiler, ["--no-cubin"] if args.no_cubin else [])
    for name in args.only:
        runs = [run for run in GRIDS[name](bundles) if args.share.has(run["bundle"])]
        bundles.compile(runs)
        (args.out / f"{name}.json").write_text(json.dumps(runs, indent=1) + "\n")
        print(f"{name}.json: {len(runs)} runs")


if __name__ == "__main__":
    try:
        main()
    except CompileError as error:
        sys.exit(f"make-bundles: {error}")
