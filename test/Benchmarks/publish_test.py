"""Tests of flashcore-bench publish, on the results that are published."""

import copy
import pathlib
import re
import shutil
import tempfile
import unittest
from unittest import mock

import support  # finds flashcore_benchmarks
from flashcore_benchmarks import (
    hopper,
    pages,
    plots,
    problems,
    publish,
    report,
    results,
    roofline,
)
from flashcore_benchmarks.errors import UserError

ROOT = support.BENCHMARKS.parent
BENCH = publish.FIGURES / "bench.json"
HOPPER = publish.FIGURES / "hopper.json"
PAGES = ("docs/performance.md", "README.md")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)


class PublishTest(Folder):
    def setUp(self):
        super().setUp()
        (self.root / BENCH).parent.mkdir(parents=True)
        for path in (BENCH, *PAGES):
            shutil.copy(ROOT / path, self.root / path)
        if (ROOT / HOPPER).exists():
            shutil.copy(ROOT / HOPPER, self.root / HOPPER)
        self.data = results.read(self.root / BENCH)

    def text(self):
        """Of all blocks, without line ends."""
        texts = pages.blocks(self.data).values()
        return " ".join(
            " ".join(text for t in texts for text in t.values()).split()
        )

    def contender(self, problem, name):
        return self.data["problems"][problem]["contenders"][name]

    def publish(self):
        """A run with these results."""
        path = self.root / "results.json"
        results.write_json(path, self.data)
        with mock.patch.object(plots, "pyplot"):
            with mock.patch.object(plots, "draw") as draw:
                publish.publish(path, self.root)
        return draw

    def test_every_block_is_held(self):
        for page, texts in pages.blocks(self.data).items():
            path = self.root / page
            whole = path.read_text()
            for name, text in texts.items():
                *_, last = re.finditer(r"\d", text)
                digit = str((int(last[0]) + 1) % 10)
                edited = text[: last.start()] + digit + text[last.end() :]
                path.write_text(whole.replace(text, edited))
                with self.assertRaisesRegex(SystemExit, f"block '{name}'"):
                    publish.hold(self.root)
            publish.hold(self.root, is_update=True)
            self.assertEqual(path.read_text(), whole)

    def test_no_block_is_left_behind(self):
        owned = r"<!-- (\S+): written by benchmarks/flashcore-bench publish -->"
        for page, texts in publish.blocks(self.root).items():
            found = re.findall(owned, (self.root / page).read_text())
            self.assertEqual(set(found), set(texts))

    def test_a_run_takes_the_place_of_the_last(self):
        before = (self.root / BENCH).read_text()
        draw = self.publish()
        self.assertEqual((self.root / BENCH).read_text(), before)
        drawn, folder = draw.call_args.args
        self.assertEqual(
            (drawn, folder), (self.data, self.root / publish.FIGURES)
        )
        self.contender("reference-dense", "flashcore")["us"]["median"] = 1.234
        self.publish()
        with self.assertRaisesRegex(SystemExit, "flashcore-bench publish"):
            publish.hold(self.root)
        publish.hold(self.root, is_update=True)
        page = (self.root / "docs/performance.md").read_text()
        self.assertIn("| B1 H8 S512x512 D64 | **1.23** / ", page)

    def test_sentences_follow_the_results(self):
        self.assertIn("is faster in all 36 rows", self.text())
        ours = self.contender("d64-s512-dense", "flashcore")["us"]
        for peer, part in {"fa2": 0.9, "cudnn": 2.0, "flex": 2.0}.items():
            us = self.contender("d64-s512-dense", peer)["us"]
            us["median"] = part * ours["median"]
        text = self.text()
        self.assertIn("is faster in 35 of 36 rows", text)
        self.assertIn("smallest lead is -10 % (D 64, S 512, dense)", text)
        self.assertIn("cuDNN is ahead in 35 of 36", text)
        self.assertIn("faster in 35 of 36 |", text)

    def test_bandwidth_is_of_batches_from_16_on(self):
        for problem, fraction in {
            "decode-b1-k8192-dense": 0.01,
            "decode-b64-k8192-dense": 0.5,
            "decode-b16-k8192-dense": 1.25,
        }.items():
            share = self.contender(problem, "flashcore")["roofline"]
            share["fraction"] = fraction
        self.assertIn("from 16 sequences on runs at 50 to 125 %", self.text())

    def test_errors_are_the_worst(self):
        ours = self.contender("bert-b1-dense", "flashcore-dynamic")
        ours["error"]["ratio"] = 1.5
        self.contender("sdxl-dense", "flex")["error"]["ratio"] = 1.75
        self.assertRegex(
            self.text(),
            r"at most 1\.50 times .* in f16 \(FA2, cuDNN: \d\.\d\d; Flex: 1\.75\)",
        )

    def test_refuses_what_the_pages_could_not_say(self):
        self.contender("sdxl-dense", "flashcore")["error"]["ratio"] = None
        with self.assertRaisesRegex(
            UserError, "none of flashcore for sdxl-dense"
        ):
            self.publish()
        del self.data["problems"]["sdxl-dense"]
        with self.assertRaisesRegex(UserError, "for sdxl-dense: run all"):
            self.publish()
        entry = self.data["problems"]["bert-b1-dense"]
        del entry["contenders"]["flashcore-dynamic"]
        with self.assertRaisesRegex(
            UserError, "flashcore-dynamic for bert-b1-dense: .* with --dynamic"
        ):
            self.publish()
        self.data["card"]["peaks"] = None
        with self.assertRaisesRegex(UserError, "the card's limits and clocks"):
            self.publish()


