#!/usr/bin/env python3
"""Writes docs/Support.md: what the op can say, and how far each of it goes; and
its short form in README.md.

usage: support-table.py [--check] FLASHCORE_OPT FLASHCORE_COMPILE

Every row is a probe: an attention that uses the feature is given to the
verifier (flashcore-opt) and to the compiler, which says of some chips that
registers spill. The last two columns count the
kernels that use it in the grids of scripts/make-bundles.py. --check compares
with the files instead of writing them.
"""
import argparse
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import compiler_lists
import marked_blocks

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/Support.md"
README = ROOT / "README.md"


def load_bundles():
    spec = importlib.util.spec_from_file_location("make_bundles", ROOT / "scripts/make-bundles.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorder:
    """Stands in for make-bundles' Bundles: keeps the text of each kernel."""

    def __init__(self, compiler):
        self.kernels, self.compiler = {}, compiler

    def make(self, name, mlir, options=()):
        self.kernels[name] = mlir
        return f"{name}.fcb"


def kernels_of(make_bundles, grids, compiler):
    """The text of the kernels of some grids, and the number of their runs."""
    recorder = Recorder(compiler)
    runs = [run for grid in grids for run in make_bundles.GRIDS[grid](recorder)]
    return list(recorder.kernels.values()), len(runs)


def attention(q="memref<1x4x96x64xf16>", kv="memref<1x4x96x64xf16>", v=None, o=None, ins="", clause="", args=""):
    """A function with one attention; `ins` goes behind ins(...), `clause` to
    the end."""
    v, o = v or kv, o or q
    return f"""func.func @f(%q: {q}, %k: {kv}, %v: {v}, %o: {o}, %lse: memref<1x4x96xf32>{args}) {{
  flashcore.attention ins(%q, %k, %v : {q}, {kv}, {v}) {ins}
      outs(%o : {o}) lse(%lse : memref<1x4x96xf32>) {clause}
  return
}}
"""


def head_dim(d, dv=None, dtype="f16"):
    q = f"memref<1x4x96x{d}x{dtype}>"
    v = f"memref<1x4x96x{dv or d}x{dtype}>"
    return attention(q=q, kv=q, v=v, o=v)


REGION = """{{
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      {body}
    }}"""
SCORE = REGION.format(body="flashcore.yield %s : f32")
MASK = REGION.format(body="%m = arith.cmpi ule, %j, %i : index\n      flashcore.yield %m : i1")
STRIDED = "memref<?x?x?x64xf16, strided<[?, ?, ?, 1], offset: ?>>"
APART = "memref<1x4x96x64xf16, strided<[24960, 6240, 65, 1], offset: 3>>"
WIDE = "bf16 of head_dim "
HEAD_DIMS = (1, 5, 8, 12, 16, 20, 32, 33, 40, 64, 72, 80, 96, 100, 128, 160, 192, 224, 250, 256)

# name, probe, pattern of the feature in the text of a grid's kernel
FEATURES = [
    ("f16", attention(), r"xf16"),
    ("bf16", attention(q="memref<1x4x96x64xbf16>", kv="memref<1x4x96x64xbf16>"), r"xbf16"),
    *[(f"head_dim {d}", head_dim(d), rf"!q = memref<[^>]*x{d}x[bf]+16") for d in HEAD_DIMS],
    ("head_dim 264", head_dim(264), None),
    *[(f"{WIDE}{d}", head_dim(d, dtype="bf16"), rf"!q = memref<[^>]*x{d}xbf16") for d in (128, 160, 256)],
    ("head_dim_v unlike head_dim", head_dim(192, 128), r"!q = memref<[^>]*x(\d+)x[bf]+16(?:.*\n)*?!v = memref<(?![^>]*x\1x[bf]+16)"),
    ("rows that begin anywhere", attention(q=APART, kv=APART), r"strided<\[\d+, \d+, \d*[13579], 1\]"),
    ("static sizes", attention(), r"!q = memref<\d"),
    ("dynamic sizes, strides, offsets", attention(q=STRIDED, kv=STRIDED).replace("memref<1x4x96xf32>", "memref<?x?x?xf32>"),
     r"!q = memref<\?"),
    ("grouped heads", attention(kv="memref<1x2x96x64xf16>"), r"!q = memref<\dx(\d+)x(?:.*\n)!k = memref<\dx(?!\1x)|!q = memref<\?"),
    ("causal(bottom_right)", attention(clause="causal(bottom_right)"), r"causal\(bottom_right\)"),
    ("causal(top_left)", attention(clause="causal(top_left)"), r"causal\(top_left\)"),
    ("window_left, window_right", attention(clause="window_left(5) window_right(3)"), r"window_"),
    ("softcap", attention(clause="softcap(3.0e+01)"), r"softcap\("),
    ("bias, broadcast axes", attention(ins="bias(%b : memref<1x1x96x96xf32>)", args=", %b: memref<1x1x96x96xf32>"), r"bias\("),
    ("alibi", attention(ins="alibi(%b : memref<4xf32>)", args=", %b: memref<4xf32>"), r"alibi\("),
    ("sink", attention(ins="sink(%b : memref<4xf32>)", args=", %b: memref<4xf32>"), r"sink\("),
    ("dropout", attention(ins="rng(%b : memref<4xi32>)", clause="dropout(1.0e-01)", args=", %b: memref<4xi32>"), r"dropout\("),
    ("block lists", attention(ins="block_counts(%b : memref<1x1x1xi32>) block_indices(%c : memref<1x1x1x1xi32>)", clause="block_size(128, 128)",
                              args=", %b: memref<1x1x1xi32>, %c: memref<1x1x1x1xi32>"), r"block_counts\("),
    ("score region", attention(clause=f"score {SCORE}"), r"score \{"),
    ("mask region", attention(clause=f"mask {MASK}"), r"mask \{"),
    ("scores", attention(clause="scores(%b : memref<1x4x96x96xf32>) stage(probabilities)", args=", %b: memref<1x4x96x96xf32>"), r"scores\("),
    ("cu_seqlens", attention(ins="cu_seqlens_q(%b : memref<3xi32>) cu_seqlens_k(%b : memref<3xi32>)", args=", %b: memref<3xi32>"), r"cu_seqlens_q\("),
    ("seqused_k", attention(ins="seqused_k(%b : memref<1xi32>)", args=", %b: memref<1xi32>"), r"seqused_k\("),
    ("append", attention(ins="seqused_k(%b : memref<1xi32>) append(%c, %c : memref<1x4x2x64xf16>, memref<1x4x2x64xf16>)",
                         args=", %b: memref<1xi32>, %c: memref<1x4x2x64xf16>"), r"append\("),
    ("rotary", attention(ins="seqused_k(%b : memref<1xi32>) append(%c, %c : memref<1x4x2x64xf16>, memref<1x4x2x64xf16>) "
                             "rotary(%d, %d : memref<96x16xf16>, memref<96x16xf16>)", clause="style(half)",
                         args=", %b: memref<1xi32>, %c: memref<1x4x2x64xf16>, %d: memref<96x16xf16>"), r"rotary\("),
    ("page_table", attention(ins="page_table(%b : memref<1x1xi32>)", args=", %b: memref<1x1xi32>", kv="memref<1x4x64x64xf16>"), r"page_table\("),
]


def reason(result):
    """The first error without its place and the name of the op."""
    text = re.sub(r"^.*?error: (?:'[\w.]+' op )?", "", result.stderr.splitlines()[0] if result.stderr else "")
    return text[0].lower() + text[1:] if text else f"exit code {result.returncode}"


def run(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def probe(opt, compiler, chips, text):
    verified = run([opt, "-"], text)
    if verified.returncode:
        return "no", reason(verified)
    with tempfile.TemporaryDirectory() as folder:
        bundle = pathlib.Path(folder) / "probe.fcb"
        compiled = run([compiler, "-", "--emit=bundle", "--no-cubin", f"--chip={','.join(chips)}", "--explain", "-o", bundle], text)
    if compiled.returncode:
        return "yes", reason(compiled)
    # What --explain says of each chip.
    said = re.split(r"^attention on (sm_\w+):", compiled.stderr, flags=re.M)
    slow = [chip for chip, text in zip(said[1::2], said[2::2]) if re.search(r"^ *spills +\S", text, re.M)]
    return "yes", f"yes, but spills: {', '.join(slow)}" if slow else "yes"


def probe_all(opt, compiler, chips):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda feature: probe(opt, compiler, chips, feature[1]), FEATURES))


