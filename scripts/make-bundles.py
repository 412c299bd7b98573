#!/usr/bin/env python3
"""Compiles the bundles that scripts/gpu-check.sh takes to a GPU.

Writes into OUT (default build/gpu-check): one bundle a kernel, check.json and
time.json (lists of runs for `flashcore-run --grid`), and sanitize.json (a few
small runs for compute-sanitizer). Needs flashcore-compile and ptxas, no GPU.
flashcore-run goes with them and, where it was built (FLASHCORE_STATIC_LLVM), the
executable that compiles without LLVM, as flashcore.gz with the examples.
"""
import argparse
import gzip
import itertools
import json
import pathlib
import shutil
import subprocess
import sys

DTYPES = ["f16", "bf16"]
CAUSAL = ["none", "bottom_right", "top_left"]
SEQLENS = [1, 3, 64, 113, 203, 512, 1023, 1024]
HEAD_DIMS = [16, 64, 80, 128]


def attention(dtype, head_dim, causal="none", shape=None, head_dim_v=None, strided=False):
    """MLIR of one attention. `shape` is (batch, heads_q, heads_kv, seqlen_q,
    seqlen_k) or None for sizes and strides known at run time only."""
    b, hq, hkv, sq, sk = shape or "?????"
    layout = ", strided<[?, ?, ?, 1], offset: ?>" if shape is None or strided else ""
    dv = head_dim_v or head_dim
    clause = "" if causal == "none" else f" causal({causal})"
    return f"""!q = memref<{b}x{hq}x{sq}x{head_dim}x{dtype}{layout}>
!k = memref<{b}x{hkv}x{sk}x{head_dim}x{dtype}{layout}>
!v = memref<{b}x{hkv}x{sk}x{dv}x{dtype}{layout}>
!o = memref<{b}x{hq}x{sq}x{dv}x{dtype}{layout}>
!lse = memref<{b}x{hq}x{sq}xf32>
func.func @attention(%q: !q, %k: !k, %v: !v, %o: !o, %lse: !lse) {{
  flashcore.attention ins(%q, %k, %v : !q, !k, !v)
      outs(%o : !o) lse(%lse : !lse){clause}
  return
}}
"""


class Bundles:
    def __init__(self, out, compiler, extra=()):
        self.out, self.compiler, self.extra, self.made = out, compiler, list(extra), set()

    def make(self, name, mlir, options=()):
        """Compiles one bundle unless it was made before; returns its name."""
        bundle = f"{name}.fcb"
        if name not in self.made:
            self.made.add(name)
            command = [str(self.compiler), "-", "--emit=bundle", "-o", str(self.out / bundle), "-v", *self.extra, *options]
            result = subprocess.run(command, input=mlir, text=True, capture_output=True)
            if result.returncode:
                sys.exit(f"{name}: {' '.join(command)}\n{result.stderr}")
            print(f"{name:44s} {result.stderr.strip()}", flush=True)
        return bundle


def stage_runs(bundles, head_dim):
    """The four stage checks of one kernel."""
    bundle = bundles.make(f"check-f16-d{head_dim}-none", attention("f16", head_dim))
    sizes = {"batch": 1, "heads_q": 2, "heads_kv": 2, "seqlen_q": 100}
    return [{"bundle": bundle, "stage": stage, "dims": {**sizes, "seqlen_k": 16 if stage == "tile" else 64}}
            for stage in ("qk", "softmax", "pv", "tile")]


