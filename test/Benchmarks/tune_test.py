"""Tests of flashcore-tune without a GPU: times come from a cost model, while
kernels, ptxas (if present), counters and errors are real."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import random
import subprocess
import tempfile
import types
import unittest

from support import BENCHMARKS

from flashcore_benchmarks import problems, results, tune
from flashcore_benchmarks.package import Bundle
from flashcore_benchmarks.errors import UserError
from flashcore_benchmarks.progress import Progress
from flashcore_benchmarks.toolchain import Toolchain, attention
from flashcore_benchmarks.tuning import (
    evaluate,
    schedules,
    tune_report,
    tuning_file,
)
from flashcore_benchmarks.tuning.search import Settings

TOOLS = os.environ["FLASHCORE_TOOLS"]
assert BENCHMARKS.is_dir()
FIELDS = schedules.known_fields(Toolchain(TOOLS, "."))


class ScriptedToolchain(Toolchain):
    """The real tools, except those with an entry in `answers`: a function
    from arguments to standard output."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.answers = {}

    def run(self, tool, arguments, **options):
        if tool not in self.answers:
            return super().run(tool, arguments, **options)
        text = self.answers[tool](list(arguments))
        return subprocess.CompletedProcess([tool], 0, text, "")


class NoAssembler(Toolchain):
    """The real tools where there is no ptxas."""

    def run(self, tool, arguments, **options):
        emits = {"--emit=cubin", "--emit=bundle"}.intersection(arguments)
        if emits and "--no-cubin" not in arguments:
            text = "error: cannot find ptxas in $CUDA_HOME/bin"
            return subprocess.CompletedProcess([tool], 1, "", text)
        return super().run(tool, arguments, **options)


class ModelTimer:
    """A card on which the default is slow and little shared memory is fast,
    with 1 % of noise and a drift that depend on the seed."""

    errors_on = "emulator"
    chip = "sm_89"

    def __init__(self, name="Model", sms=128):
        self.timed, self._card = [], {"name": name, "sms": sms}

    def card(self):
        return self._card

    def time(self, problem, bundles, rounds, seed):
        self.timed.append(sorted(bundles))
        rng = random.Random(f"{seed}")
        samples = {name: [] for name in bundles}
        for _ in range(rounds):
            drift = 1 + 0.2 * rng.random()
            for name, path in bundles.items():
                noise = 1 + 0.01 * rng.random()
                cost = self.cost(name, path)
                samples[name].append(cost * drift * noise)
        return samples, {}

    @staticmethod
    def cost(name, path):
        shared = Bundle(path).kernels[0].dynamic_shared_memory
        return (100 if name == "default" else 50) + shared / 4096


