"""Tests of the fuzzers' scripts: what they draw, and what they make of an answer."""

import importlib.util
import pathlib
import random
import re
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def load(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(SCRIPTS))
import compiler_lists
import drawn_attentions

fuzz = load("fuzz-configurations")
opt = load("fuzz-opt")
programs = load("fuzz-programs")
# The compiler is the one argument.
COMPILER = sys.argv.pop(1)
CHIPS = compiler_lists.list_chips(COMPILER)
FIELDS = compiler_lists.list_schedule_fields(COMPILER)
SCHEDULE = drawn_attentions.schedule_values(FIELDS)
DRAWN = [drawn_attentions.Generator(1, index, CHIPS, SCHEDULE).draw() for index in range(1500)]


class GeneratorTest(unittest.TestCase):
    def test_is_deterministic(self):
        for index in (0, 7, 1499):
            self.assertEqual(drawn_attentions.Generator(1, index, CHIPS, SCHEDULE).draw(), DRAWN[index])
        self.assertNotEqual(drawn_attentions.Generator(2, 7, CHIPS, SCHEDULE).draw(), DRAWN[7])

    def test_a_field_without_values_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "has none of num_spins$"):
            drawn_attentions.schedule_values(FIELDS | {"num_spins": (), "spin": ("left", "right")})
        self.assertEqual(drawn_attentions.schedule_values({"spin": ("left", "right")}), {"spin": (["left", "right"], ["other"])})

    def test_names_no_field_that_is_not_there(self):
        self.assertEqual(set(drawn_attentions.NUMBERS), {name for name, words in FIELDS.items() if not words})
        for name, likely in drawn_attentions.LIKELY.items():
            self.assertLessEqual(set(likely), set(FIELDS[name]), name)

    def test_spec_round_trips(self):
        for configuration in DRAWN:
            self.assertEqual(drawn_attentions.Configuration.parse(configuration.spec()), configuration)

    def test_draws_every_value(self):
        expected = {
            "dtype": {"f16", "bf16"}, "layout": {"dense", "dynamic", "bshd", "packed", "apart"}, "lse": {True, False},
            "causal": {"none", "bottom_right", "top_left"}, "threads": {1, 2}, "multiprocessors": {1, 2, 3, 132},
        }
        for field, values in expected.items():
            self.assertEqual({getattr(c, field) for c in DRAWN}, values)
        self.assertLessEqual(set(drawn_attentions.HEAD_DIMS[7::8]), {c.head_dim for c in DRAWN})
        self.assertEqual({c.head_dim % 8 for c in DRAWN}, set(range(8)))
        self.assertEqual({c.gap for c in DRAWN if c.layout == "apart"}, set(range(1, 13)))
        self.assertEqual(len({c.bias[1] for c in DRAWN if c.bias}), 16)
        self.assertEqual({c.bias[0] for c in DRAWN if c.bias}, {"f16", "bf16", "f32"})
        self.assertEqual(len({c.scores for c in DRAWN if c.scores}), 15)
        self.assertFalse(any(c.scores and (c.page or c.lengths in ("ends", "both")) for c in DRAWN))
        for field in ("window_left", "window_right", "softcap", "scale"):
            values = [getattr(c, field) for c in DRAWN]
            self.assertIn(None, values)
            self.assertTrue(any(value is not None and value > 0 for value in values))
            self.assertTrue(any(value is not None and value < 0 for value in values))

    def test_draws_every_operand(self):
        # One of each combination of operands' words is enough.
        drawn = {tuple(re.findall(r"(?:^| )([a-z_]+)(?:=|(?= |$))", words)): words for words in (c.words() for c in DRAWN if c.must_compile())}
        texts, missing = [], set(compiler_lists.list_clauses(COMPILER))
        for names, words in drawn.items():
            if not set(names) <= {name for other, _ in texts for name in other}:
                texts.append((names, subprocess.run([COMPILER, f"--shape={words}", "--emit=input"], text=True, capture_output=True, check=True).stdout))
        self.assertEqual({clause for clause in missing if not any(f" {clause}(" in text for _, text in texts)}, set())

    def test_draws_every_option_legal_or_not(self):
        options = {option for c in DRAWN for option in c.options}
        for name, (legal, illegal) in SCHEDULE.items():
            self.assertLessEqual({f"--{name}={value}" for value in legal}, options)
            self.assertTrue(options & {f"--{name}={value}" for value in illegal}, name)
        self.assertLessEqual({f"--chip={chip}" for chip in CHIPS}, options)

    def test_draws_every_field_of_a_schedule(self):
        # Asked of the compiler, not of what the fuzzer knows.
        drawn = {option.partition("=")[::2] for c in DRAWN for option in c.options}
        for name, words in FIELDS.items():
            option = "--" + name.replace("_", "-")
            values = {value for found, value in drawn if found == option}
            self.assertLessEqual(set(words), values, name)
            self.assertGreater(len(values), 2, name)

    def test_whole_schedules_are_of_every_product(self):
        whole = [dict(option.partition("=")[::2] for option in c.options) for c in DRAWN if len(c.options) >= len(FIELDS)]
        products = {values["--product"] for values in whole}
        self.assertLessEqual({"warp", "wmma", "thread"}, products)
        for values in whole:
            self.assertEqual(values["--exchange"] == "none", values["--product"] == "warp", values)

    def test_draws_every_kind_of_size(self):
        runs = [run for c in DRAWN for run in c.runs]
        sizes = [run.sizes for run in runs]
        self.assertTrue(any(hq > hkv for _, hq, hkv, _, _ in sizes))
        self.assertTrue(any(sq > sk > 0 for *_, sq, sk in sizes))
        for axis in (0, 3, 4):
            self.assertIn(0, {size[axis] for size in sizes})
        self.assertEqual({run.layout for run in runs}, {"bhsd", "bshd", "packed"})
        self.assertEqual({run.kind for run in runs}, {"normal", "rising", "falling", "shifted", "spiked", "masked", "large", "sinks", "infinite"})
        for c in DRAWN:
            kinds = {run.kind for run in c.runs}
            self.assertFalse("infinite" in kinds and not c.bias or "masked" in kinds and not (c.bias or c.alibi) or "sinks" in kinds and not c.sinks or "large" in kinds and c.rotary)
        shapes = [c.shape for c in DRAWN]
        self.assertTrue(any("?" not in shape for shape in shapes))
        self.assertIn(("?",) * 5, shapes)
        self.assertTrue(any("?" in shape and set(shape) != {"?"} for shape in shapes))

    def test_runs_fit_their_type(self):
        for c in DRAWN:
            for run in c.runs:
                self.assertEqual(run.sizes[1] % run.sizes[2], 0)
                for size, known in zip(run.sizes, c.shape):
                    self.assertIn(known, ("?", size))
                if run.layout == "packed":
                    self.assertEqual((run.sizes[1], run.sizes[3]), (run.sizes[2], run.sizes[4]))

    def test_says_what_must_compile(self):
        self.assertTrue(drawn_attentions.Configuration(options=("--chip=sm_80",)).must_compile())
        for other in ({"head_dim": 264}, {"window_left": -1}, {"scale": 0.0}, {"softcap": 1e-42}, {"options": ("--block-m=64",)},
                      {"options": ("--chip=sm_60",)}, {"shape": (1, 3, 2, 8, 8)}):
            self.assertFalse(drawn_attentions.Configuration(**other).must_compile(), other)

    def test_writes_the_attention(self):
        text = drawn_attentions.Configuration(layout="dynamic", causal="top_left", window_left=3, scale=0.5, bias=("f32", "1h1k"), lse=False).words()
        for part in ("strided", "causal=top_left", "window=3,inf", "scale=5.0", "bias=1h1k:f32"):
            self.assertIn(part, text)
        self.assertNotIn("lse", text)
        packed = drawn_attentions.Configuration(shape=(2, 3, 3, 10, 10), layout="packed").words()
        self.assertIn("strided<[5760, 64, 576, 1], offset: 192>", packed)

    def test_refuses_an_unknown_field(self):
        with self.assertRaisesRegex(ValueError, "but got 'sead'"):
            drawn_attentions.Configuration.parse("sead=3")


