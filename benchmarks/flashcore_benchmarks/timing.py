"""Timing one problem on a device: what a worker process is asked for."""

import dataclasses
import datetime
import random

from . import results, roofline, rotation
from .problems import Problem


@dataclasses.dataclass(frozen=True)
class Request:
    """The contenders of a problem: `bundles`, paths by name, and `peers`."""

    problem: Problem
    bundles: dict
    peers: tuple
    seed: int
    rounds: rotation.Rounds

    @property
    def contenders(self):
        return (*self.bundles, *self.peers)

    def without(self, contender):
        return self._select(lambda name: name != contender)

    def only(self, contender):
        return self._select(lambda name: name == contender)

    def _select(self, is_wanted):
        return dataclasses.replace(
            self,
            bundles={n: b for n, b in self.bundles.items() if is_wanted(n)},
            peers=tuple(filter(is_wanted, self.peers)),
        )


@dataclasses.dataclass
class Timing:
    """Microseconds of each round and facts, by contender; when the rounds
    were; why others were not timed. `lost` are those of `refused` that took
    their process with them."""

    samples: dict = dataclasses.field(default_factory=dict)
    facts: dict = dataclasses.field(default_factory=dict)
    spans: list = dataclasses.field(default_factory=list)
    refused: dict = dataclasses.field(default_factory=dict)
    lost: list = dataclasses.field(default_factory=list)


def time_problem(device, request, announce=rotation.ignore):
    """`device` is a TorchDevice or a test's stand-in."""
    rng = random.Random(f"{request.seed}/{request.problem.name}")
    with device.prepare(
        request.problem,
        request.bundles,
        request.peers,
        request.seed,
        announce,
    ) as (ready, refused):
        samples, spans = rotation.rotate(
            {name: measure for name, (measure, _) in ready.items()},
            request.rounds,
            rng,
            announce,
        )
        facts = {name: facts for name, (_, facts) in ready.items()}
    return Timing(samples, facts, spans, refused)


def time_entry(timer, request, peaks=None, monitor=None):
    """A problem as a results file has it; `timer` is a WorkerDevice or a test's
    stand-in, `peaks` are the card's."""
    timing = timer.time(request)
    problem = request.problem
    return {
        "problem": results.describe(problem),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(
            timespec="seconds"
        ),
        "contenders": {
            name: _describe(problem, times, peaks) | timing.facts[name]
            for name, times in timing.samples.items()
        },
        "refused": timing.refused,
        "lost": timing.lost,
        "conditions": [
            monitor.during(*span) for span in timing.spans if monitor
        ],
    }


def _describe(problem, times, peaks):
    us = rotation.summarize(times)
    return {"us": us} | roofline.rates(problem, us["median"], peaks)


def summary(entry):
    """A line for the progress: the times of all."""
    medians = {n: c["us"]["median"] for n, c in entry["contenders"].items()}
    parts = [f"{name} {us:.2f} us" for name, us in medians.items()]
    return ", ".join(parts) or "nothing could be timed"