class SchedulesTest(unittest.TestCase):
    def test_fields_are_those_of_the_compiler(self):
        """What --explain calls a choice is a field, and the other way round."""
        toolchain = Toolchain(TOOLS, ".")
        words = problems.select(["reference-dense"])[0].text(attention)
        arguments = ["--emit=mlir", "--explain"]
        text = toolchain.run_compiler(words, arguments).stderr
        lines = text.split("\n  shared ")[0].splitlines()[1:]
        known = {field.name for field in schedules.known_fields(toolchain)}
        self.assertEqual({line.split()[0] for line in lines}, known)

    def test_names_no_field_that_the_compiler_lacks(self):
        known = {field.name: field for field in FIELDS}
        numbers = {n for n, f in known.items() if isinstance(f.values[0], int)}
        self.assertEqual(set(schedules.NUMBERS), numbers)
        self.assertLessEqual(set(schedules.FIXED), set(known))
        for name, words in schedules.OTHERS.items():
            self.assertEqual(known[name].others, words)
            self.assertFalse(set(known[name].values) & set(words))

    def test_a_number_without_values_is_an_error(self):
        class Newer:
            def run(self, *_):
                line = "num_spins --num-spins number Spins per block"
                return types.SimpleNamespace(stdout=line)

        with self.assertRaisesRegex(UserError, "expects values of num_spins"):
            schedules.known_fields(Newer())

    def test_options(self):
        given = {"block_m": 64, "grid_order": "head_fastest"}
        wanted = ["--block-m=64", "--grid-order=head_fastest"]
        self.assertEqual(schedules.options(given), wanted)

    def test_neighbours(self):
        field = schedules.Field("x", (1, 2, 4))
        self.assertEqual(field.neighbours(2), [1, 4])
        self.assertEqual(field.neighbours(4), [2])
        self.assertEqual(field.neighbours(3), [2, 4])
        self.assertEqual(
            schedules.Field("y", ("a", "b")).neighbours("a"), ["b"]
        )

    def test_mutates_one_or_two_fields_by_a_step(self):
        rng = random.Random(1)
        parent = {field.name: field.values[0] for field in FIELDS}
        parent |= {"query": "split", "query_steps": 1}
        parent |= {"grid_order": "head_fastest", "grid_heads": 4}
        changes = set()
        for _ in range(300):
            child = schedules.mutate(rng, parent, FIELDS)
            changed = [name for name in child if child[name] != parent[name]]
            if child["query"] != "split":
                self.assertEqual(child["query_steps"], 0)
                changed.remove("query_steps")
            if child["grid_order"] != "head_fastest" or child["key_splits"] > 1:
                self.assertEqual(child["grid_heads"], 0)
                changed.remove("grid_heads")
            self.assertIn(len(changed), (1, 2))
            for field in FIELDS:
                if field.name in changed:
                    self.assertIn(
                        child[field.name],
                        field.neighbours(parent[field.name]),
                    )
            changes.update(changed)
        searched = [f for f in FIELDS if not f.is_fixed]
        self.assertEqual(changes, {field.name for field in searched})

    def test_no_search_changes_a_promise(self):
        rng = random.Random(1)
        parent = {field.name: field.values[0] for field in FIELDS}
        for change in (schedules.draw, schedules.mutate):
            for promise in ("none", "batch"):
                parent["invariance"] = promise
                for _ in range(100):
                    child = change(rng, parent, FIELDS)
                    self.assertEqual(child["invariance"], promise)

    def test_proposes_new_ones_only(self):
        fields = (
            schedules.Field("x", (1, 2, 3)),
            schedules.Field("y", ("a", "b")),
        )
        seen = {"x=1,y=a", "x=2,y=b"}
        parents = [{"x": 1, "y": "a"}]
        drawn = [
            schedules.propose(random.Random(5), parents, fields, 9, seen)
            for _ in range(2)
        ]
        self.assertEqual(drawn[0], drawn[1])
        keys = {schedules.key(s) for s in drawn[0]}
        self.assertEqual(keys, {"x=1,y=b", "x=2,y=a", "x=3,y=a", "x=3,y=b"})


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.toolchain = ScriptedToolchain(TOOLS, self.folder)
        self.problem = problems.select(["bert-b1-dense"])[0]


