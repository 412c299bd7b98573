"""Runs a grid of kernels under several schedules and completion orders.

usage: schedules.py [--rotate] [--share I/N] EMULATOR GRID.json

GRID.json is a list of runs as scripts/make-bundles.py writes it. Every run must
be clean in every mode, and its outputs must be the same to the bit: the order
of warps and the time at which a copy arrives must not matter. --rotate takes
the first mode and one of the others in turn for each run, --share the runs of one
of N parts (scripts/shares.py).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import sys

import emulation

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import shares

MODES = {
    "sequential, lazy": ["--schedule", "seq", "--async", "lazy"],
    "skewed, lazy": ["--schedule", "skew", "--async", "lazy"],
    "random, lazy": ["--schedule", "random:1", "--async", "lazy"],
    "random, random": ["--schedule", "random:2", "--async", "random:2"],
    "random, eager": ["--schedule", "random:3", "--async", "eager"],
}


def modes_of(number, is_rotating):
    """The modes of the run of that number."""
    first, *others = MODES.items()
    if is_rotating:
        others = [others[number % len(others)]]
    return [first, *others]


def check(emulator, directory, number, entry, modes):
    """Says what is wrong with one entry of the grid."""
    launches = emulation.read_launches(
        directory / entry["bundle"], dims=entry.get("dims", {}),
        padding=entry.get("offset", 0), layout=entry.get("layout", "bhsd"),
        tensors=entry.get("tensors"))
    stem = directory / f"run{number}"
    written = {}
    for launch in launches:
        expected = None
        for mode, options in modes:
            one = emulation.run(emulator, launch, options, stem=stem,
                                written=written)
            if one.returncode:
                yield f"{json.dumps(entry)} ({mode}):\n{one.text}"
            expected = expected or one
            if one.outputs != expected.outputs:
                yield (f"{json.dumps(entry)}: expects the outputs of "
                       f"'{next(iter(MODES))}' to the bit, but '{mode}' "
                       "differs")
        written |= {name: expected.outputs[i]
                    for i, name in launch.outputs.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rotate", action="store_true")
    parser.add_argument("--share", type=shares.Share.parse, default=shares.WHOLE)
    parser.add_argument("emulator")
    parser.add_argument("grid", type=pathlib.Path)
    args = parser.parse_args()
    entries = [entry for entry in json.loads(args.grid.read_text())
               if args.share.has(json.dumps(entry))]

    def run(number):
        return list(check(args.emulator, args.grid.parent, number,
                          entries[number], modes_of(number, args.rotate)))

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(run, range(len(entries))))
    failed = [p for p in problems if p]
    print("\n".join(text for texts in failed for text in texts))
    print(f"{len(entries) - len(failed)} of {len(entries)} the same and clean "
          f"in {'2 of ' if args.rotate else ''}{len(MODES)} modes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