class VerdictTest(unittest.TestCase):
    """Stand-ins for the tools answer as a broken one would."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tool(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/usr/bin/env python3\nimport json, os, sys\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def kind(self, compiler, runner="sys.exit(3)", **fields):
        """What is wrong, by the kind that check() raises; None where nothing is."""
        fuzzer = fuzz.Fuzzer(self.tool("compiler", compiler), self.tool("runner", runner), "emulator", self.folder)
        try:
            fuzzer.check(drawn_attentions.Configuration(runs=(drawn_attentions.Run((1, 1, 1, 3, 3), seed=5),), **fields))
        except fuzz.Problem as problem:
            return problem.kind
        self.counts = fuzzer.counts
        return None

    def runner(self, result):
        """Answers every entry of the grid with the value of `result`."""
        return ("value = sys.argv; grid = json.load(open(value[value.index('--grid') + 1]))\n"
                f"json.dump([{result} for entry in grid], open(value[value.index('--json') + 1], 'w'))")

    def test_compiler(self):
        self.assertEqual(self.kind("os.abort()"), "crash")
        self.assertEqual(self.kind("import signal; os.kill(os.getpid(), signal.SIGXCPU)"), "hang")
        self.assertEqual(self.kind("sys.exit('error: LLVM ERROR: x')"), "internal error")
        self.assertEqual(self.kind("sys.exit(1)", head_dim=264), "refusal")
        self.assertEqual(self.kind("sys.exit('error: no')"), "refusal")
        self.assertIsNone(self.kind("sys.exit('error: no')", head_dim=264))
        self.assertEqual(self.counts["refused"], 1)

    def test_results(self):
        self.assertIsNone(self.kind("", self.runner("{'result': 'PASS'}")))
        self.assertEqual(self.counts["runs"], 1)
        self.assertEqual(self.kind("", self.runner("{'result': 'FAIL', 'error': 'a race'}")), "finding")
        self.assertEqual(self.kind("", self.runner("{'result': 'ERROR', 'error': 'no'}")), "run")
        self.assertEqual(self.kind("", "os.abort()"), "crash")
        self.assertEqual(self.kind("", "sys.exit(2)"), "run")

    def test_bad_luck_is_told_apart(self):
        self.assertEqual(self.kind("", self.runner("{'result': 'FAIL'}")), "comparison")
        self.assertIsNone(self.kind("", self.runner("{'result': 'FAIL' if entry['seed'] == 5 else 'PASS'}")))
        self.assertEqual(self.counts["failed once, then passed"], 1)


class ProgramsTest(unittest.TestCase):
    DRAWN = [programs.Generator(1, index, CHIPS) for index in range(400)]

    def test_is_deterministic(self):
        for index in (0, 7, 399):
            self.assertEqual(programs.Generator(1, index, CHIPS).program.text(), self.DRAWN[index].program.text())
        self.assertNotEqual(programs.Generator(2, 7, CHIPS).program.text(), self.DRAWN[7].program.text())

    def test_draws_every_op_and_what_stands_between(self):
        # Asked of the compiler: what an op of its own may be.
        text = "".join(drawn.program.text() for drawn in self.DRAWN)
        for op in ("attention", "append", "merge", "delta"):
            self.assertIn(f"flashcore.{op} ", text)
        for word in ("memref.alloc()", "memref.alloc(%", "memref.subview", "memref.dim", "rotary(", "turned(", "seqused_k(", "sink(", "alibi(", "head_scale("):
            self.assertIn(word, text)

    def test_has_several_ops(self):
        for drawn in self.DRAWN:
            self.assertGreaterEqual(len(drawn.program.kinds), 2)
            self.assertEqual(drawn.program.text().count("flashcore."), len(drawn.program.kinds))

    def test_draws_every_chip_and_open_sizes(self):
        self.assertEqual({drawn.options[0] for drawn in self.DRAWN}, {f"--chip={chip}" for chip in CHIPS})
        self.assertEqual({name for drawn in self.DRAWN for name in drawn.program.open}, {"batch", "seqlen_q"})
        self.assertIn("--few-queries=16", {option for drawn in self.DRAWN for option in drawn.options})

    def test_types(self):
        self.assertEqual(programs.memref([2, None], "f16"), "memref<2x?xf16>")
        self.assertEqual(programs.memref([2, 4], "f16", [8, 1]), "memref<2x4xf16, strided<[8, 1]>>")
        self.assertEqual(programs.memref([2, 4], "f16", [None, 1], None), "memref<2x4xf16, strided<[?, 1], offset: ?>>")


STACK = """Stack dump:
 #0 0x1 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (libLLVM.so+0x1)
 #1 0x2 {frame}
 #2 0x3 mlir::MlirOptMain(int, char**) (libMLIR.so+0x3)
 #3 0x4 flashcoreOptMain(int, char**) (/bin/flashcore-opt+0x4)
