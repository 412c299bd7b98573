"""Plots from the results of flashcore-bench, with matplotlib."""

import pathlib

from . import report
from .errors import UserError


def pyplot(elsewhere="flashcore-bench plot results.json"):
    """matplotlib's pyplot; `elsewhere` is what to run where it is missing."""
    try:
        import matplotlib
    except ImportError:
        raise UserError(
            "plots need matplotlib, which is not installed here; draw them "
            f"where it is with: {elsewhere}"
        )
    matplotlib.use("Agg")
    from matplotlib import pyplot as plot

    return plot


def draw(data, folder):
    """Writes throughput.png, latency.png and roofline.png, those that have
    data, and returns their paths."""
    plot = pyplot()
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, make in (
        ("throughput", _throughput),
        ("latency", _latency),
        ("roofline", _roofline),
    ):
        figure = make(plot, data)
        if figure is None:
            continue
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=130, bbox_inches="tight")
        plot.close(figure)
        written.append(path)
    return written


def _styles(data):
    """A color a contender, the same in all plots; FlashCore is solid and
    wide."""
    styles = {}
    for i, name in enumerate(report.contender_names(data)):
        is_ours = name.startswith("flashcore")
        styles[name] = {
            "color": f"C{i}",
            "linewidth": 2.5 if is_ours else 1.2,
            "linestyle": "-" if is_ours else "--",
        }
    return styles


def throughput_series(data):
    """{(causal, head_dim): {contender: [(S, median, low, high)]}}, TFLOP/s."""
    series = {}
    for problem, entry in report.entries(data, "throughput"):
        panel = series.setdefault((problem.causal, problem.head_dim), {})
        for name, contender in entry["contenders"].items():
            us = contender["us"]
            values = [
                problem.flops / us[k] * 1e-6 for k in ("median", "max", "min")
            ]
            panel.setdefault(name, []).append((problem.seqlen_q, *values))
    return series


def _throughput(plot, data):
    series = throughput_series(data)
    if not series:
        return None
    masks = sorted({causal for causal, _ in series})
    dims = sorted({dim for _, dim in series})
    figure, axes = plot.subplots(
        len(masks),
        len(dims),
        figsize=(4.2 * len(dims), 3.2 * len(masks)),
        squeeze=False,
        sharex=True,
    )
    styles = _styles(data)
    for i, causal in enumerate(masks):
        for j, dim in enumerate(dims):
            ax = axes[i][j]
            for name, points in series.get((causal, dim), {}).items():
                x, y, low, high = zip(*sorted(points))
                ax.plot(
                    x, y, marker="o", markersize=3, label=name, **styles[name]
                )
                ax.fill_between(
                    x, low, high, color=styles[name]["color"], alpha=0.15
                )
            ax.set_xscale("log", base=2)
            ax.set_ylim(bottom=0)
            ax.set_title(
                f"D {dim}, {'causal' if causal else 'dense'}", fontsize=10
            )
            ax.grid(alpha=0.3)
        axes[i][0].set_ylabel("TFLOP/s")
    for ax in axes[-1]:
        ax.set_xlabel("sequence length")
    axes[0][0].legend(fontsize=7)
    figure.suptitle(f"{data['card'].get('name')}, 16k tokens, hidden 2048")
    return figure


def latency_bars(data):
    """[(problem name, {contender: (median, low, high)})], microseconds."""
    return [
        (
            problem.name,
            {
                name: tuple(c["us"][k] for k in ("median", "min", "max"))
                for name, c in entry["contenders"].items()
            },
        )
        for group in ("small", "grouped")
        for problem, entry in report.entries(data, group)
    ]


def _latency(plot, data):
    bars = latency_bars(data)
    if not bars:
        return None
    styles = _styles(data)
    figure, ax = plot.subplots(figsize=(1.2 + 0.8 * len(bars), 4))
    width = 0.8 / len(styles)
    for i, (name, style) in enumerate(styles.items()):
        points = [(x, b[name]) for x, (_, b) in enumerate(bars) if name in b]
        if not points:
            continue
        medians = [b[0] for _, b in points]
        ax.bar(
            [x - 0.4 + (i + 0.5) * width for x, _ in points],
            medians,
            width,
            yerr=[
                [b[0] - b[1] for _, b in points],
                [b[2] - b[0] for _, b in points],
            ],
            error_kw={"elinewidth": 0.6},
            label=name,
            color=style["color"],
        )
    ax.set_yscale("log")
    ax.set_ylabel("microseconds a call")
    ax.set_xticks(
        range(len(bars)), [n for n, _ in bars], rotation=45, ha="right"
    )
    ax.tick_params(axis="x", labelsize=7)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(fontsize=7)
    ax.set_title(f"{data['card'].get('name')}")
    return figure


def roofline_points(data):
    """{contender: [(FLOPs a byte of DRAM, TFLOP/s)]}."""
    points = {}
    for group in ("small", "throughput", "grouped"):
        for problem, entry in report.entries(data, group):
            intensity = problem.flops / problem.tensor_bytes
            for name, contender in entry["contenders"].items():
                points.setdefault(name, []).append(
                    (intensity, contender["tflops"])
                )
    return points


def _roofline(plot, data):
    peaks = data["card"].get("peaks")
    points = roofline_points(data)
    if not peaks or not points:
        return None
    figure, ax = plot.subplots(figsize=(6, 4.2))
    styles = _styles(data)
    xs = [x for values in points.values() for x, _ in values]
    corner = peaks["mma_tflops"] * 1e3 / peaks["dram_gbs"]
    low, high = min(*xs, corner) / 2, max(*xs, corner) * 2
    ax.plot(
        [low, corner, high],
        [
            low * peaks["dram_gbs"] / 1e3,
            peaks["mma_tflops"],
            peaks["mma_tflops"],
        ],
        color="black",
        label=f"mma.sync {peaks['mma_tflops']:.0f} TFLOP/s, "
        f"DRAM {peaks['dram_gbs']:.0f} GB/s",
    )
    for name, values in points.items():
        x, y = zip(*values)
        ax.scatter(
            x, y, s=14, color=styles[name]["color"], label=name, alpha=0.8
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("FLOPs a byte of q, k, v and o")
    ax.set_ylabel("TFLOP/s")
    ax.grid(alpha=0.3, which="both")
    ax.legend(fontsize=7, loc="lower right")
    ax.set_title(f"{data['card'].get('name')}")
    return figure
