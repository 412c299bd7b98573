"""Tests of flashcore-bench without a GPU: its device is a stand-in, the
kernels are real."""

import contextlib
import ctypes
import dataclasses
import functools
import io
import json
import os
import pathlib
import random
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from support import BENCHMARKS, DeadlyDevice, Direct, FakeDevice

from flashcore_benchmarks import (
    bench,
    bundle,
    cuda_driver,
    given,
    monitor,
    plots,
    problems,
    report,
    results,
    roofline,
    rotation,
    toolchain,
    tune,
    worker,
)
from flashcore_benchmarks.errors import UserError
from flashcore_benchmarks.progress import Progress
from flashcore_benchmarks.toolchain import Refused, Toolchain

TOOLS = os.environ["FLASHCORE_TOOLS"]

MANIFEST = {
    "format": "flashcore-bundle",
    "version": 4,
    "chip": "sm_89",
    "ptx": {"file": "kernels.ptx", "bytes": 1, "fnv1a64": "0" * 16},
    "cubins": [{"chip": "sm_90", "file": "kernels.sm_90.cubin"}],
    "attention": {
        "dims": {"batch": 2, "heads_q": 4, "seqlen_q": 100, "seqlen_k": None}
    },
    "tensors": [
        {
            "name": "q",
            "role": "input",
            "dtype": "f16",
            "axes": ["batch", "seqlen_q"],
        },
        {
            "name": "o",
            "role": "output",
            "dtype": "f16",
            "axes": ["1", "seqlen_q"],
        },
    ],
    "workspace": {
        "bytes": [
            {"bytes": 4, "factors": [{"dim": "seqlen_q", "tile": 64}]},
            {
                "bytes": 16,
                "factors": [{"count": 8}, {"dim": "batch", "tile": 1}],
            },
        ]
    },
    "kernels": [
        {
            "name": "part",
            "block": [128, 1, 1],
            "grid": [
                [{"dim": "seqlen_q", "tile": 64}, {"count": 8}],
                [{"dim": "seqlen_k", "tile": 64}],
                [],
            ],
            "dynamic_shared_memory": 1024,
            "arguments": [
                {"kind": "pointer", "tensor": "q"},
                {"kind": "pointer", "tensor": "workspace"},
                {"kind": "size", "dim": "seqlen_k"},
                {"kind": "stride", "tensor": "q", "axis": 0},
                {"kind": "offset", "tensor": "q"},
            ],
        },
        {
            "name": "merge",
            "block": [64, 1, 1],
            "grid": [[{"dim": "batch", "tile": 1}], [], []],
            "dynamic_shared_memory": 0,
            "arguments": [{"kind": "pointer", "tensor": "o"}],
        },
    ],
}

VARIANT_KEYS = ("chip", "ptx", "cubins", "workspace", "kernels")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bundle(self, **changes):
        """One whose only variant has some of MANIFEST's keys, or another."""
        manifest = MANIFEST | changes
        variant = {key: manifest.pop(key) for key in VARIANT_KEYS}
        text = json.dumps({"variants": [variant]} | manifest)
        (self.folder / "manifest.json").write_text(text)
        return bundle.Bundle(self.folder)


