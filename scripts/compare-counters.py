#!/usr/bin/env python3
"""Compares flashcore-emu's counters with those that ncu reads on a GPU.

Runs kernels of one memory instruction each, whose traffic can be worked out by
hand, and the whole kernels of --kernels DIR (static bundles). Two halves, which
may run on different machines:

  compare-counters.py --ncu ncu --out counters.json            # with a GPU
  compare-counters.py --compare counters.json --markdown counters.md

What is compared: wavefronts of shared memory by loads and stores, bank conflicts
of cp.async.ca, and sectors of global memory, where ncu counts cp.async among the
loads. ncu's total of shared wavefronts is left out: it also has one for each
store to global memory and some for barriers and the bookkeeping of cp.async, but
none for cp.async.cg. PTX instructions become other SASS instructions, so their
counts are shown side by side and never judged; nor are the loads of a kernel
that executes another number of ldmatrix on the card.
Exit code: 0 all equal, 1 wavefronts or sectors differ, 2 bad input.
"""
import argparse
import collections
import csv
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "runtime/emulator/conformance"))

import bundles
from cuda import CudaError, Device
from emulator import Emulator, EmulatorError
from traffic import traffic_kernels

# What to ask ncu for, among the metrics it offers for the GPU.
METRICS = [
    r"smsp__inst_executed", r"smsp__inst_executed_op_(ldsm|shared_ld|shared_st|global_ld|global_st|ldgsts\w*)",
    r"l1tex__data_pipe_lsu_wavefronts_mem_shared(_op_(ld|st|ldsm|ldgsts))?",
    r"l1tex__data_bank_conflicts_pipe_lsu_mem_shared(_op_(ld|st|ldsm|ldgsts))?",
    r"sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_(access|bypass)",
    r"l1tex__t_sectors_pipe_lsu_mem_global_op_(ld|st|ldgsts\w*)",
    r"lts__t_sectors_op_(read|write)", r"sm__inst_executed_pipe_tensor\w*", r"smsp__inst_executed_pipe_tensor\w*",
]
CLASSES = ("ld.shared", "st.shared", "ldmatrix", "stmatrix", "cp.async.ca", "cp.async.cg", "ld.global", "st.global", "mma.sync")


class ProfilerError(RuntimeError):
    pass


def all_kernels(folder):
    kernels = {kernel.name: kernel for kernel in traffic_kernels()}
    return kernels | (bundles.load(folder) if folder else {})


# The first half: ncu.


def profiler_output(command):
    result = subprocess.run(command, capture_output=True, text=True)
    text = result.stdout + result.stderr
    if "ERR_NVGPUCTRPERM" in text:
        raise ProfilerError("the driver lets only the administrator read performance counters (ERR_NVGPUCTRPERM): run as root, "
                            "or load nvidia with NVreg_RestrictProfilingToAdminUsers=0")
    if result.returncode:
        raise ProfilerError(f"{' '.join(command[:4])} ... exits with {result.returncode}\n{text[-4000:]}")
    return result.stdout


def available_metrics(ncu, chip):
    """Names of the wanted metrics that exist on the chip, with `.sum`."""
    text = profiler_output([ncu, "--query-metrics", "--chip", chip] if chip else [ncu, "--query-metrics"])
    names = {line.split()[0] for line in text.splitlines() if line and not line.startswith(("-", " "))}
    return sorted(f"{name}.sum" for name in names if any(re.fullmatch(pattern, name) for pattern in METRICS))


def profile(args):
    """Counters of each kernel, by kernel and metric."""
    ncu = shutil.which(args.ncu) or "/usr/local/cuda/bin/ncu"
    if not os.access(ncu, os.X_OK):
        raise ProfilerError(f"'{args.ncu}' was not found; give its path with --ncu")
    metrics = available_metrics(ncu, args.chip)
    folder = ["--kernels", str(args.kernels)] if args.kernels else []
    text = profiler_output([ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--metrics", ",".join(metrics),
                            sys.executable, __file__, "--launch", *folder])
    # ncu prints the program's own output and its messages before the table.
    table = text[text.index('"ID"'):]
    rows = [row for row in csv.DictReader(io.StringIO(table)) if row["ID"]]
    names = list(all_kernels(args.kernels))
    if len(rows) != len(names):
        raise ProfilerError(f"ncu reports {len(rows)} launches, but {len(names)} were made")
    counters = {name: {metric: number(row.get(metric)) for metric in metrics} for name, row in zip(names, rows)}
    args.out.write_text(json.dumps({"metrics": metrics, "kernels": counters}, indent=1) + "\n")
    print(f"ncu: {len(metrics)} metrics of {len(names)} kernels -> {args.out}")


def number(text):
    try:
        return float(text.replace(",", ""))
    except (AttributeError, ValueError):
        return None


def launch_all(args):
    """What runs under ncu: every kernel once, in order."""
    device = Device()
    for kernel in all_kernels(args.kernels).values():
        device.run_kernel(kernel)


# The second half: the emulator, and the table.


def classify(opcode):
    if opcode.startswith(("ld.shared", "st.shared", "ld.global", "st.global")):
        return opcode[:9]
    return next((name for name in CLASSES if opcode.startswith(name)), None)


