#!/usr/bin/env python3
"""Compares flashcore-emu with a real GPU, instruction by instruction.

The corpus of runtime/emulator/conformance runs on both; integer, conversion,
fma and mma results must be equal bit for bit, approximations within the error
that the PTX ISA states. Needs Python alone, and for a GPU FlashCore's Python
package, in two halves that may run on different machines:

  compare-with-card.py --device cuda --out results.npz          # with a GPU
  compare-with-card.py --compare results.npz --json diff.json   # with flashcore-emu

--kernels DIR adds whole kernels (bundles of static shape). Without a GPU,
--device emulator runs the corpus with every check of the emulator on, and
--ptxas assembles it. Exit code: 0 all rules hold, 1 one is broken, 2 bad input.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EMULATOR = "flashcore-emu"  # as the name of a device
DIGEST = ROOT / "runtime/emulator/conformance/corpus.sha256"  # of the corpus as it is with the usual seed
sys.path.insert(0, str(ROOT / "runtime/emulator/conformance"))

import bundles
import card_figures
import judge
import npy
import values
from corpus import all_launches
from cuda import CudaError, Device
from emulator import Emulator, EmulatorError
from launch import Launch, Result


def digest(launches):
    state = hashlib.sha256()
    for launch in launches:
        state.update(launch.ptx.encode())
        for data in launch.input_bytes():
            state.update(data)
    return state.hexdigest()


def check_digest(launches):
    """The corpus must be the one on record: the same PTX and operands on every
    machine, in every Python and each time."""
    want, got = DIGEST.read_text().strip(), digest(launches)
    if want != got:
        print(f"compare-with-card: expects the corpus {want} of {DIGEST}, but got {got}: if this is meant, write it there, and run "
              "the comparison with a card again", file=sys.stderr)
    return want != got


def run_everywhere(function, items, workers):
    """The results of `function`, in order."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))


def runnable(launches, chip):
    """Those whose PTX a card takes; which it does not is said."""
    left = [launch for launch in launches if launch.runs_on(chip)]
    others = sorted({launch.target() for launch in launches if not launch.runs_on(chip)})
    if others:
        print(f"{chip}: skips {len(launches) - len(left)} of {len(launches)} kernels, which are for {', '.join(others)}")
    return left


# The first half: run on a device.


def run_half(args, launches, kernels):
    if args.device == "cuda":
        device = Device()
        name, chip = device.name(), device.chip()
        corpus_run, kernel_run, workers = device.run_launch, device.run_kernel, 1
        launches = runnable(launches, chip)
    else:
        emulator = Emulator(args.emulator, args.mma, args.folder)
        name, chip = EMULATOR, args.mma
        corpus_run, kernel_run, workers = emulator.run_launch, emulator.run_kernel, args.jobs
    outputs = run_everywhere(corpus_run, launches, workers)
    whole = run_everywhere(kernel_run, kernels.values(), workers)
    if args.out is None:
        return
    with npy.Archive(args.out, "w") as archive:
        for launch, output in zip(launches, outputs):
            archive.write(launch.name, output, launch.element_bytes())
        for launch, output in zip(kernels.values(), whole):
            for i, data in output.items():
                archive.write(f"kernel {launch.name} {i}", data, bundles.ELEMENTS[launch.arguments[i].type])
        archive.write_note(json.dumps({"device": name, "chip": chip, "corpus": digest(launches), "seed": values.SEED}))
    print(f"{name} ({chip}): {len(launches)} kernels with {sum(len(l.results) for l in launches)} instruction variants, "
          f"{len(kernels)} whole kernels -> {args.out}")


# The second half: compare with the emulator.


def judge_launch(launch, card, emulator):
    data = emulator.run_launch(launch)
    verdicts, nans = [], []
    for result in launch.results:
        verdicts.append(judge.judge(launch, result, card, data))
        nans.append((result, judge.nan_patterns(launch, result, card), judge.nan_patterns(launch, result, data)))
    return verdicts, nans


def judge_kernel(launch, card, emulator):
    """Kernels use ex2.approx, so rounding may differ; the largest distance says
    how much."""
    verdicts = []
    for i, want in emulator.run_kernel(launch).items():
        argument = launch.arguments[i]
        result = Result(f"{launch.name} {argument.name}", 0, argument.count, argument.type, "exact")
        stand_in = Launch(launch.name, "", 1, 1, [], {2: "b16", 4: "b32"}[bundles.ELEMENTS[argument.type]], [result])
        verdict = judge.judge(stand_in, result, card[i], want)
        verdict.rule, verdict.broken = "report", 0
        verdicts.append(verdict)
    return verdicts


