"""What docs/performance.md and README.md say of a run of all problems.

Every figure of the run is computed here, those in sentences included: none can
be left behind when the tables are renewed.
"""

import statistics

from . import prose, report, results
from .problems import HEAD_DIMS

# All sizes known, and all known at run time only.
OURS, OPEN = "flashcore", "flashcore-dynamic"
# What sentences call the peers of the tables.
PEERS = {"fa2": "FA2", "cudnn": "cuDNN", "flex": "Flex"}
# What README.md shows of small problems and decoding.
_README_TIMES = {
    "batch 1, 8 heads, 512 x 512, D 64, dense / causal": (
        "reference-dense",
        "reference-causal",
    ),
    "batch 8, 16 heads, 256 x 256, D 64, dense / causal": (
        "vit-b8-dense",
        "vit-b8-causal",
    ),
    "one query, 32 heads of 8 kv heads, D 128, 8k / 64k keys": (
        "decode-b1-k8192-dense",
        "decode-b1-k65536-dense",
    ),
}


def blocks(data):
    """{page: {block: text}}."""
    return {
        "docs/performance.md": {
            "speed-summary": _summary(data),
            "speed-run": _run(data),
            "speed-over-fa2": _over_fa2(data),
            "speed-16k": _throughput(data),
            "speed-small": _small(data),
            "speed-grouped": _grouped(data),
            "speed-limits": _limits(data),
            "speed-errors": _errors(data),
        },
        "README.md": {"speed": _readme(data)},
    }


def _gain(ratio):
    return f"{100 * (ratio - 1):.0f} %"


def _share(entry):
    """Of the roof, in percent."""
    return 100 * entry["contenders"][OURS]["roofline"]["fraction"]


def _summary(data):
    parts = _large_problems, _few_rows, _known_sizes
    return prose.bullets(part(data) for part in parts)


def _large_problems(data):
    rows = prose.entries(data, "throughput")
    mean = statistics.geometric_mean(report.speedups(rows, OURS, "fa2"))
    return (
        "**Large problems.** FlashCore uses the instructions of "
        "FlashAttention-2 (`mma.sync`, `cp.async`) and is faster in "
        f"{prose.rows_ahead(rows, OURS, 'fa2')} rows, {mean:.2f} times in the "
        "geometric mean. cuDNN and Flex use `wgmma`, which only sm_90 has: "
        f"cuDNN is ahead in {prose.rows_ahead(rows, 'cudnn', OURS)}, Flex in "
        f"{prose.rows_ahead(rows, 'flex', OURS)}."
    )


def _few_rows(data):
    reference = [
        data["problems"][f"reference-{m}"] for m in ("dense", "causal")
    ]
    dense, causal = report.speedups(reference, OURS, "fa2")
    decoding = prose.entries(data, "grouped", lambda p: p.seqlen_q < p.seqlen_k)
    ratios = report.speedups(decoding, OURS, "fa2")
    shares = [
        _share(entry)
        for entry in decoding
        if results.problem_of(entry).batch >= 16
    ]
    return (
        "**Small grids and few rows** are where a schedule of their own pays "
        f"most: {dense:.1f} times FA2 at the reference shape (causal "
        f"{causal:.1f}), {min(ratios):.2f} to {max(ratios):.2f} times in "
        "decoding, which from 16 sequences on runs at "
        f"{min(shares):.0f} to {max(shares):.0f} % of the measured memory "
        "bandwidth."
    )


def _known_sizes(data):
    def gain(head_dim):
        ratios = report.speedups(prose.of_head_dim(data, head_dim), OURS, OPEN)
        return _gain(statistics.geometric_mean(ratios))

    return (
        "**Sizes known at compile time** gain "
        f"{prose.of_each_head_dim(gain)} in the geometric mean, and far more "
        "where queries are few and their number is open, too: see below."
    )


def _run(data):
    peaks = data["card"]["peaks"]
    return prose.paragraph(
        f"{prose.machine(data)}: all {len(data['problems'])} problems beside "
        "all peers, one run. Measured limits: "
        f"{peaks['mma_tflops']:.0f} TFLOP/s of mma.sync, "
        f"{peaks['dram_gbs']:.0f} GB/s. While timing the card throttled: "
        f"{report.throttled(results.conditions(data))}."
    )


def _over_fa2(data):
    rows = prose.entries(data, "throughput")
    columns = [*(prose.of_head_dim(data, dim) for dim in HEAD_DIMS), rows]
    names = [*(f"D {dim}" for dim in HEAD_DIMS), f"all {len(rows)}"]

    def cells(ours):
        ratios = (report.speedups(column, ours, "fa2") for column in columns)
        return [report.mean_and_count(each) for each in ratios]

    *known, all_known = cells(OURS)
    table = prose.table(
        ["geometric mean over FA2 (rows faster)", *names],
        [
            ["default schedules, sizes known", *known, f"**{all_known}**"],
            ["sizes known at run time only", *cells(OPEN)],
        ],
    )
    flex, cudnn = (
        report.mean_and_count(report.speedups(rows, OURS, peer))
        for peer in ("flex", "cudnn")
    )
    return f"{table}\n" + prose.paragraph(
        f"The smallest lead is {_smallest_lead(rows)}. Against Flex {flex}, "
        f"cuDNN {cudnn}."
    )