class EvaluateTest(Folder):
    def setUp(self):
        super().setUp()
        self.evaluator = evaluate.Evaluator(
            self.toolchain, self.problem, self.folder, "sm_89", "emulator"
        )
        self.fields = schedules.known_fields(self.toolchain)
        self.default = self.evaluator.default_schedule(self.fields)

    def test_reads_the_default(self):
        self.assertEqual(self.default["block_m"], 16)
        self.assertEqual(self.default["key_warps"], 4)
        self.assertEqual(self.default["query"], "registers")
        self.assertEqual(list(self.default), [f.name for f in self.fields])

    def test_a_good_schedule(self):
        candidate = self.evaluator.examine(self.default, "a")
        self.assertEqual((candidate.status, candidate.reason), ("good", ""))
        used = candidate.resources
        self.assertEqual(used["shared_bytes"], 73728)
        self.assertEqual(
            used["shared_wavefronts"], used["shared_wavefronts_ideal"]
        )
        self.assertGreater(used["mma"], 0)

    def test_the_compilers_refusal(self):
        candidate = self.evaluator.examine(self.default | {"num_warps": 3}, "a")
        self.assertEqual(candidate.status, "refused")
        self.assertIn("key-warps to divide num-warps = 3", candidate.reason)
        self.assertNotIn("\n", candidate.reason)

    def test_wavefronts(self):
        reference = self.evaluator.examine(self.default, "a")
        reference.resources["shared_wavefronts"] //= 4
        self.evaluator.set_reference(reference)
        candidate = self.evaluator.examine(self.default, "b")
        self.assertEqual(candidate.status, "rejected")
        self.assertIn("times the default's shared-memory", candidate.reason)

    def test_does_without_ptxas(self):
        toolchain = NoAssembler(TOOLS, self.folder)
        evaluator = evaluate.Evaluator(
            toolchain, self.problem, self.folder, "sm_89", "emulator"
        )
        self.assertEqual(len(evaluator.notes), 1)
        candidate = evaluator.examine(self.default, "a")
        self.assertEqual(candidate.status, "good")
        self.assertNotIn("registers", candidate.resources)

    def test_conflicts(self):
        counters = {"shared_wavefronts": 120, "shared_wavefronts_ideal": 100}
        answer = json.dumps({"counters": counters | {"mma": 50}})
        self.toolchain.answers["emu"] = lambda arguments: answer
        candidate = self.evaluator.examine(self.default, "a")
        self.assertEqual(candidate.status, "rejected")
        self.assertEqual(
            candidate.reason, "20 wavefronts of bank conflicts beside 100"
        )

    def test_spills(self):
        if self.evaluator.notes:
            self.skipTest(self.evaluator.notes[0])
        tight = self.default | {
            "block_m": 128,
            "num_warps": 4,
            "key_warps": 1,
            "block_n": 64,
            "min_blocks": 4,
        }
        candidate = self.evaluator.examine(tight, "a")
        self.assertEqual(candidate.status, "rejected")
        self.assertRegex(candidate.reason, r"spills \d+ bytes, more than 100")

    def test_errors(self):
        candidate = self.evaluator.examine(self.default, "a")
        shares, text = self.evaluator.check_errors(candidate, draws=2)
        self.assertEqual((set(shares), text), ({"normal", "rising"}, ""))
        self.assertTrue(all(0 < share <= 1 for share in shares.values()))

    def test_wrong_results(self):
        def answer(arguments):
            path = arguments[arguments.index("--json") + 1]
            good = {"result": "PASS", "kind": "normal"}
            good["o"] = {"error": 1e-4, "allowed": 2e-4}
            bad = {"result": "FAIL", "kind": "rising"}
            bad["o"] = {"error": 3e-4, "allowed": 2e-4}
            path.write_text(json.dumps([good, bad]))
            return ""

        self.toolchain.answers["run"] = answer
        candidate = evaluate.Candidate(
            self.default, bundle=self.folder / "a.fcb"
        )
        shares, text = self.evaluator.check_errors(candidate, draws=1)
        self.assertEqual((shares, text), (None, "its error is too large"))


