#!/usr/bin/env python3
"""What docs/PyTorch.md says of decoding steps, from a file that
python/tests/gpu/serving_times.py writes.

usage: serving-times.py [--update] docs/figures/serving.json docs/PyTorch.md
"""
import datetime
import sys

import marked_blocks


def describe(times):
    run = times["run"]
    day = datetime.date.fromisoformat(run["date"])
    steps = times["milliseconds of a step, of the host and in all"]
    names = {
        "append and read": "FlashCore, new rows appended to pages and read",
        "read": "FlashCore, pages read",
        "SDPA": "PyTorch's SDPA, caches in one piece read",
    }
    rows = "".join(
        f"| {names[name]} | {each['calls'][0]:.2f} | {each['calls'][1]:.2f} | {each['graph'][1]:.2f} |\n"
        for name, each in steps.items())
    rates = times["tokens a second"]
    kinds = "".join(
        f"| `{name}` | {rates[f'{name}, calls']:.0f} | {rates[f'{name}, graphs']:.0f} |\n"
        for name in dict.fromkeys(key.partition(",")[0] for key in rates))
    return {"serving-times":
            f"{day.day} {day:%B %Y}, {run['card']}, PyTorch {run['torch']}, Transformers {run['transformers']}.\n\n"
            "| the attention of 80 layers, batch 16, 32/8 heads, D 128, 1,000 keys, bf16, ms | host, calls | calls | CUDA graph |\n|---|---:|---:|---:|\n"
            f"{rows}\n| `generate_batch` of a model of 80 small layers, 16 prompts of 200 tokens, tokens a second | calls | CUDA graphs |\n|---|---:|---:|\n{kinds}"}


if __name__ == "__main__":
    sys.exit(marked_blocks.main(__doc__, describe))
