"""What docs/performance.md and README.md say of a run with --chip sm_90a.

As in pages.py every figure is computed here. What a run has no data for
(features, variants, a contender, power) is left out whole, and both blocks are
empty while no such run is published.
"""

import collections
import dataclasses
import statistics

from . import prose, report, results
from .errors import UserError
from .pages import OURS
from .problems import FEATURES, HEAD_DIMS, SEQLENS, all_problems, plain_name

CHIP = "sm_90a"
# The contender that --variant mma=--chip=sm_89 adds.
MMA = "flashcore:mma"
# What tables call their columns.
_COLUMNS = {OURS: OURS, MMA: "sm_89 PTX", "cudnn": "cudnn", "fa2": "fa2"}


def blocks(data):
    """{page: {block: text}} of a compact file; of none, `data` is None."""
    return {
        "docs/performance.md": {"hopper": _section(data) if data else ""},
        "README.md": {"hopper": _readme(data) if data else ""},
    }


def compact(data):
    """What the blocks show of a run, or an error where they would have to say
    what it does not know."""
    _expect_rows(data)
    shown = {
        name: entry
        for name, entry in data["problems"].items()
        if results.problem_of(entry).group in ("throughput", FEATURES)
    }
    small = results.compact(
        data | {"problems": shown}, (*_COLUMNS, *_variant_names(data))
    )
    for entry in small["problems"].values():
        if entry["problem"]["group"] == FEATURES:
            times = entry["contenders"].items()
            entry["contenders"] = {n: c for n, c in times if n in _COLUMNS}
    return small


def _variant_names(data):
    return [
        name
        for name in report.contender_names(data)
        if name.startswith(f"{OURS}:") and name != MMA
    ]


def plotted(data):
    """The compact file without the variants that the table of variants has."""
    return results.compact(data, _COLUMNS)


def _expect_rows(data):
    """All rows of 16k tokens beside cuDNN, and no wrong result of ours."""
    for problem in all_problems():
        entry = data["problems"].get(problem.name, {"contenders": {}})
        if problem.group == "throughput" and not (
            {OURS, "cudnn"} <= entry["contenders"].keys()
        ):
            raise UserError(
                f"expects times of {OURS} and cudnn for {problem.name}, but got "
                "none: run all of 'd(64|128|256)-s.*'"
            )
    options = data.get("variants", {}).get(MMA, "--chip=sm_89")
    if "--chip=sm_89" not in options.split():
        raise UserError(f"expects {MMA} of --chip=sm_89, but got {options}")
    for name, entry in data["problems"].items():
        for contender, found in entry["contenders"].items():
            if contender.startswith(OURS) and not results.passes(
                found["error"]
            ):
                raise UserError(
                    f"expects right results, but that of {contender} for {name} "
                    "is wrong"
                )


def _section(data):
    parts = [
        "## Hopper (wgmma)\n",
        _run(data),
        prose.bullets(filter(None, (part(data) for part in _SENTENCES))),
        "![speed of kernels for sm_90a](figures/hopper.png)\n",
        _rows(data),
        _features(data),
        _variants(data),
    ]
    return "\n" + "\n".join(part for part in parts if part)


def _run(data):
    text = (
        f"Kernels of `--chip {CHIP}`, which multiply with `wgmma` and copy with "
        f"TMA. {prose.machine(data)}: {len(data['problems'])} problems, one run."
    )
    seen = results.conditions(data)
    for key, (name, unit) in results.QUANTITIES.items():
        if key in seen:
            low, middle, high = (
                f"{seen[key][k]:.0f}" for k in ("min", "median", "max")
            )
            text += f" {name[0].upper()}{name[1:]}: {middle} {unit}"
            text += f" ({low} to {high})."
    if "throttle" in seen:
        text += f" Throttled: {report.throttled(seen)}."
    return prose.paragraph(text)


def _all_rows(data):
    return prose.entries(data, "throughput")


def _beside_cudnn(data):
    def mean(head_dim):
        rows = prose.of_head_dim(data, head_dim)
        return report.mean_and_count(report.speedups(rows, OURS, "cudnn"))

    rows = _all_rows(data)
    return (
        f"**Beside cuDNN**, which uses wgmma too: {_mean(rows, 'cudnn')} times "
        f"as fast in the geometric mean of the {len(rows)} rows of 16k tokens "
        f"(head dims 64, 128, 256, lengths 512 to 16k, dense and causal), ahead "
        f"in {prose.rows_ahead(rows, OURS, 'cudnn')}. By head dim, with rows "
        f"ahead: {prose.of_each_head_dim(mean)}. The lowest ratio is "
        f"{_lowest(rows)}."
    )


