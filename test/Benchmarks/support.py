"""A GPU's stand-in and other helpers of these tests."""

import contextlib
import pathlib
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))


class FakeDevice:
    """Answers as TorchDevice does. The time of a call is what the contender
    does in FLOPs at a rate of its own, and drifts from replay to replay."""

    RATES = {"flashcore": 300.0, "fa2": 250.0, "cudnn": 400.0}

    def __init__(self, errors=(), refused=()):
        self.replays, self.prepared = 0, []
        self._errors, self._refused = dict(errors), dict(refused)

    @contextlib.contextmanager
    def prepare(self, problem, bundles, peers, seed):
        self.prepared.append(problem.name)
        names = [
            name for name in (*bundles, *peers) if name not in self._refused
        ]
        refused = {n: why for n, why in self._refused.items() if n in peers}
        yield {name: self._contender(problem, name) for name in names}, refused

    def _contender(self, problem, name):
        ratio = self._errors.get(name, 1.25)
        facts = {
            "error": {"max": ratio * 1e-4, "yardstick": 1e-4, "ratio": ratio}
        }

        def measure():
            self.replays += 1
            drift = 1 + 0.01 * (self.replays % 5)
            return drift * problem.flops / self.RATES.get(name, 100.0) * 1e-6

        return measure, facts

    @staticmethod
    def card():
        return {"name": "Fake", "chip": "sm_89", "sms": 10}
