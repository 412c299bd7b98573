"""Contenders timed beside each other.

A card's clock, power and temperature drift within seconds, so figures of
different moments do not compare. Every round times every contender once, in an
order of its own, and what is reported are medians over the rounds.
"""

import dataclasses
import statistics
import time


@dataclasses.dataclass(frozen=True)
class Rounds:
    """How many rounds: `least`, and as many more as end within `seconds`, up
    to `most`."""

    least: int = 5
    most: int = 15
    seconds: float = 2.0

    @classmethod
    def exactly(cls, count):
        return cls(count, count)

    def has_more(self, done, elapsed):
        """Whether one more round is due after `done` of them in `elapsed`
        seconds."""
        if done < self.least:
            return True
        return done < self.most and elapsed * (done + 1) / done < self.seconds


def ignore(_):
    """For callers that do not follow which contender is at work."""


def rotate(contenders, rounds, rng, announce=ignore):
    """Times `contenders`, functions by name that measure one sample in
    microseconds. Returns the samples by name, and when each round began and
    ended on the monotonic clock. `announce` hears a name before its work."""
    samples = {name: [] for name in contenders}
    spans = []
    first = time.monotonic()
    while rounds.has_more(len(spans), time.monotonic() - first):
        order = list(contenders)
        rng.shuffle(order)
        start = time.monotonic()
        for name in order:
            announce(name)
            samples[name].append(contenders[name]())
        spans.append((start, time.monotonic()))
    return samples, spans


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
