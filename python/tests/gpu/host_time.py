#!/usr/bin/env python3
"""What a user waits for: import, first calls, and host time per call.

    python host_time.py [--json FILE] [--calls]

Each first call is timed in a process of its own, after PyTorch has started the GPU,
and ends when the result is there; the median of three counts. "ptxas" and "driver"
name who assembles; CUDA's own cache is off, and FlashCore's is empty, or holds what
the call before left.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROBLEMS = {
    "b1 h8 s512 d64 f16": ({"heads": 8, "queries": 512, "dim": 64}, {}),
    "b2 h16 s1000 d128 f16 causal": (
        {"batch": 2, "heads": 16, "queries": 1000, "dim": 128},
        {"causal": True},
    ),
    "b1 h8 s512 d64 f16 window softcap bias": (
        {"heads": 8, "queries": 512, "dim": 64},
        {"window": (127, 0), "softcap": 20.0, "biased": True},
    ),
}
REFERENCE = next(iter(PROBLEMS))
ROUNDS, CALLS = 41, 100
FIRST_CALLS = 3


def inputs(problem):
    import torch

    sizes, options = PROBLEMS[problem]
    options = dict(options)
    shape = (sizes.get("batch", 1), sizes["heads"], sizes["queries"], sizes["dim"])
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
    if options.pop("biased", False):
        options["bias"] = torch.randn(shape[2], shape[2], device="cuda", dtype=torch.float16)
    return (q, k, v), options


def first_call(problem):
    """Seconds of the first call of this process, in a child."""
    import torch

    tensors, options = inputs(problem)
    torch.cuda.synchronize()
    import flashcore

    start = time.perf_counter()
    flashcore.attention(*tensors, **options)
    torch.cuda.synchronize()
    print(time.perf_counter() - start)


def run_child(arguments, **environment):
    result = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "CUDA_CACHE_DISABLE": "1", **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(result.stdout.split()[-1])


def import_seconds():
    """Beyond PyTorch's; the median of seven."""
    code = (
        "import torch, time; start = time.perf_counter(); import flashcore; "
        "flashcore.attention; print(time.perf_counter() - start)"
    )
    return statistics.median(run_child(["-c", code]) for _ in range(7))


def first_calls():
    """The median of three for each."""
    times = {}
    for problem in PROBLEMS:
        for route, ptxas in (("ptxas", None), ("driver", "none")):
            rounds = [first_call_pair(problem, ptxas) for _ in range(FIRST_CALLS)]
            for cached, seconds in zip(("nothing cached", "disk cache"), zip(*rounds)):
                times[f"{problem}, {route}, {cached}"] = statistics.median(seconds)
    return times


def first_call_pair(problem, ptxas):
    """Seconds of a first call with an empty cache, and with what it left there."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"FLASHCORE_CACHE_DIR": folder}
        if ptxas:
            environment["FLASHCORE_PTXAS"] = ptxas
        return [run_child([__file__, "--first-call", problem], **environment) for _ in range(2)]


def host_seconds(call):
    """Per asynchronous call: the median of rounds that fit in the GPU's queue."""
    import torch

    for _ in range(20):
        call()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - start) / CALLS)
    torch.cuda.synchronize()
    return statistics.median(rounds)


