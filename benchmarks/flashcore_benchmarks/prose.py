"""How a page says what a run found: shared by pages.py and hopper.py."""

import datetime
import re
import textwrap

from . import report
from .problems import HEAD_DIMS

_WIDTH = 150


def paragraph(text, indent=""):
    lines = textwrap.fill(
        text,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{lines}\n"


def bullets(texts):
    return "".join(paragraph(f"* {text}", "  ") for text in texts)


def table(head, rows):
    return f"{report.table(head, rows)}\n"


def entries(data, group, belongs=lambda problem: True):
    return [e for p, e in report.entries(data, group) if belongs(p)]


def of_head_dim(data, head_dim):
    return entries(data, "throughput", lambda p: p.head_dim == head_dim)


def of_each_head_dim(describe):
    return ", ".join(f"{describe(dim)} (D {dim})" for dim in HEAD_DIMS)


def rows_ahead(entries, name, other):
    ratios = report.speedups(entries, name, other)
    ahead = sum(ratio > 1 for ratio in ratios)
    return (
        f"all {ahead}" if ahead == len(ratios) else f"{ahead} of {len(ratios)}"
    )


def place(problem):
    """Of a row of 16k tokens."""
    mask = "causal" if problem.causal else "dense"
    return f"D {problem.head_dim}, S {problem.seqlen_q}, {mask}"


def date(data):
    """Of the last problem."""
    last = max(entry["date"] for entry in data["problems"].values())
    return datetime.datetime.fromisoformat(last)


def machine(data):
    """Date, card and software; nvidia-smi is what knows driver and power."""
    card, day = data["card"], date(data)
    facts = [f"{card['sms']} SMs"]
    facts += [f"driver {card['driver']}"] if "driver" in card else []
    if "power_limit_w" in card:
        facts.append(f"{float(card['power_limit_w']):.0f} W")
    return (
        f"{day.day} {day:%B %Y}, {card['name']} ({', '.join(facts)}), PyTorch "
        f"{torch_version(card)}, cuDNN {_cudnn_version(card)}"
    )


def short_name(card):
    """Without the vendor and what memory the card has: 'NVIDIA H100 80GB HBM3' is an 'H100'."""
    return re.sub(r" \d+GB.*", "", card.removeprefix("NVIDIA "))


def day_and_card(data):
    """The same in few words."""
    return f"{date(data):%Y-%m-%d}, one {short_name(data['card']['name'])}"


def torch_version(card):
    return ".".join(card["torch"].split(".")[:2])


def _cudnn_version(card):
    return f"{card['cudnn'] // 10000}.{card['cudnn'] // 100 % 100}"
