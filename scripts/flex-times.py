#!/usr/bin/env python3
"""Times masks and score changes on a GPU beside FlexAttention, and writes the table of them in docs/Masks.md.

usage: scripts/flex-times.py --measure RESULTS.json [--chip CHIP] [--without-flex]
       scripts/flex-times.py --write RESULTS.json [RESULTS.json] DATE
The first form needs PyTorch with a GPU and the package flashcore; the second keeps the results in docs/figures/flex.json.

16k tokens, hidden 2048, float16. Each mask is the same Python function for both; FlexAttention has its BlockMask made before, and documents are
the comparison of their numbers there, and the first token of each document here. Graphs of calls, in rotation.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import marked_blocks
import torch_graphs

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = "flex-times"
TOKENS, HIDDEN = 16384, 2048
SEQLENS, HEAD_DIMS = (4096, 16384), (64, 128)


def draw_documents(seqlen):
    """The number of each token's document, and its first token: 4 documents of random length in 4k tokens."""
    import torch

    generator = torch.Generator().manual_seed(0)
    count = seqlen // 1024
    cuts = torch.randperm(seqlen - 1, generator=generator)[: count - 1].sort().values + 1
    begins = torch.zeros(seqlen, dtype=torch.int32)
    begins[cuts] = 1
    numbers = begins.cumsum(0).to(torch.int32)
    first = torch.cat([torch.zeros(1, dtype=cuts.dtype), cuts]).to(torch.int32)[numbers.long()]
    return numbers.cuda(), first.cuda()


def list_masks(seqlen, heads):
    """{name: (mask_mod of FlexAttention, of this package, score_mod)}."""
    import torch

    document, first = draw_documents(seqlen)
    slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)], device="cuda")
    table = torch.randn(heads, 2 * seqlen, device="cuda", dtype=torch.float16)

    def same(mask):
        return mask, mask, None

    def change(score):
        return None, None, score

    return {
        "dense": (None, None, None),
        "causal": same(lambda b, h, q, k: k <= q),
        "window 1024": same(lambda b, h, q, k: (k <= q) & (q - k <= 1024)),
        "prefix 512": same(lambda b, h, q, k: (k < 512) | (k <= q)),
        "documents": (lambda b, h, q, k: (document[q] == document[k]) & (k <= q), lambda b, h, q, k: (k >= first[q]) & (k <= q), None),
        "block-diagonal 1024": same(lambda b, h, q, k: q // 1024 == k // 1024),
        "global 64 + local 256": same(lambda b, h, q, k: ((q - k <= 256) & (k - q <= 256)) | (k < 64) | (q < 64)),
        "dilated 4": same(lambda b, h, q, k: ((q - k) % 4 == 0) & (k <= q)),
        "ALiBi": change(lambda s, b, h, q, k: s + slopes[h] * (k - q)),
        "softcap 30": change(lambda s, b, h, q, k: 30.0 * torch.tanh(s / 30.0)),
        "relative bias": change(lambda s, b, h, q, k: s + table[h, q - k + seqlen]),
    }


def count_share(mask, seqlen, block_m=128, block_n=64):
    """Tiles with a visible key, as a share of all."""
    import torch

    if mask is None:
        return 1.0
    k = torch.arange(seqlen, device="cuda")[None, :]
    visited = 0
    for begin in range(0, seqlen, block_m):
        q = torch.arange(begin, begin + block_m, device="cuda")[:, None]
        visible = mask(0, 0, q, k)
        visited += int((visible | torch.zeros(block_m, seqlen, dtype=torch.bool, device="cuda"))
                       .reshape(block_m, -1, block_n).any(2).any(0).sum())
    return visited / (seqlen // block_m * (seqlen // block_n))


def clock(function):
    """Its result, and the seconds until the GPU had it."""
    import torch

    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return result, time.perf_counter() - begin


def make_contenders(seqlen, head_dim, with_flex):
    """[(what is known of one, its call)] on the same tensors."""
    import flashcore
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    heads, batch = HIDDEN // head_dim, TOKENS // seqlen
    q, k, v = (torch.randn(batch, heads, seqlen, head_dim, device="cuda", dtype=torch.float16) for _ in range(3))
    contenders = []
    for name, (mask, own, score) in list_masks(seqlen, heads).items():
        about = {"seqlen": seqlen, "head_dim": head_dim, "mask": name, "share": round(count_share(mask, seqlen), 4)}

        def ours(own=own, score=score):
            return flashcore.attention(q, k, v, mask_mod=own, score_mod=score, static=True)

        result, first = clock(ours)
        contenders.append(({**about, "name": "ours", "first_call_s": round(first, 2)}, ours))
        if not with_flex:
            continue
        compiled = torch.compile(flex_attention, dynamic=False)
        try:
            blocks, made = clock(lambda: create_block_mask(mask, None, None, seqlen, seqlen, device="cuda")) if mask else (None, 0)

            def flex(score=score, blocks=blocks, compiled=compiled):
                return compiled(q, k, v, score_mod=score, block_mask=blocks)

            expected, first = clock(flex)
        except Exception as error:  # out of shared memory, say
            contenders.append(({**about, "name": "flex", "error": str(error).splitlines()[0][:200]}, None))
            continue
        difference = (result.float() - expected.float()).abs().max().item()
        assert difference < 2e-2, f"{about}: expects results that agree, but they differ by {difference}"
        contenders.append(({**about, "name": "flex", "first_call_s": round(first, 2), "mask_s": round(made, 2)}, flex))
    return contenders


def measure(path, with_flex):
    import torch

    # All masks are calls of one function to its compiler.
    torch._dynamo.config.recompile_limit = 1000
    results = []
    for seqlen in SEQLENS:
        for head_dim in HEAD_DIMS:
            contenders = make_contenders(seqlen, head_dim, with_flex)
            running = {i: function for i, (_, function) in enumerate(contenders) if function}
            for i, microseconds in torch_graphs.time_in_rotation(running).items():
                contenders[i][0]["median_us"] = round(microseconds, 1)
            for about, _ in contenders:
                results.append({"chip": os.environ.get("FLASHCORE_CHIP") or "default", **about})
                print(results[-1], flush=True)
            torch.cuda.empty_cache()
    path.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "results": results}, indent=1) + "\n")


