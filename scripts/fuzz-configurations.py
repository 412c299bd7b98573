#!/usr/bin/env python3
"""Compiles and runs random attentions, and compares them with the reference.

A configuration is an attention (types, sizes, layouts, masks, scores), a chip, a
schedule and a few runs of the kernel. It is drawn from the seed and its number
alone, legal or not. What the compiler refuses must be refused with an error and
exit code 1 (2 for an option); what it takes must run on the device without a
finding and give the right results. Anything else (a signal, an internal error, no
end, a refused default) is reported with the command that repeats it, and the exit
code is 1.

A comparison that fails is repeated with other inputs, because the largest error
of a few rows is a matter of luck; it counts if it fails again.
"""
import collections
import dataclasses
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import compiler_lists
from drawn_attentions import Configuration, Generator, schedule_values
from fuzz_commands import RETRIES, Problem, execute, make_parser

# What chips without tensor cores for a type say of lists that none of their blocks can walk (C17).
UNSUPPORTED = re.compile(r"has block lists of \d+ queries, but sm_\d+ has only products of threads")
# What the runner says where the chip that was drawn is newer than the card.
OTHER_CARD = "expects a device that runs"


class Fuzzer:
    def __init__(self, compiler, runner, device, folder):
        self.compiler, self.runner, self.device, self.folder = compiler, runner, device, pathlib.Path(folder)
        self.counts = collections.Counter()

    def compile(self, configuration):
        """The bundle, or nothing where it is refused."""
        bundle = self.folder / "kernel.fcb"
        command = [self.compiler, f"--shape={configuration.words()}", "--emit=bundle", "--no-cubin", "-o", str(bundle), *configuration.options]
        result = execute(command, stdin=subprocess.DEVNULL)
        if result.returncode == 0:
            return bundle
        if "error:" not in result.stderr:
            raise Problem("refusal", f"expects an error beside exit code {result.returncode}, but got\n{result.stderr}")
        is_unsupported = configuration.blocks and configuration.blocks[0] % 32 and UNSUPPORTED.search(result.stderr)
        if configuration.must_compile() and not is_unsupported:
            raise Problem("refusal", f"expects a kernel, but got\n{result.stderr}")
        return None

    def run(self, configuration, runs, bundle):
        """Results of the runs as flashcore-run writes them."""
        grid, out = self.folder / "grid.json", self.folder / "out.json"
        grid.write_text(json.dumps([configuration.entry(run, bundle.name) for run in runs]))
        out.unlink(missing_ok=True)
        command = [self.runner, f"--device={self.device}", "--grid", str(grid), "--json", str(out)]
        if self.device == "emulator":
            command += [f"--emu-schedule={configuration.schedule}", f"--emu-async={configuration.copies}",
                        f"--emu-threads={configuration.threads}",
                        f"--emu-multiprocessors={configuration.multiprocessors}"]
        result = execute(command)
        results = json.loads(out.read_text()) if out.exists() else []
        if len(results) != len(runs):
            raise Problem("run", f"expects {len(runs)} results, but got {len(results)}\n{result.stdout}{result.stderr}")
        return results

    def is_bad_luck(self, configuration, run, bundle):
        """Whether a failed comparison passes with all other inputs."""
        others = [dataclasses.replace(run, seed=run.seed + i + 1) for i in range(RETRIES)]
        return all(result["result"] == "PASS" for result in self.run(configuration, others, bundle))

    def check(self, configuration):
        """Compiles and runs it; raises a Problem where something is wrong."""
        bundle = self.compile(configuration)
        self.counts["refused" if bundle is None else "compiled"] += 1
        if bundle is None or not configuration.runs:
            return
        for run, result in zip(configuration.runs, self.run(configuration, configuration.runs, bundle)):
            self.counts["runs"] += 1
            if result["result"] == "PASS":
                continue
            if self.device == "cuda" and OTHER_CARD in result.get("error", ""):
                self.counts["for other cards"] += 1
                continue
            if "error" in result:
                raise Problem("finding" if result["result"] == "FAIL" else "run", f"{run}: {result['error']}")
            if self.is_bad_luck(configuration, run, bundle):
                self.counts["failed once, then passed"] += 1
                continue
            errors = {name: result[name] for name in ("o", "lse", "scores") if name in result}
            raise Problem("comparison", f"{run}: {json.dumps(errors)}")

    def report(self, configuration):
        """Whether the configuration is fine; else says what is not."""
        self.counts["configurations"] += 1
        try:
            self.check(configuration)
            return True
        except Problem as problem:
            self.counts[problem.kind] += 1
            print(f"{problem.kind.upper()}: {problem}\n  scripts/fuzz-configurations.py --device {self.device} "
                  f"--one {shlex.quote(configuration.spec())}", flush=True)
            return False


def parse_arguments():
    parser = make_parser(__doc__, "configurations")
    parser.add_argument("--one", metavar="SPEC", help="only this configuration, as a report names it")
    return parser.parse_args()


def configurations(args, seed):
    if args.one:
        yield Configuration.parse(args.one)
        return
    end = time.monotonic() + 60 * args.minutes
    index = 0
    chips = compiler_lists.list_chips(args.compiler)
    schedule = schedule_values(compiler_lists.list_schedule_fields(args.compiler))
    while index < args.count if args.count is not None else time.monotonic() < end:
        yield Generator(seed, index, chips, schedule).draw()
        index += 1


def main():
    args = parse_arguments()
    seed = args.seed if args.seed is not None else int(time.time())
    if args.print:
        for configuration in configurations(args, seed):
            print(configuration.spec())
        return 0
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(str(args.compiler), str(args.runner), args.device, folder)
        try:
            for configuration in configurations(args, seed):
                passed &= fuzzer.report(configuration)
        except (ValueError, OSError) as error:
            print(f"fuzz-configurations: {error}", file=sys.stderr)
            return 2
    print(f"seed {seed}: " + ", ".join(f"{count} {name}" for name, count in fuzzer.counts.items()))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
