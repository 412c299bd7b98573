#!/usr/bin/env python3
"""What docs/Testing.md says of ONNX's cases of attention, from a file that
python/tests/upstream/run_onnx.py writes.

usage: onnx-tests.py [--update] docs/figures/onnx.json docs/Testing.md
"""
import collections
import datetime
import sys

import marked_blocks

OPERATORS = ("Attention", "FlexAttention")
# What was done on the host; a case counts in the first line that fits.
NEEDS = {
    "narrowed": "right, with a softmax of float32 where one of float64 is asked for",
    "joined": "right, with past keys and values joined to the new ones on the host",
    "rounded": "right, from float32 inputs rounded to float16",
}
AS_IT_IS = "right, as it is"


def line_of(case):
    """The line of the table that a case counts in."""
    if case["outcome"] == "not run":
        return f"not run: {case['reason']}"
    if case["outcome"] == "wrong":
        return "wrong"
    return next((text for need, text in NEEDS.items() if need in case["needs"]), AS_IT_IS)


def describe(results):
    run, cases = results["run"], results["cases"]
    day = datetime.date.fromisoformat(run["date"])
    counts = collections.Counter((line_of(case), case["operator"]) for case in cases)
    lines = [AS_IT_IS, *reversed(NEEDS.values())]
    lines += sorted({line for line, _ in counts} - set(lines))
    rows = "".join(f"| {line} | " + " | ".join(str(counts[line, name]) for name in OPERATORS) + " |\n" for line in lines)
    total = " | ".join(str(sum(case["operator"] == name for case in cases)) for name in OPERATORS)
    return {"onnx-tests":
            f"{day.day} {day:%B %Y}, onnx {run['onnx']}, {run['device']}:\n\n"
            f"| cases | `Attention` | `FlexAttention` |\n|---|---:|---:|\n{rows}| all | {total} |\n"}


if __name__ == "__main__":
    sys.exit(marked_blocks.main(__doc__, describe))
