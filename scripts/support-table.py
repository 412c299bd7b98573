#!/usr/bin/env python3
"""Writes docs/Support.md: what the op can say, and how far each of it goes; and
its short form in README.md.

usage: support-table.py [--check] FLASHCORE_OPT FLASHCORE_COMPILE

Every row is a probe: an attention that uses the feature is given to the
verifier (flashcore-opt) and to the compiler, which says of some chips that
registers spill. Each operand of the compiler's table has a row. The last two columns count the
kernels that use it in the grids of scripts/kernel_grids.py. --check compares
with the files instead of writing them.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import compiler_lists
import kernel_grids
import marked_blocks

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/Support.md"
README = ROOT / "README.md"


class Recorder:
    """Stands in for the grids' Bundles: keeps the words or the text of each kernel."""

    def __init__(self, compiler):
        self.kernels, self.compiler = {}, compiler

    def make(self, name, source, options=()):
        self.kernels[name] = source
        return f"{name}.fcb"


def kernels_of(grids, compiler):
    """The words or the text of the kernels of some grids, and the number of their runs."""
    recorder = Recorder(compiler)
    runs = [run for grid in grids for run in kernel_grids.GRIDS[grid](recorder)]
    return list(recorder.kernels.values()), len(runs)


def words(heads="h4", lengths="s96", dims="d64 f16", more=""):
    """Of the attention of a probe."""
    return f"b1 {heads} {lengths} {dims} lse {more}"


REGION = """{{
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      {body}
    }}"""
SCORE = REGION.format(body="flashcore.yield %s : f32")
MASK = REGION.format(body="%m = arith.cmpi ule, %j, %i : index\n      flashcore.yield %m : i1")
APART = " ".join(f"%{name}=memref<1x4x96x64xf16, strided<[24960, 6240, 65, 1], offset: 3>>" for name in "qkvo")
WIDE = "bf16 of head_dim "
HEAD_DIMS = (1, 5, 8, 12, 16, 20, 32, 33, 40, 64, 72, 80, 96, 100, 128, 160, 192, 224, 250, 256)

# Of clauses (compiler_lists.list_clauses) whose row or probe is not the clause itself: name, probe, and the words that a
# grid's kernel says it with. None for what another row has.
CLAUSES = {
    "ins": None, "outs": None, "lse": None, "cu_seqlens_k": None, "block_indices": None, "full_block_counts": None, "full_block_indices": None,
    "bias": ("bias, broadcast axes", words(more="bias=11qk:f32"), "bias="),
    "cu_seqlens_q": ("cu_seqlens", words(more="sequences=2"), "sequences="),
    "seqused_k": ("seqused_k", words(more="seqused_k"), "seqused_k|append="),
    "page_table": ("page_table", words(lengths="s96x64", more="page_size=64"), "page_size="),
    "append": ("append", words(more="append=2"), "append="),
    "rotary": ("rotary", words(more="append=2 rotary=32:half positions=96"), "rotary="),
    "rng": ("dropout", words(more="dropout=0.1"), "dropout="),
    "block_counts": ("block lists", words(more="block_size=128x128 block_counts=11 block_indices=11"), "blocks="),
    "scores": ("scores", words(more="scores=probabilities"), "scores="),
}  # fmt: skip


def clause_features(clauses):
    """A row of each operand's clause."""
    for clause in clauses:
        row = CLAUSES.get(clause, (clause, words(more=clause), rf"{clause}\b"))
        if row:
            name, probed, said = row
            yield name, probed, rf" {clause}\(|(?:^| )(?:{said})"


# name, words of the probe, pattern of the feature in the words or the text of a grid's kernel
FEATURES = [
    ("f16", words(), r"xf16| f16\b"),
    ("bf16", words(dims="d64 bf16"), r"xbf16| bf16\b"),
    *[(f"head_dim {d}", words(dims=f"d{d} f16"), rf"!q = memref<[^>]*x{d}x[bf]+16| d{d}/") for d in HEAD_DIMS],
    ("head_dim 264", words(dims="d264 f16"), None),
    *[(f"{WIDE}{d}", words(dims=f"d{d} bf16"), rf"!q = memref<[^>]*x{d}xbf16| d{d}/\d+ bf16") for d in (128, 160, 256)],
    ("head_dim_v unlike head_dim", words(dims="d192/128 f16"),
     r"!q = memref<[^>]*x(\d+)x[bf]+16(?:.*\n)*?!v = memref<(?![^>]*x\1x[bf]+16)| d(\d+)/(?!\2 )"),
    ("rows that begin anywhere", words(more=APART), r"strided<\[\d+, \d+, \d*[13579], 1\]"),
    ("static sizes", words(), r"!q = memref<\d|^b\d"),
    ("dynamic sizes, strides, offsets", "b? h? s? d64 lse strided", r"!q = memref<\?|^b\?"),
    ("grouped heads", words(heads="h4/2"), r"!q = memref<\dx(\d+)x(?:.*\n)!k = memref<\dx(?!\1x)|!q = memref<\?|^b\d+ h(\d+)/(?!\2 )|^b\?"),
    ("causal(bottom_right)", words(more="causal"), r"causal\(bottom_right\)|causal=bottom_right"),
    ("causal(top_left)", words(more="causal=top_left"), r"causal\(top_left\)|causal=top_left"),
    ("window_left, window_right", words(more="window=5,3"), r"window_|window="),
    ("softcap", words(more="softcap=30"), r"softcap\(|softcap="),
    ("score region", words(more=f"score={SCORE}"), r"score \{|score=\{"),
    ("mask region", words(more=f"mask={MASK}"), r"mask \{|mask=\{"),
]


def reason(result):
    """The first error without its place and the name of the op."""
    text = re.sub(r"^.*?error: (?:'[\w.]+' op )?", "", result.stderr.splitlines()[0] if result.stderr else "")
    return text[0].lower() + text[1:] if text else f"exit code {result.returncode}"


def run(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def probe(opt, compiler, chips, shape):
    text = run([compiler, f"--shape={shape}", "--emit=input"], "").stdout
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
    (emulated, emulated_runs), (on_gpu, gpu_runs) = (
        kernels_of(grids, compiler) for grids in (["emulate"], ["check", "warpgroups"]))
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
    FEATURES.extend(clause_features(compiler_lists.list_clauses(args.compiler)))
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