def summary(results, chips):
    """The lowered and the refused features, head dims in one, those of f16 for all."""
    lowered, refused = [], []
    for (name, *_), (_, how_far) in zip(FEATURES, results):
        names = lowered if how_far.startswith("yes") else refused
        if name.startswith(WIDE):
            continue
        dims = name.removeprefix("head_dim ")
        if dims.isdigit() and names and names[-1].startswith("head_dim "):
            names[-1] += f", {dims}"
        else:
            names.append(name)
    return (f"| lowered for {', '.join(chips)} | {' · '.join(lowered)} |\n|---|---|\n"
            f"| verified, and refused by name | {' · '.join(refused)} |\n")


def table(results, compiler, chips):
    make_bundles = load_bundles()
    (emulated, emulated_runs), (on_gpu, gpu_runs) = (
        kernels_of(make_bundles, grids, compiler) for grids in (["emulate"], ["check", "warpgroups"]))
    count = lambda kernels, pattern: sum(bool(re.search(pattern, text)) for text in kernels) if pattern else 0
    lines = ["# What works",
             "",
             "Written by `scripts/support-table.py`: each row is a probe of the verifier and of the compiler for " + ", ".join(chips) + ".",
             f"The last columns count kernels with the feature in the grids that the emulator runs in CI ({len(emulated)} kernels, {emulated_runs} runs) and that",
             f"`scripts/gpu-check.sh` runs on a GPU ({len(on_gpu)} kernels, {gpu_runs} runs); a kernel runs with several sizes and layouts.",
             "Where a chip spills, a thread has more values than registers, which costs time: `--explain` says why, and what helps.",
             "",
             "| feature | verified | lowered | emulator | GPU |",
             "|---|---|---|---:|---:|"]
    for (name, _, pattern), (verified, lowered) in zip(FEATURES, results):
        counts = [count(kernels, pattern) or "" for kernels in (emulated, on_gpu)]
        lines.append(f"| {name} | {verified} | {lowered} | {counts[0]} | {counts[1]} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with what stands there")
    parser.add_argument("opt")
    parser.add_argument("compiler")
    args = parser.parse_args()
    chips = compiler_lists.list_chips(args.compiler)
    results = probe_all(args.opt, args.compiler, chips)
    text, short = table(results, args.compiler, chips), summary(results, chips)
    if not args.check:
        TABLE.write_text(text)
        marked_blocks.write(README, "support", short)
        return 0
    if text == TABLE.read_text() and short == marked_blocks.read(README, "support"):
        print("docs/Support.md and README.md are up to date")
        return 0
    print("docs/Support.md or README.md is out of date: run scripts/support-table.py without --check\n" + text + short)
    return 1


if __name__ == "__main__":
    sys.exit(main())