class HopperRun:
    """A run with --chip sm_90a, its times of rates by contender: every row, the
    features, a peer that has none of softcap, and a variant."""

    RATES = {
        "flashcore": 600.0,
        "flashcore:mma": 400.0,
        "flashcore:exact": 480.0,
        "cudnn": 500.0,
        "fa2": 300.0,
    }
    WATCHED = [
        {"sm_mhz": 1900.0, "power_w": 200.0, "throttle": []},
        {"sm_mhz": 1500.0, "power_w": 690.0, "throttle": ["power cap"]},
        {"sm_mhz": 1600.0, "power_w": 700.0, "throttle": ["power cap"]},
    ]

    def __init__(self):
        rows = [p for p in problems.all_problems() if p.group == "throughput"]
        self.data = {
            "format": results.FORMAT,
            "version": results.VERSION,
            "settings": {"seed": 0, "dtype": "f16", "chip": "sm_90a"},
            "card": {
                "name": "NVIDIA H200",
                "sms": 132,
                "torch": "2.11.0+cu130",
                "cudnn": 91900,
                "driver": "580.1",
                "power_limit_w": "700.00",
            },
            "notes": [],
            "variants": {
                "flashcore:mma": "--chip=sm_89",
                "flashcore:exact": "--row-max=exact",
            },
            "problems": {
                p.name: self._entry(p) for p in rows + problems.features()
            },
        }

    def _entry(self, problem):
        rates = dict(self.RATES)
        if problem.softcap:
            del rates["cudnn"]
        return {
            "problem": results.describe(problem),
            "date": "2026-11-24T10:00:00+00:00",
            "bundles": {},
            "contenders": {
                name: self._contender(problem, rate)
                for name, rate in rates.items()
            },
            "refused": {},
            "lost": [],
            "conditions": copy.deepcopy(self.WATCHED),
        }

    @staticmethod
    def _contender(problem, rate):
        us = problem.flops / rate * 1e-6
        return {
            "us": {"median": us, "min": us, "max": us, "rounds": [us]},
            "error": {"max": 1e-4, "yardstick": 2e-4, "ratio": 0.5},
        } | roofline.rates(problem, us, None)

    def entry(self, problem):
        return self.data["problems"][problem]

    def contender(self, problem, name):
        return self.entry(problem)["contenders"][name]

    def forget(self, name):
        for entry in self.data["problems"].values():
            entry["contenders"].pop(name, None)


