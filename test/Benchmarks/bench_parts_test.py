"""Tests of the parts of flashcore-bench: problems, rounds, the monitor and the
compiler."""

import dataclasses
import json
import random
import stat
import time
import unittest

from bench_support import TOOLS, Folder

from flashcore_benchmarks import (
    monitor,
    problems,
    results,
    roofline,
    rotation,
    toolchain,
)
from flashcore_benchmarks.errors import UserError
from flashcore_benchmarks.toolchain import Refused, Toolchain


class ProblemsTest(unittest.TestCase):
    def test_names_are_unique(self):
        names = [p.name for p in problems.all_problems()]
        every = names + [p.name for p in problems.features()]
        self.assertEqual(len(every), len(set(every)))
        self.assertEqual(
            sum(n.startswith("d") and "-s" in n for n in names), 36
        )

    def test_selects(self):
        names = [
            p.name for p in problems.select(["reference", "d64-s512-causal"])
        ]
        wanted = ["reference-dense", "reference-causal", "d64-s512-causal"]
        self.assertEqual(names, wanted)
        quick = {p.name for p in problems.select(is_quick=True)}
        self.assertLess(len(quick), 20)
        with self.assertRaisesRegex(UserError, "no problem is called 'd65'"):
            problems.select(["d65"])
        with self.assertRaisesRegex(UserError, "no regular expression"):
            problems.select(["("])

    def test_features_are_selected_by_name(self):
        names = {p.name for p in problems.features()}
        for chosen in problems.select(), problems.select(is_quick=True):
            self.assertFalse(names & {p.name for p in chosen})
        chosen = problems.select(["features.*"], dtype="bf16")
        self.assertEqual({p.name for p in chosen}, names)
        self.assertEqual({p.dtype for p in chosen}, {"bf16"})
        (p,) = problems.select(["features-bias-causal"])
        self.assertEqual(p.bias_shape(), (1, 16, 4096, 4096))
        for p in problems.features():
            tokens = p.batch * p.seqlen_q
            self.assertLess(abs(tokens / problems.TOKENS - 1), 0.03)
            self.assertEqual(p.name.endswith("-causal"), p.causal)

    def test_features_compare_with_what_lacks_them(self):
        found = {p.name: problems.plain_name(p) for p in problems.features()}
        for name, plain in {
            "features-softcap-causal": "d128-s4096-causal",
            "features-window1024-causal": "d128-s16384-causal",
            "features-d64-s3333-dense": "features-d64-s3328-dense",
        }.items():
            self.assertEqual(found[name], plain)

    def test_counts_as_flash_attention_does(self):
        dense, causal = problems.select(["reference"])
        self.assertEqual(dense.flops, 4 * 8 * 512 * 512 * 64)
        self.assertEqual(causal.flops, dense.flops / 2)
        self.assertEqual(dense.tensor_bytes, 2 * 4 * 8 * 512 * 64)


    def test_counts_what_a_mask_shows(self):
        plain = problems.select(["reference-dense"])[0]
        for change in (
            {"causal": True, "seqlen_k": 30},
            {"causal": True, "is_top_left": True},
            {"window": (5, None)},
            {"window": (None, 3), "seqlen_k": 9},
            {"window": (4, 2), "causal": True, "seqlen_q": 33},
            {"window": (0, 0), "seqlen_q": 40, "seqlen_k": 7},
        ):
            p = dataclasses.replace(
                plain, **({"seqlen_q": 20, "seqlen_k": 25} | change)
            )
            pairs = sum(
                p.visible(q, k)
                for q in range(p.seqlen_q)
                for k in range(p.seqlen_k)
            )
            self.assertEqual(p.pairs, pairs, change)
            self.assertEqual(p.flops, 4 * 8 * pairs * 64)

    def test_describes_every_feature(self):
        p = dataclasses.replace(
            problems.select(["reference-causal"])[0],
            heads_kv=2,
            head_dim_v=32,
            is_top_left=True,
            window=[64, None],
            softcap=30.0,
            scale=0.1,
            bias=["f32", "1h1k"],
        )
        self.assertEqual(
            p.describe(),
            "B1 H8/2 S512x512 D64/32 causal top_left window=64,inf softcap=30 "
            "scale=0.1 bias=1h1k:f32",
        )
        self.assertEqual(
            p.tensor_bytes, 2 * (8 + 2) * 512 * (64 + 32) + 4 * 8 * 512
        )
        # It survives a results file, and its kernel has it all.
        entry = {"problem": json.loads(json.dumps(results.describe(p)))}
        self.assertEqual(results.problem_of(entry), p)
        self.assertEqual(
            p.text(toolchain.attention),
            "b1 h8/2 s512x512 d64/32 f16 causal=top_left window=64,inf "
            "scale=1.000000e-01 softcap=3.000000e+01 bias=1h1k:f32",
        )


