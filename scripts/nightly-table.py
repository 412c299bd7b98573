#!/usr/bin/env python3
"""Writes the row of one step of scripts/nightly.sh into docs/Nightly.md.

The page keeps the last run of each step, with the date and the commit of the
tree that it began with, which --print-commit says then. --check fails where a
step has no row, failed, or ran more days ago than that; --print-ages says how old
the rows are.
"""
import argparse
import datetime
import pathlib
import re
import subprocess
import sys

import marked_blocks

NIGHTLY = pathlib.Path(__file__).resolve().parent / "nightly.sh"
ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/Nightly.md"
HEADING = "| step | checks | date | commit | minutes | result | it says |\n|---|---|---|---|---:|---|---|\n"
LONGEST = 300  # characters of what a step says


def commit():
    """The tree's commit, with a + where it was changed."""
    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout.strip()
    # The page itself changes with every step.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/Nightly.md")
    return f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{'+' if changed else ''}"


def row(args):
    # Findings name files by their place on the machine that ran the step.
    summary = args.summary.replace(f"{ROOT}/", "")
    said = re.sub(r"\s+", " ", " · ".join(line.strip() for line in summary.splitlines())).replace("|", "\\|")
    said = said if len(said) <= LONGEST else said[:LONGEST] + " ..."
    cells = [args.step, args.what, datetime.date.today().isoformat(), args.commit, f"{args.seconds / 60:.1f}", args.result, said]
    return f"| {' | '.join(cells)} |\n"


def steps():
    """The names of all steps, in their order."""
    return re.search(r"^steps=\((.*?)\)", NIGHTLY.read_text(), re.M | re.S)[1].split()


def last_runs():
    """{step: (days since its last run, its date, its result)}"""
    cells = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in read_rows())
    today = datetime.date.today()
    return {step: ((today - datetime.date.fromisoformat(date)).days, date, result) for step, _, date, _, _, result, _ in cells}


def ages():
    """A line of the age in days of the last run of each step, oldest last, with those that failed and those that never ran."""
    runs = last_runs()
    told = [f"{step} {days}{'' if result == 'ok' else f' ({result})'}" for step, (days, _, result) in sorted(runs.items(), key=lambda run: run[1][0])]
    never = [step for step in steps() if step not in runs]
    return f"nightly: days since: {', '.join(told)}" + (f"; never run: {', '.join(never)}" if never else "")


def faults(most):
    """What speaks against a release, a line a step."""
    runs = last_runs()
    for step in steps():
        if step not in runs:
            yield f"expects a row of {step}, but got none"
            continue
        days, date, result = runs[step]
        if result != "ok":
            yield f"expects {step} to be ok, but got {result} on {date}"
        elif not 0 <= days <= most:
            yield f"expects {step} to be of the last {most} days, but got {date}"


def check(days):
    """The exit code."""
    found = list(faults(days))
    for line in found:
        print(f"nightly: {line}")
    return int(bool(found))


def read_rows():
    return marked_blocks.read(PAGE, "nightly").removeprefix(HEADING).splitlines(keepends=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print-commit", action="store_true")
    parser.add_argument("--print-ages", action="store_true")
    parser.add_argument("--check", type=int, metavar="DAYS")
    options, rest = parser.parse_known_args()
    if options.print_commit or options.print_ages:
        print(commit() if options.print_commit else ages())
        return 0
    if options.check is not None:
        return check(options.check)
    for name in ("step", "what", "commit", "result", "summary"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=int, required=True)
    args = parser.parse_args(rest)
    rows = read_rows()
    kept = [line for line in rows if not line.startswith(f"| {args.step} |")]
    place = next((i for i, line in enumerate(rows) if line.startswith(f"| {args.step} |")), len(kept))
    kept.insert(place, row(args))
    marked_blocks.write(PAGE, "nightly", HEADING + "".join(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
