"""Markdown and a plot of what flashcore-tune did, from its state."""

import collections
import pathlib
import re

from .. import report
from ..plots import pyplot


def write(state):
    lines = [
        f"## Tuning on {state['card']['name']}, {state['date']}",
        "Gains are medians over rounds of the time of the default schedule "
        "over that of the candidate in the same round, less 1. Finalists were "
        "timed again, beside each other and for longer, and a schedule must "
        f"gain more than {100 * state['settings']['min_gain']:.0f} % to "
        "replace the default.",
        *(f"* {note}" for note in state["notes"]),
        _overview(state),
    ]
    for name, problem in state["problems"].items():
        lines.append(_problem(name, problem))
    return "\n\n".join(lines) + "\n"


def _percent(gain):
    return f"{100 * gain:+.1f} %"


def _differences(schedule, default):
    """The fields in which a schedule is not the default."""
    changed = [f"{n} {v}" for n, v in schedule.items() if default.get(n) != v]
    return ", ".join(changed) or "as the default"


def _overview(state):
    rows = []
    for name, problem in state["problems"].items():
        outcome = problem.get("outcome")
        if not outcome:
            rows.append([name, "-", "-", "unfinished"])
            continue
        winner = outcome["winner"]
        default = problem["default"]["schedule"]
        rows.append(
            [
                name + ("" if outcome["complete"] else " (unfinished)"),
                f"{outcome['default_us']:.2f} us",
                _percent(winner["gain"]) if winner else "-",
                _differences(winner["schedule"], default)
                if winner
                else "the default stays",
            ]
        )
    return report.table(["problem", "default", "gain", "what changes"], rows)


def _problem(name, problem):
    results = problem["candidates"].values()
    counts = collections.Counter(
        result["reason"] if result["status"] == "rejected" else result["status"]
        for result in results
    )
    timed = sum(result.get("gain") is not None for result in results)
    reasons = collections.Counter()
    for reason, count in counts.items():
        reasons[re.sub(r"\d+(\.\d+)?", "N", reason)] += count
    lines = [
        f"### {name}",
        f"{len(problem['candidates'])} schedules tried, {counts['refused']} "
        f"refused by the compiler, {timed} timed. Default: "
        + ", ".join(
            f"{n} {v}" for n, v in problem["default"]["schedule"].items()
        )
        + ".",
    ]
    rejected = [
        f"* {count} rejected: {reason.strip()}"
        for reason, count in reasons.most_common()
        if reason not in ("refused", "good")
    ]
    if rejected:
        lines.append("\n".join(rejected))
    outcome = problem.get("outcome")
    if outcome and outcome["finalists"]:
        lines.append(_finalists(problem, outcome))
    return "\n\n".join(lines)


def _finalists(problem, outcome):
    default = problem["default"]["schedule"]
    rows = []
    for row in outcome["finalists"]:
        us, used = row["us"], row["resources"]
        rows.append(
            [
                _differences(row["schedule"], default),
                f"{us['median']:.2f} [{us['min']:.2f}..{us['max']:.2f}]",
                _percent(row["gain"]),
                " / ".join(f"{share:.2f}" for share in row["errors"].values()),
                str(used.get("registers", "?")),
                str(used.get("spill_stores", "?")),
            ]
        )
    head = [
        "finalist",
        "us",
        "gain",
        f"error, of 1 allowed ({' / '.join(outcome['finalists'][0]['errors'])})",
        "registers",
        "spilled",
    ]
    return report.table(head, rows)


def gains(problem):
    """(generation, gain) of every timed candidate, in the order of timing."""
    results = sorted(
        problem["candidates"].values(), key=lambda r: r["generation"]
    )
    return [
        (r["generation"], r["gain"])
        for r in results
        if r.get("gain") is not None
    ]


def draw(state, path):
    """Gains by candidate, and the best so far, a panel a problem."""
    plot = pyplot("flashcore-tune report FOLDER")
    panels = {n: gains(p) for n, p in state["problems"].items()}
    panels = {name: points for name, points in panels.items() if points}
    if not panels:
        return []
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plot.subplots(
        rows, columns, figsize=(4.2 * columns, 3 * rows), squeeze=False
    )
    for ax in list(axes.flat)[len(panels) :]:
        ax.remove()
    for ax, (name, points) in zip(axes.flat, panels.items()):
        percent = [100 * gain for _, gain in points]
        best = [max(percent[: i + 1]) for i in range(len(percent))]
        colors = [f"C{generation}" for generation, _ in points]
        ax.scatter(range(len(percent)), percent, s=10, c=colors)
        ax.plot(best, color="black", linewidth=1)
        ax.axhline(0, color="gray", linewidth=0.8)
        ax.axhline(
            100 * state["settings"]["min_gain"], color="gray", linestyle=":"
        )
        ax.set_ylim(bottom=max(-60, min(0, *percent) - 2))
        ax.set_title(name, fontsize=9)
        ax.set_xlabel("candidate, colored by generation", fontsize=8)
        ax.set_ylabel("gain over the default, %", fontsize=8)
    figure.tight_layout()
    path = pathlib.Path(path)
    figure.savefig(path, dpi=130)
    plot.close(figure)
    return [path]
