"""Contenders timed beside each other.

A card's clock, power and temperature drift within seconds, so figures of
different moments do not compare. Every round times every contender once, in an
order of its own, and what is reported are medians over the rounds.
"""

import statistics
import time


def rotate(contenders, rounds, rng, monitor=None):
    """Times `contenders`, functions by name that measure one sample in
    microseconds. Returns the samples by name, and what `monitor` saw in each
    round."""
    samples = {name: [] for name in contenders}
    conditions = []
    for _ in range(rounds):
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


def gain(reference, samples):
    """How much faster than the reference: 0.1 is 10 %. The median over rounds,
    each compared with itself, so that drift cancels."""
    return statistics.median(r / s - 1 for r, s in zip(reference, samples))
