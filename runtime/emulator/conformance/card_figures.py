# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What docs/EmulatorValidation.md says of the comparison with a card, from the file that
compare-with-card.py --figures writes.

usage: card_figures.py [--update] FIGURES.json PAGE.md

Fails when the block 'corpus' of the page does not show the figures of the file;
--update writes it.
"""
import collections
import datetime
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
DEFAULT_SEED = "default"
ARITHMETIC = "arithmetic of integers and floats, but for approximations"
APPROXIMATE = "`*.approx`, `div.full`"
# Rows of the table by opcode; what is of no other row is arithmetic.
OPCODES = {
    "logic, shift, bit fields, `mov`":
        "and or xor not cnot lop3 shf shl shr bfe bfi bfind bmsk brev clz popc fns prmt szext mov",
    "comparison, selection": "set setp selp slct",
    "`cvt`, 8-bit floats included": "cvt",
    "`ld`, `st` of narrow types": "ld st",
    "`atom`, `red`": "atom red",
    "`shfl`, `vote`, `match`, `redux`, `activemask`": "shfl vote match redux activemask",
    "`ldmatrix`, `stmatrix`, `movmatrix`": "ldmatrix stmatrix movmatrix",
}
# The same by the types of an mma.
TYPES = {
    "`mma.sync` of f16 and bf16": "f16 bf16",
    "`mma.sync` of 8-bit floats": "e4m3 e5m2",
    "`mma.sync` of tf32": "tf32",
    "`mma.sync` of 8-bit integers": "s8 u8",
}
WMMA = "`wmma.load`, `wmma.mma`, `wmma.store`"
WGMMA = "`wgmma.mma_async` of f16 and bf16"
ROWS = [ARITHMETIC, APPROXIMATE, *OPCODES, *TYPES, WMMA, WGMMA]


def row_of(label, rule):
    if label.startswith("wmma_"):
        return WMMA
    if label.startswith("wgmma_"):
        return WGMMA
    if label.startswith("mma_"):
        kind = label.split("_")[2].split(" ")[0]
        return next(row for row, types in TYPES.items() if kind in types.split())
    if rule != "exact":
        return APPROXIMATE
    opcode = label.split(".")[0].split(" ")[0]
    return next((row for row, opcodes in OPCODES.items() if opcode in opcodes.split()), ARITHMETIC)


def collect(verdicts, note):
    """The figures of one run."""
    rows = {row: collections.Counter() for row in ROWS}
    for verdict in verdicts:
        outcome = "outside" if verdict.broken else "within" if verdict.differing else "equal"
        rows[row_of(verdict.label, verdict.rule)][outcome] += 1
    return {"date": str(datetime.date.today()), "device": note["device"], "chip": note["chip"],
            "results": sum(verdict.count for verdict in verdicts),
            "rows": {row: dict(counts) for row, counts in rows.items()}}


def record(path, seed, figures):
    """Takes the place of what the file has for this seed."""
    runs = json.loads(path.read_text()) if path.exists() else {}
    runs[seed] = figures
    path.write_text(json.dumps(runs, indent=1) + "\n")


def variants(figures):
    """Row -> instruction variants."""
    return {row: sum(counts.values()) for row, counts in figures["rows"].items()}


def number(value):
    return f"{value:,}" if value else ""


def table(runs):
    names = [f"{'' if name == DEFAULT_SEED else 'seed '}{name}{' seed' if name == DEFAULT_SEED else ''}" for name in runs]
    total = lambda run, outcome: sum(counts.get(outcome, 0) for counts in run["rows"].values())
    first = runs[DEFAULT_SEED]
    lines = [f"{sum(variants(first).values()):,} variants with {first['results'] / 1e6:.1f} million results a seed, on "
             f"{first['device']} ({first['chip']}), {first['date']}:", "",
             "| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(runs)]
    for text, outcome in (("equal bit for bit", "equal"), ("approximations within the bound that the PTX ISA states", "within"),
                          ("outside", "outside")):
        lines.append(f"| {text} | " + " | ".join(f"{total(run, outcome):,}" for run in runs.values()) + " |")
    lines += ["", "| instructions, default seed | variants | equal | within bound | outside |", "|---|---:|---:|---:|---:|"]
    for row, counts in first["rows"].items():
        cells = [variants(first)[row], *(counts.get(outcome, 0) for outcome in ("equal", "within", "outside"))]
        lines.append(f"| {row} | " + " | ".join(map(number, cells)) + " |")
    # The corpus has grown since.
    lines += [f"| {row} | not run there yet | | | |" for row in ROWS if row not in first["rows"]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "scripts"))
    import marked_blocks  # of FlashCore, not of the emulator alone

    sys.exit(marked_blocks.main(__doc__, lambda runs: {"corpus": table(runs)}))
