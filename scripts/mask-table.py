#!/usr/bin/env python3
"""Writes the table of mask times in docs/Masks.md.

usage: scripts/mask-table.py RESULTS.json DATE
  RESULTS.json: of `flashcore-run --grid masks.json --json RESULTS.json`, whose
  bundles `scripts/make-bundles.py --only masks` makes. What the table shows is
  kept in docs/figures/masks.json.
Needs NumPy: the share of tiles that have a visible key is counted, not proved.
"""
import argparse
import json
import pathlib
import re
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from flashcore_benchmarks.masks import MASKS

BLOCK_M, BLOCK_N = 128, 64
MARK = "mask-times"


def visible_share(shows, seqlen):
    """Of the tiles of 128 queries and 64 keys, those with a visible key."""
    k = numpy.arange(seqlen)
    visible = 0
    for first in range(0, seqlen, BLOCK_M):
        q = numpy.arange(first, first + BLOCK_M)[:, None]
        visible += int((shows(q, k).any(axis=0).reshape(-1, BLOCK_N).any(axis=1)).sum())
    return visible / (seqlen // BLOCK_M * (seqlen // BLOCK_N))


def read(path):
    """Median microseconds by (chip, seqlen, head_dim, mask), and the card."""
    times, card = {}, None
    for run in json.loads(path.read_text()):
        found = re.fullmatch(r"mask-(sm_\w+)-s(\d+)-d(\d+)-(.+)\.fcb", pathlib.Path(run["bundle"]).name)
        chip, seqlen, head_dim, mask = found.groups()
        times[chip, int(seqlen), int(head_dim), mask] = run["time"]["median_us"]
        card = run["device"]
    return times, card


def make_table(times, shares):
    problems = sorted({(chip, seqlen, d) for chip, seqlen, d, _ in times}, key=lambda p: (p[0] != "sm_89", p[1], p[2]))
    head = ["mask", *(f"share at S {s // 1024}k" for s in sorted({p[1] for p in problems}))]
    head += [f"{chip} S {s // 1024}k D {d}" for chip, s, d in problems]
    rows = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for mask in MASKS:
        row = [mask, *(f"{shares[mask, s]:.3f}" for s in sorted({p[1] for p in problems}))]
        for chip, seqlen, d in problems:
            time = times[chip, seqlen, d, mask]
            row.append(f"{time:.0f} ({time / times[chip, seqlen, d, 'dense']:.3f})")
        rows.append(row)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("date", help="such as '25 November 2026'")
    args = parser.parse_args()
    times, card = read(args.results)
    shares = {(mask, s): visible_share(MASKS[mask].shows, s) for mask in MASKS for s in sorted({key[1] for key in times})}
    kept = [{"chip": c, "seqlen": s, "head_dim": d, "mask": m, "median_us": round(t, 2)} for (c, s, d, m), t in times.items()]
    (ROOT / "docs/figures/masks.json").write_text(json.dumps({"device": card, "date": args.date, "times": kept}, indent=1) + "\n")
    text = f"{args.date}, {card}, 16k tokens, hidden 2048, f16; us, and in brackets over dense.\n\n" + make_table(times, shares)
    page = ROOT / "docs/Masks.md"
    begin, end = f"<!-- {MARK}: written by scripts/mask-table.py -->", f"<!-- end {MARK} -->"
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + "\n" + text + "\n" + end + rest.split(end)[1])


if __name__ == "__main__":
    main()
