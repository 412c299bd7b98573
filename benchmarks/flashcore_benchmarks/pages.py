"""What docs/performance.md and README.md say of a run of all problems.

Every figure of the run is computed here, those in sentences included: none can
be left behind when the tables are renewed.
"""

import datetime
import statistics
import textwrap

from . import report, results
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
_WIDTH = 150


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


def _lines(text, indent=""):
    lines = textwrap.fill(
        text,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{lines}\n"


def _table(head, rows):
    return f"{report.table(head, rows)}\n"


def _entries(data, group, belongs=lambda problem: True):
    return [e for p, e in report.entries(data, group) if belongs(p)]


def _of_head_dim(data, head_dim):
    return _entries(data, "throughput", lambda p: p.head_dim == head_dim)


def _of_each_head_dim(describe):
    return ", ".join(f"{describe(dim)} (D {dim})" for dim in HEAD_DIMS)


def _rows_ahead(entries, name, other):
    ratios = report.speedups(entries, name, other)
    ahead = sum(ratio > 1 for ratio in ratios)
    return (
        f"all {ahead}" if ahead == len(ratios) else f"{ahead} of {len(ratios)}"
    )


def _gain(ratio):
    return f"{100 * (ratio - 1):.0f} %"


def _share(entry):
    """Of the roof, in percent."""
    return 100 * entry["contenders"][OURS]["roofline"]["fraction"]


def _summary(data):
    bullets = _large_problems, _few_rows, _known_sizes
    return "".join(_lines(f"* {bullet(data)}", "  ") for bullet in bullets)


def _large_problems(data):
    rows = _entries(data, "throughput")
    mean = statistics.geometric_mean(report.speedups(rows, OURS, "fa2"))
    return (
        "**Large problems.** FlashCore uses the instructions of "
        "FlashAttention-2 (`mma.sync`, `cp.async`) and is faster in "
        f"{_rows_ahead(rows, OURS, 'fa2')} rows, {mean:.2f} times in the "
        "geometric mean. cuDNN and Flex use `wgmma`, which only sm_90 has: "
        f"cuDNN is ahead in {_rows_ahead(rows, 'cudnn', OURS)}, Flex in "
        f"{_rows_ahead(rows, 'flex', OURS)}."
    )


def _few_rows(data):
    reference = [
        data["problems"][f"reference-{m}"] for m in ("dense", "causal")
    ]
    dense, causal = report.speedups(reference, OURS, "fa2")
    decoding = _entries(data, "grouped", lambda p: p.seqlen_q < p.seqlen_k)
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
        ratios = report.speedups(_of_head_dim(data, head_dim), OURS, OPEN)
        return _gain(statistics.geometric_mean(ratios))

    return (
        f"**Sizes known at compile time** gain {_of_each_head_dim(gain)} in "
        "the geometric mean, and far more where queries are few and their "
        "number is open, too: see below."
    )


def _run(data):
    card, date, peaks = data["card"], _date(data), data["card"]["peaks"]
    return _lines(
        f"{date.day} {date:%B %Y}, {card['name']} ({card['sms']} SMs, driver "
        f"{card['driver']}, {float(card['power_limit_w']):.0f} W), PyTorch "
        f"{_torch(card)}, cuDNN {_cudnn(card)}: all {len(data['problems'])} "
        "problems beside all peers, one run. Measured limits: "
        f"{peaks['mma_tflops']:.0f} TFLOP/s of mma.sync, "
        f"{peaks['dram_gbs']:.0f} GB/s. While timing the card throttled: "
        f"{report.throttled(results.conditions(data))}."
    )


def _date(data):
    """Of the last problem."""
    last = max(entry["date"] for entry in data["problems"].values())
    return datetime.datetime.fromisoformat(last)


def _torch(card):
    return ".".join(card["torch"].split(".")[:2])


def _cudnn(card):
    return f"{card['cudnn'] // 10000}.{card['cudnn'] // 100 % 100}"


def _over_fa2(data):
    rows = _entries(data, "throughput")
    columns = [*(_of_head_dim(data, dim) for dim in HEAD_DIMS), rows]
    names = [*(f"D {dim}" for dim in HEAD_DIMS), f"all {len(rows)}"]

    def cells(ours):
        ratios = (report.speedups(column, ours, "fa2") for column in columns)
        return [report.mean_and_count(each) for each in ratios]

    *known, all_known = cells(OURS)
    table = _table(
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
    return f"{table}\n" + _lines(
        f"The smallest lead is {_smallest_lead(rows)}. Against Flex {flex}, "
        f"cuDNN {cudnn}."
    )


def _smallest_lead(rows):
    def ratio(entry):
        return report.speedups([entry], OURS, "fa2")[0]

    entry = min(rows, key=ratio)
    problem = results.problem_of(entry)
    mask = "causal" if problem.causal else "dense"
    where = f"D {problem.head_dim}, S {problem.seqlen_q}, {mask}"
    return f"{_gain(ratio(entry))} ({where})"


def _throughput(data):
    rows = report.mask_rows(
        report.entries(data, "throughput"),
        [OURS, OPEN, *PEERS],
        report.head_dim_and_length,
        report.tflops,
        max,
    )
    return _table(["D", "S", OURS, "sizes at run time", *PEERS], rows)


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
    return _table(["problem", OURS, *PEERS], rows)


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
            table, _entries(data, "grouped"), strict=True
        )
    ]
    open_us = _median(data, "decode-b1-k8192-dense", OPEN)
    return f"{_table(['problem', OURS, 'of DRAM', *PEERS], rows)}\n" + _lines(
        "With all sizes known at run time only nothing is split over blocks: "
        f"one query of 8192 keys takes {open_us:.0f} us."
    )


def _share_of_dram(entry):
    is_bound = entry["contenders"][OURS]["roofline"]["bound"] == "dram"
    return f"{_share(entry):.0f} %" if is_bound else ""


def _limits(data):
    def share(head_dim):
        return f"{_share(data['problems'][f'd{head_dim}-s4096-dense']):.0f} %"

    return _lines(
        f"At S 4096, dense, FlashCore reaches {_of_each_head_dim(share)} of "
        "mma.sync's peak."
    )


def _errors(data):
    names = {}
    for peer, name in PEERS.items():
        names.setdefault(_worst_error(data, peer), []).append(name)
    peers = "; ".join(f"{', '.join(n)}: {error}" for error, n in names.items())
    return _lines(
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
        _lines(
            f"{_date(data):%Y-%m-%d}, one {card['name'].split()[-1]}, "
            f"{settings['dtype']}, `.target {settings['chip']}` PTX; FA2 (the "
            f"same instructions) is PyTorch {_torch(card)}'s backend, cuDNN "
            "uses wgmma; all in one run ([docs/performance.md]"
            "(docs/performance.md) has all problems, plots and what limits "
            "them)."
        )
        + "\n"
        + _table(["problem", "FlashCore", "FA2", "cuDNN"], _readme_rows(data))
        + "\n"
        + _lines(
            f"Largest error of O: {_worst_error(data, OURS, OPEN)} times that "
            "of plain attention in the input precision (2 is allowed; FA2 "
            f"{_worst_error(data, 'fa2')})."
        )
    )


def _readme_rows(data):
    ratios = report.speedups(_entries(data, "throughput"), OURS, "fa2")
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
