"""The search: examine, time beside the default, keep the best, mutate.

Everything that is drawn depends on the seed, the problem and the number of the
generation alone, and every result is kept in the state, so that a search that
was stopped is repeated up to where it was without timing anything again.
"""

import concurrent.futures
import dataclasses
import os
import random
import statistics

from .. import rotation
from ..errors import UserError
from ..toolchain import Refused
from . import schedules
from .evaluate import Candidate

REFERENCE = "default"


@dataclasses.dataclass(frozen=True)
class Settings:
    """How much to try, and what it takes to replace the default."""

    seed: int = 0
    generations: int = 4
    population: int = 48
    keep: int = 6
    batch: int = 12
    rounds: int = 5
    min_gain: float = 0.05
    draws: int = 8


class Search:
    """One problem. `state` is a dictionary of the state file, `save` writes
    that file, `is_late` says that time is up."""

    def __init__(
        self, problem, evaluator, timer, fields, settings, state, save
    ):
        self._problem, self._evaluator = problem, evaluator
        self._timer, self._fields, self._settings = timer, fields, settings
        self._state, self._save = state, save
        self._results = state.setdefault("candidates", {})
        self._default = None
        self._starts = []

    def run(self, progress, is_late=lambda: False):
        """The outcome, which is not `complete` when time was up before the
        search could end, or None when nothing was timed until then. Another
        call goes on where this one was."""
        if self._state.get("outcome", {}).get("complete"):
            return self._state["outcome"]
        self._begin()
        is_complete = all(
            self._run_generation(number, progress, is_late)
            for number in range(self._settings.generations)
        )
        if is_complete or self._best(self._results):
            outcome = self._finish(progress)
            self._state["outcome"] = outcome | {"complete": is_complete}
        self._save()
        return self._state.get("outcome")

    def _run_generation(self, number, progress, is_late):
        """False when time was up."""
        if is_late():
            return False
        good = self._examine(self._propose(number), number, progress)
        return self._time(good, number, progress, is_late)

    def _begin(self):
        """The default schedule is the reference of every rotation."""
        schedule = self._evaluator.default_schedule(self._fields)
        self._default = self._evaluator.examine(schedule, REFERENCE)
        self._evaluator.set_reference(self._default)
        self._state["default"] = self._default.record()
        self._starts = self._divide_otherwise()

    def _divide_otherwise(self):
        """What the compiler makes of the problem when the work is divided
        otherwise: no small step leads there from the default."""
        starts = {}
        for field in self._fields:
            if field.name not in schedules.DIVIDING:
                continue
            for value in field.values:
                try:
                    schedule = self._evaluator.default_schedule(
                        self._fields, [f"{field.option}={value}"]
                    )
                except Refused:
                    continue
                starts.setdefault(schedules.key(schedule), schedule)
        return list(starts.values())

    def _rng(self, *what):
        return random.Random("/".join(map(str, (self._settings.seed, *what))))

    def _propose(self, generation):
        earlier = {
            key: result
            for key, result in self._results.items()
            if result["generation"] < generation
        }
        default = self._default.schedule
        parents = [default, *self._starts, *self._best(earlier)]
        rng = self._rng(self._problem.name, generation)
        seen = {schedules.key(default), *earlier}
        starts = [s for s in self._starts if schedules.key(s) not in seen]
        seen |= {schedules.key(s) for s in starts}
        count = self._settings.population
        return starts + schedules.propose(
            rng, parents, self._fields, count, seen
        )

    def _best(self, results):
        """The schedules with the largest gains."""
        timed = [r for r in results.values() if r.get("gain") is not None]
        timed.sort(key=lambda r: -r["gain"])
        return [r["schedule"] for r in timed[: self._settings.keep]]

    def _name(self, generation, index):
        return f"g{generation}-{index}"

    def _examine(self, proposals, generation, progress):
        """Compiles in parallel; returns the candidates that are worth timing,
        by name, also those that were timed before."""

        def examine(item):
            index, schedule = item
            key = schedules.key(schedule)
            before = self._results.get(key)
            if before and (before["status"] != "good" or "gain" in before):
                return Candidate(schedule, before["status"], before["reason"])
            name = self._name(generation, index)
            return self._evaluator.examine(schedule, name)

        good = {}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            examined = pool.map(examine, enumerate(proposals))
            for index, candidate in enumerate(examined):
                key = schedules.key(candidate.schedule)
                name = self._name(generation, index)
                record = candidate.record() | {
                    "generation": generation,
                    "name": name,
                }
                self._results.setdefault(key, record)
                if candidate.status == "good":
                    good[name] = candidate
        progress.note(
            f"{self._problem.name}, generation {generation}: {len(good)} of "
            f"{len(proposals)} schedules are worth timing"
        )
        self._save()
        return good

    def _time(self, good, generation, progress, is_late):
        """Rotations of a few candidates and the default; False when late."""
        names = [
            name
            for name, candidate in good.items()
            if "gain" not in self._results[schedules.key(candidate.schedule)]
        ]
        for first in range(0, len(names), self._settings.batch):
            if is_late():
                return False
            batch = names[first : first + self._settings.batch]
            bundles = {name: good[name].bundle for name in batch}
            label = f"{self._problem.name}/{batch[0]}"
            timed, refused = self._rotate(bundles, self._settings.rounds, label)
            for name in batch:
                result = self._results[schedules.key(good[name].schedule)]
                result |= self._describe(timed, name)
                if name in refused:
                    result |= {"status": "rejected", "reason": refused[name]}
            self._save()
            progress.step(self._summary(generation))
        return True

    def _rotate(self, bundles, rounds, label):
        bundles = {REFERENCE: self._default.bundle, **bundles}
        seed = f"{self._settings.seed}/{label}"
        timed, refused = self._timer.time(self._problem, bundles, rounds, seed)
        if REFERENCE not in timed:
            reason = refused.get(REFERENCE, "no reason given")
            raise UserError(f"the default schedule cannot be timed: {reason}")
        return timed, refused

    @staticmethod
    def _describe(timed, name):
        """Time and gain of a candidate; a gain of None was refused."""
        if name not in timed:
            return {"gain": None}
        reference = timed[REFERENCE]
        return {
            "gain": rotation.gain(reference, timed[name]),
            "us": rotation.summarize(timed[name]),
            "default_us": rotation.summarize(reference),
        }

    def _summary(self, generation):
        gains = [r["gain"] for r in self._results.values() if r.get("gain")]
        best = max(gains, default=0.0)
        return (
            f"{self._problem.name}, generation {generation}: best "
            f"{100 * best:+.1f} %"
        )

    def _finish(self, progress):
        """The best again, all in one rotation and for longer, the right ones
        only: a screen's best figure is an extreme of many."""
        finalists = {}
        for index, schedule in enumerate(self._best(self._results)):
            name = f"final-{index}"
            candidate = self._evaluator.examine(schedule, name)
            if candidate.status == "good":
                finalists[name] = candidate
        shares = {}
        for name in list(finalists):
            shares[name], text = self._evaluator.check_errors(
                finalists[name], self._settings.draws
            )
            if shares[name] is None:
                finalists.pop(name).reject(text)
                progress.note(
                    f"{self._problem.name}: a finalist is wrong: {text}"
                )
        rounds = 2 * self._settings.rounds
        bundles = {name: c.bundle for name, c in finalists.items()}
        timed, _ = self._rotate(bundles, rounds, f"{self._problem.name}/final")
        rows = [
            {"schedule": candidate.schedule, "resources": candidate.resources}
            | {"errors": shares[name]}
            | self._describe(timed, name)
            for name, candidate in finalists.items()
        ]
        rows = [row for row in rows if row["gain"] is not None]
        rows.sort(key=lambda row: -row["gain"])
        is_better = bool(rows) and rows[0]["gain"] > self._settings.min_gain
        return {
            "finalists": rows,
            "winner": rows[0] if is_better else None,
            "default_us": statistics.median(timed[REFERENCE]),
            "rounds": rounds,
        }