def family(label):
    """What a row of the table stands for: the opcode, without modifiers."""
    return label if label.startswith("mma") else label.split(".")[0].split(" ")[0]


def print_table(verdicts, all_rows):
    rows = [("instruction", "variants", "elements", "bit-equal", "max ulp", "verdict")]

    def add(name, group):
        count, differing = sum(v.count for v in group), sum(v.differing for v in group)
        ulps = [v.max_ulp for v in group if v.max_ulp is not None]
        worst = next((v.text() for v in group if v.broken), next((v.text() for v in group if v.differing), "equal"))
        share = "100 %" if not differing else f"{100 * (count - differing) / count:.3f} %"
        rows.append((name, str(len(group)), str(count), share, str(max(ulps)) if ulps else "-", worst))

    groups = collections.defaultdict(list)
    for verdict in verdicts:
        groups[verdict.label if all_rows or verdict.differing else family(verdict.label)].append(verdict)
    for name, group in groups.items():
        add(name, group)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def nan_table(nans):
    """Rows of (type, NaN patterns of the card, of the emulator), with the
    instructions that give them."""
    groups = collections.defaultdict(list)
    for result, card, emulator in nans:
        if card or emulator:
            top = lambda counter: tuple(f"{bits:x}" for bits, _ in sorted(counter.items(), key=lambda x: -x[1])[:3])
            more = lambda counter: ("...",) if len(counter) > 3 else ()
            groups[result.type, top(card) + more(card), top(emulator) + more(emulator)].append(result.label)
    return [{"type": t, "card": card, "emulator": emulator, "variants": len(labels), "labels": labels[:8]}
            for (t, card, emulator), labels in groups.items()]


def print_nans(table):
    print("\nNaN results (the three most frequent patterns)")
    for row in table:
        mark = " " if row["card"] == row["emulator"] else "*"
        print(f"{mark} {row['type']:7s} card {' '.join(row['card']):30s} emulator {' '.join(row['emulator']):30s} "
              f"{row['variants']} variants: {', '.join(row['labels'][:4])}")


def compare_half(args, launches, kernels):
    emulator = Emulator(args.emulator, args.mma, args.folder)
    with npy.Archive(args.compare) as archive:
        note = json.loads(archive.read_note())
        if note["device"] != EMULATOR:
            launches = runnable(launches, note["chip"])
        if note["corpus"] != digest(launches):
            raise ValueError(f"{args.compare} holds results of another corpus; run this script's first half again")
        cards = [archive.read(launch.name) for launch in launches]
        names = set(archive.names())
        whole = {name: {i: archive.read(f"kernel {name} {i}") for i, a in enumerate(launch.arguments) if a.is_output}
                 for name, launch in kernels.items() if any(f"kernel {name} {i}" in names for i in range(16))}
    missing = set(kernels) - set(whole)
    if missing:
        raise ValueError(f"{args.compare} has no results of {', '.join(sorted(missing))}; give the first half --kernels too")
    judged = run_everywhere(lambda pair: judge_launch(*pair, emulator), list(zip(launches, cards)), args.jobs)
    verdicts = [verdict for some, _ in judged for verdict in some]
    whole_verdicts = [v for name, card in whole.items() for v in judge_kernel(kernels[name], card, emulator)]
    nans = nan_table([row for _, some in judged for row in some])
    print(f"{note['device']} ({note['chip']}) against flashcore-emu --mma {args.mma}\n")
    print_table(verdicts, args.all)
    print_nans(nans)
    if whole_verdicts:
        print("\nWhole kernels")
        print_table(whole_verdicts, all_rows=True)
    broken = [v for v in verdicts if v.broken]
    print(f"\n{len(verdicts)} variants, {sum(v.count for v in verdicts)} results: "
          f"{sum(not v.differing for v in verdicts)} variants bit-equal, "
          f"{sum(bool(v.differing) and not v.broken for v in verdicts)} within their bound, {len(broken)} broken")
    if args.figures:
        seed = str(args.seed or card_figures.DEFAULT_SEED)
        card_figures.record(args.figures, seed, card_figures.collect(verdicts, note))
    if args.json:
        rows = [vars(v) | {"verdict": v.text()} for v in verdicts + whole_verdicts]
        args.json.write_text(json.dumps({"note": note, "mma": args.mma, "nans": nans, "results": rows}) + "\n")
    return 1 if broken else 0


# The tool.


