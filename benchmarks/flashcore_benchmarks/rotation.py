"""Contenders timed beside each other.

A card's clock, power and temperature drift within seconds, so figures of
different moments do not compare. Every round times every contender once, in an
order of its own, and what is reported are medians over the rounds.
"""

import statistics
import time


def rotate(contenders, rounds, rng, monitor=None, is_late=lambda: False):
    """Times `contenders`, functions by name that measure one sample in
    microseconds. Returns the samples by name, and what `monitor` saw in each
    round. Stops early, after three rounds at the soonest, when `is_late`."""
    samples = {name: [] for name in contenders}
    conditions = []
    for number in range(rounds):
        if number >= 3 and is_late():
            break
        order = list(contenders)
        rng.shuffle(order)
        start = time.monotonic()
        for name in order:
            samples[name].append(contenders[name]())
        if monitor:
            conditions.append(monitor.during(start, time.monotonic()))
    return samples, conditions


def summarize(samples):
    """Median and range, in microseconds."""
    return {
        "median": statistics.median(samples),
        "min": min(samples),
        "max": max(samples),
        "rounds": list(samples),
    }


def spread(summary):
    """The range as a share of the median."""
    return (summary["max"] - summary["min"]) / summary["median"]


def gain(reference, samples):
    """How much less time than the reference's, round by round: the median
    share of 0.1 is 10 % faster. Rounds are paired, so that drift cancels."""
    return statistics.median(r / s - 1 for r, s in zip(reference, samples))
