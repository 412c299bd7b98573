"""The file that flashcore-compile --tuning-file reads (docs/Tuning.md)."""

import math

FORMAT, VERSION = "flashcore-tuning", 1
# A decoding step has few queries.
_FEW_QUERIES = 16


def query_blocks(problem):
    blocks = -(-problem.seqlen_q // 64)
    return problem.batch * problem.heads_q * blocks


def _around(value, boundaries):
    """The range between two of the sorted boundaries that holds `value`; a
    boundary is the first size of a range."""
    low = max([b for b in boundaries if b <= value], default=1)
    high = min([b for b in boundaries if b > value], default=None)
    return [low, high and high - 1]


def problem_class(problem, sms):
    """What a kernel of the problem has in common with others: its type, and
    how well its grid fills a card with `sms` SMs."""
    return {
        "head_dim": problem.head_dim,
        "head_dim_v": problem.value_dim,
        "causal": problem.causal,
        "softcap": problem.softcap is not None,
        "bias": problem.bias is not None,
        "window": problem.has_window,
        "lse": problem.lse,
        "heads_per_kv": [problem.heads_q // problem.heads_kv] * 2,
        "seqlen_q": _around(problem.seqlen_q, [_FEW_QUERIES + 1]),
        "query_blocks": _around(query_blocks(problem), [sms, 2 * sms]),
    }


def make(card, chip, date, sms, outcomes):
    """The file's contents for (problem, outcome) pairs. Problems of one class
    that differ in seqlen_k share its range in the middle of their logarithms;
    where the default was best its part gets no entry."""
    groups = {}
    for problem, outcome in outcomes:
        what = problem_class(problem, sms)
        group = groups.setdefault(repr(what), (what, {}))
        # Of two problems with the same keys the larger grid is kept.
        before = group[1].get(problem.seqlen_k)
        if not before or query_blocks(before[0]) < query_blocks(problem):
            group[1][problem.seqlen_k] = problem, outcome
    entries = []
    for what, by_length in groups.values():
        lengths = sorted(by_length)
        middles = [math.isqrt(a * b) + 1 for a, b in zip(lengths, lengths[1:])]
        for length in lengths:
            problem, outcome = by_length[length]
            winner = outcome["winner"]
            if winner:
                entries.append(
                    {
                        "problem": what
                        | {"seqlen_k": _around(length, middles)},
                        "schedule": winner["schedule"],
                        "evidence": _evidence(problem, outcome),
                    }
                )
    return {
        "format": FORMAT,
        "version": VERSION,
        "card": card,
        "chip": chip,
        "date": date,
        "entries": entries,
    }


def _evidence(problem, outcome):
    winner = outcome["winner"]
    return {
        "timed": problem.describe(),
        "gain": round(winner["gain"], 4),
        "us": {k: round(winner["us"][k], 3) for k in ("median", "min", "max")},
        "default_us": round(winner["default_us"]["median"], 3),
        "rounds": outcome["rounds"],
        "error_share_of_allowed": winner["errors"],
        "resources": winner["resources"],
    }
