"""Tests of contenders of flashcore-bench that take their process with them."""

import functools
import os
import unittest

from bench_support import RunFolder
from support import DeadlyDevice, FakeDevice

from flashcore_benchmarks import bench, report, results, worker
from flashcore_benchmarks.errors import UserError


class WorkerTest(RunFolder):
    """Contenders that take their process with them."""

    def worker(self, factory=DeadlyDevice, patience=60):
        device = worker.WorkerDevice(factory, patience, self.losses.append)
        self.addCleanup(device.__exit__)
        return device

    def setUp(self):
        super().setUp()
        self.losses = []

    def test_describes_its_device(self):
        device = self.worker()
        self.assertEqual(device.describe()["card"]["name"], "Fake")
        self.assertEqual(device.peaks()["mma_tflops"], 600.0)

    def test_a_lost_contender_costs_no_other(self):
        peers = ("fa2", "cudnn", "efficient", "math", "flash-attn")
        _, data = self.run_bench(self.worker(), peers=peers)
        entry = data["problems"]["reference-dense"]
        self.assertEqual(set(entry["contenders"]), {"flashcore", "fa2"})
        self.assertEqual(entry["lost"], sorted(peers[1:]))
        for name, reason in (
            ("cudnn", "the GPU's context is lost: illegal memory access"),
            ("efficient", "RuntimeError: CUDA error: an illegal instruction"),
            ("math", "SIGSEGV"),
            ("flash-attn", "exit code 7"),
        ):
            text = f"ended its process: {reason}"
            self.assertIn(f"reference-dense: {name} {text}", self.losses)
            text += " (also when alone)"
            self.assertEqual(entry["refused"][name], text)
            self.assertIn(f"* {name}: {text}", report.write(data))
        # The next problem loses only what is lost there too.
        entry = data["problems"]["bert-b1-causal"]
        self.assertEqual(entry["lost"], ["flash-attn"])
        self.assertEqual(len(entry["contenders"]), 5)
        self.assertEqual(results.report_failures(data), 0)

    def test_a_silent_contender_is_ended(self):
        self.selected = self.selected[:1]
        device = self.worker(patience=4)
        _, data = self.run_bench(device, peers=("fa2", "flex"))
        entry = data["problems"]["reference-dense"]
        self.assertEqual(set(entry["contenders"]), {"flashcore", "fa2"})
        reason = "ended its process: no answer for 4 s (also when alone)"
        self.assertEqual(entry["refused"], {"flex": reason})

    def test_says_what_fails_only_beside_others(self):
        self.selected = self.selected[:1]
        _, data = self.run_bench(self.worker(HarmedDevice))
        entry = data["problems"]["reference-dense"]
        self.assertEqual(set(entry["contenders"]), {"flashcore", "cudnn"})
        reason = "ended its process: exit code 9 (not when alone)"
        self.assertEqual(entry["refused"], {"fa2": reason})

    def test_our_own_loss_is_a_failure(self):
        kernels = self.kernels({"flashcore:x": ["--block-n=16"]})
        device = FakeDevice()
        _, data = self.run_bench(device, kernels)
        self.assertEqual(results.report_failures(data), 0)
        data["problems"]["reference-dense"]["lost"] = ["flashcore:x"]
        self.assertEqual(results.report_failures(data), 1)

    def test_a_device_that_cannot_be_prepared_loses_all(self):
        device = self.worker(UnpreparedDevice)
        _, data = self.run_bench(device)
        for entry in data["problems"].values():
            self.assertEqual(entry["lost"], ["cudnn", "fa2", "flashcore"])
            reason = "ended its process: SIGKILL"
            self.assertEqual(set(entry["refused"].values()), {reason})
        # Another run tries again.
        _, data = self.run_bench(FakeDevice())
        for entry in data["problems"].values():
            self.assertEqual((len(entry["contenders"]), entry["lost"]), (3, []))

    def test_a_device_that_does_not_come_back_ends_the_run(self):
        device = self.worker(functools.partial(open_once, self.folder / "seen"))
        with self.assertRaisesRegex(UserError, "no GPU any more"):
            self.run_bench(device)
        problems_seen = results.read(self.out)["problems"]
        self.assertEqual(set(problems_seen), {"reference-dense"})

    def test_no_device_is_an_error(self):
        for factory, text in (
            (no_device, "no GPU here"),
            (no_torch, "No module named 'torch'; run needs PyTorch"),
            (
                dead_device,
                "the GPU cannot be opened: ended its process: exit code 3",
            ),
        ):
            with self.assertRaisesRegex(UserError, text):
                self.worker(factory).describe()


class HarmedDevice(DeadlyDevice):
    """fa2 fails beside others only."""

    def prepare(self, problem, bundles, peers, seed, announce):
        if "fa2" in peers and bundles:
            announce("fa2")
            os._exit(9)
        return FakeDevice().prepare(problem, bundles, peers, seed, announce)


class UnpreparedDevice(DeadlyDevice):
    def prepare(self, *_):
        os.kill(os.getpid(), 9)


def open_once(marker):
    """Its first problem ends the process, and there is no second device."""
    if marker.exists():
        raise UserError("no GPU any more")
    marker.touch()
    return UnpreparedDevice()


def no_device():
    raise UserError("no GPU here")


def no_torch():
    raise ModuleNotFoundError("No module named 'torch'")


def dead_device():
    os._exit(3)


if __name__ == "__main__":
    unittest.main()
