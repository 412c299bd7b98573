#!/usr/bin/env python3
"""Writes the row of one step of scripts/nightly.sh into docs/Nightly.md.

The page keeps the last run of each step, with the date and the commit of the
tree that it began with, which --print-commit says then.
"""
import argparse
import datetime
import pathlib
import re
import subprocess

import marked_blocks

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
    said = re.sub(r"\s+", " ", " · ".join(line.strip() for line in args.summary.splitlines())).replace("|", "\\|")
    said = said if len(said) <= LONGEST else said[:LONGEST] + " ..."
    cells = [args.step, args.what, datetime.date.today().isoformat(), args.commit, f"{args.seconds / 60:.1f}", args.result, said]
    return f"| {' | '.join(cells)} |\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print-commit", action="version", version=commit())
    for name in ("step", "what", "commit", "result", "summary"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=int, required=True)
    args = parser.parse_args()
    rows = marked_blocks.read(PAGE, "nightly").removeprefix(HEADING).splitlines(keepends=True)
    kept = [line for line in rows if not line.startswith(f"| {args.step} |")]
    place = next((i for i, line in enumerate(rows) if line.startswith(f"| {args.step} |")), len(kept))
    kept.insert(place, row(args))
    marked_blocks.write(PAGE, "nightly", HEADING + "".join(kept))


if __name__ == "__main__":
    main()