def emulated(kernel, emulator):
    """Executions, wavefronts, conflicts and sectors by class of PTX instruction."""
    counters = emulator.count_kernel(kernel)["counters"]
    lines = kernel.ptx.splitlines()
    out = {name: {"executed": 0, "wavefronts": 0, "conflicts": 0, "sectors": 0} for name in CLASSES}
    for line in counters["lines"]:
        opcode = next((word for word in lines[line["line"] - 1].split() if not word.startswith("@")), "")
        name = classify(opcode)
        if name:
            out[name]["executed"] += line["executed"]
            out[name]["wavefronts"] += line["shared_wavefronts"]
            out[name]["conflicts"] += line["shared_wavefronts"] - line["shared_wavefronts_ideal"]
            out[name]["sectors"] += line["global_sectors"]
    return out | {"instructions": counters["warp_instructions"], "mma": counters["mma"]}


def rows_of(name, card, emulator):
    """(kernel, quantity, emulator, card, whether they must agree)."""

    def metric(key):
        return card.get(key + ".sum")

    def total(what, *classes):
        return sum(emulator[c][what] for c in classes)

    wavefronts, sectors = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_", "l1tex__t_sectors_pipe_lsu_mem_global_op_"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts"
    copies = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_"
    matrices, card_matrices = emulator["ldmatrix"]["executed"], metric("smsp__inst_executed_op_ldsm")
    tensor = next((card[key] for key in sorted(card) if re.search(r"pipe_tensor_op_hmma\.sum|pipe_tensor_op_hmma_type", key)
                   and card[key]), None)
    return [
        ("shared wavefronts, loads", total("wavefronts", "ld.shared", "ldmatrix"), metric(wavefronts + "ld"),
         matrices == card_matrices),
        ("shared wavefronts, stores", total("wavefronts", "st.shared", "stmatrix"), metric(wavefronts + "st"), True),
        ("shared conflicts, cp.async.ca", total("conflicts", "cp.async.ca"), metric(conflicts), True),
        ("global sectors, loads and cp.async", total("sectors", "ld.global", "cp.async.ca", "cp.async.cg"),
         metric(sectors + "ld"), True),
        ("global sectors, stores", total("sectors", "st.global"), metric(sectors + "st"), True),
        ("shared wavefronts, cp.async.ca", total("wavefronts", "cp.async.ca"), metric(copies + "access"), False),
        ("shared wavefronts, cp.async.cg", total("wavefronts", "cp.async.cg"), metric(copies + "bypass"), False),
        ("ldmatrix : LDSM instructions", matrices, card_matrices, False),
        ("mma : tensor instructions", emulator["mma"], tensor, False),
        ("PTX : SASS instructions", emulator["instructions"], metric("smsp__inst_executed"), False),
    ]


def compare(args):
    measured = json.loads(args.compare.read_text())["kernels"]
    wanted = all_kernels(args.kernels)
    kernels = {name: kernel for name, kernel in wanted.items() if name in measured}
    if not kernels:
        raise ValueError(f"{args.compare} has no counters of {', '.join(list(wanted)[:4])}; run the first half with the same --kernels")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        emulator = Emulator(args.emulator, "sm90", folder)
        results = list(pool.map(lambda kernel: emulated(kernel, emulator), kernels.values()))
    lines = ["| kernel | quantity | emulator | card | card / emulator |", "|---|---|---:|---:|---:|"]
    differing, compared = collections.Counter(), collections.Counter()
    for name, counters in zip(kernels, results):
        for quantity, ours, card, judged in rows_of(name, measured[name], counters):
            if card is None or not (ours or card):
                continue
            differs = judged and ours != card
            compared[quantity] += judged
            differing[quantity] += differs
            if differs or args.all or not judged and ours > 64:
                ratio = f"{card / ours:.3f}" if ours else "-"
                lines.append(f"| {name} | {quantity} | {ours} | {card:g} | {ratio}{' *' if differs else ''} |")
    lines += ["", "| quantity | kernels compared | differing |", "|---|---:|---:|"]
    lines += [f"| {quantity} | {count} | {differing[quantity]} |" for quantity, count in compared.items() if count]
    lines.append(f"\n{sum(compared.values())} quantities compared, {sum(differing.values())} differ (marked *); "
                 f"{len(wanted) - len(kernels)} kernels were not measured")
    text = "\n".join(lines)
    print(text)
    if args.markdown:
        args.markdown.write_text(text + "\n")
    return 1 if any(differing.values()) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ncu", help="profile every kernel with this ncu")
    parser.add_argument("--chip", help="ncu's name of the chip whose metrics to ask for; default: the GPU here")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("counters.json"), help="where --ncu writes")
    parser.add_argument("--launch", action="store_true", help="launch every kernel once; what --ncu profiles")
    parser.add_argument("--compare", type=pathlib.Path, metavar="JSON", help="compare these counters with the emulator's")
    parser.add_argument("--markdown", type=pathlib.Path, help="where --compare writes its table")
    parser.add_argument("--all", action="store_true", help="a row for each quantity, not only for those that differ")
    parser.add_argument("--kernels", type=pathlib.Path, metavar="DIR", help="whole kernels to run too (*.fcb)")
    parser.add_argument("--emulator", type=pathlib.Path, default=ROOT / "build/release/bin/flashcore-emu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if args.launch:
        launch_all(args)
    if args.ncu:
        profile(args)
    return compare(args) if args.compare else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CudaError, EmulatorError, ProfilerError, OSError, ValueError) as error:
        print(f"compare-counters: {error}", file=sys.stderr)
        sys.exit(2)