class BundleTest(Folder):
    BUFFERS = {
        "q": bundle.Buffer(4096, (128, 1), 8),
        "o": bundle.Buffer(8192, (128, 1)),
    }

    def test_plans_all_kernels(self):
        b = self.bundle()
        dims = b.dims({"seqlen_k": 130})
        first, second = b.plan(dims, self.BUFFERS, 132, workspace=77)
        self.assertEqual(first.grid, (16, 3, 1))
        self.assertEqual(first.arguments, (4096, 77, 130, 128, 8))
        self.assertEqual((first.block, first.shared_bytes), ((128, 1, 1), 1024))
        self.assertEqual((second.name, second.grid), ("merge", (2, 1, 1)))
        self.assertEqual(b.workspace_bytes(dims), 4 * 2 + 16 * 8 * 2)

    def test_limits_persistent_kernels_to_the_device(self):
        part, merge = MANIFEST["kernels"]
        b = self.bundle(kernels=[part | {"max_blocks_per_sm": 2}, merge])
        dims = b.dims({"seqlen_k": 130})
        for multiprocessors, blocks in ((3, 6), (132, 16)):
            first, second = b.plan(dims, self.BUFFERS, multiprocessors)
            self.assertEqual(first.grid, (blocks, 3, 1))
            self.assertEqual(second.grid, (2, 1, 1))

    def test_leaves_empty_grids_out(self):
        b = self.bundle()
        dims = b.dims({"seqlen_k": 0})
        names = [k.name for k in b.plan(dims, self.BUFFERS, 132)]
        self.assertEqual(names, ["merge"])

    def test_refuses_other_sizes(self):
        with self.assertRaisesRegex(UserError, "leaves seqlen_k open"):
            self.bundle().dims()
        with self.assertRaisesRegex(UserError, "for batch 2, but got 3"):
            self.bundle().dims({"seqlen_k": 1, "batch": 3})

    def test_refuses_other_files(self):
        with self.assertRaisesRegex(
            UserError, "version 4, but got .* version 9"
        ):
            self.bundle(version=9)
        with self.assertRaisesRegex(UserError, "cannot read"):
            bundle.Bundle(self.folder / "none")

    def test_chooses_code(self):
        b = self.bundle()
        self.assertEqual(b.code("sm_90")[1], "cubin sm_90")
        self.assertEqual(b.code("sm_100")[1], "PTX sm_89")
        with self.assertRaisesRegex(UserError, "device of sm_86 cannot run"):
            b.code("sm_86")

    def test_chooses_a_variant(self):
        variant = {key: MANIFEST[key] for key in VARIANT_KEYS}
        older = variant | {"chip": "sm_80", "cubins": [{"chip": "sm_86"}]}
        newer = variant | {"chip": "sm_90", "cubins": []}
        self.bundle(variants=[older, newer])
        for device, chip in {
            None: "sm_80",
            "sm_75": "sm_80",
            "sm_86": "sm_80",
            "sm_89": "sm_80",
            "sm_90": "sm_90",
            "sm_120": "sm_90",
        }.items():
            self.assertEqual(bundle.Bundle(self.folder, device).chip, chip)

    def test_emulator_options(self):
        b = self.bundle()
        first, second = b.emulator_runs(b.dims({"seqlen_k": 130}))
        self.assertEqual(first[:4], ["--kernel", "part", "--grid", "16,3,1"])
        arguments = [o for o in first if ":" in o]
        wanted = ["f16[2,100]:randn:1", "f32[66]:randn:2", "i64:130", "i64:100"]
        self.assertEqual(arguments, [*wanted, "i64:0"])
        self.assertIn("f16[1,100]:poison", second)


class FakeLibrary:
    """libcuda as ctypes calls it; a call named in `fails` returns 1."""

    def __init__(self, fails=None):
        self.fails, self.launched = fails, []

    def __getattr__(self, name):
        def call(*arguments):
            if name == "cuLaunchKernel":
                count = len(LAUNCH.arguments)
                slots = arguments[9]
                values = [
                    ctypes.cast(slots[i], ctypes.POINTER(ctypes.c_uint64))[0]
                    for i in range(count)
                ]
                self.launched.append(
                    (arguments[1:8], arguments[8].value, values)
                )
            if name == "cuGetErrorName":
                pointer = ctypes.cast(
                    arguments[1], ctypes.POINTER(ctypes.c_char_p)
                )
                pointer[0] = b"CUDA_ERROR_FAKE"
            return int(name == self.fails)

        return call


LAUNCH = bundle.Launch("kernel", (3, 2, 1), (64, 1, 1), 2048, (1 << 40, 7, 9))


class DriverTest(unittest.TestCase):
    def bind(self, library):
        driver = cuda_driver.Driver(library)
        module = cuda_driver.Module(driver, b"ptx", "file.ptx")
        return cuda_driver.BoundLaunches(driver, module, [LAUNCH])

    def test_launches_with_its_arguments(self):
        library = FakeLibrary()
        bound = self.bind(library)
        for stream in (5, 6):
            bound.launch(stream)
        shape = (3, 2, 1, 64, 1, 1, 2048)
        self.assertEqual(
            library.launched,
            [(shape, stream, [1 << 40, 7, 9]) for stream in (5, 6)],
        )

    def test_says_what_failed(self):
        for call, text in (
            ("cuModuleLoadDataEx", "loading file.ptx"),
            ("cuModuleGetFunction", "looking for kernel kernel"),
            ("cuFuncSetAttribute", "2048 bytes of shared memory"),
            ("cuLaunchKernel", r"grid \(3, 2, 1\)"),
        ):
            pattern = rf"{call} failed: CUDA_ERROR_FAKE \(1\); .*{text}"
            with self.assertRaisesRegex(cuda_driver.DriverError, pattern):
                self.bind(FakeLibrary(call)).launch(0)


