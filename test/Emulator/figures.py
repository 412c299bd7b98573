"""What docs/Emulator.md says of the mutants, from a file that mutants.py writes.

usage: figures.py [--update] FIGURES.json PAGE.md

Fails when the block 'mutants' of the page does not show the figures of the file;
--update writes it.
"""

import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import marked_blocks

# Rows of the table: what the edits do, and the groups of mutations.py.
ROWS = {
    "barrier deleted": ["bar.sync", "bar.warp.sync"],
    "wait deleted, or for one group less":
        ["cp.async.wait_group", "cp.async.wait_all"],
    "commit deleted, or twice": ["cp.async.commit_group"],
    "copy deleted, from or to elsewhere, without zero fill": ["cp.async"],
    "fragment: ldmatrix moved, `.trans`, registers, k-steps swapped; mma deleted":
        ["ldmatrix", "mma"],
    "store deleted, moved, values swapped; the same through shared memory":
        ["st.global", "st.shared", "ld.shared", "stmatrix"],
    "comparison off by one, guard removed or negated, shfl offset":
        ["setp", "guard", "shfl.sync"],
}
# The checks that report a kind of finding, as Text.cpp has it.
CHECKS = {
    "uninitialized-memory": "init", "uninitialized-register": "init",
    "shared-race": "race", "global-race": "race",
    "async-read": "async", "async-overwrite": "async",
    "divergent-collective": "sync", "barrier-mismatch": "sync",
    "deadlock": "sync", "layout-mismatch": "layout",
    "unwritten-output": "unwritten",
}


def collect(results, strongest, subset=1):
    """Counts by row; what is reported by the check that did so first."""
    rows = {name: {"mutants": 0, "reported": collections.Counter(),
                   "wrong": 0, "silent": 0} for name in ROWS}
    names = {group: name for name, groups in ROWS.items() for group in groups}
    for mutant, outcomes in results:
        row = rows[names[mutant.group]]
        row["mutants"] += 1
        best = strongest(outcomes)
        if best.kind == "reported":
            row["reported"][CHECKS.get(best.findings[0], "memory")] += 1
        elif best.kind == "silent":
            row["silent"] += 1
        else:
            row["wrong"] += 1
    return {"kernels": len({mutant.kernel for mutant, _ in results}),
            "mutants": len(results), "subset": subset, "rows": rows}


def write(path, figures):
    path.write_text(json.dumps(figures, indent=1) + "\n")


def table(figures):
    sample = (f", a sample of one in {figures['subset']} and all barriers, "
              "waits and commits" if figures["subset"] > 1 else "")
    lines = [f"{figures['mutants']:,} mutants of {figures['kernels']} kernels"
             f"{sample}:", "",
             "| edit | mutants | reported, first as | wrong "
             "| right and silent |",
             "|---|---|---|---|---|"]
    for name, row in figures["rows"].items():
        checks = sorted(row["reported"].items(),
                        key=lambda each: (-each[1], each[0]))
        reported = (f"{sum(row['reported'].values()):,}: " +
                    ", ".join(f"{check} {n:,}" for check, n in checks)
                    if checks else "")
        cells = [name, f"{row['mutants']:,}", reported,
                 f"{row['wrong']:,}", f"{row['silent']:,}"]
        lines.append("| " + " | ".join("" if cell == "0" else cell
                                       for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(marked_blocks.main(
        __doc__, lambda figures: {"mutants": table(figures)}))
