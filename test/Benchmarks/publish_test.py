"""Tests of flashcore-bench publish, on the results that are published."""

import pathlib
import re
import shutil
import tempfile
import unittest
from unittest import mock

import support  # finds flashcore_benchmarks
from flashcore_benchmarks import pages, plots, publish, report, results
from flashcore_benchmarks.errors import UserError

ROOT = support.BENCHMARKS.parent
BENCH = publish.FIGURES / "bench.json"
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
        for page, texts in pages.blocks(self.data).items():
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


class CompactTest(Folder):
    def setUp(self):
        super().setUp()
        self.data = results.read(ROOT / BENCH)

    def test_is_small(self):
        self.assertLess((ROOT / BENCH).stat().st_size, 60_000)

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
