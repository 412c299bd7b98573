"""Tests of flashcore-bench's command and options."""

import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import unittest
from unittest import mock

from bench_support import TOOLS, Folder
from support import BENCHMARKS, DeadlyDevice

from flashcore_benchmarks import bench, given, package, results, tune
from flashcore_benchmarks.errors import UserError
from flashcore_benchmarks.toolchain import Toolchain


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
        self.assertIn("strided<[8448, 64, 256, 1]>", p.text(None))

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
        self.assertEqual(p.text(None), path.read_text())

    def region(self):
        path = self.folder / "region.mlir"
        region = """ score {
          ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
            %two = arith.addf %s, %s : f32
            flashcore.yield %two : f32
          }"""
        (plain,) = self.load("--shape", "h2 s64")
        path.write_text(re.sub(r"(\n  return)", region + r"\1", plain.source))
        return path

    def test_refusals(self):
        for options, text in (
            (["--shape", "b1 casual"], "error: --shape: .* but got 'casual'"),
            (["--shape", "h30/8"], "multiple of heads_kv, but got 30 and 8"),
            (
                ["--shape", "b? s? d64"],
                r"b\?-s\?-d64: expects sizes that are known, but got none for "
                "batch, seqlen_k, seqlen_q",
            ),
            (
                ["--shape", "s64 dropout=0.5"],
                r"s64-dropout-0.5: expects what peers compute, too .* got rng",
            ),
            (["--mlir", self.region()], "expects what peers .* but got score"),
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
        _, out, _ = self.main("list")
        self.assertIn("\nsdxl-dense ", out)
        self.assertIn("\nfeatures-bias-dense ", out)
        _, out, _ = self.main("list", "--quick")
        self.assertNotIn("features", out)

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
            package.read(path).checksum
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
        self.assertEqual(package.read(made).chip, "sm_90")

    def test_the_default_chip_is_one_that_the_card_runs(self):
        toolchain = Toolchain(TOOLS, self.folder)
        for card, chip in (
            *(("sm_72", "sm_70"), ("sm_80", "sm_80"), ("sm_87", "sm_86")),
            *(("sm_89", "sm_89"), ("sm_90", "sm_89"), ("sm_103", "sm_89")),
            *(("sm_120", "sm_120"), ("sm_121", "sm_121"), ("sm_130", "sm_121")),
        ):
            self.assertEqual(bench.default_chip(card, toolchain), chip)
        with self.assertRaisesRegex(UserError, "sm_70 or newer, but got sm_61"):
            bench.default_chip("sm_61", toolchain)
        self.assertEqual(bench.default_chip("sm_120"), "sm_89")

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
    unittest.main()
