#!/usr/bin/env python3
"""Compiles attentions drawn at random with their default schedules: does one spill registers, or take long?

Draws types, head dims, masks, softcap, bias, layouts and sizes, known and not,
of small and large grids. Times are of the processor, so that other work on the
machine counts little, as multiples of the reference shape's (batch 1, 8 heads,
512 x 512, head_dim 64, f16), which is compiled again every few draws.

Exits with 1 if a kernel spills more than 32 bytes a thread, or takes longer than
--limit times the reference shape. `--one SPEC` repeats a draw.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The package's reader of bundles, which needs no build of the package.
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "python/flashcore")]
import compiler_lists
import marked_blocks
from bundle import Bundle, chip_number
from drawn_attentions import Configuration

PAGE = ROOT / "docs/performance.md"
REFERENCE = "shape=1.8.8.512.512"
# Bytes a thread, stored and loaded: a few values around the loop cost less than what has them stay out of
# registers gains (docs/performance-notebook.md, 28 November 2026).
FEW_SPILLS = 32


def draw_sizes(rng):
    """Sizes from one short query to grids that fill any card."""
    batch = rng.choice([1, 1, 2, 4, 8, 16, 32, 128])
    heads_kv = rng.choice([1, 2, 4, 8, 12, 16, 32])
    heads_q = heads_kv * rng.choice([1, 1, 1, 2, 4, 8])
    seqlen_q = rng.choice([1, rng.randint(2, 64), 2 ** rng.randint(6, 14), rng.randint(65, 9000)])
    seqlen_k = rng.choice([seqlen_q, seqlen_q, 2 ** rng.randint(6, 17), rng.randint(1, 9000)])
    return batch, heads_q, heads_kv, seqlen_q, seqlen_k


def draw_shape(rng, sizes):
    """What of the sizes the type tells."""
    kind = rng.choice(["static", "static", "dynamic", "mixed"])
    if kind == "static":
        return sizes
    return tuple("?" if kind == "dynamic" or rng.random() < 0.5 else size for size in sizes)


def draw(rng):
    head_dim = rng.choice([64, 64, 128, 128, 256, 8 * rng.randint(2, 32)])
    head_dim_v = 8 * rng.randint(2, 32) if rng.random() < 0.15 else head_dim
    sizes = draw_sizes(rng)
    layout = rng.choice(["dense", "dense", "dynamic", "bshd"])
    shape = sizes if layout == "bshd" else draw_shape(rng, sizes)
    window = [rng.choice([0, 16, 128, 1024, 4095]) if rng.random() < 0.25 else None for _ in range(2)]
    bias = None
    dtype = rng.choice(["f16", "bf16"])
    if rng.random() < 0.3:
        axes = rng.choice(["bhqk", "1hqk", "b11k", "11qk", "1h1k", "b1qk"])
        bias = (rng.choice([dtype, "f32"]), axes)
    return Configuration(dtype, head_dim, head_dim_v, shape, layout, rng.choice(["none", "bottom_right", "bottom_right", "top_left"]),
                              *window, rng.choice([None, None, 30.0]), None, bias, rng.random() < 0.7)


def compile_one(compiler, chip, spec):
    """Seconds of the processor and bytes that the kernels of `spec` spill."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = pathlib.Path(folder) / "kernel.fcb"
        words = Configuration.parse(spec).words()
        command = [*compiler, f"--shape={words}", "--emit=bundle", f"--chip={chip}", "-o", str(bundle)]
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                errors.seek(0)
                raise SystemExit(f"expects a kernel of '{spec}' for {chip}, but got\n{errors.read().decode()}")
        resources = [kernel.resources for kernel in Bundle(bundle).kernels]
        return (usage.ru_utime + usage.ru_stime, max(each.spills for each in resources),
                max(each.registers for each in resources))


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def summarize(args, results, references):
    reference = statistics.median(references)
    ratios = [result["seconds"] / reference for result in results]
    return {
        "date": datetime.date.today().isoformat(), "seed": args.seed, "count": len(results), "chip": args.chip,
        "spilling": sum(result["spills"] > FEW_SPILLS for result in results),
        "most_spills": max(result["spills"] for result in results),
        "reference_seconds": round(reference, 3),
        "times": {name: {"ratio": round(value, 2), "seconds": round(value * reference, 3)} for name, value in
                  (("p50", quantile(ratios, 0.5)), ("p95", quantile(ratios, 0.95)), ("max", max(ratios)))},
        "slowest": max(results, key=lambda result: result["seconds"])["spec"],
    }


