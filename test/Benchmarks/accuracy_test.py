"""Tests of flashcore-bench accuracy: the kernels are real and run on the
emulator."""

import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from support import BENCHMARKS

from flashcore_benchmarks import accuracy, bench, results

TOOLS = os.environ["FLASHCORE_TOOLS"]


def run_of(error=1e-3, norm=1e-2, result="PASS", **more):
    """As flashcore-run writes it, of a yardstick of 1e-3 and 1e-2."""
    o = {"error": error, "norm": norm, "yardstick": 1e-3}
    o["yardstick_norm"] = 1e-2
    return {"result": result, "seed": 7, "o": o} | more


class JudgeTest(unittest.TestCase):
    def test_takes_the_worst(self):
        worst = accuracy.judge([run_of(), run_of(2e-3), run_of(norm=3e-2)])
        self.assertAlmostEqual(worst["max"], 2)
        self.assertAlmostEqual(worst["norm"], 3)
        self.assertEqual(worst["failures"], [])

    def test_what_is_not_finite_does_not_pass(self):
        for run in (run_of(None), run_of(norm=None)):
            self.assertFalse(accuracy.passes(accuracy.judge([run])))

    def test_no_error_beside_none_passes(self):
        exact = run_of(0.0, 0.0)
        exact["o"] |= {"yardstick": 0.0, "yardstick_norm": 0.0}
        self.assertTrue(accuracy.passes(accuracy.judge([exact])))
        exact["o"]["error"] = 1e-9
        self.assertFalse(accuracy.passes(accuracy.judge([exact])))

    def test_a_failed_run_does_not_pass(self):
        for run, text in (
            (run_of(result="FAIL"), "seed 7: not within the criterion"),
            (
                {"result": "ERROR", "seed": 7, "error": "no memory"},
                "seed 7: no memory",
            ),
        ):
            worst = accuracy.judge([run_of(), run])
            self.assertEqual(worst["failures"], [text])
            self.assertFalse(accuracy.passes(worst))

    def test_two_is_allowed(self):
        self.assertTrue(accuracy.passes(accuracy.judge([run_of(2e-3)])))
        self.assertFalse(accuracy.passes(accuracy.judge([run_of(2.1e-3)])))


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def main(self, *arguments):
        options = ["accuracy", "--tools", TOOLS, "--out", self.folder]
        options += ["--device=emulator", *arguments]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = bench.main([str(option) for option in options])
        return code, out.getvalue(), err.getvalue()

    def test_every_form_keeps_the_criterion(self):
        code, out, _ = self.main(
            *("--head-dims", 64, "--dtypes", "f16", "--draws", 2),
            *("--seqlens", 37, 100),
        )
        self.assertEqual(code, 0)
        data = json.loads((self.folder / "accuracy.json").read_text())
        self.assertEqual(data["refused"], {})
        found = {(r["form"], r["mask"], r["kind"]) for r in data["rows"]}
        # Four kinds of two masks, and two of a bias.
        self.assertEqual(len(found), 10 * len(accuracy.FORMS))
        for row in data["rows"]:
            self.assertGreater(row["max"], 0)
            self.assertGreater(row["norm"], 0)
        self.assertEqual(out, (self.folder / "accuracy.md").read_text())
        kinds = ("falling", "large", "masked", "normal", "rising")
        self.assertIn("| form | type | " + " | ".join(f"D 64 {kind}" for kind in kinds) + " |", out)
        self.assertRegex(out, r"\| one-pass \| f16 \| \d\.\d\d / \d\.\d\d \|")

    def test_says_what_fails(self):
        options = ["--head-dims", 64, "--dtypes", "bf16", "--draws", 1]
        options += ["--forms", "small-grid", "--seqlens", 5, 33]
        with mock.patch.object(results, "ERROR_LIMIT", 0.01):
            code, out, _ = self.main(*options)
        self.assertEqual(code, 1)
        self.assertRegex(out, r"\| small-grid \| bf16 \| \*\*\d\.\d\d / ")
        self.assertIn("* **small-grid, D 64 bf16 causal rising**: ", out)

    def test_variants_stand_beside_the_forms(self):
        code, out, _ = self.main(
            *("--head-dims", 16, 64, "--dtypes", "f16", "--draws", 1),
            *("--forms", "default", "--seqlens", 5, 33),
            *("--variant", "two=--key-warps=2 --num-warps=2 --block-n=32"),
            *("--variant", "wide=--block-n=4096"),
        )
        self.assertEqual(code, 0)
        self.assertRegex(out, r"\| two \| f16 \| \d")
        self.assertRegex(out, r"not compiled: wide-d16-f16-dense, .*: .*needs")

    def test_bad_arguments_are_errors(self):
        for options, text in (
            (["--forms"], "nothing to check: name --forms or a --variant"),
            (["--head-dims", 264], "nothing could be compiled: .*head_dim 264"),
            (["--variant", "default=--block-n=16"], "a form has this name"),
            (["--variant", "default"], "expects --variant NAME=OPTIONS"),
            (["--tools", self.folder / "none"], "no FlashCore tools at"),
        ):
            code, _, err = self.main(*options)
            self.assertEqual(code, 2)
            self.assertRegex(err, text)

    def test_an_older_runner_is_an_error(self):
        old = [run_of(kind="normal")]
        del old[0]["o"]["norm"]
        with mock.patch.object(accuracy.json, "loads", lambda text: old):
            code, _, err = self.main(
                *("--forms", "small-grid", "--head-dims", 64, "--draws", 1),
                *("--seqlens", 5, 33),
            )
        self.assertEqual(code, 2)
        self.assertIn("flashcore-run is older than this tool: build it", err)


if __name__ == "__main__":
    assert BENCHMARKS.is_dir()
    unittest.main()