def _mean(rows, other):
    ratios = report.speedups(rows, OURS, other)
    return f"{statistics.geometric_mean(ratios):.2f}"


def _lowest(rows):
    def ratio(entry):
        return report.speedups([entry], OURS, "cudnn")[0]

    entry = min(rows, key=ratio)
    return f"{ratio(entry):.2f} ({prose.place(results.problem_of(entry))})"


def _short_sequences(data):
    def split(is_short):
        return prose.entries(
            data,
            "throughput",
            lambda p: (p.seqlen_q == SEQLENS[0]) == is_short,
        )

    short, longer = split(True), split(False)
    return (
        f"**The {len(short)} rows of length {SEQLENS[0]}:** "
        f"{_mean(short, 'cudnn')} times cuDNN, ahead in "
        f"{prose.rows_ahead(short, OURS, 'cudnn')}; the {len(longer)} longer "
        f"ones {_mean(longer, 'cudnn')}, ahead in "
        f"{prose.rows_ahead(longer, OURS, 'cudnn')}."
    )


def _beside_mma_sync(data):
    """Of what all rows were timed with."""
    rows = _all_rows(data)
    others = {MMA: "FlashCore's own `.target sm_89` PTX", "fa2": "FA2"}
    found = [
        f"{_mean(rows, name)} times {text} (ahead in "
        f"{prose.rows_ahead(rows, OURS, name)})"
        for name, text in others.items()
        if all(name in entry["contenders"] for entry in rows)
    ]
    if found:
        return f"**Beside mma.sync:** {' and '.join(found)}."


def _energy(data):
    """Watts times seconds, where the power of all rows it names is known."""
    entries = [data["problems"][f"d{dim}-s4096-dense"] for dim in HEAD_DIMS]
    powers = [
        results.problem_conditions(entry).get("power_w") for entry in entries
    ]
    if not all(powers):
        return None

    def joules(name):
        return ", ".join(
            f"{watts * entry['contenders'][name]['us']['median'] * 1e-6:.2f}"
            for watts, entry in zip(powers, entries)
        )

    dims = ", ".join(map(str, HEAD_DIMS))
    return (
        f"**Energy.** At S 4096, dense, D {dims} a call takes {joules(OURS)} J, "
        f"cuDNN's {joules('cudnn')} J: its time at the power of the row, which "
        "is that of all contenders in turn."
    )


_SENTENCES = _beside_cudnn, _short_sequences, _beside_mma_sync, _energy


def _timed(pairs):
    """The columns that have a time."""
    return [
        name
        for name in _COLUMNS
        if any(name in entry["contenders"] for _, entry in pairs)
    ]


def _cells(pairs, key, describe):
    """For each row of report.mask_rows() what `describe` says of its
    entries; of some it says nothing."""
    cells = []
    for row in report.rows_by_size(pairs, key).values():
        texts = [
            describe(row[mask][1]) for mask in ("dense", "causal") if mask in row
        ]
        is_known = any(texts)
        cells.append(" / ".join(t or "-" for t in texts) if is_known else "")
    return cells


def _ratio(entry):
    ratios = report.speedups([entry], OURS, "cudnn")
    return f"{ratios[0]:.2f}" if ratios else ""


def _condition(key, scale, digits):
    def describe(entry):
        value = results.problem_conditions(entry).get(key)
        return "" if value is None else f"{value * scale:.{digits}f}"

    return describe


_CLOCK, _POWER = _condition("sm_mhz", 1e-3, 2), _condition("power_w", 1, 0)


def _table(pairs, key, head, columns):
    """TFLOP/s of the contenders, and `columns`, {title: what it says of an
    entry}; those that say nothing anywhere are left out."""
    names = _timed(pairs)
    rows = report.mask_rows(pairs, names, key, report.tflops, max)
    titles = [*head, *(_COLUMNS[name] for name in names)]
    for title, describe in columns.items():
        cells = _cells(pairs, key, describe)
        if any(cells):
            titles.append(title)
            rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
    return prose.table(titles, rows)


