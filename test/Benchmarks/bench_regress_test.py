"""Tests of flashcore-bench regress: its devices are stand-ins."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from support import DeadlyDevice

from flashcore_benchmarks import bench, compare, problems, regress, rotation
from flashcore_benchmarks import timing, worker
from flashcore_benchmarks.peers import CALLS

PROBLEM = problems.select(["reference-dense"])[0]


class Build:
    """A worker whose calls take so many microseconds each, or are refused, or
    end it."""

    def __init__(self, default=10.0, static=5.0, refused=(), dies=False):
        self.us = dict(zip(CALLS, (default, static)))
        self.refused, self.dies, self.measured = dict(refused), dies, 0

    def prepare(self, request):
        assert tuple(request.peers) == tuple(CALLS)
        return self.refused

    def measure(self, call):
        self.measured += 1
        if self.dies:
            raise worker.Lost(call, "SIGSEGV")
        us = self.us[call]
        return us(self.measured) if callable(us) else us


def time(base, new, pairs=5):
    workers = {"base": base, "new": new}
    return regress.Regress(workers, pairs, seed=1).time(PROBLEM)


class RegressTest(unittest.TestCase):
    def test_a_ratio_of_each_call(self):
        default, static = time(Build(10, 5), Build(11, 5.1))
        self.assertEqual((default.call, static.call), tuple(CALLS))
        self.assertAlmostEqual(default.ratio, 1.1)
        self.assertEqual((default.verdict, static.verdict), ("slower", ""))
        self.assertTrue(default.is_regression)
        self.assertFalse(static.is_regression)
        default, static = time(Build(10, 5), Build(5, 5))
        self.assertEqual(default.verdict, "faster")
        self.assertFalse(default.is_regression)

    def test_what_is_slower_is_timed_again(self):
        base, new = Build(), Build(default=lambda n: 20.0 if n <= 5 else 10.0)
        default, _ = time(base, new)
        self.assertFalse(default.is_regression)
        self.assertEqual(len(default.new), 10)
        self.assertEqual(len(default.base), 10)

    def test_pairs_are_of_both_builds(self):
        base, new = Build(), Build()
        time(base, new, pairs=4)
        self.assertEqual((base.measured, new.measured), (8, 8))

    def test_a_call_that_works_no_more_is_worse(self):
        refused = {"flashcore": "wrong result"}
        default, static = time(Build(), Build(refused=refused))
        self.assertTrue(default.is_regression)
        self.assertEqual(default.verdict, "new: wrong result")
        self.assertFalse(static.is_regression)
        # One that did not work before is not.
        default, _ = time(Build(refused=refused), Build(refused=refused))
        self.assertFalse(default.is_regression)
        default, _ = time(Build(refused=refused), Build())
        self.assertFalse(default.is_regression)

    def test_a_build_that_ends(self):
        rows = time(Build(), Build(dies=True))
        self.assertTrue(all(row.is_regression for row in rows))
        self.assertIn("SIGSEGV", rows[0].verdict)

    def test_the_table(self):
        rows = time(Build(10, 5), Build(12, 5)) + time(
            Build(refused={"flashcore": "no"}), Build()
        )
        text = regress.write(rows)
        self.assertIn("| 10.00 | 12.00 | 1.200 | slower |", text)
        self.assertIn("|  |  |  | base: no |", text)
        self.assertIn("1 of 4 rows slower, or not timed any more", text)

    def test_every_shape_is_one(self):
        try:
            import flashcore  # noqa: F401
        except ImportError:
            self.skipTest("needs the Python package")
        for words in regress.SHAPES:
            self.assertEqual(compare.read_shape(words).name, words)

    def test_a_folder_without_a_package(self):
        with tempfile.TemporaryDirectory() as folder:
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                code = bench.main(["regress", "--base", folder])
            self.assertNotEqual(code, 0)
            self.assertIn("expects a folder with the package", errors.getvalue())
            self.assertIn(str(pathlib.Path(folder)), errors.getvalue())


class HeldTest(unittest.TestCase):
    def test_contenders_stay_ready(self):
        device = worker.WorkerDevice(DeadlyDevice)
        self.addCleanup(device.__exit__)
        request = timing.Request(PROBLEM, {}, ("fa2",), 0, rotation.Rounds())
        self.assertEqual(device.prepare(request), {})
        self.assertGreater(device.measure("fa2"), 0)
        self.assertGreater(device.measure("fa2"), 0)


if __name__ == "__main__":
    unittest.main()