def check_figures(path, launches):
    """The figures must be of this corpus, whatever the card said; rows that were
    added to it since are told by card_figures."""
    here, results = collections.Counter(), collections.Counter()
    for result in (r for l in launches for r in l.results):
        row = card_figures.row_of(result.label, result.rule)
        here[row] += 1
        results[row] += result.count

    def is_of_corpus(run):
        rows = card_figures.variants(run)
        return rows == {row: here[row] for row in rows} and run["results"] == sum(results[row] for row in rows)

    wrong = [seed for seed, run in json.loads(path.read_text()).items() if not is_of_corpus(run)]
    if wrong:
        print(f"{path}: expects {sum(here.values())} variants with {sum(results.values())} results, class by class as in the corpus, "
              f"but got others for seed {', '.join(wrong)}: run the comparison again with --figures", file=sys.stderr)
    return bool(wrong)


def assemble(ptxas, launches, folder, jobs):
    """For the chip that each names and, unless only that takes it, for sm_90, as a
    driver would there."""
    def one(launch):
        path = pathlib.Path(folder) / f"{launch.name}.ptx"
        path.write_text(launch.ptx)
        log = ""
        chip = launch.target()
        for chip in {chip} if chip.endswith("a") else {chip, "sm_90"}:
            result = subprocess.run([ptxas, f"-arch={chip}", str(path), "-o", os.devnull], capture_output=True, text=True)
            log += result.stderr + result.stdout if result.returncode else ""
        return log

    failures = [text for text in run_everywhere(one, launches, jobs) if text]
    print("\n".join(failures) or f"ptxas assembles all {len(launches)} kernels")
    return bool(failures)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "emulator"], help="run the corpus there")
    parser.add_argument("--out", type=pathlib.Path, help="where --device writes its results (.npz)")
    parser.add_argument("--compare", type=pathlib.Path, metavar="NPZ", help="compare these results with the emulator's")
    parser.add_argument("--json", type=pathlib.Path, help="where --compare writes its verdicts and examples")
    parser.add_argument("--figures", type=pathlib.Path, metavar="FILE",
                        help="where --compare records what docs/EmulatorValidation.md says; without it, check that FILE is of this corpus")
    parser.add_argument("--kernels", type=pathlib.Path, metavar="DIR", help="whole kernels to run too (*.fcb)")
    parser.add_argument("--seed", type=int, help="of the operands; --compare takes it from the results")
    parser.add_argument("--only", default="", help="only the launches whose name contains this")
    parser.add_argument("--all", action="store_true", help="one row a variant, not only for those that differ")
    parser.add_argument("--emulator", type=pathlib.Path, default=ROOT / "build/release/bin/flashcore-emu")
    parser.add_argument("--mma", default="sm90", help="the emulator's model of mma, as for flashcore-emu --mma")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--ptxas", help="assemble every kernel with this ptxas")
    parser.add_argument("--write", type=pathlib.Path, metavar="DIR", help="write the PTX files there")
    parser.add_argument("--digest", action="store_true", help="print a checksum of the corpus")
    parser.add_argument("--check-digest", action="store_true", help="compare it with the one on record")
    return parser.parse_args()


def main():
    args = parse_arguments()
    if args.compare:
        with npy.Archive(args.compare) as archive:
            seed = json.loads(archive.read_note()).get("seed", values.SEED)
            args.seed = None if seed == values.SEED else seed
            values.SEED = seed
    elif args.seed is not None:
        values.SEED = args.seed
    launches = [launch for launch in all_launches() if args.only in launch.name]
    kernels = bundles.load(args.kernels) if args.kernels else {}
    if args.digest:
        print(digest(launches))
    if args.figures and not args.compare and check_figures(args.figures, launches):
        return 1
    if args.write:
        args.write.mkdir(parents=True, exist_ok=True)
        for launch in launches:
            (args.write / f"{launch.name}.ptx").write_text(launch.ptx)
    status = 0
    with tempfile.TemporaryDirectory() as args.folder:
        if args.ptxas:
            status |= assemble(args.ptxas, launches, args.folder, args.jobs)
        if args.check_digest:
            status |= check_digest(launches)
        if args.device:
            begin = time.monotonic()
            run_half(args, launches, kernels)
            print(f"{args.device}: {time.monotonic() - begin:.1f} s")
        if args.compare:
            status |= compare_half(args, launches, kernels)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CudaError, EmulatorError, OSError, ValueError) as error:
        print(f"compare-with-card: {error}", file=sys.stderr)
        sys.exit(2)