def _rows(data):
    text = prose.paragraph(
        "16k tokens, hidden 2048, TFLOP/s dense / causal; sm_89 PTX is "
        f"`{MMA}` of the plot. The clock is the median of a row's rounds, the "
        "power nvidia-smi's mean over the last second of it; both are of all "
        "contenders in turn."
    )
    columns = {"of cudnn": _ratio, "GHz": _CLOCK, "W": _POWER}
    pairs = report.entries(data, "throughput")
    return f"{text}\n" + _table(
        pairs, report.head_dim_and_length, ["D", "S"], columns
    )


def _features(data):
    pairs = report.entries(data, FEATURES)
    if not pairs:
        return ""

    def of_plain(entry):
        """TFLOP/s, as those count what a mask shows alone."""
        feature = results.problem_of(entry)
        plain = data["problems"].get(plain_name(feature))
        if not plain or _is_alike(feature, results.problem_of(plain)):
            return ""
        if not all(OURS in each["contenders"] for each in (entry, plain)):
            return ""
        rates = (each["contenders"][OURS]["tflops"] for each in (entry, plain))
        return f"{next(rates) / next(rates):.2f}"

    text = prose.paragraph(
        "Other head dims, types, masks and lengths at some 16k tokens, TFLOP/s "
        "dense / causal, of the pairs of query and key that the mask shows. "
        "`of plain` is the part that is left of the same without the feature, "
        "or with a length that tiles divide. PyTorch has no softcap (-), and "
        "gives cuDNN a window as a tensor that is added to the scores."
    )
    columns = {"of cudnn": _ratio, "of plain": of_plain}
    key = _describe_features(pairs, data["settings"]["dtype"])
    return f"{text}\n{_table(pairs, key, ['problem'], columns)}"


def _is_alike(first, second):
    return dataclasses.replace(first, name="", group="") == (
        dataclasses.replace(second, name="", group="")
    )


def _describe_features(pairs, dtype):
    """A row's key: what it is without its mask, where it has both."""

    def stem(problem):
        return problem.name.rsplit("-", 1)[0]

    counts = collections.Counter(stem(problem) for problem, _ in pairs)

    def describe(problem):
        text = problem.describe().replace(" dense", "")
        if counts[stem(problem)] == 2:
            text = text.replace(" causal", "")
        text += "" if problem.dtype == dtype else f" {problem.dtype}"
        return (text,)

    return describe


def _variants(data):
    columns = [
        *(prose.of_head_dim(data, dim) for dim in HEAD_DIMS),
        _all_rows(data),
    ]

    def row(name):
        options = data.get("variants", {}).get(name)
        what = f"`{options}`" if options else name.removeprefix(f"{OURS}:")
        ratios = (report.speedups(column, name, OURS) for column in columns)
        return [what, *(report.mean_and_count(r) if r else "-" for r in ratios)]

    rows = [each for each in map(row, _variant_names(data)) if each[-1] != "-"]
    if not rows:
        return ""
    text = prose.paragraph(
        "Other schedules of the same rows, in the same run: how many times as "
        "fast as the default, in the geometric mean (rows faster)."
    )
    head = ["options", *(f"D {dim}" for dim in HEAD_DIMS), "all"]
    return f"{text}\n{prose.table(head, rows)}"


def _readme(data):
    rows = _all_rows(data)
    text = prose.paragraph(
        f"{prose.day_and_card(data)}, {data['settings']['dtype']}, kernels of "
        f"`--chip={CHIP}` (wgmma): {_mean(rows, 'cudnn')} times cuDNN in the "
        f"geometric mean of the same {len(rows)} rows, faster in "
        f"{prose.rows_ahead(rows, OURS, 'cudnn')}, at the least {_lowest(rows)}; "
        "one run ([docs/performance.md](docs/performance.md#hopper-wgmma))."
    )
    pairs = [
        (problem, entry)
        for problem, entry in report.entries(data, "throughput")
        if problem.seqlen_q == 4096
    ]
    return f"{text}\n" + _table(
        pairs,
        lambda problem: (f"S 4096, D {problem.head_dim}, dense / causal",),
        ["TFLOP/s"],
        {"of cudnn": _ratio},
    )
