"""Tests of the table of flashcore-bench without a command: its device is a
stand-in."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from support import Direct, FakeDevice

from flashcore_benchmarks import (
    bench,
    compare,
    problems,
    report,
    results,
    rotation,
)
from flashcore_benchmarks.progress import Progress

CARD = FakeDevice.card() | {
    "memory_gib": 22.5,
    "torch": "2.11.0",
    "driver": "550.54",
    "flashcore": "0.1.0",
    "python": "3.12.3",
    "system": "Linux 6.8 x86_64",
    "environment": ["CUDA_VISIBLE_DEVICES=0"],
    "flash_attn": "2.8.3",
}


class Conditions:
    """A monitor's stand-in."""

    @staticmethod
    def during(start, end):
        return {"sm_mhz": 1800.0, "power_w": 70.0, "throttle": ["power cap"]}


class CompareTest(unittest.TestCase):
    def compare(self, device=None, peers=("fa2", "cudnn"), monitor=None):
        self.selected = problems.select(["reference-dense", "bert-b1-causal"])
        data = results.empty()
        data["card"] = CARD
        data["settings"] = {"seed": 3}
        device = device or FakeDevice()
        compare.run(
            Direct(device),
            self.selected,
            peers,
            rotation.Rounds.exactly(5),
            data,
            Progress(2, io.StringIO()),
            monitor,
        )
        return data

    def rows(self, data):
        lines = compare.write(data).splitlines()
        return [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in lines
            if line.startswith("| ")
        ]

    def test_shows_every_contender(self):
        head, _, dense, causal = self.rows(self.compare())
        self.assertEqual(
            head,
            ["us of a call", "FlashCore", "FlashCore static"]
            + ["SDPA flash", "SDPA cuDNN", "TFLOP/s", "against the best other"],
        )
        self.assertEqual(dense[0], "`reference-dense`")
        self.assertEqual(causal[0], "`bert-b1-causal`")
        # cuDNN's stand-in does 400 TFLOP/s, ours 300, and all drift alike.
        self.assertEqual([c.startswith("**") for c in dense[1:5]], [False] * 3 + [True])
        self.assertRegex(dense[5], "^29\\d$")
        self.assertRegex(dense[6], "^0.7\\d$")

    def test_small_differences_are_ties(self):
        class Close(FakeDevice):
            RATES = {"flashcore": 300.0, "fa2": 306.0, "cudnn": 290.0}

            def _contender(self, problem, name):
                us = problem.flops / self.RATES.get(name, 100.0) * 1e-6
                return lambda: us, {"error": {"ratio": 1.0}}

        cells = self.rows(self.compare(Close()))[2]
        self.assertEqual(
            [cell.startswith("**") for cell in cells[1:5]],
            [True, False, True, False],
        )
        self.assertEqual(cells[6], "tie")

    def test_dashes_have_reasons(self):
        refused = {"cudnn": "No available\nkernel", "flex": "it failed"}
        device = FakeDevice({"fa2": 7.5}, refused)
        data = self.compare(device, ("fa2", "cudnn", "flex"))
        del data["problems"]["bert-b1-causal"]["refused"]["flex"]
        text = compare.write(data)
        head, _, dense, _ = self.rows(data)
        # A wrong result has a column, and no time there.
        self.assertEqual(dense[head.index("SDPA flash")], "-")
        self.assertIn("* no SDPA cuDNN: No available kernel\n", text + "\n")
        self.assertIn("* no FlexAttention: it failed (`reference-dense`)", text)
        self.assertIn(
            "* no SDPA flash: its result is wrong: an error of 7.5 times that "
            "of plain attention, where 2 is allowed",
            text,
        )
        # What answered nowhere has no column.
        self.assertNotIn("SDPA cuDNN", head)
        self.assertEqual(dense[-1], "-")
        self.assertEqual(results.report_failures(data), 0)

    def test_our_own_failure_is_the_exit_code(self):
        data = self.compare(FakeDevice({"flashcore": float("nan")}))
        text = compare.write(data)
        self.assertIn("no FlashCore: its result is NaN or infinite", text)
        self.assertEqual(results.report_failures(data), 1)
        self.assertEqual(self.rows(data)[2][-2:], ["-", "-"])

    def test_says_what_it_was_measured_with(self):
        data = self.compare(peers=("fa2", "flash-attn"), monitor=Conditions)
        text = compare.write(data)
        day = data["problems"]["reference-dense"]["date"][:10]
        for line in (
            f"### FlashCore 0.1.0 on Fake, {day}",
            "* card: Fake (sm_89, 10 SMs, 22.5 GiB), driver 550.54, SM clock "
            "1800 MHz (1800 to 1800), power 70 W (70 to 70), throttled: power "
            "cap in 10 of 10 rounds",
            "* software: FlashCore 0.1.0, PyTorch 2.11.0, Python 3.12.3, Linux "
            "6.8 x86_64",
            "* environment: CUDA_VISIBLE_DEVICES=0",
        ):
            self.assertIn(line + "\n", text + "\n")
        self.assertIn("| flash-attn 2.8.3 |", text)

    def test_the_environment_has_no_paths(self):
        found = compare.environment(
            {
                "CUDA_VISIBLE_DEVICES": "1",
                "FLASHCORE_CACHE_DIR": "/home/someone/cache",
                "HOME": "/home/someone",
                "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
            }
        )
        self.assertEqual(
            found,
            [
                "CUDA_VISIBLE_DEVICES=1",
                "FLASHCORE_CACHE_DIR=...",
                "TORCHINDUCTOR_MAX_AUTOTUNE=1",
            ],
        )

    def test_results_are_those_of_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "out.json")
            results.write_json(path, self.compare())
            text = report.write(results.read(path))
        self.assertIn("| reference | ", text)

    def test_inputs_do_not_stay_in_a_cache(self):
        for problem in problems.all_problems():
            count = problems.cold_input_sets(problem, 50 << 20)
            self.assertTrue(
                count * problem.tensor_bytes >= 100 << 20 or count == 400
            )

    def test_is_what_no_command_means(self):
        for words in ([], ["--shape", "d64"], ["--peers", "fa2"]):
            options = bench.parse_arguments(words)
            self.assertEqual(options.command, "compare")
        self.assertEqual(bench.parse_arguments(["list"]).command, "list")
        with self.assertRaises(SystemExit), contextlib.redirect_stdout(
            io.StringIO()
        ) as said:
            bench.parse_arguments(["--help"])
        self.assertIn("compare", said.getvalue())


if __name__ == "__main__":
    unittest.main()
