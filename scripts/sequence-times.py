#!/usr/bin/env python3
"""Times sequences back to back on a GPU, and writes the table of them in docs/performance.md.

usage: scripts/sequence-times.py --measure RESULTS.json
       scripts/sequence-times.py --write RESULTS.json DATE
The first form needs PyTorch with a GPU and the package flashcore; the second keeps the results in docs/figures/sequences.json.

32 random lengths of 1,024 in the mean and 4,096 at most, by this package, by PyTorch's FlashAttention-2, and both on equal and on sorted
lengths, in rotation: of equal ones times per operation are compared, since no batch has the same number of them.
"""
import argparse
import json
import pathlib
import sys

import marked_blocks
import torch_graphs

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = "sequence-times"
SEQUENCES, MEAN, MOST, HIDDEN = 32, 1024, 4096, 2048


def draw_lengths(seed):
    """Lengths whose sum is SEQUENCES * MEAN."""
    import random

    generator = random.Random(seed)
    while True:
        cuts = sorted(generator.randrange(SEQUENCES * MEAN + 1) for _ in range(SEQUENCES - 1))
        ends = [0, *cuts, SEQUENCES * MEAN]
        lengths = [b - a for a, b in zip(ends, ends[1:])]
        if max(lengths) <= MOST:
            return lengths


def count_flops(lengths, causal):
    return 4 * HIDDEN * sum(n * (n + 1) // 2 if causal else n * n for n in lengths)


def count_waste(lengths, causal, block_m=128, block_n=64):
    """Scores of all tiles with a visible key, over the visible ones."""
    def round_up(number, block):
        return -(-number // block) * block

    def of_block(n, last):
        return block_m * round_up(min(n, last) if causal else n, block_n)

    tiles = sum(of_block(n, last) for n in lengths for last in range(block_m, round_up(n, block_m) + 1, block_m))
    return tiles / (count_flops(lengths, causal) / (4 * HIDDEN))


def list_problems():
    drawn = draw_lengths(0)
    return {"random": drawn, "equal": [2048] * 16, "longest first": sorted(drawn), "longest last": sorted(drawn, reverse=True)}


def make_contenders(lengths, head_dim, causal):
    """{name: function}, on the same tokens."""
    import torch
    from flashcore.flash_attn import flash_attn_varlen_func

    heads, total = HIDDEN // head_dim, sum(lengths)
    q, k, v = (torch.randn(total, heads, head_dim, device="cuda", dtype=torch.float16) for _ in range(3))
    ends = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
    longest = max(lengths)

    def ours():
        return flash_attn_varlen_func(q, k, v, ends, ends, longest, longest, causal=causal)

    def peer():
        return torch.ops.aten._flash_attention_forward(q, k, v, ends, ends, longest, longest, 0.0, causal, False)[0]

    error = (ours().float() - peer().float()).abs().max().item()
    assert error < 2e-2, f"expects results that agree, but they differ by {error}"
    return {"ours": ours, "FlashAttention-2": peer}


def measure(path):
    import torch

    results = []
    for head_dim in (64, 128):
        for causal in (False, True):
            problems = list_problems()
            contenders = {(kind, name): function for kind, lengths in problems.items()
                          for name, function in make_contenders(lengths, head_dim, causal).items()}
            times = torch_graphs.time_in_rotation(contenders)
            for (kind, name), microseconds in times.items():
                results.append({"head_dim": head_dim, "causal": causal, "lengths": kind, "name": name, "median_us": round(microseconds, 2),
                                "tflops": round(count_flops(problems[kind], causal) / microseconds / 1e6, 1)})
                print(results[-1], flush=True)
    path.write_text(json.dumps({"device": torch.cuda.get_device_name(), "lengths": draw_lengths(0), "results": results}, indent=1) + "\n")


def make_table(results):
    find = {(r["head_dim"], r["causal"], r["lengths"], r["name"]): r for r in results}
    problems = list_problems()
    rows = ["| head_dim | mask | random, us | longest first, last | FlashAttention-2, us | over it | random, equal: TFLOP/s | random over equal, per operation | of that full tiles |",
            "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for head_dim, causal in sorted({key[:2] for key in find}):
        ours, peer = find[head_dim, causal, "random", "ours"], find[head_dim, causal, "random", "FlashAttention-2"]
        equal = find[head_dim, causal, "equal", "ours"]
        first, last = (find[head_dim, causal, f"longest {end}", "ours"]["median_us"] for end in ("first", "last"))
        waste = count_waste(problems["random"], causal) / count_waste(problems["equal"], causal)
        rows.append(f"| {head_dim} | {'causal' if causal else 'dense'} | {ours['median_us']:.0f} | {first:.0f}, {last:.0f} | {peer['median_us']:.0f} | "
                    f"{peer['median_us'] / ours['median_us']:.2f} | {ours['tflops']:.0f}, {equal['tflops']:.0f} | "
                    f"{equal['tflops'] / ours['tflops']:.2f} | {waste:.2f} |")
    return "\n".join(rows)


def write(path, date):
    kept = {"date": date, **json.loads(path.read_text())}
    (ROOT / "docs/figures/sequences.json").write_text(json.dumps(kept, indent=1) + "\n")
    text = f"{date}, {kept['device']}, default kernels (wgmma), graphs of calls.\n\n{make_table(kept['results'])}"
    marked_blocks.write(ROOT / "docs/performance.md", MARK, text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--measure", type=pathlib.Path, metavar="RESULTS.json")
    parser.add_argument("--write", nargs=2, metavar=("RESULTS.json", "DATE"))
    args = parser.parse_args()
    if args.measure:
        measure(args.measure)
    if args.write:
        write(pathlib.Path(args.write[0]), args.write[1])
    return 0 if args.measure or args.write else parser.error("expects --measure or --write")


if __name__ == "__main__":
    sys.exit(main())