class ProblemsTest(unittest.TestCase):
    def test_names_are_unique(self):
        names = [p.name for p in problems.all_problems()]
        self.assertEqual(len(names), len(set(names)))
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
        text = p.mlir(toolchain.attention)
        self.assertIn("!v = memref<1x2x512x32xf16>", text)
        self.assertIn("!bias = memref<1x8x1x512xf32>", text)
        self.assertIn(
            "causal(top_left) window_left(64) scale(1.000000e-01) "
            "softcap(3.000000e+01)",
            text,
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


class RunFolder(Folder):
    """The whole flow on two problems."""

    PATTERNS = ["reference-dense", "bert-b1-causal"]

    def setUp(self):
        super().setUp()
        self.selected = problems.select(self.PATTERNS)
        self.out = self.folder / "results.json"

    def kernels(self, variants=()):
        toolchain = Toolchain(TOOLS, self.folder)
        made = bench.Kernels(
            toolchain, self.folder, "sm_89", dict(variants), False
        )
        made.compile(self.selected, Progress(9, io.StringIO()))
        return made

    def run_bench(
        self, device, kernels=None, peers=("fa2", "cudnn"), **options
    ):
        store = results.Results(self.out)
        settings = {"seed": 1, "dtype": "f16", "chip": "sm_89"}
        peaks = {"mma_tflops": 600.0, "dram_gbs": 4000.0, "source": "a test"}
        store.begin(settings, FakeDevice.card() | {"peaks": peaks})
        kernels = kernels or self.kernels()
        timer = Direct(device) if isinstance(device, FakeDevice) else device
        rounds = rotation.Rounds.exactly(5)
        runner = bench.Bench(timer, kernels, store, peers, rounds, 1)
        left = runner.run(
            self.selected, progress=Progress(9, io.StringIO()), **options
        )
        return left, results.read(self.out) if self.out.exists() else None


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
        self.assertEqual(bench.report_failures(data), 1)
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
        self.assertEqual(bench.report_failures(data), 0)
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
        self.assertEqual(bench.report_failures(data), 0)

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
        self.assertEqual(bench.report_failures(data), 0)
        data["problems"]["reference-dense"]["lost"] = ["flashcore:x"]
        self.assertEqual(bench.report_failures(data), 1)

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


class GivenTest(Folder):
    """Problems of --shape and --mlir, with the real compiler."""

    def load(self, *options):
        arguments = ["compile", "--tools", TOOLS, "--out", self.folder]
        arguments = bench.parse_arguments([str(a) for a in arguments + [*options]])
        return given.load(arguments, Toolchain(TOOLS, self.folder))

    def test_a_shape_is_what_the_compiler_says(self):
        words = (
            "b2 h4/2 s33x70 d64/32 bf16 causal=top_left window=5,9 softcap=30 "
            "scale=0.25 bias=1h1k:f32 bshd"
        )
        (p,) = self.load("--shape", words)
        self.assertEqual(
            p.name,
            "b2-h4-2-s33x70-d64-32-bf16-causal-top-left-window-5-9-softcap-30-"
            "scale-0.25-bias-1h1k-f32-bshd",
        )
        self.assertEqual((p.group, p.dtype), ("given", "bf16"))
        self.assertEqual(
            p.describe(),
            "B2 H4/2 S33x70 D64/32 causal top_left window=5,9 softcap=30 "
            "scale=0.25 bias=1h1k:f32",
        )
        self.assertIn("strided<[8448, 64, 256, 1]>", p.mlir(None))

    def test_the_default_scale_is_none(self):
        first, second = self.load("--shape", "", "--shape", "h3 d80 s64")
        self.assertEqual((first.name, first.scale), ("default", None))
        self.assertEqual((second.scale, second.head_dim_v), (None, 80))
        self.assertEqual(first.describe(), "B1 H8 S512x512 D64 dense")

    def test_a_file_is_taken_as_it_is(self):
        path = self.folder / "My attention.mlir"
        path.write_text(self.load("--shape", "h2 s64 causal")[0].source)
        (p,) = self.load("--mlir", path)
        self.assertEqual(p.name, "my-attention")
        self.assertEqual(p.describe(), "B1 H2 S64x64 D64 causal")
        self.assertEqual(p.mlir(None), path.read_text())

    def test_refusals(self):
        for options, text in (
            (["--shape", "b1 casual"], "error: --shape: .* but got 'casual'"),
            (["--shape", "h30/8"], "multiple of heads_kv, but got 30 and 8"),
            (
                ["--shape", "b? s? d64"],
                r"b\?-s\?-d64: expects sizes that are known, but got none for "
                "batch, seqlen_k, seqlen_q",
            ),
            (["--shape", "b1", "--shape", "B1"], "but got 'b1' twice"),
            (["--mlir", self.folder / "none.mlir"], "cannot read '.*none.mlir'"),
        ):
            with self.assertRaisesRegex(UserError, text):
                self.load(*options)

    def select(self, *options):
        """Names, without compiling what the problems here need."""
        arguments = ["compile", "--tools", TOOLS, "--out", self.folder]
        arguments = bench.parse_arguments([str(a) for a in arguments + [*options]])
        chosen = bench.select(arguments, Toolchain(TOOLS, self.folder))
        return [p.name for p in chosen]

    def test_stands_in_place_of_the_list_or_beside_it(self):
        self.assertEqual(self.select("--shape", "h2 s64"), ["h2-s64"])
        names = self.select("--shape", "h2 s64", "--problems", "reference")
        self.assertEqual(
            names, ["reference-dense", "reference-causal", "h2-s64"]
        )
        self.assertEqual(len(self.select()), 58)


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


class CommandTest(Folder):
    def main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = bench.main([str(a) for a in arguments])
        return code, out.getvalue(), err.getvalue()

    def test_the_version_is_that_of_the_compiler(self):
        command = [pathlib.Path(TOOLS) / "flashcore-compile", "--version"]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        for main in bench.main, tune.main:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                with self.assertRaises(SystemExit) as end:
                    main(["--version"])
            self.assertFalse(end.exception.code)
            self.assertEqual(out.getvalue(), text.split(",")[0] + "\n")

    def test_a_full_device_is_an_error(self):
        for words in (
            ["bench", "--version"],
            ["bench", "list"],
            ["tune", "--help"],
        ):
            tool = BENCHMARKS / f"flashcore-{words[0]}"
            with open("/dev/full", "w") as full:
                result = subprocess.run(
                    [sys.executable, tool, *words[1:]],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            self.assertEqual(result.returncode, 2)
            self.assertEqual(
                result.stderr,
                f"flashcore-{words[0]}: error: cannot write: No space left on "
                "device\n",
            )

    def test_lists(self):
        code, out, _ = self.main("list", "--problems", "decode.*")
        self.assertEqual((code, len(out.splitlines())), (0, 8))

    def test_runs(self):
        """From the kernels to the report, with a device in a worker."""
        options = ["--problems", "reference", "--tools", TOOLS, "--rounds", 3]
        options += ["--peers", "fa2", "cudnn", "--out", self.folder]
        with mock.patch.object(bench, "open_torch_device", DeadlyDevice):
            code, out, _ = self.main("run", *options)
            self.assertEqual(code, 0)
            bundles = ["--bundles", self.folder / "bundles"]
            again = self.main("run", *options, *bundles, "--minutes", 0.0001)
        self.assertIn("reference-dense: timed before", again[2])
        data = results.read(self.folder / "results.json")
        self.assertEqual(data["card"]["peaks"]["mma_tflops"], 600.0)
        self.assertEqual(data["problems"]["reference-dense"]["lost"], ["cudnn"])
        text = (self.folder / "report.md").read_text()
        self.assertIn("* cudnn: ended its process: the GPU's context", text)
        self.assertIn(text, out)
        # Where there is matplotlib the report shows the plots.
        for path in self.folder.glob("figures/*.png"):
            self.assertIn(f"![{path.stem}](figures/{path.name})", text)
        out = self.folder / "docs/report.md"
        out.parent.mkdir()
        (self.folder / "plots").mkdir()
        (self.folder / "plots/small.png").write_bytes(b"")
        options = ["--figures", self.folder / "plots", "--out", out]
        self.main("report", self.folder / "results.json", *options)
        self.assertIn("![small](../plots/small.png)", out.read_text())

    def test_runs_given_problems(self):
        """Compiled here, and on a machine without a compiler."""
        given_options = ["--shape", "h2 s64 d32 causal window=9"]
        name = "h2-s64-d32-causal-window-9"
        made = self.folder / "made"
        code, _, _ = self.main(
            *("compile", *given_options, "--dynamic"),
            *("--tools", TOOLS, "--out", made),
        )
        self.assertEqual(code, 0)
        self.assertEqual(
            {path.name for path in made.glob("*.fcb")},
            {f"{name}-f16.fcb", f"dynamic-{name}-f16.fcb"},
        )
        options = [*given_options, "--rounds", 3, "--peers", "fa2"]
        with mock.patch.object(bench, "open_torch_device", DeadlyDevice):
            for where in (["--tools", TOOLS], ["--bundles", made]):
                out = self.folder / where[0].strip("-")
                code, text, _ = self.main(
                    "run", *options, *where, "--out", out
                )
                self.assertEqual(code, 0)
                self.assertIn("### Given problems: us", text)
                self.assertIn(
                    f"| {name} | B1 H2 S64x64 D32 causal window=9,inf f16 | **",
                    text,
                )
                self.assertIn("| given problems | 1 of 1 |", text)
                data = results.read(out / "results.json")
                self.assertEqual(list(data["problems"]), [name])
            code, _, err = self.main(
                *("run", "--shape", "b7", "--bundles", made, "--out", out)
            )
        self.assertEqual(code, 2)
        self.assertIn("b7-f16.fcb': make it with flashcore-bench compile", err)

    def test_compiles_with_a_tuning_file(self):
        path = self.folder / "tuning.json"
        entry = {
            "problem": {
                "head_dim": 64,
                "head_dim_v": 64,
                "causal": False,
                "softcap": False,
                "bias": False,
                "window": False,
            },
            "schedule": {"block_n": 16},
        }
        tuning = {
            "format": "flashcore-tuning",
            "version": 1,
            "card": "Fake",
            "chip": "sm_89",
            "date": "2026-11-21",
            "entries": [entry],
        }
        path.write_text(json.dumps(tuning))
        options = ["--problems", "reference-dense", "--tuning-file", path]
        code, _, err = self.main(
            "compile", *options, "--tools", TOOLS, "--out", self.folder
        )
        self.assertEqual((code, err.count("compiled")), (0, 2))
        sums = {
            bundle.Bundle(path).ptx["fnv1a64"]
            for path in self.folder.glob("reference-dense*.fcb")
        }
        self.assertEqual(len(sums), 2)

    def test_a_variant_may_choose_its_chip(self):
        options = ["--problems", "reference-dense", "--variant"]
        self.main(
            *("compile", *options, "sm90=--chip=sm_90"),
            *("--tools", TOOLS, "--out", self.folder),
        )
        made = self.folder / "reference-dense-sm90-f16.fcb"
        self.assertEqual(bundle.Bundle(made).chip, "sm_90")

    def test_bad_files_are_errors(self):
        code, _, err = self.main("report", self.folder / "none.json")
        self.assertEqual(code, 2)
        self.assertIn("flashcore-bench: error: cannot read", err)
        (self.folder / "x.json").write_text("[]")
        code, _, err = self.main("plot", self.folder / "x.json")
        self.assertEqual(code, 2)
        self.assertIn("expects results of flashcore-bench, version 2", err)

    def test_bad_variants_are_errors(self):
        code, _, err = self.main("compile", "--tools", TOOLS, "--variant", "x")
        self.assertEqual(code, 2)
        self.assertIn("expects --variant NAME=OPTIONS, but got 'x'", err)
        code, _, err = self.main(
            "compile", "--tools", TOOLS, "--variant", "x='--a"
        )
        self.assertEqual(code, 2)
        self.assertIn("--variant x='--a: No closing quotation", err)
        twice = ["--variant", "x=--a", "--variant", "x=--b"]
        code, _, err = self.main("compile", "--tools", TOOLS, *twice)
        self.assertIn("--variant x=--b: 'x' is taken", err)

    def test_bad_numbers_are_errors(self):
        for option in ("--rounds", "--minutes"):
            for value in ("0", "-3", "nan", "x"):
                err = io.StringIO()
                with contextlib.redirect_stderr(err):
                    with self.assertRaises(SystemExit) as exit:
                        bench.parse_arguments(["run", f"{option}={value}"])
                self.assertEqual(exit.exception.code, 2)
                self.assertRegex(
                    err.getvalue(), f"expects a positive .* but got '{value}'"
                )


if __name__ == "__main__":
    assert BENCHMARKS.is_dir(), sys.path
    unittest.main()
