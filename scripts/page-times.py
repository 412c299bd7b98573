#!/usr/bin/env python3
"""Times caches in pages on a GPU beside caches in one piece, and writes the table of them in docs/performance.md.

usage: scripts/page-times.py --measure RESULTS.json
       scripts/page-times.py --write RESULTS.json DATE
The first form needs PyTorch with a GPU and the package flashcore; the second keeps the results in docs/figures/pages.json.

Keys of as many lengths as there are batch entries, half of the cache at least; pages in random order. Graphs of calls, in rotation.
"""
import argparse
import json
import pathlib
import sys

import marked_blocks
import torch_graphs

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = "page-times"
PAGE_SIZES = (16, 64, 256)
#: name: batch, heads of q and kv, queries, keys, head_dim
PROBLEMS = {
    "decode": [(64, 32, 8, 1, 4096, 128), (8, 32, 8, 1, 16384, 128), (64, 16, 16, 1, 4096, 64)],
    "chunk of a prompt": [(4, 32, 8, 512, 4096, 128), (4, 16, 16, 1024, 4096, 64)],
}


def make_pages(keys, page_size):
    """(batch, seqlen, heads, dim) cut into pages in random order, and their table."""
    import torch

    batch, seqlen, heads, dim = keys[0].shape
    order = torch.randperm(batch * seqlen // page_size, device="cuda")
    pools = []
    for each in keys:
        pool = torch.empty(len(order), page_size, heads, dim, device="cuda", dtype=each.dtype)
        pool[order] = each.reshape(-1, page_size, heads, dim)
        pools.append(pool)
    return pools, order.reshape(batch, -1).to(torch.int32)


def make_calls(batch, heads, heads_kv, queries, seqlen, dim):
    """{page size, 0 for a cache in one piece: function}."""
    import flashcore
    import torch

    q = torch.randn(batch, queries, heads, dim, device="cuda", dtype=torch.float16)
    keys = [torch.randn(batch, seqlen, heads_kv, dim, device="cuda", dtype=torch.float16) for _ in range(2)]
    used = torch.linspace(seqlen // 2, seqlen, batch, device="cuda").to(torch.int32)

    def attend(k, v, table=None):
        return flashcore.attention(q, k, v, causal=True, layout="bshd", seqused_k=used, page_table=table)

    calls = {0: lambda: attend(*keys)}
    for size in PAGE_SIZES:
        pools, table = make_pages(keys, size)
        calls[size] = lambda pools=pools, table=table: attend(*pools, table)
        difference = (calls[size]().float() - calls[0]().float()).abs().max().item()
        assert difference < 2e-3, f"expects equal results of pages of {size}, but they differ by {difference}"
    return calls


def measure(path):
    import torch

    results = []
    for name, problems in PROBLEMS.items():
        for problem in problems:
            times = torch_graphs.time_in_rotation(make_calls(*problem))
            results.append({"name": name, "problem": problem, "us": {size: round(us, 2) for size, us in times.items()}})
            print(results[-1], flush=True)
    path.write_text(json.dumps({"device": torch.cuda.get_device_name(), "results": results}, indent=1) + "\n")


def make_table(results):
    rows = ["| | batch, heads, queries x keys, head_dim | in one piece, us | " + " | ".join(f"pages of {size}" for size in PAGE_SIZES) + " |",
            "| --- | --- | ---: |" + " ---: |" * len(PAGE_SIZES)]
    for result in results:
        batch, heads, heads_kv, queries, seqlen, dim = result["problem"]
        whole = result["us"]["0"]
        cells = " | ".join(f"{result['us'][str(size)]:.1f} ({result['us'][str(size)] / whole:.2f})" for size in PAGE_SIZES)
        rows.append(f"| {result['name']} | {batch}, {heads}/{heads_kv}, {queries} x {seqlen}, {dim} | {whole:.1f} | {cells} |")
    return "\n".join(rows)


def write(path, date):
    kept = {"date": date, **json.loads(path.read_text())}
    (ROOT / "docs/figures/pages.json").write_text(json.dumps(kept, indent=1) + "\n")
    text = f"{date}, {kept['device']}, f16, in brackets over the cache in one piece.\n\n{make_table(kept['results'])}"
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
