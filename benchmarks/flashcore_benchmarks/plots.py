"""Plots from the results of flashcore-bench, with matplotlib."""

import io
import pathlib

from . import report
from .errors import UserError

# With few colors a plot is small enough to live in a repository.
_DPI, _COLORS = 110, 192
# What peers are called in legends, and a color of their own in every plot.
_PEERS = {
    "fa2": ("FlashAttention-2 (PyTorch)", "#e07b00"),
    "cudnn": ("cuDNN", "#2a9d3a"),
    "flex": ("FlexAttention", "#8e5bc0"),
    "flash-attn": ("flash-attn 2", "#a0522d"),
    "flash-attn-3": ("flash-attn 3", "#c71585"),
    "efficient": ("memory-efficient (PyTorch)", "#7f7f7f"),
    "math": ("not fused (PyTorch)", "#bdbdbd"),
}
_OURS = ("#0b3d91", "#2f80ed", "#00a3c4", "#64b5f6", "#3949ab")
# Bars longer than this many times the shortest are cut.
_LONGEST_BAR = 5


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


def draw(data, folder, figures=None):
    """Writes a PNG for each of the figures (default: FIGURES) that has data,
    and returns their paths."""
    plot = pyplot()
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, make in (figures or FIGURES).items():
        figure = make(plot, data)
        if figure is None:
            continue
        path = folder / f"{name}.png"
        save(figure, path)
        plot.close(figure)
        written.append(path)
    return written


def save(figure, path):
    """As a PNG with a palette, a third of the size of one without."""
    from PIL import Image  # matplotlib needs it too

    whole = io.BytesIO()
    figure.savefig(whole, dpi=_DPI, bbox_inches="tight")
    image = Image.open(whole).convert("RGB").quantize(_COLORS)
    image.save(path, optimize=True)


def styles(names):
    """{contender: (label, color)}; the colors of peers are always the same."""
    ours = list(filter(_is_ours, names))
    chosen = {
        name: (name.replace("flashcore", "FlashCore", 1), color)
        for name, color in zip(ours, _OURS * len(ours))
    }
    return chosen | {n: _PEERS[n] for n in names if n not in chosen}


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
        figsize=(1 + 3.2 * len(dims), 1 + 2.7 * len(masks)),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    names = report.contender_names(data)
    for row, causal in zip(axes, masks):
        for ax, dim in zip(row, dims):
            _draw_lines(ax, series.get((causal, dim), {}), styles(names))
            mask = "causal" if causal else "dense"
            ax.set_title(f"head_dim {dim}, {mask}", fontsize=10)
        row[0].set_ylabel("TFLOP/s")
    axes[0][0].set_ylim(bottom=0)  # of all: they share the axis
    lengths = sorted(
        {p[0] for panel in series.values() for v in panel.values() for p in v}
    )
    for ax in axes[-1]:
        ax.set_xticks(lengths, map(_format_length, lengths))
        ax.minorticks_off()
        ax.set_xlabel("sequence length")
    _add_legend(figure, plot, styles(names))
    _add_title(figure, data, "Speed at 16k tokens, heads x head_dim = 2048")
    return figure


def _draw_lines(ax, panel, looks):
    for name, points in panel.items():
        x, y, low, high = zip(*sorted(points))
        ax.plot(
            x,
            y,
            marker="o",
            markersize=3.5,
            linewidth=2.4 if _is_ours(name) else 1.3,
            zorder=_height(name),
            color=looks[name][1],
        )
        ax.fill_between(x, low, high, color=looks[name][1], alpha=0.15)
    ax.set_xscale("log", base=2)
    ax.grid(alpha=0.3)


def _height(name):
    """The default schedule above others of ours, and those above peers."""
    return 4 if name == "flashcore" else 3 if _is_ours(name) else 2


def _is_ours(name):
    return name.startswith("flashcore")


def _format_length(length):
    return f"{length // 1024}k" if length % 1024 == 0 else str(length)


def latency_bars(data, group):
    """[(problem, {contender: (median, low, high)})], microseconds."""
    return [
        (
            problem,
            {
                name: tuple(c["us"][k] for k in ("median", "min", "max"))
                for name, c in entry["contenders"].items()
            },
        )
        for problem, entry in report.entries(data, group)
        if entry["contenders"]
    ]