class HopperTest(Folder):
    def setUp(self):
        super().setUp()
        (self.root / BENCH).parent.mkdir(parents=True)
        for path in (BENCH, *PAGES):
            shutil.copy(ROOT / path, self.root / path)
        publish.hold(self.root, is_update=True)  # of no run on Hopper
        self.run_ = HopperRun()

    def publish(self):
        path = self.root / "results.json"
        results.write_json(path, self.run_.data)
        with mock.patch.object(plots, "pyplot"):
            with mock.patch.object(plots, "draw") as draw:
                publish.publish(path, self.root)
        return draw

    def section(self):
        """What the page says after publishing, without line ends."""
        self.publish()
        publish.hold(self.root, is_update=True)
        page = (self.root / "docs/performance.md").read_text()
        begin, end = page.index("<!-- hopper:"), page.index("<!-- end hopper")
        return " ".join(page[begin:end].split())

    def assert_row(self, text, *cells):
        """In a text whose spaces are joined."""
        row = f"| {' | '.join(cells)} |"
        self.assertIn(" ".join(row.split()), text)

    def test_there_is_no_section_without_a_run(self):
        for page in PAGES:
            text = (self.root / page).read_text()
            self.assertRegex(text, r"<!-- hopper: [^\n]*-->\n<!-- end hopper")
        self.assertNotIn("Hopper (wgmma)", (self.root / PAGES[0]).read_text())

    def test_the_chip_says_which_figures_a_run_becomes(self):
        before = (self.root / BENCH).read_text()
        draw = self.publish()
        self.assertEqual((self.root / BENCH).read_text(), before)
        shown, folder, figures = draw.call_args.args
        self.assertEqual(folder, self.root / publish.FIGURES)
        self.assertEqual(figures, plots.HOPPER_FIGURES)
        names = {"flashcore", "flashcore:mma", "cudnn", "fa2"}
        self.assertEqual(set(report.contender_names(shown)), names)
        with self.assertRaisesRegex(SystemExit, "block 'hopper'"):
            publish.hold(self.root)
        publish.hold(self.root, is_update=True)
        publish.hold(self.root)

    def test_publishing_what_was_published_changes_nothing(self):
        self.publish()
        once = (self.root / HOPPER).read_text()
        self.run_.data = results.read(self.root / HOPPER)
        self.publish()
        self.assertEqual((self.root / HOPPER).read_text(), once)

    def test_sentences_follow_the_results(self):
        us = self.run_.contender("d64-s512-causal", "cudnn")["us"]
        us["median"] *= 0.5
        text = self.section()
        for sentence in (
            "24 November 2026, NVIDIA H200 (132 SMs, driver 580.1, 700 W), "
            "PyTorch 2.11, cuDNN 9.19: 70 problems, one run.",
            "SM clock: 1600 MHz (1500 to 1900). Power: 690 W (200 to 700).",
            "Throttled: power cap in 140 of 210 rounds.",
            "1.18 times as fast in the geometric mean of the 36 rows",
            "ahead in 35 of 36. By head dim, with rows ahead: 1.13 (11 of 12) "
            "(D 64), 1.20 (12 of 12) (D 128), 1.20 (12 of 12) (D 256). The "
            "lowest ratio is 0.60 (D 64, S 512, causal).",
            "6 rows of length 512:** 1.07 times cuDNN, ahead in 5 of 6; the 30 "
            "longer ones 1.20, ahead in all 30.",
            "1.50 times FlashCore's own `.target sm_89` PTX (ahead in all 36) "
            "and 2.00 times FA2 (ahead in all 36).",
            # 4 * 16384 * 4096 * 2048 products and sums of each at 700 W.
            "a call takes 0.64, 0.64, 0.64 J, cuDNN's 0.77, 0.77, 0.77 J",
        ):
            self.assertIn(sentence, text)

    def test_tables_follow_the_results(self):
        text = self.section()
        self.assert_row(
            text,
            *("D", "S", "flashcore", "sm_89 PTX", "cudnn", "fa2", "of cudnn"),
            *("GHz", "W"),
        )
        best, conditions = "**600** / **600**", ("1.60 / 1.60", "700 / 700")
        times = ("400 / 400", "500 / 500", "300 / 300", "1.20 / 1.20")
        self.assert_row(text, "256", "16384", best, *times, *conditions)
        wide = "B4 H10 S4096x4096 D192/128"
        self.assert_row(text, wide, best, *times, "")
        one = ("**600**", "400", "500", "300", "1.20", "1.00")
        self.assert_row(text, "B4 H32/8 S4096x4096 D128 causal", *one)
        window = "B1 H16 S16384x16384 D128 causal window=1024,inf"
        self.assert_row(text, window, *one)
        bf16, same = "B4 H16 S4096x4096 D128 bf16", "1.00 / 1.00"
        self.assert_row(text, bf16, best, *times, same)
        soft = ("400 / 400", "- / -", "300 / 300", "", same)
        self.assert_row(text, "B4 H16 S4096x4096 D128 softcap=30", best, *soft)
        self.assert_row(text, "B5 H32 S3328x3328 D64", best, *times, "")
        part = ["0.80 (0 of 12)"] * 3
        self.assert_row(text, "`--row-max=exact`", *part, "0.80 (0 of 36)")

    def test_a_feature_compares_with_what_lacks_it(self):
        for name, times in {
            "features-softcap-causal": 2.0,
            "features-d64-s1000-dense": 1.25,
        }.items():
            self.run_.contender(name, "flashcore")["us"]["median"] *= times
            del self.run_.contender(name, "flashcore")["tflops"]
        text = self.section()
        for title, of_plain in {
            "softcap=30": "1.00 / 0.50",
            "S1000x1000 D64": "0.80 / 1.00",
        }.items():
            row = text.split(f" {title} | ")[1].split(" | B")[0]
            last = row.removesuffix(" |").rsplit("| ", 1)[1]
            self.assertEqual(last, of_plain)

    def test_the_readme_has_the_mean_and_a_few_rows(self):
        self.section()
        text = " ".join((self.root / "README.md").read_text().split())
        self.assertIn(
            "2026-11-24, one H200, f16, kernels of `--chip=sm_90a` (wgmma): 1.20 "
            "times cuDNN in the geometric mean of the same 36 rows, faster in "
            "all 36, at the least 1.20",
            text,
        )
        self.assert_row(
            text,
            "S 4096, D 128, dense / causal",
            *("**600** / **600**", "400 / 400", "500 / 500", "300 / 300"),
            "1.20 / 1.20",
        )

    def test_what_was_not_measured_is_left_out(self):
        whole = self.section()
        parts = {
            "flashcore:mma": ("sm_89 PTX |", "FlashCore's own"),
            "flashcore:exact": ("Other schedules", "--row-max=exact"),
            "fa2": ("| fa2 |", "times FA2"),
        }
        for name, words in parts.items():
            self.run_.forget(name)
            text = self.section()
            for word in words:
                self.assertIn(word, whole)
                self.assertNotIn(word, text)
        self.assertNotIn("Beside mma.sync", text)
        for problem in problems.features():
            del self.run_.data["problems"][problem.name]
        self.assertNotIn("of plain", self.section())
        for entry in self.run_.data["problems"].values():
            entry["conditions"] = []
        for key in ("driver", "power_limit_w"):
            del self.run_.data["card"][key]
        text = self.section()
        for word in ("Energy", "| GHz |", "| W |", "Throttled", "SM clock:"):
            self.assertIn(word, whole)
            self.assertNotIn(word, text)
        self.assertIn("NVIDIA H200 (132 SMs), PyTorch", text)
        self.assertIn("Beside cuDNN", text)

    def test_power_of_one_row_is_missing(self):
        self.run_.entry("d128-s4096-dense")["conditions"] = [{}]
        text = self.section()
        self.assertNotIn("Energy", text)
        row = ("400 / 400", "500 / 500", "300 / 300", "1.20 / 1.20")
        known = ("- / 1.60", "- / 700")
        self.assert_row(text, "128", "4096", "**600** / **600**", *row, *known)

    def test_refuses_what_the_page_could_not_say(self):
        found = self.run_.contender("features-bf16-dense", "flashcore:exact")
        found["error"]["ratio"] = 2.5
        with self.assertRaisesRegex(
            UserError, "flashcore:exact for features-bf16-dense is wrong"
        ):
            self.publish()
        self.run_.data["variants"]["flashcore:mma"] = "--chip=sm_90"
        with self.assertRaisesRegex(
            UserError, "of --chip=sm_89, but got --chip=sm_90"
        ):
            self.publish()
        del self.run_.data["problems"]["d256-s8192-dense"]["contenders"]["cudnn"]
        with self.assertRaisesRegex(
            UserError, "flashcore and cudnn for d256-s8192-dense, but got none"
        ):
            self.publish()