def check_grid(bundles):
    """Every length against its neighbours, every kernel: results only."""
    runs = []
    for dtype, d, causal in itertools.product(DTYPES, HEAD_DIMS, CAUSAL):
        bundle = bundles.make(f"check-{dtype}-d{d}-{causal}", attention(dtype, d, causal))
        for i, (sq, sk) in enumerate(itertools.product(SEQLENS, SEQLENS)):
            # The full square for one dtype and head_dim, a diagonal band of it
            # for the others; layouts, kinds and offsets in turn.
            if (dtype, d) != ("f16", 64) and sq != sk and (i + d) % 5:
                continue
            runs.append({"bundle": bundle,
                         "dims": {"batch": 2, "heads_q": 3, "heads_kv": 3, "seqlen_q": sq, "seqlen_k": sk},
                         "layout": ["bhsd", "bshd"][i % 2], "offset": 8 * (i % 3),
                         "kind": ["normal", "rising"][i // 2 % 2]})
    # Grouped heads, other head dims, head_dim_v, static shapes with a tail.
    for d in (32, 48, 96, 112):
        bundle = bundles.make(f"check-f16-d{d}-bottom_right", attention("f16", d, "bottom_right"))
        runs.append({"bundle": bundle, "dims": {"batch": 1, "heads_q": 6, "heads_kv": 2, "seqlen_q": 203, "seqlen_k": 333}})
    bundle = bundles.make("check-f16-d64-v128", attention("f16", 64, "none", head_dim_v=128))
    runs.append({"bundle": bundle, "dims": {"batch": 1, "heads_q": 4, "heads_kv": 1, "seqlen_q": 257, "seqlen_k": 129}})
    # Machine code for the cards at hand, which the loader takes instead of PTX.
    for chip in ("sm_80", "sm_86", "sm_90"):
        bundle = bundles.make(f"check-{chip}", attention("f16", 64, "bottom_right"), [f"--chip={chip}"])
        runs.append({"bundle": bundle, "dims": {"batch": 1, "heads_q": 4, "heads_kv": 4, "seqlen_q": 300, "seqlen_k": 300}})
    for causal in CAUSAL:
        bundle = bundles.make(f"check-static-{causal}", attention("bf16", 128, causal, (1, 2, 2, 300, 177)))
        runs.append({"bundle": bundle})
    for d in (64, 128):
        runs += stage_runs(bundles, d)
    return runs


def emulate_grid(bundles):
    """Small runs of every dtype, head_dim class, mask and schedule, for the
    emulator: it checks every access, so one ragged size a kernel says a lot."""
    runs = []
    sizes = [(1, 1), (1, 203), (113, 64), (64, 113), (130, 3)]
    for dtype, d, causal in itertools.product(DTYPES, (16, 48, 64, 80, 128), CAUSAL):
        if dtype == "bf16" and d not in (64, 80):
            continue
        bundle = bundles.make(f"check-{dtype}-d{d}-{causal}", attention(dtype, d, causal))
        for i, (sq, sk) in enumerate(sizes):
            runs.append({"bundle": bundle, "layout": ["bhsd", "bshd"][i % 2], "offset": 8 * (i % 2),
                         "kind": ["normal", "rising"][i % 2],
                         "dims": {"batch": 1, "heads_q": 2, "heads_kv": 1 + i % 2, "seqlen_q": sq, "seqlen_k": sk}})
    # Schedules that no default takes.
    for i, (m, n, warps, stages, query) in enumerate([
            (16, 16, 1, 2, "registers"), (32, 16, 1, 5, "shared"), (64, 48, 2, 3, "registers"),
            (128, 32, 8, 4, "shared"), (96, 112, 3, 2, "registers"), (256, 16, 8, 3, "shared")]):
        options = [f"--block-m={m}", f"--block-n={n}", f"--num-warps={warps}", f"--num-stages={stages}", f"--query={query}",
                   f"--grid-order={['query_fastest', 'head_fastest'][i % 2]}"]
        for causal in ("none", "bottom_right"):
            bundle = bundles.make(f"emulate-{i}-{causal}", attention("f16", 64, causal, (1, 2, 2, 150, 170)), options)
            runs.append({"bundle": bundle})
    # One key tile only, known at compile time: no loop is left.
    for i, (sk, causal) in enumerate([(16, "none"), (64, "none"), (40, "bottom_right"), (33, "top_left")]):
        bundle = bundles.make(f"emulate-one-tile-{i}", attention("f16", 64, causal, (1, 4, 2, 1100, sk)))
        runs.append({"bundle": bundle})
        bundle = bundles.make(f"emulate-one-tile-dynamic-{i}", attention("bf16", 128, causal, ("?", "?", "?", "?", sk)))
        runs.append({"bundle": bundle, "dims": {"batch": 2, "heads_q": 2, "heads_kv": 1, "seqlen_q": 70}})
    runs += stage_runs(bundles, 64)
    return runs


def sanitize_grid(bundles):
    runs = []
    for dtype, d, causal in (("f16", 64, "none"), ("bf16", 128, "bottom_right"), ("f16", 80, "top_left")):
        bundle = bundles.make(f"check-{dtype}-d{d}-{causal}", attention(dtype, d, causal))
        runs.append({"bundle": bundle, "dims": {"batch": 1, "heads_q": 2, "heads_kv": 1, "seqlen_q": 113, "seqlen_k": 203}})
    return runs


def time_grid(bundles):
    runs = []
    for causal in ("none", "bottom_right"):
        bundle = bundles.make(f"time-reference-{causal}", attention("f16", 64, causal, (1, 8, 8, 512, 512)))
        runs.append({"bundle": bundle, "time": True})
        for d in (64, 128):
            shape = (4, 2048 // d, 2048 // d, 4096, 4096)
            bundle = bundles.make(f"time-d{d}-{causal}", attention("f16", d, causal, shape))
            runs.append({"bundle": bundle, "time": True, "check": False})
            # The same with sizes and strides known at run time only.
            bundle = bundles.make(f"check-f16-d{d}-{causal}", attention("f16", d, causal))
            names = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")
            runs.append({"bundle": bundle, "dims": dict(zip(names, shape)), "time": True, "check": False})
    return runs


GRIDS = {"check": check_grid, "sanitize": sanitize_grid, "time": time_grid, "emulate": emulate_grid}


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=root / "build/gpu-check")
    parser.add_argument("--compiler", type=pathlib.Path, default=root / "build/release/bin/flashcore-compile")
    parser.add_argument("--only", choices=list(GRIDS), nargs="+", default=["check", "sanitize", "time"], help="which lists to make")
    parser.add_argument("--no-cubin", action="store_true", help="PTX only, without ptxas")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    # The runner travels with the bundles.
    runner = args.compiler.parent / "flashcore-run"
    if runner.exists():
        shutil.copy2(runner, args.out / "flashcore-run")
    # So does the executable that compiles without LLVM, where the bundles go to
    # a GPU; packed, it is a third.
    static = args.compiler.parent / "flashcore"
    if static.exists() and args.only != ["emulate"]:
        with static.open("rb") as plain, gzip.open(args.out / "flashcore.gz", "wb", compresslevel=6) as packed:
            shutil.copyfileobj(plain, packed)
        for example in (root / "docs/examples").glob("*.mlir"):
            shutil.copy2(example, args.out)
    bundles = Bundles(args.out, args.compiler, ["--no-cubin"] if args.no_cubin else [])
    for name in args.only:
        runs = GRIDS[name](bundles)
        (args.out / f"{name}.json").write_text(json.dumps(runs, indent=1) + "\n")
        print(f"{name}.json: {len(runs)} runs")


if __name__ == "__main__":
    main()
