#!/usr/bin/env python3
"""What docs/PyTorch.md says of flash-attn's own tests, from a file that
python/tests/upstream/run_flash_attn.py writes.

usage: flash-attn-tests.py [--update] docs/figures/flash-attn.json docs/PyTorch.md
       flash-attn-tests.py [--update] docs/figures/flash-attn-lengths.json docs/PyTorch.md

A run of the tests of lengths and caches alone (-k "varlen or kvcache") has a table of
its own.
"""
import datetime
import sys

import marked_blocks


def describe(summary):
    run = summary["run"]
    day = datetime.date.fromisoformat(run["date"])
    rows = "".join(
        f"| `{name}` | {counts.get('passed', 0):,} | {counts.get('failed', 0):,} | {summary['asserts_of_outputs'].get(name, 0):,} |\n"
        for name, counts in summary["outcomes"].items())
    reasons = {}
    for name, reason in summary["tests_left_out"].items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    left_out = "".join(f"* {', '.join(names)}: {reason}\n" for reason, names in reasons.items())
    left_out += "".join(f"* {count:,} of the others: {reason}\n" for reason, count in summary["deselected"].items())
    mark = "flash-attn-tests" if "test_flash_attn_output" in summary["outcomes"] else "flash-attn-lengths"
    return {mark:
            f"{day.day} {day:%B %Y}, {run['card']}, PyTorch {run['torch']}:\n\n"
            f"| test of flash-attn 2.8.3 | passed | failed | asserts about outputs |\n|---|---:|---:|---:|\n{rows}\nNot run:\n\n{left_out}"}


if __name__ == "__main__":
    sys.exit(marked_blocks.main(__doc__, describe))
