"""Runs one-edit mutants of compiled kernels and says what the emulator said.

usage: mutants.py [--product P] [--subset N] [--kernel NAME] [--group CLASS]
                  [--update] [--figures FILE] [-v] COMPILER EMULATOR WORK_DIR

--product says whose: kernels whose warps multiply each by itself (warp, the
default), with fragments that have no layout (wmma), or whose warpgroups do
(warpgroup).

Every mutant runs with all checks, once in each mode, and ends as

  reported    a check found it (the table says which), --expect-written included
  wrong       nothing but the result shows it
  silent      the result is right and nothing was said

All but the first are failures unless the list of the product (LISTS) expects
them with a reason. So is a line there that no longer holds: of each mutant that
it names by number, which must exist and end so, and of one mutant at least where
it has a '*'. --subset runs one mutant in N, and of those kinds every check must
see (barriers, waits, commits) all. --update makes the list fit what was run:
ordinals that hold no longer go, and mutants that nothing expects come at its
end, without the reason that a person has to give. --figures writes what
docs/EmulatorValidation.md says of the run (figures.py).
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import sys
import zlib

import emulation
import figures
import kernels
import mutations

MODES = {
    f"{schedule}-{copies}": ["--schedule", order, "--async", copies]
    for schedule, order in (("seq", "seq"), ("random", "random:1"))
    for copies in ("lazy", "eager")
}
# Mutants may never end; the kernels take some ten thousand.
LIMIT = ["--max-instructions", "1000000"]
CHECKS = ["--expect-written"]
LISTS = {"warp": "harmless-mutants.txt",
         "warpgroup": "harmless-warpgroup-mutants.txt",
         "wmma": "harmless-wmma-mutants.txt"}
# Groups small enough, and important enough, never to be sampled.
ALWAYS = {"bar.sync", "bar.warp.sync", "cp.async.wait_group",
          "cp.async.commit_group", "wgmma.wait_group", "wgmma.commit_group",
          "wgmma.fence"}
# Of a line that --update has added.
NO_REASON = "why?"
FINDING = re.compile(r"^(?!note: ).*?:(\d+)(?: \(.*?\))?: ([a-z-]+): ", re.M)


@dataclasses.dataclass
class Outcome:
    kind: str  # reported, wrong or silent
    findings: tuple = ()  # kinds, the first reported first


class Good:
    """The kernel as compiled, whose results every mode must agree on."""

    def __init__(self, emulator, launch):
        self.launch = launch
        self.lines = launch.ptx.read_text().splitlines()
        runs = {mode: emulation.run(emulator, launch, [*options, *CHECKS])
                for mode, options in MODES.items()}
        self.expected = runs["seq-lazy"]
        for mode, one in runs.items():
            if one.returncode or one.outputs != self.expected.outputs:
                sys.exit(f"{launch.name} as compiled is not clean, or differs "
                         f"between modes ({mode}):\n{one.text}")


def classify(good, one):
    if one.returncode == 2:
        sys.exit(f"{good.launch.name}: expects a mutant that runs, but the "
                 f"emulator refuses it:\n{one.text}")
    if findings := FINDING.findall(one.text):
        return Outcome("reported", tuple(kind for _, kind in findings))
    if "--expect-written: " in one.text:
        return Outcome("reported", ("unwritten-output",))
    same = one.outputs == good.expected.outputs
    return Outcome("silent" if same else "wrong")


def run_mutant(emulator, directory, good, mutant):
    path = directory / f"{mutant.key.replace(' ', '_')}.ptx"
    path.write_text(mutant.apply(good.lines))
    outcomes = {mode: classify(good, emulation.run(
        emulator, good.launch, [*options, *LIMIT, *CHECKS], path))
        for mode, options in MODES.items()}
    path.unlink()
    return outcomes


ORDER = ["reported", "wrong", "silent"]


def strongest(outcomes):
    return min(outcomes.values(), key=lambda o: ORDER.index(o.kind))


def is_sampled(mutant, subset):
    return (mutant.group in ALWAYS or
            zlib.crc32(mutant.key.encode()) % subset == 0)


@dataclasses.dataclass
class Entry:
    """A line of a list: KERNEL GROUP ORDINALS EDIT OUTCOME, then a reason after
    '#'. '*' stands for any kernel, ordinal or edit; ordinals may be ranges:
    0,3-5."""
    line: int
    kernel: str
    group: str
    ordinals: str
    edit: str
    outcome: str
    # By ordinal: whether a mutant that it names ended as it says.
    seen: dict = dataclasses.field(default_factory=dict)

    def matches(self, mutant):
        return (self.group == mutant.group and
                self.kernel in ("*", mutant.kernel) and
                self.edit in ("*", mutant.edit) and
                (self.ordinals == "*" or mutant.ordinal in self.named()))

    def named(self):
        """The ordinals; none where any will do."""
        if self.ordinals == "*":
            return []
        bounds = [part.partition("-") for part in self.ordinals.split(",")]
        return [ordinal for low, _, high in bounds
                for ordinal in range(int(low), int(high or low) + 1)]

    def see(self, mutant, outcome):
        needed = self.outcome == outcome
        self.seen[mutant.ordinal] = self.seen.get(mutant.ordinal) or needed

    def stale(self, left_out):
        """What of the line holds for no mutant. Of those that were left out
        it is believed."""
        believed = [m.ordinal for m in left_out if self.matches(m)]
        if self.ordinals == "*":
            is_needed = any(self.seen.values()) or believed
            return [] if is_needed else ["any mutant"]
        return [str(ordinal) for ordinal in self.named()
                if not self.seen.get(ordinal) and ordinal not in believed]


def read_entries(path):
    entries = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text, _, reason = line.partition("#")
        fields = text.split()
        if not fields:
            continue
        is_given = reason.strip() not in ("", NO_REASON)
        if len(fields) != 5 or fields[4] not in ORDER or not is_given:
            sys.exit(f"{path}:{number}: expects KERNEL GROUP ORDINALS EDIT "
                     f"OUTCOME # REASON, but got '{line}'")
        entries.append(Entry(number, *fields))
    return entries


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


def check(results, entries):
    """Prints the mutants that end otherwise than expected; returns how
    many."""
    problems = 0
    for mutant, outcomes in results:
        best = strongest(outcomes)
        fitting = [e for e in entries if e.matches(mutant)]
        for entry in fitting:
            entry.see(mutant, best.kind)
        wanted = {"reported"} | {e.outcome for e in fitting}
        if best.kind not in wanted:
            problems += 1
            print(f"{mutant.key} (line {mutant.line}): expects "
                  f"{' or '.join(sorted(wanted))}, but got {best.kind}")
    return problems


def check_entries(path, entries, left_out):
    """Prints the lines of the list that hold no longer; returns how many."""
    problems = 0
    for entry in entries:
        if stale := entry.stale(left_out):
            problems += 1
            print(f"{path.name}:{entry.line}: expects a mutant that ends "
                  f"{entry.outcome}, but got none for {', '.join(stale)}")
    return problems


def find_launches(args):
    """The compiled kernels, then those of other compilers."""
    own, foreign = {
        "warp": (kernels.kernels, kernels.foreign),
        "warpgroup": (kernels.warpgroups, lambda: []),
        "wmma": (kernels.wmma, lambda: []),
    }[args.product]
    for name, keywords in own().items():
        if args.kernel in (None, name):
            yield emulation.compile_launch(args.compiler, args.work_dir, name,
                                           **keywords)
    yield from (launch for launch in foreign()
                if args.kernel in (None, launch.name))


def update(path, results, entries, left_out):
    """Rewrites the list; see the docstring of this file."""
    lines = path.read_text().splitlines()
    for entry in entries:
        stale = entry.stale(left_out)
        keep = [str(n) for n in entry.named() if str(n) not in stale]
        text, _, reason = lines[entry.line - 1].partition("#")
        fields = text.split()
        fields[2] = ",".join(keep)
        if stale:
            lines[entry.line - 1] = (" ".join(fields) + " #" + reason
                                     if keep else None)
    missing = collections.defaultdict(list)
    for mutant, outcomes in results:
        best = strongest(outcomes)
        if best.kind != "reported" and not any(
                e.matches(mutant) and e.outcome == best.kind for e in entries):
            missing[mutant.kernel, mutant.group, mutant.edit,
                    best.kind].append(str(mutant.ordinal))
    for (kernel, group, edit, kind), ordinals in missing.items():
        lines.append(f"{kernel} {group} {','.join(ordinals)} {edit} {kind} "
                     f"# {NO_REASON}")
    path.write_text("\n".join(l for l in lines if l is not None) + "\n")


def find_work(args):
    """Pairs of a kernel and a mutant of it, and the mutants that are not in
    the sample."""
    work, left_out = [], []
    for launch in find_launches(args):
        good = Good(args.emulator, launch)
        for mutant in mutations.mutants(launch, good.lines):
            if args.group not in (None, mutant.group):
                left_out.append(mutant)
            elif is_sampled(mutant, args.subset):
                work.append((good, mutant))
            else:
                left_out.append(mutant)
    return work, left_out


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("compiler")
    parser.add_argument("emulator")
    parser.add_argument("work_dir", type=pathlib.Path)
    parser.add_argument("--product", choices=LISTS, default="warp")
    parser.add_argument("--subset", type=int, default=1, metavar="N")
    parser.add_argument("--kernel", help="only mutants of this one")
    parser.add_argument("--group", help="only mutants of this class")
    parser.add_argument("--update", action="store_true",
                        help="make the list fit what was run")
    parser.add_argument("--figures", type=pathlib.Path, metavar="FILE")
    parser.add_argument("-v", action="store_true", help="print every outcome")
    args = parser.parse_args()
    if args.figures and (args.kernel or args.group):
        parser.error("--figures is for a run of all kernels and classes")
    args.work_dir.mkdir(parents=True, exist_ok=True)

    work, left_out = find_work(args)
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
    path = pathlib.Path(__file__).parent / LISTS[args.product]
    entries = read_entries(path)
    problems = check(results, entries)
    if args.kernel:
        entries = [e for e in entries if e.kernel == args.kernel]
    if args.update:
        update(path, results, entries, left_out)
    problems += check_entries(path, entries, left_out)
    if args.figures:
        figures.write(args.figures, figures.collect(
            results, strongest, args.subset, args.product))
    print(f"{len(results)} mutants, {problems} unexpected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