def describe(summary):
    """The summary in words, for docs/performance.md."""
    day = datetime.date.fromisoformat(summary["date"])
    spilling = summary["spilling"] or "none"
    rows = "".join(f"| {name} | {time['ratio']:.2f} | {1000 * time['seconds']:.0f} |\n" for name, time in summary["times"].items())
    return (f"{summary['count']} attentions drawn at random for {summary['chip']} (seed {summary['seed']}, {day.day} {day:%B %Y}), with default\n"
            f"schedules: {spilling} spill more than {FEW_SPILLS} bytes a thread, and the most is {summary['most_spills']}.\n\n"
            f"| time of the processor, from `.mlir` to cubin | of the reference shape's | ms |\n|---|---:|---:|\n"
            f"| reference shape | 1 | {1000 * summary['reference_seconds']:.0f} |\n{rows}\n"
            f"The slowest is `{summary['slowest']}`.\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", nargs="+", default=[str(ROOT / "build/release/bin/flashcore"), "compile"],
                        help="command to call, by default `flashcore compile`")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None, help="by default a new one, which is printed")
    parser.add_argument("--chip", default="sm_89", help="one of the compiler's --list-chips, or 'any', which draws one from sm_80 on for each attention")
    parser.add_argument("--limit", type=float, default=2.0, help="the longest time, as a multiple of the reference shape's")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", metavar="SPEC", help="compile this one, as printed")
    parser.add_argument("--json", type=pathlib.Path, help="write the summary to this file")
    parser.add_argument("--write", action="store_true", help="write the summary into docs/performance.md")
    parser.add_argument("--log", type=pathlib.Path, help="write a line of JSON a draw to this file")
    args = parser.parse_args()
    args.seed = random.SystemRandom().randrange(1 << 20) if args.seed is None else args.seed
    rng = random.Random(args.seed)
    print(f"seed {args.seed}", flush=True)
    if args.one and args.write:
        parser.error("--write takes a whole draw, not --one")
    specs = [args.one] if args.one else [draw(rng).spec() for _ in range(args.count)]
    known = compiler_lists.list_chips(args.compiler)
    if args.chip not in (*known, "any"):
        parser.error(f"expects --chip to be any, {', '.join(known[:-1])} or {known[-1]}, but got '{args.chip}'")
    # Kernels of older ones may spill, and say so; nor does every ptxas know those.
    drawn = [chip for chip in known if chip_number(chip) >= 80] if args.chip == "any" else [args.chip]
    chips = [rng.choice(drawn) for _ in specs]

    def measure(i):
        reference = compile_one(args.compiler, chips[i], REFERENCE)[0] if i % 5 == 0 else None
        return reference, *compile_one(args.compiler, chips[i], specs[i])

    results, references = [], []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for i, (reference, seconds, spills, registers) in enumerate(pool.map(measure, range(len(specs)))):
            references += [reference] if reference else []
            results.append({"spec": specs[i], "chip": chips[i], "seconds": round(seconds, 3), "spills": spills, "registers": registers})
            ratio = seconds / statistics.median(references)
            if spills or ratio > args.limit or args.one:
                print(f"{ratio:5.2f} x  {spills:4d} bytes spilled, {registers} registers: --chip={chips[i]} --one '{specs[i]}'", flush=True)
            if args.log:
                args.log.write_text("".join(json.dumps(result) + "\n" for result in results))
    summary = summarize(args, results, references)
    print(json.dumps(summary, indent=2))
    if args.json:
        args.json.write_text(json.dumps(summary, indent=2) + "\n")
    if args.write:
        marked_blocks.write(PAGE, "draw-defaults", describe(summary))
    return 1 if summary["spilling"] or summary["times"]["max"]["ratio"] > args.limit else 0


if __name__ == "__main__":
    sys.exit(main())
