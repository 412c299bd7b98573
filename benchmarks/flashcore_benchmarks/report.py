"""Markdown tables from the results of flashcore-bench."""

import statistics

from . import results
from .problems import FEATURES, HEAD_DIMS, all_problems, features


def write(data, figures=()):
    """The whole report; `figures` are links to plots by name, each shown in
    the section of its numbers."""
    figures = dict(figures)

    def shown(name, text):
        if not text or name not in figures:
            return text
        return f"{text}\n\n![{name}]({figures[name]})"

    grouped = _latency(data, "grouped", "Grouped heads: prefill and decode")
    sections = [
        _heading(data),
        _summary(data),
        shown("throughput", _throughput(data)),
        shown("small", _latency(data, "small", "Small problems")),
        shown("grouped", grouped),
        _apart(data, FEATURES, "Features"),
        _apart(data, "given", "Given problems"),
        shown("roofline", _rooflines(data)),
        _errors(data),
        _conditions(data),
        _refusals(data),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def contender_names(data):
    """FlashCore and its variants first, then the peers, as they were asked
    for."""
    names = []
    for entry in data["problems"].values():
        names += [name for name in entry["contenders"] if name not in names]
    return sorted(names, key=lambda name: not name.startswith("flashcore"))


def entries(data, group):
    """(problem, entry) of a group, in the order of the problem list."""
    order = {p.name: i for i, p in enumerate(_known_problems())}
    pairs = [(results.problem_of(e), e) for e in data["problems"].values()]
    pairs = [(p, e) for p, e in pairs if p.group == group]
    return sorted(pairs, key=lambda pair: order.get(pair[0].name, len(order)))


def _known_problems():
    return all_problems() + features()


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _heading(data):
    card = data["card"]
    dates = sorted(entry["date"][:10] for entry in data["problems"].values())
    software = (
        f"Driver {card.get('driver')}, PyTorch {card.get('torch')}, cuDNN "
        f"{card.get('cudnn')}, power limit {card.get('power_limit_w')} W"
    )
    lines = [
        f"## {dates[-1] if dates else 'Nothing timed'}, {card.get('name')} "
        f"({card.get('sms')} SMs), {data['settings'].get('dtype')}",
        "Medians of CUDA graph replays on the device; every round times all "
        "contenders once, in an order of its own. TFLOP/s count "
        "4 B H Sq Sk D, halved when causal. The best of a row is bold. "
        f"{software}.",
    ]
    peaks = card.get("peaks")
    if peaks:
        lines.append(
            f"Limits of the card ({peaks['source']}): mma.sync "
            f"{peaks['mma_tflops']:.0f} TFLOP/s, DRAM {peaks['dram_gbs']:.0f} GB/s."
        )
    lines += [f"* {note}" for note in data["notes"]]
    return "\n\n".join(lines)


def _summary_groups():
    """What is summed up: (title, belongs to it)."""
    for dim in HEAD_DIMS:
        yield (
            f"16k tokens, D {dim}",
            lambda p, dim=dim: p.group == "throughput" and p.head_dim == dim,
        )
    yield "16k tokens, all", lambda p: p.group == "throughput"
    yield "small problems", lambda p: p.group == "small"
    yield "prefill and decode", lambda p: p.group == "grouped"
    yield "features", lambda p: p.group == FEATURES
    yield "given problems", lambda p: p.group == "given"


def speedups(entries, ours, peer):
    """How many times as fast as `peer` in each problem that both answered."""
    pairs = [
        (e["contenders"][ours]["us"], e["contenders"][peer]["us"])
        for e in entries
        if {ours, peer} <= e["contenders"].keys()
    ]
    return [theirs["median"] / us["median"] for us, theirs in pairs]


def _is_fastest(entry, ours, peers):
    """Among the peers; other schedules of ours are not rivals."""
    contenders = entry["contenders"]
    us = contenders[ours]["us"]["median"]
    return all(
        us < contenders[peer]["us"]["median"]
        for peer in peers
        if peer in contenders
    )


def _summary(data):
    names = contender_names(data)
    peers = [name for name in names if not name.startswith("flashcore")]
    if not peers:
        return ""
    rows = []
    for ours in names[: len(names) - len(peers)]:
        for title, belongs in _summary_groups():
            entries = [
                entry
                for entry in data["problems"].values()
                if belongs(results.problem_of(entry))
                and ours in entry["contenders"]
            ]
            if entries:
                total = sum(map(belongs, _known_problems())) or len(entries)
                count = f"{len(entries)} of {total}"
                rows.append(
                    [ours, title, count, *_summarize(entries, ours, peers)]
                )
    if not rows:
        return ""
    head = ["", "problems", "timed", "fastest of all", *peers]
    return (
        "### Summary\n\n"
        "How many times as fast as each peer: the geometric mean over the "
        "problems that both answered, and in how many of them faster.\n\n"
        + table(head, rows)
    )


def _summarize(entries, ours, peers):
    cells = [str(sum(_is_fastest(e, ours, peers) for e in entries))]
    for peer in peers:
        ratios = speedups(entries, ours, peer)
        cells.append(mean_and_count(ratios) if ratios else "-")
    return cells


def mean_and_count(ratios):
    """Of speedups: `1.22 (36 of 36)`, in how many of them faster."""
    ahead = sum(ratio > 1 for ratio in ratios)
    mean = statistics.geometric_mean(ratios)
    return f"{mean:.2f} ({ahead} of {len(ratios)})"


def rows_by_size(pairs, key):
    """Rows of {mask: entry} for problems that differ in their mask alone."""
    rows = {}
    for problem, entry in pairs:
        mask = "causal" if problem.causal else "dense"
        rows.setdefault(key(problem), {})[mask] = (problem, entry)
    return rows


def _cell(row, name, metric, best):
    """`dense / causal` of one contender; a mask nobody timed is left out."""
    cells = []
    for mask in ("dense", "causal"):
        if mask not in row:
            continue
        contender = row[mask][1]["contenders"].get(name)
        text = metric(contender) if contender else "-"
        is_best = contender and text == best[mask]
        cells.append(f"**{text}**" if is_best else text)
    return " / ".join(cells)


def mask_rows(pairs, names, key, metric, pick):
    """A row for each problem: what `key` makes of it, and a cell of each
    contender named, the best of them bold."""
    rows = []
    for cells, row in rows_by_size(pairs, key).items():
        best = {
            mask: _best(entry["contenders"], names, metric, pick)
            for mask, (_, entry) in row.items()
        }
        cells = [*cells, *(_cell(row, name, metric, best) for name in names)]
        rows.append(cells)
    return rows


def _best(contenders, names, metric, pick):
    found = (metric(contenders[name]) for name in names if name in contenders)
    return pick(found, key=float, default=None)


def tflops(contender):
    return f"{contender['tflops']:.0f}"


def microseconds(contender):
    return f"{contender['us']['median']:.2f}"


def _throughput(data):
    pairs = entries(data, "throughput")
    if not pairs:
        return ""
    names = contender_names(data)
    rows = mask_rows(pairs, names, head_dim_and_length, tflops, max)
    body = table(["D", "S", *names], rows)
    return f"### 16k tokens, hidden 2048: TFLOP/s, dense / causal\n\n{body}"


def head_dim_and_length(problem):
    return str(problem.head_dim), str(problem.seqlen_q)


def size(problem):
    """What it is without its mask."""
    return problem.describe().rsplit(" ", 1)[0]


def _latency(data, group, title):
    pairs = entries(data, group)
    if not pairs:
        return ""

    def name_and_size(problem):
        return problem.name.rsplit("-", 1)[0], size(problem)

    names = contender_names(data)
    rows = mask_rows(pairs, names, name_and_size, microseconds, min)
    body = table(["problem", "size", *names], rows)
    has_both = len(rows) < len(pairs)
    which = "us, dense / causal" if has_both else "us"
    return f"### {title}: {which}\n\n{body}"


def _apart(data, group, title):
    """A row a problem: they have little in common."""
    names, rows = contender_names(data), []
    for problem, entry in entries(data, group):
        times = {
            name: microseconds(contender)
            for name, contender in entry["contenders"].items()
        }
        best = min(times.values(), key=float, default=None)
        cells = [times.get(name, "-") for name in names]
        rows.append(
            [
                problem.name,
                f"{problem.describe()} {problem.dtype}",
                *(f"**{cell}**" if cell == best else cell for cell in cells),
            ]
        )
    if not rows:
        return ""
    head = ["problem", "what", *names]
    return f"### {title}: us\n\n{table(head, rows)}"


def _rooflines(data):
    names = contender_names(data)
    rows = []
    for group in ("small", "throughput", "grouped", FEATURES, "given"):
        for problem, entry in entries(data, group):
            fractions = [
                entry["contenders"].get(name, {}).get("roofline")
                for name in names
            ]
            known = next(filter(None, fractions), None)
            if not known:
                continue
            cells = [
                f"{100 * f['fraction']:.0f} %" if f else "-" for f in fractions
            ]
            ours = [_spread(entry, names[0]), _error(entry, names[0])]
            rows.append([problem.name, known["bound"], *ours, *cells])
    if not rows:
        return ""
    ours = [f"range of {names[0]}", f"error of {names[0]}"]
    return (
        "### Share of the roofline, spread and error\n\n"
        "The roof is that of mma.sync and DRAM; wgmma can pass the first, and "
        "inputs that stay in L2 the second. Errors are as below.\n\n"
        + table(["problem", "bound", *ours, *names], rows)
    )


def _spread(entry, name):
    us = entry["contenders"].get(name, {}).get("us")
    return f"{us['min']:.2f}..{us['max']:.2f} us" if us else "-"


def _error(entry, name):
    error = entry["contenders"].get(name, {}).get("error")
    return f"{error['ratio']:.2f}" if error and error["ratio"] else "-"


def _errors(data):
    """Worst ratio of each contender, and every failure by name."""
    rows, failures = [], []
    for name in contender_names(data):
        errors = [
            (entry["contenders"][name]["error"], problem_name)
            for problem_name, entry in data["problems"].items()
            if name in entry["contenders"]
        ]
        bad = [where for error, where in errors if not results.passes(error)]
        failures += [f"* **{name} fails at {where}**" for where in bad]
        finite = [pair for pair in errors if pair[0]["ratio"] is not None]
        if finite:
            worst, where = max(finite, key=lambda pair: pair[0]["ratio"])
            passed = len(errors) - len(bad)
            cells = [
                f"{worst['ratio']:.2f}",
                where,
                f"{passed} of {len(errors)}",
            ]
            rows.append([name, *cells])
    if not rows and not failures:
        return ""
    text = (
        "### Error of O against an f32 reference\n\n"
        "As a multiple of that of the same formula in the input precision; 2 "
        "is allowed.\n\n"
    )
    head = ["contender", "largest", "at", "within"]
    return "\n\n".join([text + table(head, rows), *failures])


def _conditions(data):
    seen = results.conditions(data)
    if not seen["rounds"]:
        return ""
    lines = []
    for key, (name, unit) in results.QUANTITIES.items():
        if key in seen:
            values = seen[key]
            lines.append(
                f"* {name} {values['median']:.0f} {unit} "
                f"({values['min']:.0f} to {values['max']:.0f})"
            )
    if "throttle" in seen:
        lines.append(f"* throttled: {throttled(seen)}")
    return "### Conditions while timing\n\n" + "\n".join(lines)


def throttled(conditions):
    """In how many rounds, by reason."""
    found = [
        f"{reason} in {count} of {conditions['rounds']} rounds"
        for reason, count in conditions["throttle"].items()
    ]
    return ", ".join(found) or "never"


def _refusals(data):
    """Each reason once, with the problems it holds for."""
    where = {}
    for problem_name, entry in data["problems"].items():
        for name, reason in entry["refused"].items():
            where.setdefault((name, reason), []).append(problem_name)
    if not where:
        return ""
    lines = []
    for (name, reason), problems in where.items():
        count = len(problems)
        place = (
            problems[0] if count == 1 else f"{problems[0]} and {count - 1} more"
        )
        reason = " ".join(reason.split())
        lines.append(f"* {name}: {reason} ({place})")
    return "### Not timed\n\n" + "\n".join(lines)