class RotationTest(unittest.TestCase):
    def test_times_all_in_every_round_in_an_order_of_its_own(self):
        calls = []
        contenders = {n: lambda n=n: calls.append(n) or 1.0 for n in "abcd"}
        samples, spans = rotation.rotate(
            contenders, rotation.Rounds.exactly(9), random.Random(1)
        )
        self.assertEqual(len(spans), 9)
        self.assertTrue(all(len(values) == 9 for values in samples.values()))
        rounds = [tuple(calls[i : i + 4]) for i in range(0, 36, 4)]
        self.assertTrue(all(sorted(r) == list("abcd") for r in rounds))
        self.assertGreater(len(set(rounds)), 3)

    def test_takes_as_many_rounds_as_fit(self):
        rounds = rotation.Rounds(5, 15, 2.0)

        def count(seconds):
            """Rounds of so many seconds each."""
            done = 0
            while rounds.has_more(done, done * seconds):
                done += 1
            return done

        counts = [count(seconds) for seconds in (9.0, 0.4, 0.3, 0.2, 0.01)]
        self.assertEqual(counts, [5, 5, 6, 9, 15])

    def test_gain_pairs_rounds(self):
        # Everything twice as slow in the last round changes nothing.
        self.assertAlmostEqual(rotation.gain([11, 11, 22], [10, 10, 20]), 0.1)


class MonitorTest(Folder):
    def smi(self, body):
        path = self.folder / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def test_parses(self):
        sample = monitor.parse_line("1980, 2619, 650.5, 61, 0x0000000000000024")
        self.assertEqual(sample["sm_mhz"], 1980)
        self.assertEqual(
            sample["throttle"], ["power cap", "thermal (software)"]
        )
        partial = monitor.parse_line("1980, [N/A], 650.5, 61, [N/A]")
        self.assertEqual(partial.keys(), {"sm_mhz", "power_w", "temperature_c"})
        self.assertIsNone(monitor.parse_line("No devices were found"))

    def test_watches(self):
        body = "for i in 1 2 3; do echo 1500, 2000, 300, 50, 0x4; done; sleep 5"
        alone = (
            'case "$*" in *loop*) %s;; *) echo 1500, 2000, 300, 50, 0x4;; esac'
        )
        start = time.monotonic()
        with monitor.Monitor(executable=self.smi(alone % body)) as watch:
            while not watch.during(start, time.monotonic()):
                self.assertLess(time.monotonic(), start + 20)
                time.sleep(0.01)
            condition = watch.during(start, time.monotonic())
        self.assertEqual(condition["sm_mhz"], 1500)
        self.assertEqual(condition["throttle"], ["power cap"])

    def test_says_what_is_missing(self):
        for executable in (None, self.smi("exit 9"), self.smi("echo Error")):
            with monitor.Monitor(executable=executable or "") as watch:
                note = watch.note
                self.assertEqual(watch.during(0, 1), {})
            self.assertIn("clocks and power are not recorded", note)


class ToolchainTest(Folder):
    def test_refusals_have_the_compilers_text(self):
        toolchain = Toolchain(TOOLS, self.folder)
        with self.assertRaisesRegex(Refused, "error"):
            toolchain.compile("nonsense", self.folder / "x.fcb", ["--no-cubin"])

    def test_says_what_is_missing(self):
        with self.assertRaisesRegex(UserError, "no FlashCore tools at"):
            Toolchain(self.folder / "none", self.folder)
        with self.assertRaisesRegex(
            UserError, "no flashcore-run and no flashcore"
        ):
            Toolchain(self.folder, self.folder).command("run")


class RooflineTest(Folder):
    def test_the_probe_multiplies(self):
        path = self.folder / "mma.ptx"
        path.write_text(roofline.mma_ptx())
        threads = 32 * roofline.WARPS
        result = Toolchain(TOOLS, self.folder).run(
            "emu",
            [path, "--grid", 2, "--block", threads, "--stats", "json"]
            + ["--arg", f"f32[{2 * threads}]:poison", "i64:3"],
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        count = json.loads(result.stdout)["counters"]["mma"]
        flops = roofline.mma_flops(blocks=2, iterations=3)
        self.assertEqual(count * roofline.MMA_FLOPS, flops)


if __name__ == "__main__":
    unittest.main()
