"""Runs one-edit mutants of compiled kernels and says what the emulator said.

usage: mutants.py [--subset N] [--kernel NAME] [-v] COMPILER EMULATOR WORK_DIR

Every mutant runs with all checks, once in each mode, and ends as

  reported    a check found it (the table says which)
  unwritten   part of an output was never written, which the tool notes
  wrong       nothing but the result shows it
  silent      the result is right and nothing was said

The last two are failures unless harmless-mutants.txt expects them with a
reason; so is an entry there that no longer holds. --subset runs one mutant in
N, and of those kinds every check must see (barriers, waits, commits) all.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import zlib

import emulation
import kernels
import mutations

MODES = {
    "lazy": ["--schedule", "seq", "--async", "lazy"],
    "random": ["--schedule", "random:1", "--async", "random:1"],
}
# Groups small enough, and important enough, never to be sampled.
ALWAYS = {"bar.sync", "bar.warp.sync", "cp.async.wait_group",
          "cp.async.commit_group"}
FINDING = re.compile(r":(\d+)(?: \(.*?\))?: ([a-z-]+): ")


@dataclasses.dataclass
class Outcome:
    """What one run said, the strongest first: finding kinds, then the rest."""
    kind: str  # reported, unwritten, wrong or silent
    findings: tuple = ()


def notes(text):
    return [line for line in text.splitlines() if line.startswith("note: ")]


class Run:
    """One run of a PTX file: what the tool said, and the output buffers."""

    def __init__(self, emulator, launch, ptx, mode):
        files = {i: ptx.with_suffix(f".{name}.npy")
                 for i, name in launch.outputs}
        self.text = subprocess.run(
            [emulator, str(ptx), *launch.options, *MODES[mode], "-q",
             "--max-instructions", "1000000",
             "--out", *(f"{i}={path}" for i, path in files.items())],
            capture_output=True, text=True)
        self.outputs = {}
        for i, path in files.items():
            if path.exists():
                self.outputs[i] = path.read_bytes()
                path.unlink()


class Good:
    """The kernel as compiled, whose results every mode must agree on."""

    def __init__(self, emulator, launch):
        self.launch = launch
        self.lines = launch.ptx.read_text().splitlines()
        runs = [Run(emulator, launch, launch.ptx, mode) for mode in MODES]
        self.outputs = runs[0].outputs
        self.notes = notes(runs[0].text.stdout)
        for mode, one in zip(MODES, runs):
            if one.text.returncode or one.outputs != self.outputs:
                sys.exit(f"{launch.name} as compiled is not clean or differs "
                         f"between modes ({mode}):\n{one.text.stdout}"
                         f"{one.text.stderr}")


def classify(good, one):
    findings = {kind for _, kind in FINDING.findall(one.text.stdout)}
    if one.text.returncode == 2:
        return Outcome("reported", ("refused",))
    if findings:
        return Outcome("reported", tuple(sorted(findings)))
    if notes(one.text.stdout) != good.notes:
        return Outcome("unwritten")
    return Outcome("silent" if one.outputs == good.outputs else "wrong")


def run_mutant(emulator, directory, good, mutant):
    path = directory / f"{mutant.key.replace(' ', '_')}.ptx"
    path.write_text(mutant.apply(good.lines))
    outcomes = {mode: classify(good, Run(emulator, good.launch, path, mode))
                for mode in MODES}
    path.unlink()
    return outcomes


ORDER = ["reported", "unwritten", "wrong", "silent"]


def strongest(outcomes):
    return min(outcomes.values(), key=lambda o: ORDER.index(o.kind))


def is_sampled(mutant, subset):
    return (mutant.group in ALWAYS or
            zlib.crc32(mutant.key.encode()) % subset == 0)


class Expectations:
    """harmless-mutants.txt: KERNEL GROUP ORDINALS EDIT OUTCOME, then a reason
    after '#'. '*' stands for any kernel, ordinal or edit; ordinals may be
    ranges: 0,3-5."""

    def __init__(self, path):
        self.entries = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            entry, _, reason = line.partition("#")
            if not entry.strip():
                continue
            fields = entry.split()
            if len(fields) != 5 or fields[4] not in ORDER or not reason.strip():
                sys.exit(f"{path.name}:{number}: expects KERNEL GROUP ORDINALS "
                         f"EDIT OUTCOME # REASON, but got '{line}'")
            self.entries.append((number, fields))
        self.path = path
        self.used = set()

    @staticmethod
    def _has(ordinals, ordinal):
        bounds = [part.partition("-") for part in ordinals.split(",")]
        return any(int(low) <= ordinal <= int(high or low)
                   for low, _, high in bounds)

    def find(self, mutant):
        """The outcomes some entry gives for this mutant."""
        kinds = set()
        for number, (kernel, group, ordinals, edit, kind) in self.entries:
            if (group == mutant.group and kernel in ("*", mutant.kernel) and
                    edit in ("*", mutant.edit) and
                    (ordinals == "*" or self._has(ordinals, mutant.ordinal))):
                kinds.add(kind)
                self.used.add((number, kind))
        return kinds

    def unused(self):
        return [number for number, fields in self.entries
                if (number, fields[4]) not in self.used]


def print_table(results):
    """One row a class and edit."""
    rows = collections.defaultdict(collections.Counter)
    for mutant, outcomes in results:
        best = strongest(outcomes)
        label = best.findings[0] if best.findings else best.kind
        rows[f"{mutant.group} {mutant.edit}"][label] += 1
        rows["total"][label] += 1
    total = rows.pop("total")
    width = max(map(len, rows))
    for name, counts in [*rows.items(), ("total", total)]:
        cells = ", ".join(f"{label} {n}" for label, n in counts.most_common())
        print(f"{name:{width}} {sum(counts.values()):5}  {cells}")
    for mode in MODES:
        kinds = collections.Counter(o[mode].kind for _, o in results)
        print(f"{mode}: " + ", ".join(f"{k} {kinds[k]}" for k in ORDER))


def check(results, expectations):
    """Prints what is unexpected; returns how many."""
    problems = 0
    for mutant, outcomes in results:
        best = strongest(outcomes)
        expected = expectations.find(mutant)
        wanted = ", ".join(sorted(expected)) or "reported"
        if best.kind in ("reported", *expected):
            continue
        problems += 1
        print(f"{mutant.key} (line {mutant.line}): expects {wanted}, but got "
              f"{best.kind}")
    return problems


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("compiler")
    parser.add_argument("emulator")
    parser.add_argument("work_dir", type=pathlib.Path)
    parser.add_argument("--subset", type=int, default=1, metavar="N")
    parser.add_argument("--kernel", help="only mutants of this one")
    parser.add_argument("-v", action="store_true", help="print every outcome")
    args = parser.parse_args()
    args.work_dir.mkdir(parents=True, exist_ok=True)

    work = []
    for name, keywords in kernels.kernels().items():
        if args.kernel not in (None, name):
            continue
        launch = emulation.compile_launch(args.compiler, args.work_dir, name,
                                          **keywords)
        good = Good(args.emulator, launch)
        work += [(good, mutant)
                 for mutant in mutations.mutants(launch, good.lines)
                 if is_sampled(mutant, args.subset)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(lambda w: run_mutant(args.emulator, args.work_dir,
                                                 *w), work)
        results = [(mutant, o) for (_, mutant), o in zip(work, outcomes)]
    if args.v:
        for mutant, o in results:
            print(mutant.key, mutant.line,
                  *(f"{m}={','.join(x.findings) or x.kind}"
                    for m, x in o.items()))
    print_table(results)
    path = pathlib.Path(__file__).parent / "harmless-mutants.txt"
    problems = check(results, Expectations(path))
    print(f"{len(results)} mutants, {problems} unexpected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
