"""What pages say of the mutants, from a file that mutants.py or ancestors.py writes.

usage: figures.py [--update] FIGURES.json PAGE.md

Fails when the block of the page for these kernels, or for the bugs of ancestors,
does not show the figures of the file; --update writes it.
"""

import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import marked_blocks

# Rows of the tables: what the edits do, and the groups of mutations.py.
_CHOICES = {
    "comparison off by one, guard removed or negated, shfl offset":
        ["setp", "guard", "shfl.sync"],
}
ROWS = {
    "warp": {
        "barrier deleted": ["bar.sync", "bar.warp.sync"],
        "wait deleted, or for one group less":
            ["cp.async.wait_group", "cp.async.wait_all"],
        "commit deleted, or twice": ["cp.async.commit_group"],
        "copy deleted, from or to elsewhere, without zero fill": ["cp.async"],
        "fragment: ldmatrix moved, `.trans`, registers, k-steps swapped; mma "
        "deleted": ["ldmatrix", "mma"],
        "store deleted, moved, values swapped; the same through shared memory":
            ["st.global", "st.shared", "ld.shared", "stmatrix"],
        **_CHOICES,
    },
    "warpgroup": {
        "mbarrier: init, arrival or wait deleted, twice, of another one; count, "
        "bytes, parity": ["mbarrier.init", "mbarrier.arrive",
                          "mbarrier.arrive.expect_tx",
                          "cp.async.mbarrier.arrive", "mbarrier.try_wait",
                          "mbarrier.test_wait"],
        "`wgmma.fence`, commit, wait: deleted, twice, moved, a group more or "
        "less": ["wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"],
        "`wgmma`: deleted, other descriptor, registers, columns, order, "
        "`scale-d`": ["wgmma.mma_async"],
        "bulk copy deleted, twice, from or to elsewhere, for another mbarrier":
            ["bulk-load", "bulk-store", "cp.async.bulk.commit_group",
             "cp.async.bulk.wait_group"],
        "`setmaxnreg`, fence, barrier: deleted, other count":
            ["setmaxnreg", "fence.mbarrier_init", "fence.proxy.async",
             "bar.sync", "bar.warp.sync"],
        "store deleted, moved, values swapped":
            ["st.global", "st.shared", "ld.shared", "stmatrix"],
        **_CHOICES,
    },
    "wmma": {
        "barrier deleted": ["bar.sync", "bar.warp.sync"],
        "wait deleted, or for one group less; commit deleted, or twice":
            ["cp.async.wait_group", "cp.async.commit_group"],
        "copy deleted, from or to elsewhere, without zero fill": ["cp.async"],
        "`wmma.load` moved, with the other layout": ["wmma.load"],
        "`wmma.mma` deleted, a layout turned": ["wmma.mma"],
        "`wmma.store` deleted, moved, with the other layout, registers swapped":
            ["wmma.store"],
        "store deleted, moved, values swapped; the same through shared memory":
            ["st.global", "st.shared", "ld.shared"],
        **_CHOICES,
    },
}
# The block of the page with each table.
BLOCKS = {"warp": "mutants", "warpgroup": "warpgroup-mutants",
          "wmma": "wmma-mutants"}
# The checks that report a kind of finding, as Text.cpp has it, but for loops.
CHECKS = {
    "uninitialized-memory": "init", "uninitialized-register": "init",
    "shared-race": "race", "global-race": "race",
    "async-read": "async", "async-overwrite": "async",
    "missing-proxy-fence": "async", "register-in-flight": "async",
    "divergent-collective": "sync", "barrier-mismatch": "sync",
    "deadlock": "sync", "invalid-mbarrier": "sync",
    "invalid-register-count": "sync", "layout-mismatch": "layout",
    "fragment-mismatch": "layout",
    "instruction-limit": "no end",
    "unwritten-output": "unwritten",
}


def collect(results, strongest, subset=1, product="warp"):
    """Counts by row; what is reported by the check that did so first."""
    rows = {name: {"mutants": 0, "reported": collections.Counter(),
                   "wrong": 0, "silent": 0} for name in ROWS[product]}
    names = {group: name for name, groups in ROWS[product].items()
             for group in groups}
    for mutant, outcomes in results:
        if mutant.group not in names:
            sys.exit(f"figures: expects a row of ROWS['{product}'] with the "
                     f"group '{mutant.group}', but got none")
        row = rows[names[mutant.group]]
        row["mutants"] += 1
        best = strongest(outcomes)
        if best.kind == "reported":
            row["reported"][CHECKS.get(best.findings[0], "memory")] += 1
        elif best.kind == "silent":
            row["silent"] += 1
        else:
            row["wrong"] += 1
    return {"product": product,
            "kernels": len({mutant.kernel for mutant, _ in results}),
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


# Which tools look at a kernel, in the order in which they get it.
TOOLS = ["flashcore-compile", "ptxas", "flashcore-emu", "flashcore-run"]


def bugs_table(bugs):
    """A row for each bug; those that share one name it once."""
    def quote(tool, says):
        text = says[tool]
        if len(text) > 160:
            text = text[:160].rsplit(" ", 1)[0] + " ..."
        return f"`{tool}`: `{text}`"

    lines = ["| bug | made of | edit | named by | others that look at it |",
             "| --- | --- | --- | --- | --- |"]
    last = None
    for bug in bugs.values():
        says = bug["says"]
        named = [quote(tool, says) for tool in bug["named by"]]
        looks = (TOOLS[:1] if "flashcore-compile" in says else TOOLS[1:])
        others = [quote(tool, says) if tool in says else f"`{tool}`: nothing"
                  for tool in looks if tool not in bug["named by"]]
        group = "" if bug["group"] == last else bug["group"]
        last = bug["group"]
        lines.append(f"| {group} | `{bug['schedule']}` | {bug['edit']} | "
                     f"{'<br>'.join(named)} | {'<br>'.join(others)} |")
    return "\n".join(lines) + "\n"


def describe(figures):
    """{block: text}."""
    if "bugs" in figures:
        return {"ladder-bugs": bugs_table(figures["bugs"])}
    return {BLOCKS[figures["product"]]: table(figures)}


if __name__ == "__main__":
    sys.exit(marked_blocks.main(__doc__, describe))