def make_table(results):
    """Time over each contender's own dense time; in brackets that over the share of tiles."""
    find = {(r["chip"], r["name"], r["mask"], r["seqlen"], r["head_dim"]): r for r in results}
    contenders = sorted({key[:2] for key in find}, key=lambda c: (c[1] == "flex", c[0]))
    sizes = [(s, d) for s in SEQLENS for d in HEAD_DIMS]
    titles = {("sm_89", "ours"): "sm_89", ("default", "ours"): "sm_90a", ("default", "flex"): "Flex"}
    head = [f"{titles[c]} S {s // 1024}k D {d}" for s, d in sizes for c in contenders]
    rows = ["| mask | share S 4k, 16k | " + " | ".join(head) + " |", "| --- | ---: |" + " ---: |" * len(head)]
    for mask in dict.fromkeys(r["mask"] for r in results):
        shares = [next(r["share"] for r in results if r["mask"] == mask and r["seqlen"] == s) for s in SEQLENS]
        cells = []
        for s, d in sizes:
            for c in contenders:
                row, dense = find.get((*c, mask, s, d), {}), find[(*c, "dense", s, d)]
                if "median_us" not in row:
                    cells.append("fails" if row else "")
                elif mask == "dense":
                    cells.append(f"{row['median_us']:.0f} us")
                else:
                    over = row["median_us"] / dense["median_us"]
                    cells.append(f"{over:.3f} ({over / row['share']:.2f})")
        rows.append(f"| {mask} | {shares[0]:.3f}, {shares[1]:.3f} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def make_notes(results):
    def spread(name, key):
        values = sorted(r[key] for r in results if r["name"] == name and r.get(key))
        return f"{values[0]:.2f} to {values[-1]:.2f} s, {statistics.median(values):.2f} in the middle"

    text = f"The first call of a mask: {spread('ours', 'first_call_s')}, compiled and loaded"
    if any(r["name"] == "flex" for r in results):
        text += f"; of FlexAttention {spread('flex', 'first_call_s')}, after {spread('flex', 'mask_s')} for the BlockMask"
    return text + "."


def write(paths, date):
    found = [json.loads(path.read_text()) for path in paths]
    kept = {"date": date, **found[0], "results": [r for each in found for r in each["results"]]}
    (ROOT / "docs/figures/flex.json").write_text(json.dumps(kept, indent=1) + "\n")
    text = f"{date}, {kept['device']}, PyTorch {kept['torch']}, 16k tokens, hidden 2048, f16.\n\n{make_table(kept['results'])}\n\n{make_notes(kept['results'])}"
    marked_blocks.write(ROOT / "docs/Masks.md", MARK, text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--measure", type=pathlib.Path, metavar="RESULTS.json")
    parser.add_argument("--chip", help="compile for this chip (default: the GPU's own)")
    parser.add_argument("--without-flex", action="store_true", help="time this package alone")
    parser.add_argument("--write", nargs="+", metavar="RESULTS.json ... DATE")
    args = parser.parse_args()
    if args.chip:
        os.environ["FLASHCORE_CHIP"] = args.chip
    if args.measure:
        measure(args.measure, not args.without_flex)
    if args.write:
        write([pathlib.Path(path) for path in args.write[:-1]], args.write[-1])
    return 0 if args.measure or args.write else parser.error("expects --measure or --write")


if __name__ == "__main__":
    sys.exit(main())
