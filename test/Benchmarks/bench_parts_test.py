"""Tests of the parts of flashcore-bench: bundles, the driver, problems, rounds,
the monitor and the compiler."""

import ctypes
import dataclasses
import json
import random
import stat
import time
import unittest

from bench_support import TOOLS, Folder

from flashcore_benchmarks import (
    bundle,
    cuda_driver,
    monitor,
    problems,
    results,
    roofline,
    rotation,
    toolchain,
)
from flashcore_benchmarks.errors import UserError
from flashcore_benchmarks.toolchain import Refused, Toolchain

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


class BundleTest(Folder):
    BUFFERS = {
        "q": bundle.Buffer(4096, (128, 1), 8),
        "o": bundle.Buffer(8192, (128, 1)),
    }

    def bundle(self, **changes):
        """One whose only variant has some of MANIFEST's keys, or another."""
        manifest = MANIFEST | changes
        variant = {key: manifest.pop(key) for key in VARIANT_KEYS}
        text = json.dumps({"variants": [variant]} | manifest)
        (self.folder / "manifest.json").write_text(text)
        return bundle.Bundle(self.folder)

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