def calls_with_clauses():
    """Calls of tiny tensors with each clause and kind of function, by what is given."""
    import flashcore
    import flashcore.flash_attn
    import torch

    def ints(*numbers):
        return torch.tensor(numbers, dtype=torch.int32, device="cuda")

    def halves(*shape):
        return torch.randn(shape, dtype=torch.float16, device="cuda")

    batch, heads, rows, dim = 2, 4, 32, 64
    q, k, v = (halves(batch, heads, rows, dim) for _ in range(3))
    packed = [halves(batch * rows, heads, dim) for _ in range(3)]
    ends, used = ints(0, rows, 2 * rows), ints(rows // 2, rows // 2)
    pages = [halves(8, heads, 16, dim) for _ in range(2)]
    table = ints(*range(8)).reshape(batch, 4)
    of_heads = torch.rand(heads, device="cuda")
    rng = torch.tensor([1, 2], device="cuda")
    new, cos = halves(batch, heads, 1, dim), halves(rows, dim // 2)
    documents = ints(*(row // 8 for row in range(rows)))
    visible = torch.ones(rows, rows, dtype=torch.bool, device="cuda")
    lists = flashcore.block_lists(visible, (16, 16))
    step, cap = 7, 20.0

    def within(b, h, i, j):
        return (i - j < step) & (documents[i] == documents[j])

    def capped(score, b, h, i, j):
        return cap * torch.tanh(score / cap) - of_heads[h] * (i - j)

    handle = flashcore.mask(within)
    attention, flash = flashcore.attention, flashcore.flash_attn
    sdpa = flashcore.torch.scaled_dot_product_attention
    lone = halves(batch, heads, 1, dim)
    parts, lses = torch.stack([q, q]), torch.zeros(2, batch, heads, rows, device="cuda")
    rows_of = {name: x.transpose(1, 2) for name, x in (("q", lone), ("k", k), ("v", v), ("new", new))}
    operator = torch.ops.flashcore
    return {
        "flashcore.attention, tiny tensors": lambda: attention(q, k, v),
        "torch.ops.flashcore.attention, tiny tensors": lambda: operator.attention(q, k, v),
        "head_scales": lambda: attention(q, k, v, head_scales=of_heads),
        "alibi_slopes": lambda: attention(q, k, v, alibi_slopes=of_heads),
        "sinks": lambda: attention(q, k, v, sinks=of_heads),
        "seqused_k": lambda: attention(q, k, v, seqused_k=used),
        "cu_seqlens": lambda: attention(
            *(x[None] for x in packed), cu_seqlens_q=ends, cu_seqlens_k=ends, layout="bshd"
        ),
        "page_table": lambda: attention(q, *pages, page_table=table, seqused_k=used),
        "k_new, v_new": lambda: attention(lone, k, v, k_new=new, v_new=new, seqused_k=used),
        "k_new, v_new, rotary": lambda: attention(
            lone, k, v, k_new=new, v_new=new, seqused_k=used, rotary_cos=cos, rotary_sin=cos
        ),
        "dropout_p": lambda: attention(q, k, v, dropout_p=0.1, rng=rng),
        "scores": lambda: attention(q, k, v, scores="masked"),
        "block_mask": lambda: attention(q, k, v, block_mask=lists),
        "mask_mod": lambda: attention(q, k, v, mask_mod=within),
        "score_mod": lambda: attention(q, k, v, score_mod=capped),
        "mask_mod, score_mod": lambda: attention(q, k, v, mask_mod=within, score_mod=capped),
        "mask_mod of flashcore.mask": lambda: attention(q, k, v, mask_mod=handle),
        "flash_attn_func": lambda: flash.flash_attn_func(q, k, v),
        "flash_attn_varlen_func": lambda: flash.flash_attn_varlen_func(
            *packed, ends, ends, rows, rows
        ),
        "flash_attn_with_kvcache": lambda: flash.flash_attn_with_kvcache(
            rows_of["q"], rows_of["k"], rows_of["v"], rows_of["new"], rows_of["new"],
            cache_seqlens=used,
        ),
        "SDPA drop-in, boolean mask": lambda: sdpa(q, k, v, attn_mask=visible),
        "merge": lambda: flashcore.merge(parts, lses),
    }  # fmt: skip


def host_times():
    import flashcore
    import flashcore.torch
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    (q, k, v), _ = inputs(REFERENCE)
    attention, drop_in = flashcore.attention, flashcore.torch.scaled_dot_product_attention
    pytorchs = torch.nn.functional.scaled_dot_product_attention
    calls = {
        "torch.add": lambda: torch.add(q, k),
        "flashcore.attention": lambda: attention(q, k, v),
        "flashcore.attention, causal": lambda: attention(q, k, v, causal=True),
        "flashcore.torch.scaled_dot_product_attention": lambda: drop_in(q, k, v),
        "torch.ops.flashcore.attention": lambda: torch.ops.flashcore.attention(q, k, v),
        "SDPA, flash": lambda: pytorchs(q, k, v),
        **calls_with_clauses(),
    }
    times = {}
    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for name, call in calls.items():
            times[name] = host_seconds(call)
    return times


def conditions():
    import torch

    card = torch.cuda.get_device_name()
    return {"date": datetime.date.today().isoformat(), "card": card, "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the times, in seconds, to a file")
    parser.add_argument("--first-call", help=argparse.SUPPRESS)
    parser.add_argument("--calls", action="store_true", help="host times per call alone")
    options = parser.parse_args()
    if options.first_call:
        return first_call(options.first_call)
    if options.calls:
        for name, seconds in host_times().items():
            print(f"{name:60} {seconds * 1e6:9.2f} us")
        return 0
    times = {
        "run": conditions(),
        "import flashcore beyond torch": {"import": import_seconds()},
        "first call": first_calls(),
        "host time per asynchronous call": host_times(),
    }
    for title, rows in list(times.items())[1:]:
        print(title)
        for name, seconds in rows.items():
            shown = f"{seconds * 1e6:9.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:9.2f} ms"
            print(f"  {name:60} {shown}")
    per_call = times["host time per asynchronous call"]
    print(f"times torch.add: {per_call['flashcore.attention'] / per_call['torch.add']:.2f}")
    if options.json:
        options.json.write_text(json.dumps(times, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
