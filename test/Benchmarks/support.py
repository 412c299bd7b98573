"""A GPU's stand-in and other helpers of these tests."""

import contextlib
import os
import pathlib
import sys
import time

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from flashcore_benchmarks import rotation, timing
from flashcore_benchmarks.errors import ContextLost


class FakeDevice:
    """Answers as TorchDevice does. The time of a call is what the contender
    does in FLOPs at a rate of its own, and drifts from replay to replay."""

    RATES = {
        "flashcore": 300.0,
        "flashcore:static": 330.0,
        "fa2": 250.0,
        "cudnn": 400.0,
    }

    def __init__(self, errors=(), refused=()):
        self.replays, self.prepared = 0, []
        self._errors, self._refused = dict(errors), dict(refused)

    @contextlib.contextmanager
    def prepare(self, problem, bundles, peers, seed, announce=rotation.ignore):
        self.prepared.append(problem.name)
        ready, refused = {}, {}
        for name in (*bundles, *peers):
            announce(name)
            if name in self._refused:
                refused[name] = self._refused[name]
            else:
                ready[name] = self._contender(problem, name)
        yield ready, refused

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


class Direct:
    """Asks a device of this process, as WorkerDevice asks one of another."""

    def __init__(self, device):
        self._device = device

    def time(self, request):
        return timing.time_problem(self._device, request)


class DeadlyDevice(FakeDevice):
    """For workers: some contenders end the process, or lose the context, or
    never answer."""

    chip, gpu_id = "sm_89", "0"

    @staticmethod
    def peaks():
        return {"mma_tflops": 600.0, "dram_gbs": 4000.0, "source": "a test"}

    def _contender(self, problem, name):
        measure, facts = super()._contender(problem, name)
        if name == "flash-attn":
            os._exit(7)
        if problem.name != "reference-dense":
            return measure, facts
        return DEATHS.get(name, measure), facts


def lose_context():
    raise ContextLost("the GPU's context is lost: illegal memory access")


def fail():
    raise RuntimeError("CUDA error: an illegal instruction\nmore")


DEATHS = {
    "cudnn": lose_context,
    "efficient": fail,
    "math": lambda: os.kill(os.getpid(), 11),
    "flex": lambda: time.sleep(600),
}