class TuneTest(Folder):
    SETTINGS = Settings(
        seed=3, generations=2, population=4, keep=2, batch=1, draws=1
    )

    def tuner(self, timer, out="out", settings=SETTINGS, **options):
        return tune.Tuner(
            timer, self.toolchain, self.folder / out, None, settings, **options
        )

    def run_tuner(self, tuner, **options):
        progress = Progress(99, io.StringIO())
        return tuner.run([self.problem], progress=progress, **options)

    def test_finds_what_the_card_likes(self):
        timer = ModelTimer()
        tuner = self.tuner(timer)
        self.assertTrue(self.run_tuner(tuner))
        self.assertTrue(all("default" in names for names in timer.timed))
        self.check_state(tuner.state["problems"][self.problem.name])
        self.check_file(self.folder / "out/tuning.json")
        text = (self.folder / "out/report.md").read_text()
        self.assertEqual(text, tune_report.write(tuner.state))
        self.assertRegex(text, r"\| bert-b1-dense \| .* us \| \+\d.* % \|")
        # Again: nothing is left to do.
        count = len(timer.timed)
        self.assertTrue(self.run_tuner(self.tuner(timer)))
        self.assertEqual(len(timer.timed), count)
        self.check_continues(tuner.state["problems"])

    def check_state(self, state):
        statuses = {c["status"] for c in state["candidates"].values()}
        self.assertIn("good", statuses)
        winner = state["outcome"]["winner"]
        self.assertGreater(winner["gain"], 0.05)
        self.assertEqual(len(winner["us"]["rounds"]), 10)
        finalists = state["outcome"]["finalists"]
        self.assertEqual(winner["gain"], max(row["gain"] for row in finalists))
        self.assertEqual(set(winner["errors"]), {"normal", "rising"})

    def check_file(self, path):
        """The compiler takes what was written, for this problem."""
        (entry,) = json.loads(path.read_text())["entries"]
        arguments = ["--explain", "-o", self.folder / "x.ptx"]
        result = self.toolchain.run_compiler(
            self.problem.text(attention),
            [*arguments, f"--tuning-file={path}"],
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("entries[0]       tuned on Model", result.stderr)
        fields = schedules.known_fields(self.toolchain)
        chosen = schedules.parse_explanation(result.stderr, fields)
        self.assertEqual(chosen, entry["schedule"])

    def check_continues(self, whole):
        """A search that time ended has an outcome, and goes on to end as if it
        never had been stopped."""
        timer = ModelTimer()
        tuner = self.tuner(timer, "parts")
        progress = Progress(9, io.StringIO())
        outcome = tuner.search(
            self.problem, progress, is_late=lambda: bool(timer.timed)
        )
        self.assertFalse(outcome["complete"])
        rest = self.tuner(ModelTimer(), "parts")
        self.run_tuner(rest)
        self.assertEqual(rest.state["problems"], whole)

    def test_stops_in_time(self):
        timer = ModelTimer()
        tuner = self.tuner(timer)
        self.assertFalse(self.run_tuner(tuner, minutes=0.0))
        self.assertEqual(timer.timed, [])
        self.assertIn("unfinished", (self.folder / "out/report.md").read_text())

    def test_keeps_the_default_without_a_clear_gain(self):
        settings = dataclasses.replace(
            self.SETTINGS, generations=1, min_gain=9.0
        )
        tuner = self.tuner(ModelTimer(), settings=settings)
        self.run_tuner(tuner)
        data = json.loads((self.folder / "out/tuning.json").read_text())
        self.assertEqual(data["entries"], [])
        report = (self.folder / "out/report.md").read_text()
        self.assertIn("the default stays", report)

    def test_searches_a_given_problem(self):
        """Its features are in the reduced kernels and in the tuning file."""
        words = "h4/2 s300 d64/32 bf16 causal window=20 softcap=30 bias=1h1k bshd"
        options = ["run", "--shape", words]
        (self.problem,) = tune.select(
            tune.parse_arguments(options), self.toolchain
        )
        settings = dataclasses.replace(
            self.SETTINGS, generations=1, population=2, keep=1, min_gain=0.0
        )
        self.assertTrue(
            self.run_tuner(self.tuner(ModelTimer(), settings=settings))
        )
        folder = self.folder / "out/bundles" / self.problem.name
        features = Bundle(folder / "default-count.fcb").attention
        self.assertEqual(features["window_left"], 20)
        self.assertEqual(features["softcap"], 30)
        self.assertEqual(features["dims"]["seqlen_q"], 70)
        self.assertEqual(features["dims"]["head_dim_v"], 32)
        manifest = Bundle(folder / "default.fcb").manifest
        self.assertEqual(manifest["tensors"][0]["strides"][1], 64)
        state = json.loads((self.folder / "out/state.json").read_text())
        self.assertTrue(
            state["problems"][self.problem.name]["outcome"]["complete"]
        )
        what = tuning_file.problem_class(self.problem, 128)
        self.assertEqual(
            [what[key] for key in ("softcap", "bias", "window", "head_dim_v")],
            [True, True, True, 32],
        )

        # A file of the same name may hold another problem the next time.
        self.problem = dataclasses.replace(self.problem, source="other")
        with self.assertRaisesRegex(UserError, "has another problem of the name"):
            self.run_tuner(self.tuner(ModelTimer(), settings=settings))

    def test_refuses_another_state(self):
        self.tuner(ModelTimer()).save()
        other = dataclasses.replace(self.SETTINGS, seed=4)
        with self.assertRaisesRegex(
            UserError, "made with settings .*: use --fresh"
        ):
            self.tuner(ModelTimer(), settings=other)
        with self.assertRaisesRegex(
            UserError, "made on Model, but this is Other"
        ):
            self.tuner(ModelTimer("Other"))
        self.tuner(ModelTimer("Other"), is_fresh=True)

    def test_checks_its_settings(self):
        settings = dataclasses.replace(self.SETTINGS, rounds=4)
        with self.assertRaisesRegex(
            UserError, "--rounds of at least 5, but got 4"
        ):
            self.tuner(ModelTimer(), settings=settings)


class TuningFileTest(unittest.TestCase):
    WINNER = {
        "schedule": {"block_m": 16},
        "gain": 0.1,
        "us": {"median": 9.0, "min": 8.0, "max": 10.0},
        "default_us": {"median": 10.0},
        "errors": {"normal": 0.5},
        "resources": {},
    }

    def make(self, *names, losers=()):
        outcomes = [
            (
                p,
                {
                    "winner": None if p.name in losers else self.WINNER,
                    "rounds": 10,
                },
            )
            for name in names
            for p in problems.select([name])
        ]
        data = tuning_file.make("Card", "sm_89", "2026-11-21", 132, outcomes)
        return data["entries"]

    def test_lengths_of_a_class_are_shared_out(self):
        names = [f"d64-s{s}-dense" for s in (512, 2048, 8192)]
        ranges = [e["problem"]["seqlen_k"] for e in self.make(*names)]
        self.assertEqual(ranges, [[1, 1024], [1025, 4096], [4097, None]])
        kept = [
            e["problem"]["seqlen_k"]
            for e in self.make(*names, losers=names[1:2])
        ]
        self.assertEqual(kept, [ranges[0], ranges[2]])

    def test_classes(self):
        dense, decode = self.make("d128-s4096-dense", "decode-b1-k8192-dense")
        self.assertEqual(dense["problem"]["seqlen_q"], [17, None])
        self.assertEqual(dense["problem"]["query_blocks"], [264, None])
        self.assertEqual(dense["problem"]["heads_per_kv"], [1, 1])
        self.assertEqual(decode["problem"]["heads_per_kv"], [4, 4])
        self.assertEqual(decode["problem"]["seqlen_q"], [1, 16])
        self.assertEqual(decode["problem"]["query_blocks"], [1, 131])
        self.assertEqual(decode["problem"]["seqlen_k"], [1, None])


class CommandTest(Folder):
    def main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = tune.main([str(a) for a in arguments])
        return code, out.getvalue(), err.getvalue()

    def test_something_must_be_searched(self):
        code, _, err = self.main("run", "--tools", TOOLS, "--out", self.folder)
        self.assertEqual(code, 2)
        self.assertEqual(
            err,
            "flashcore-tune: error: expects --problems, --shape or --mlir, but "
            "got none\n",
        )
        code, _, err = self.main(
            *("run", "--tools", TOOLS, "--out", self.folder, "--shape", "b1 x")
        )
        self.assertEqual(code, 2)
        self.assertIn("error: --shape: expects sizes", err)

    def test_bad_states_are_errors(self):
        code, _, err = self.main("report", self.folder)
        self.assertEqual(code, 2)
        self.assertIn("flashcore-tune: error: cannot read", err)
        results.write_json(self.folder / "state.json", {"format": "x"})
        code, _, err = self.main("report", self.folder)
        self.assertEqual(code, 2)
        self.assertIn("is no state of this version", err)


if __name__ == "__main__":
    unittest.main()
