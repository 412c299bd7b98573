#!/usr/bin/env python3
"""Shows a run of the schedules that have a name in docs/Ladder.md.

  benchmarks/flashcore-bench run --ladder --out DIR
  scripts/ladder.py --tools build/release/bin DIR/results.json

writes docs/figures/ladder.json, the plot beside it and the tables of the page;
`--check` fails where the page does not show that file, or lacks a schedule.
What a kernel uses is what ptxas says, so the tools need one.
"""
import argparse
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "scripts")]

import marked_blocks
from flashcore_benchmarks import counters, ladder, plots
from flashcore_benchmarks.toolchain import Toolchain

PAGE, FIGURES = ROOT / "docs/Ladder.md", ROOT / "docs/figures"
TITLES = ("B1 H8 S512 D64", "B4 H16 S2048 D64", "B4 H16 S2048 D128")


def describe(toolchain, name, chip):
    """What the kernel of a schedule uses, of several the most that one does."""
    with tempfile.TemporaryDirectory() as folder:
        result = toolchain.run("compile", [
            f"--shape={ladder.DESCRIBED}", f"--schedule={name}", f"--chip={'sm_89' if chip == 'any' else chip}", "--emit=bundle",
            "-o", f"{folder}/a.fcb", "--json=-",
        ])  # fmt: skip
    if result.returncode:
        raise SystemExit(f"{name}: {result.stderr.strip()}")
    attention = json.loads(result.stdout)["attentions"][0]
    kernels = attention["kernels"]
    return {
        "registers": max(kernel["resources"]["registers"] for kernel in kernels),
        "spills": max(kernel["resources"]["spill_stores"] for kernel in kernels),
        "shared": max(kernel["dynamic_shared_memory"] for kernel in kernels),
        "blocks": attention["occupancy"]["blocks_per_sm"],
    }


def collect(data, toolchain):
    """What the page says of a run."""
    entries = list(data["problems"].values())
    if len(entries) != len(ladder.PROBLEMS):
        raise SystemExit(f"expects a run of {len(ladder.PROBLEMS)} problems (--ladder), but got {len(entries)}")
    def times(name):
        return [round(entry["contenders"][name]["us"]["median"], 2) for entry in entries]
    rungs = []
    for name, chip, text in ladder.schedules(toolchain):
        of = ladder.contender(name)
        errors = [entry["contenders"][of]["error"]["ratio"] for entry in entries]
        rungs.append({"name": name, "text": text, "us": times(of), "error": max(errors)} | describe(toolchain, name, chip))
        counted = entries[ladder.PROBLEMS.index(ladder.DESCRIBED)]["contenders"][of].get("counters")
        if counted is None:
            raise SystemExit(f"expects a run with counters of {name}: where ncu is not found, there are none")
        rungs[-1] |= {"wavefronts": counted["wavefronts"], "conflicts": counted["conflicts"], "limit": counters.limit(counted["busy"])}
    return {
        "card": data["card"]["name"],
        "date": entries[0]["date"][:10],
        "rungs": rungs,
        "peers": {peer: times(peer) for peer in ladder.PEERS},
    }


def describe_page(data):
    """{block: text}."""
    default = next(rung["us"] for rung in data["rungs"] if rung["name"] == ladder.DEFAULT)
    lines = [
        f"{data['card']}, {data['date']}: microseconds, and the share of the default's speed that it reaches.",
        "",
        f"| schedule | {' | '.join(TITLES)} | error |",
        "| --- |" + " --- |" * (len(TITLES) + 1),
    ]
    names = {"fa2": "FlashAttention-2 (PyTorch)", "cudnn": "cuDNN"}
    rows = [(f"`{rung['name']}`", rung["us"], f"{rung['error']:.2f}") for rung in data["rungs"]]
    rows += [(names[peer], us, "") for peer, us in data["peers"].items()]
    for name, us, error in rows:
        cells = [f"{each:.1f} ({best / each:.2f})" for each, best in zip(us, default)]
        lines.append(f"| {name} | {' | '.join(cells)} | {error} |")
    used = [
        f"What a block of {TITLES[1]} uses, by ptxas, of several kernels the most that one does, and what ncu counts of all: millions of wavefronts of shared memory, those of bank "
        "conflicts among them, and the unit of the SM that is busiest, in percent of what it could do. Where none is busy for "
        f"{counters.LIMITING} %, warps wait for each other and for memory.",
        "",
        "| schedule | registers | spilled bytes | shared memory | blocks an SM | wavefronts | of conflicts | limited by |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for rung in data["rungs"]:
        used.append(
            f"| `{rung['name']}` | {rung['registers']} | {rung['spills']} | {rung['shared'] / 1024:.1f} KiB | "
            f"{rung['blocks']} | {rung['wavefronts'] / 1e6:.1f} | {rung['conflicts'] / 1e6:.1f} | {rung['limit']} |"
        )
    return {"ladder": "\n".join(lines) + "\n", "ladder-kernels": "\n".join(used) + "\n"}


def plot(data):
    pyplot = plots.pyplot("scripts/ladder.py")
    figure, ax = pyplot.subplots(figsize=(8.5, 4), layout="constrained")
    names = [rung["name"] for rung in data["rungs"]]
    for i, title in enumerate(TITLES):
        ax.plot(names, [rung["us"][i] for rung in data["rungs"]], marker="o", label=title, color=f"C{i}")
        for peer, style in zip(ladder.PEERS, (":", "--")):
            ax.axhline(data["peers"][peer][i], linestyle=style, linewidth=1, color=f"C{i}")
    ax.set_yscale("log")
    ax.set_ylabel("microseconds")
    ax.tick_params("x", rotation=40)
    ax.plot([], [], ":", color="gray", label="FlashAttention-2")
    ax.plot([], [], "--", color="gray", label="cuDNN")
    ax.legend(fontsize=8)
    plots.save(figure, FIGURES / "ladder.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=pathlib.Path, help="of flashcore-bench run --ladder")
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="folder of flashcore-compile")
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    toolchain = Toolchain(args.tools, "")
    path = FIGURES / "ladder.json"
    if args.check == bool(args.results):
        parser.error("expects a results.json or --check")
    if args.results:
        data = collect(json.loads(args.results.read_text()), toolchain)
        path.write_text(json.dumps(data, indent=1) + "\n")
        plot(data)
    data = json.loads(path.read_text())
    marked_blocks.hold(PAGE, describe_page(data), not args.check, "run scripts/ladder.py with a new run")
    page = PAGE.read_text()
    for name, _, text in ladder.schedules(toolchain):
        if f"**`{name}`**" not in page:
            raise SystemExit(f"{PAGE.name}: expects a paragraph of **`{name}`** ({text})")


if __name__ == "__main__":
    sys.exit(main())