def _smallest_lead(rows):
    def ratio(entry):
        return report.speedups([entry], OURS, "fa2")[0]

    entry = min(rows, key=ratio)
    where = prose.place(results.problem_of(entry))
    return f"{_gain(ratio(entry))} ({where})"


def _throughput(data):
    rows = report.mask_rows(
        report.entries(data, "throughput"),
        [OURS, OPEN, *PEERS],
        report.head_dim_and_length,
        report.tflops,
        max,
    )
    return prose.table(["D", "S", OURS, "sizes at run time", *PEERS], rows)


def _latencies(data, group, title):
    return report.mask_rows(
        report.entries(data, group),
        [OURS, *PEERS],
        lambda problem: (title(problem),),
        report.microseconds,
        min,
    )


def _small(data):
    rows = _latencies(data, "small", report.size)
    return prose.table(["problem", OURS, *PEERS], rows)


def _grouped(data):
    """Each problem has one mask there, so an entry is a row."""
    table = _latencies(
        data,
        "grouped",
        lambda problem: problem.describe().replace(" dense", ""),
    )
    rows = [
        [problem, ours, _share_of_dram(entry), *peers]
        for (problem, ours, *peers), entry in zip(
            table, prose.entries(data, "grouped"), strict=True
        )
    ]
    open_us = _median(data, "decode-b1-k8192-dense", OPEN)
    head = ["problem", OURS, "of DRAM", *PEERS]
    return f"{prose.table(head, rows)}\n" + prose.paragraph(
        "With all sizes known at run time only, and no kernels for few queries, nothing is split "
        f"over blocks: one query of 8192 keys takes {open_us:.0f} us."
    )


def _share_of_dram(entry):
    is_bound = entry["contenders"][OURS]["roofline"]["bound"] == "dram"
    return f"{_share(entry):.0f} %" if is_bound else ""


def _limits(data):
    def share(head_dim):
        return f"{_share(data['problems'][f'd{head_dim}-s4096-dense']):.0f} %"

    return prose.paragraph(
        "At S 4096, dense, FlashCore reaches "
        f"{prose.of_each_head_dim(share)} of mma.sync's peak."
    )


def _errors(data):
    names = {}
    for peer, name in PEERS.items():
        names.setdefault(_worst_error(data, peer), []).append(name)
    peers = "; ".join(f"{', '.join(n)}: {error}" for error, n in names.items())
    return prose.paragraph(
        f"Errors of O: at most {_worst_error(data, OURS, OPEN)} times those of "
        f"the same formula in {data['settings']['dtype']} ({peers})."
    )


def _worst_error(data, *names):
    ratios = (
        entry["contenders"][name]["error"]["ratio"]
        for entry in data["problems"].values()
        for name in names
    )
    return f"{max(ratios):.2f}"


def _readme(data):
    card, settings = data["card"], data["settings"]
    return (
        prose.paragraph(
            f"{prose.day_and_card(data)}, {settings['dtype']}, `.target "
            f"{settings['chip']}` PTX; FA2 (the same instructions) is PyTorch "
            f"{prose.torch_version(card)}'s backend, cuDNN uses wgmma; all in "
            "one run ([docs/performance.md]"
            "(docs/performance.md) has all problems, plots and what limits "
            "them)."
        )
        + "\n"
        + prose.table(
            ["problem", "FlashCore", "FA2", "cuDNN"], _readme_rows(data)
        )
        + "\n"
        + prose.paragraph(
            f"Largest error of O: {_worst_error(data, OURS, OPEN)} times that "
            "of plain attention in the input precision (2 is allowed; FA2 "
            f"{_worst_error(data, 'fa2')})."
        )
    )


def _readme_rows(data):
    ratios = report.speedups(prose.entries(data, "throughput"), OURS, "fa2")
    ahead = sum(ratio > 1 for ratio in ratios)
    yield [
        "16k tokens, D 64, 128, 256, S 512 to 16k, dense and causal: "
        "geometric mean over FA2",
        f"{statistics.geometric_mean(ratios):.2f}, faster in {ahead} of "
        f"{len(ratios)}",
        "1",
        "",
    ]
    for dim in HEAD_DIMS:
        names = [f"d{dim}-s4096-{mask}" for mask in ("dense", "causal")]
        title = f"S 4096, D {dim}, dense / causal"
        yield _readme_row(data, title, names, _tflops, "TFLOP/s")
    for title, names in _README_TIMES.items():
        yield _readme_row(data, title, names, _us, "us")


def _readme_row(data, title, problems, metric, unit):
    ours, *peers = (
        " / ".join(metric(data, problem, name) for problem in problems)
        for name in (OURS, "fa2", "cudnn")
    )
    return [title, f"{ours} {unit}", *peers]


def _tflops(data, problem, name):
    return report.tflops(data["problems"][problem]["contenders"][name])


def _us(data, problem, name):
    return f"{_median(data, problem, name):.1f}"


def _median(data, problem, name):
    return data["problems"][problem]["contenders"][name]["us"]["median"]