"""


class OptTest(unittest.TestCase):
    def test_cases(self):
        cases = opt.seeds()
        self.assertGreater(len(cases), 300)
        self.assertFalse(any("RUN:" in case or "// -----" in case for case in cases))

    def test_mutates_deterministically(self):
        cases = opt.seeds()[:20]
        texts = [opt.Mutator(random.Random(3), cases).text(cases[5]) for _ in range(2)]
        self.assertEqual(texts[0], texts[1])
        many = {opt.Mutator(random.Random(i), cases).text(cases[5]) for i in range(50)}
        self.assertGreater(len(many), 30)
        data = opt.Mutator(random.Random(1), cases).bytes(b"MLIR" * 20)
        self.assertNotEqual(data, b"MLIR" * 20)

    def test_pipelines_are_for_every_chip(self):
        pipelines = " ".join(opt.Mutator(random.Random(i), ["y\n"], CHIPS).pipeline() for i in range(1000))
        for chip in CHIPS:
            self.assertRegex(pipelines, rf"chip={chip}\b")

    def test_every_edit_takes_every_text(self):
        for text in ("", "\n", "%a", "x = 1 : i32\n"):
            for i in range(100):
                opt.Mutator(random.Random(i), ["y\n"]).text(text)

    def test_tells_whose_crash_it_is(self):
        ours = opt.Crash("exit -11", STACK.format(frame="(/bin/flashcore-opt+0x40)"))
        self.assertEqual(ours.owner(), "ours")
        theirs = opt.Crash("exit -11", STACK.format(frame="mlir::parse() (libMLIR.so+0x40)"))
        self.assertEqual(theirs.owner(), "upstream: no frame of ours")
        self.assertNotEqual(ours.signature, theirs.signature)
        self.assertEqual(opt.Crash("hang", "").owner(), "ours")

    def test_tells_an_endless_pass_from_endless_reading(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder) / "tool"
            tool.write_text("#!/bin/sh\n"
                            "case \"$3\" in *spin*) kill -XCPU $$;; esac\n"
                            "if grep -q endless $1; then kill -XCPU $$; fi\n")
            tool.chmod(0o755)
            runner = opt.Runner(str(tool), folder)
            self.assertEqual(runner.run(b"a\n", "spin").owner(), "ours")
            self.assertEqual(runner.run(b"endless\n", "spin").owner(), "upstream: no frame of ours")

    def test_minimises_a_crash(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder) / "tool"
            tool.write_text("#!/bin/sh\nif grep -q boom $1; then kill -SEGV $$; fi\n")
            tool.chmod(0o755)
            runner = opt.Runner(str(tool), folder)
            self.assertIsNone(runner.run(b"a\nb\n", "p"))
            crash = runner.run(b"a\nboom\nb\nc\n", "p")
            self.assertEqual(crash.status, "exit -11")
            self.assertEqual(runner.minimise(b"a\nboom\nb\nc\n", "p", crash), b"boom\n")


if __name__ == "__main__":
    unittest.main()