def _small(plot, data):
    title = "Time of a call, small problems (shorter is better)"
    return _latency(plot, data, "small", title, columns=4)


def _grouped(plot, data):
    title = "Time of a call, 32 heads on 8 kv heads (shorter is better)"
    return _latency(plot, data, "grouped", title, columns=3)


def _latency(plot, data, group, title, columns):
    """A panel of bars a problem: their times differ by orders of magnitude."""
    bars = latency_bars(data, group)
    if not bars:
        return None
    columns = min(columns, len(bars))
    rows = -(-len(bars) // columns)
    names = report.contender_names(data)
    names = [name for name in names if any(name in b for _, b in bars)]
    height = 0.65 + 0.19 * len(names)
    figure, axes = plot.subplots(
        rows,
        columns,
        figsize=(0.6 + 3 * columns, 0.8 + height * rows),
        squeeze=False,
        layout="constrained",
    )
    panels = list(axes.flat)
    for ax, (problem, times) in zip(panels, bars):
        _draw_bars(ax, names, times, styles(names))
        name = problem.name.rsplit("-", 1)[0]
        ax.set_title(f"{name}\n{problem.describe()}", fontsize=8)
    for ax in panels[len(bars) :]:
        ax.set_axis_off()
    _add_legend(figure, plot, styles(names))
    _add_title(figure, data, title)
    return figure


def _draw_bars(ax, names, times, looks):
    shortest = min(median for median, _, _ in times.values())
    longest = max(high for _, _, high in times.values())
    end = min(longest, _LONGEST_BAR * shortest)
    for y, name in enumerate(names):
        if name not in times:
            ax.text(0.01 * end, y, "-", va="center", fontsize=8)
            continue
        median, low, high = times[name]
        ax.barh(y, min(median, end), height=0.8, color=looks[name][1])
        if high <= end:
            ax.plot([low, high], [y, y], color="black", linewidth=0.8)
        text = f"{median:.2f} us" if median < 100 else f"{median:.0f} us"
        ax.text(
            min(high, end) + 0.02 * end,
            y,
            text if median <= end else f"{text} (cut)",
            va="center",
            fontsize=8,
            fontweight="bold" if median == shortest else "normal",
        )
    ax.set_xlim(0, 1.4 * end)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)


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
    figure, ax = plot.subplots(figsize=(7, 4.6), layout="constrained")
    xs = [x for values in points.values() for x, _ in values]
    top, bandwidth = peaks["mma_tflops"], peaks["dram_gbs"] / 1e3
    corner = top / bandwidth
    low, high = min(*xs, corner) / 2, max(*xs, corner) * 2
    ax.plot([low, corner, high], [low * bandwidth, top, top], color="black")
    looks = styles(report.contender_names(data))
    for name, values in points.items():
        x, y = zip(*values)
        ax.scatter(
            x,
            y,
            s=26 if _is_ours(name) else 14,
            zorder=_height(name),
            color=looks[name][1],
            alpha=0.85,
            linewidths=0,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    ax.set_xlabel("FLOPs a byte of q, k, v and o")
    ax.set_ylabel("TFLOP/s")
    ax.grid(alpha=0.3)
    roof = f"mma.sync {top:.0f} TFLOP/s, DRAM {bandwidth:.1f} TB/s"
    _add_legend(figure, plot, {"roof": (roof, "black")} | looks)
    _add_title(figure, data, "All problems under the measured roofline")
    return figure


def _add_legend(figure, plot, looks):
    handles = [
        plot.Line2D([], [], color=color, linewidth=4, label=label)
        for label, color in looks.values()
    ]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(4, len(handles)),
        fontsize=8,
        frameon=False,
    )


def _add_title(figure, data, title):
    card, dtype = data["card"].get("name"), data["settings"].get("dtype")
    figure.suptitle(f"{title}\n{card}, {dtype}, forward", fontsize=11)


# Of a run for sm_90a, whose plots stand beside the others.
HOPPER_FIGURES = {"hopper": _throughput}
FIGURES = {
    "throughput": _throughput,
    "small": _small,
    "grouped": _grouped,
    "roofline": _roofline,
}
