"""Tests of a run of flashcore-bench without a GPU: its device is a stand-in, the
kernels are real."""

import unittest

from bench_support import RunFolder
from support import FakeDevice

from flashcore_benchmarks import bench, plots, problems, report, results
from flashcore_benchmarks.errors import UserError


class RunTest(RunFolder):
    def test_times_every_contender(self):
        left, data = self.run_bench(FakeDevice())
        self.assertEqual(left, [])
        entry = data["problems"]["reference-dense"]
        self.assertEqual(
            set(entry["contenders"]), {"flashcore", "fa2", "cudnn"}
        )
        ours = entry["contenders"]["flashcore"]
        self.assertEqual(len(ours["us"]["rounds"]), 5)
        self.assertLess(abs(ours["tflops"] / 300 - 1), 0.05)
        self.assertEqual(ours["roofline"]["bound"], "tensor")
        self.assertAlmostEqual(ours["roofline"]["fraction"], 0.5, delta=0.03)

    def test_continues_where_it_was(self):
        kernels = self.kernels()
        device = FakeDevice()
        left, _ = self.run_bench(device, kernels, deadline=0.0)
        self.assertEqual((len(left), device.prepared), (2, []))
        self.run_bench(device, kernels)
        self.run_bench(device, kernels)
        self.assertEqual(device.prepared, ["reference-dense", "bert-b1-causal"])
        # Another kernel or one more peer is timed again, beside the others.
        self.run_bench(device, kernels, peers=("fa2", "cudnn", "math"))
        self.assertEqual(len(device.prepared), 4)
        self.run_bench(
            device, self.kernels({"flashcore:n32": ["--block-n=32"]})
        )
        self.assertEqual(len(device.prepared), 6)

    def test_says_what_variants_are(self):
        store = results.Results(self.out)
        store.describe_variants({})
        self.assertNotIn("variants", store.data)
        store.describe_variants({"flashcore:n32": ["--block-n=32"]})
        store.describe_variants(
            {"flashcore:two": ["--num-stages=2", "--num-warps=8"]}
        )
        options = {
            "flashcore:n32": "--block-n=32",
            "flashcore:two": "--num-stages=2 --num-warps=8",
        }
        self.assertEqual(store.data["variants"], options)

    def test_features_have_kernels_of_their_own(self):
        chosen = problems.select(["features-d(64|128)-s.*", "features-softcap"])
        made = bench.Kernels(None, self.folder, "sm_89", {}, True)
        files = {made.paths(p)["flashcore-dynamic"] for p in chosen}
        self.assertEqual(len(files), len(chosen))

    def test_reports_features_apart(self):
        self.selected = problems.select(["features-softcap", "features-bf16"])
        _, data = self.run_bench(FakeDevice())
        text = report.write(data)
        self.assertIn("### Features: us", text)
        self.assertIn("| B4 H16 S4096x4096 D128 dense softcap=30 f16 |", text)
        self.assertIn("| flashcore | features | 4 of 34 |", text)

    def test_refuses_to_mix_cards_and_seeds(self):
        self.run_bench(FakeDevice())
        store = results.Results(self.out)
        settings = {"seed": 1, "dtype": "f16", "chip": "sm_89"}
        with self.assertRaisesRegex(UserError, "seed 1, but this run has 2"):
            store.begin(settings | {"seed": 2}, FakeDevice.card())
        with self.assertRaisesRegex(
            UserError, "card Fake, but this run has Other"
        ):
            store.begin(settings, {"name": "Other"})
        self.assertEqual(results.Results(self.out, True).data["problems"], {})

    def test_notes_refusals(self):
        kernels = self.kernels({"flashcore:wide": ["--block-n=4096"]})
        device = FakeDevice(refused={"cudnn": "No available kernel"})
        _, data = self.run_bench(device, kernels)
        refused = data["problems"]["reference-dense"]["refused"]
        self.assertEqual(refused["cudnn"], "No available kernel")
        self.assertIn("bytes of shared memory", refused["flashcore:wide"])
        text = report.write(data)
        self.assertIn(
            "cudnn: No available kernel (reference-dense and 1 more)", text
        )

    def test_reports(self):
        _, data = self.run_bench(FakeDevice({"flashcore": float("nan")}))
        self.assertIsNone(
            data["problems"]["reference-dense"]["contenders"]["flashcore"][
                "error"
            ]["ratio"]
        )
        self.assertEqual(results.report_failures(data), 1)
        text = report.write(data)
        self.assertIn("**flashcore fails at reference-dense**", text)
        self.assertIn("| problem | size | flashcore | fa2 | cudnn |", text)
        self.assertRegex(
            text, r"\| reference \| .* \| 1\.\d\d \| \d.* \| \*\*\d"
        )
        self.assertEqual(report.write(data), text)

    def test_sums_up(self):
        self.selected = problems.select(
            ["reference", "d64-s512", "d128-s1024-dense"]
        )
        kernels = self.kernels({"flashcore:n32": ["--block-n=32"]})
        _, data = self.run_bench(FakeDevice(), kernels)
        # A peer that answered nowhere in a group, and one row without fa2.
        del data["problems"]["d64-s512-causal"]["contenders"]["fa2"]
        del data["problems"]["d128-s1024-dense"]["contenders"]["cudnn"]
        lines = report.write(data).splitlines()
        rows = [line for line in lines if line.startswith("| flashcore | ")]
        wanted = [
            (r"16k tokens, D 64", "2 of 12", 0, r"1.\d\d \(1 of 1\)", r"0.7\d"),
            (r"16k tokens, D 128", "1 of 12", 1, r"1.\d\d \(1 of 1\)", "-"),
            (r"16k tokens, all", "3 of 36", 1, r"1.\d\d \(2 of 2\)", r"0.7\d"),
            (r"small problems", "2 of 12", 0, r"1.\d\d \(2 of 2\)", r"0.7\d"),
        ]
        for row, (title, timed, fastest, fa2, cudnn) in zip(rows, wanted):
            self.assertRegex(
                row,
                rf"flashcore \| {title} \| {timed} \| {fastest} "
                rf"\| {fa2} \| {cudnn}",
            )
        variants = [
            li for li in lines if li.startswith("| flashcore:n32 | 16k")
        ]
        self.assertEqual(len(variants), 3)

    def test_speedups_are_of_medians(self):
        entries = [
            {
                "contenders": {
                    "a": {"us": {"median": 2.0}},
                    "b": {"us": {"median": us}},
                }
            }
            for us in (3.0, 1.0)
        ]
        self.assertEqual(report.speedups(entries, "a", "b"), [1.5, 0.5])

    def test_a_good_run_succeeds(self):
        _, data = self.run_bench(FakeDevice())
        self.assertEqual(results.report_failures(data), 0)
        self.assertIn("| flashcore | 1.25 |", report.write(data))

    def test_plots_its_data(self):
        self.selected = problems.select(
            ["d64-s(512|1024)-dense", "reference-dense"]
        )
        _, data = self.run_bench(FakeDevice())
        points = plots.throughput_series(data)[False, 64]["fa2"]
        self.assertEqual([point[0] for point in points], [512, 1024])
        _, median, low, high = points[0]
        self.assertLessEqual(low, median)
        self.assertLessEqual(median, high)
        ((problem, bars),) = plots.latency_bars(data, "small")
        self.assertEqual(problem.name, "reference-dense")
        self.assertEqual(set(bars), {"flashcore", "fa2", "cudnn"})
        self.assertEqual(len(plots.roofline_points(data)["cudnn"]), 3)
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(UserError, "plots need matplotlib"):
                plots.draw(data, self.folder)
            return
        paths = plots.draw(data, self.folder)
        names = [path.name for path in paths]
        self.assertEqual(names, ["throughput.png", "small.png", "roofline.png"])
        for path in paths:
            self.assertGreater(path.stat().st_size, 1000)
            self.assertLess(path.stat().st_size, 100 << 10)

    def test_bundles_of_elsewhere_know_what_was_refused(self):
        variants = {"flashcore:wide": ["--block-n=4096"]}
        self.kernels(variants)
        made = bench.Kernels(None, self.folder, "sm_89", variants, False)
        found, refused = made.of(self.selected[0])
        self.assertEqual(set(found), {"flashcore"})
        self.assertIn("bytes of shared memory", refused["flashcore:wide"])
        # The next time it compiles.
        variants = {"flashcore:wide": ["--block-n=32"]}
        self.assertEqual(len(self.kernels(variants).of(self.selected[0])[0]), 2)

    def test_takes_bundles_made_before(self):
        made = bench.Kernels(None, self.folder / "none", "sm_89", {}, False)
        with self.assertRaisesRegex(
            UserError, "make it with flashcore-bench compile"
        ):
            made.of(self.selected[0])


if __name__ == "__main__":
    unittest.main()