class CompactTest(Folder):
    def setUp(self):
        super().setUp()
        self.data = results.read(ROOT / BENCH)

    def test_is_small(self):
        self.assertLess((ROOT / BENCH).stat().st_size, 60_000)
        run = HopperRun().data
        results.write_compact(self.root / "hopper.json", hopper.compact(run))
        self.assertLess((self.root / "hopper.json").stat().st_size, 60_000)

    def test_conditions_of_a_problem(self):
        entry = {"conditions": HopperRun.WATCHED}
        settled = {"sm_mhz": 1600.0, "power_w": 700.0}
        self.assertEqual(results.problem_conditions(entry), settled)
        entry = {"conditions": [{}, {"power_w": 300.0}]}
        self.assertEqual(results.problem_conditions(entry), {"power_w": 300.0})
        self.assertEqual(results.problem_conditions({"conditions": []}), {})

    def test_leaves_what_was_measured(self):
        del self.data["conditions"]
        for entry in self.data["problems"].values():
            entry["conditions"] = []
            entry["contenders"]["math"] = entry["contenders"]["fa2"]
        watched = {
            "sm_mhz": 1500.0,
            "power_w": 300.0,
            "throttle": ["power cap"],
        }
        cooler = {"sm_mhz": 1700.0, "power_w": 200.0, "throttle": []}
        entry = self.data["problems"]["sdxl-dense"]
        entry["conditions"] = [watched, cooler, {}]
        entry["contenders"]["flashcore"]["us"]["rounds"] = [1.0, 2.0]
        small = results.compact(self.data, publish.CONTENDERS)
        kept = small["problems"]["sdxl-dense"]["contenders"]
        self.assertNotIn("math", kept)
        self.assertEqual(set(kept["flashcore"]), {"us", "error"})
        self.assertEqual(set(kept["flashcore"]["us"]), {"median", "min", "max"})
        path = self.root / "bench.json"
        results.write_compact(path, small)
        text = report.write(results.read(path))
        self.assertIn("* SM clock 1600 MHz (1500 to 1700)", text)
        self.assertIn("* throttled: power cap in 1 of 2 rounds", text)

    def test_rates_follow_from_it(self):
        entry = self.data["problems"]["reference-dense"]
        flops = results.problem_of(entry).flops
        peak = self.data["card"]["peaks"]["mma_tflops"]
        contender = entry["contenders"]["flashcore"]
        tflops = flops / contender["us"]["median"] * 1e-6
        self.assertEqual(contender["tflops"], tflops)
        self.assertAlmostEqual(contender["roofline"]["fraction"], tflops / peak)
        self.assertEqual(contender["roofline"]["bound"], "tensor")


if __name__ == "__main__":
    unittest.main()
