#!/usr/bin/env python3
"""Mutates the .mlir files of test/ and runs flashcore-opt on what comes out.

Text is mutated by tokens and lines, bytecode by bytes. Errors are fine; a signal, a
failed assertion, an abort of LLVM or more than 10 s of the processor is a bug. Each new one (by its
stack) is minimised by lines and stored in build/fuzz-opt with the command that
repeats it. Those without a frame of ours in the stack are counted as upstream's, and
so is what SKIPPED names; they do not fail the run.
"""
import argparse
import collections
import hashlib
import itertools
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import compiler_lists

# Seconds a command. Time of the processor decides, because the machine may be busy;
# the clock ends what sleeps.
CPU_LIMIT = 10
CLOCK_LIMIT = 600
MINIMISE_TRIES = 150
TOKEN = re.compile(r'"[^"]*"|[%@!#^]?[\w.$-]+|->|\S')
NUMBERS = ["0", "1", "-1", "2", "3", "7", "16", "17", "64", "4096", "2147483648", "9223372036854775807",
           "-9223372036854775808", "1.0e+30", "0x7FC00000", "?"]
TYPES = ["f16", "bf16", "f32", "f64", "i1", "i8", "i32", "i64", "index", "none", "tensor<?x?xf32>", "memref<4x4xf16>",
         "vector<4xf32>", "vector<2x2xf16>", "memref<?x?x?x64xf16>"]
FUNCTION_PASSES = ["simplify-kernel", "online-softmax", "promote-shared", "pipeline-loops", "start-next-tile",
                   "hand-over-slots", "insert-barriers", "infer-in-bounds", "skip-hidden-tiles", "split-masked-tiles", "assign-layouts",
                   "distribute"]
# Beside the chips.
OPTIONS = ["block-m=64", "block-m=128", "block-n=32", "num-warps=2", "num-warps=4",
           "num-stages=3", "query=shared", "query=registers", "query=split", "overlap=qk", "row-max=stale", "row-max=folded", "row-max=checked", "row-sum=mma", "min-blocks=2",
           "key-splits=3", "key-warps=2", "key-warps=4", "softmax=one_pass", "softmax=unfused", "grid=persistent",
           "invariance=batch", "invariance=batch split-keys=128"]
ABORTS = ("LLVM ERROR", "UNREACHABLE", "Assertion", "Stack dump", "AddressSanitizer", "runtime error:", "terminate called")
FRAME = re.compile(r"^ *#\d+ 0x[0-9a-f]+ (.*)$", re.MULTILINE)
# Frames that every stack has.
HANDLERS = ("___interceptor", "PrintStackTrace", "SignalHandler", "RunSignalHandlers", "libc.so", "__restore_rt")
# Stack frame: why a crash that has it is not ours.
SKIPPED = {}


def seeds():
    """The cases of every test, without their comments."""
    cases = []
    for path in sorted((ROOT / "test").rglob("*.mlir")):
        for case in re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE):
            lines = [line for line in case.splitlines() if line.strip() and not line.strip().startswith("//")]
            if lines:
                cases.append("\n".join(lines) + "\n")
    return cases


class Mutator:
    def __init__(self, rng, cases, chips=()):
        self.rng, self.cases = rng, cases
        self.options = [f"chip={chip}" for chip in chips] + OPTIONS

    def text(self, text):
        edits = [self.swap_tokens, self.change_number, self.change_type, self.drop_token, self.copy_token, self.drop_line,
                 self.copy_line, self.swap_lines, self.change_word, self.splice, self.change_attribute]
        for _ in range(self.rng.choice([1, 1, 1, 2, 3, 6])):
            text = self.rng.choice(edits)(text)
        return text

    def replace(self, text, pattern, choose):
        """`text` with one match of `pattern` replaced, if there is one."""
        matches = list(re.finditer(pattern, text))
        if not matches:
            return text
        match = self.rng.choice(matches)
        return text[:match.start()] + choose(match) + text[match.end():]

    def swap_tokens(self, text):
        matches = list(TOKEN.finditer(text))
        if len(matches) < 2:
            return text
        a, b = sorted(self.rng.sample(matches, 2), key=lambda match: match.start())
        return text[:a.start()] + b[0] + text[a.end():b.start()] + a[0] + text[b.end():]

    def change_number(self, text):
        return self.replace(text, r"(?<![\w%])-?\d+(\.\d+(e[+-]\d+)?)?", lambda _: self.rng.choice(NUMBERS))

    def change_type(self, text):
        return self.replace(text, r"\b(bf16|f16|f32|i1|i32|i64|index)\b|(memref|tensor|vector)<[^<>]*>",
                            lambda _: self.rng.choice(TYPES))

    def change_attribute(self, text):
        """Another value, or none, for a clause or an attribute."""
        value = lambda match: match[1] + self.rng.choice([*NUMBERS, *TYPES, '"x"', "[]", "{}", "true"])
        return self.replace(text, r"(\w+ = )[\w.+-]+|(\w+\()[\w.+-]+(?=\))",
                            lambda match: value(match) if match[1] else match[2] + self.rng.choice(NUMBERS))

    def drop_token(self, text):
        return self.replace(text, TOKEN, lambda _: "")

    def copy_token(self, text):
        return self.replace(text, TOKEN, lambda match: match[0] + " " + match[0])

    def change_word(self, text):
        """A name in place of another of the same kind."""
        match = list(re.finditer(r"[%@!#]\w+", text))
        same = [m[0] for m in match]
        return self.replace(text, r"[%@!#]\w+", lambda m: self.rng.choice([s for s in same if s[0] == m[0][0]]))

    def edit_lines(self, text, edit):
        lines = text.splitlines(keepends=True)
        edit(lines, self.rng.randrange(len(lines)) if lines else 0)
        return "".join(lines)

    def drop_line(self, text):
        return self.edit_lines(text, lambda lines, i: lines.__delitem__(slice(i, i + 1)))

    def copy_line(self, text):
        return self.edit_lines(text, lambda lines, i: lines.__setitem__(slice(i, i), lines[i:i + 1]))

    def swap_lines(self, text):
        return self.edit_lines(text, lambda lines, i: lines.__setitem__(slice(i, i + 2), lines[i:i + 2][::-1]))

    def splice(self, text):
        """A line of another case."""
        other = self.rng.choice(self.rng.choice(self.cases).splitlines())
        return self.edit_lines(text, lambda lines, i: lines.__setitem__(slice(i, i), [other + "\n"]))

    def bytes(self, data):
        data = bytearray(data)
        if self.rng.randrange(5) == 0:
            return bytes(data[:self.rng.randrange(len(data))])
        for _ in range(self.rng.choice([1, 1, 2, 4, 16])):
            data[self.rng.randrange(len(data))] = self.rng.choice([0, 1, 0x7F, 0x80, 0xFF, self.rng.randrange(256)])
        return bytes(data)

    def pipeline(self):
        """A pipeline of some of our passes."""
        options = "{" + " ".join(self.rng.sample(self.options, self.rng.randrange(4))) + "}"
        kind = self.rng.randrange(10)
        if kind < 3:
            return f"builtin.module(flashcore-lower-to-nvvm{options})"
        if kind == 3:
            return "builtin.module(flashcore-bufferize)"
        if kind == 4:
            return f"builtin.module(flashcore-configure{options},flashcore-decompose,flashcore-tile)"
        if kind == 5:
            return "builtin.module(gpu.module(flashcore-to-nvvm))"
        if kind == 6:  # the whole order of the function passes
            names = FUNCTION_PASSES
        else:
            names = self.rng.sample(FUNCTION_PASSES, self.rng.randint(1, 3))
        passes = ",".join(f"flashcore-{name}" for name in names)
        return f"builtin.module(gpu.module(gpu.func({passes})))"


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT + 5))


class Crash:
    def __init__(self, status, output):
        self.status, self.output = status, output
        frames = [frame for frame in FRAME.findall(output) if not any(name in frame for name in HANDLERS)]
        # The driver's own frame and those that called it are in every stack.
        self.frames = list(itertools.takewhile(lambda frame: "OptMain" not in frame, frames))
        abort = next((line for line in output.splitlines() if any(word in line for word in ABORTS[:3])), "")
        self.signature = f"{status} {re.sub('[0-9]+', 'N', abort)[:100]} {'|'.join(self.frames[:3])}"

    def name(self):
        return hashlib.sha1(self.signature.encode()).hexdigest()[:10]

    def owner(self):
        """`ours`, or the reason why it is not."""
        for frame, reason in SKIPPED.items():
            if any(frame in one for one in self.frames):
                return reason
        if self.status == "hang" or any("flashcore" in frame or "fcgpu" in frame for frame in self.frames):
            return "ours"
        return "upstream: no frame of ours"


class Runner:
    def __init__(self, tool, folder):
        self.tool, self.folder = tool, pathlib.Path(folder)

    def command(self, pipeline, path):
        return [self.tool, str(path), "--allow-unregistered-dialect", f"--pass-pipeline={pipeline}", "-o", os.devnull]

    @staticmethod
    def execute(command):
        """The result, or nothing if the command took too long."""
        try:
            result = subprocess.run(command, capture_output=True, timeout=CLOCK_LIMIT, preexec_fn=limit_cpu)
        except subprocess.TimeoutExpired:
            return None
        return None if result.returncode == -signal.SIGXCPU else result

    def run(self, data, pipeline):
        """A Crash, or nothing."""
        path = self.folder / "input"
        path.write_bytes(data)
        result = self.execute(self.command(pipeline, path))
        if not result:
            # Where reading alone does not end, no pass of ours has run.
            reads = self.execute(self.command("builtin.module()", path))
            return Crash("hang" if reads else "endless reading", "")
        output = result.stderr.decode(errors="replace")
        if result.returncode in (0, 1) and not any(word in output for word in ABORTS):
            return None
        return Crash(f"exit {result.returncode}", output)

    def bytecode(self, text):
        path = self.folder / "seed.mlir"
        path.write_text(text)
        command = [self.tool, str(path), "--allow-unregistered-dialect", "--emit-bytecode", "-o", "-"]
        result = subprocess.run(command, capture_output=True, timeout=CLOCK_LIMIT)
        return result.stdout if result.returncode == 0 else None

    def minimise(self, data, pipeline, crash):
        """Drops lines, in ever smaller chunks, while the crash stays."""
        lines, tries = data.splitlines(keepends=True), 0
        size = len(lines) // 2
        while size:
            start = 0
            while start < len(lines) and tries < MINIMISE_TRIES:
                less, tries = lines[:start] + lines[start + size:], tries + 1
                again = self.run(b"".join(less), pipeline)
                if again and again.signature == crash.signature:
                    lines = less
                else:
                    start += size
            size //= 2
        return b"".join(lines)


class Fuzzer:
    def __init__(self, runner, seed, out, chips):
        self.runner, self.seed, self.out, self.chips = runner, seed, out, chips
        self.cases, self.encoded = seeds(), {}
        self.counts, self.found = collections.Counter(), {}

    def encode(self, text):
        if text not in self.encoded:
            self.encoded[text] = self.runner.bytecode(text)
        return self.encoded[text]

    def step(self, index):
        """One input, drawn from the seed and its number alone."""
        rng = random.Random(f"{self.seed}/{index}")
        mutator = Mutator(rng, self.cases, self.chips)
        case, pipeline = rng.choice(self.cases), mutator.pipeline()
        binary = self.encode(case) if rng.randrange(5) == 0 else None
        data = mutator.bytes(binary) if binary else mutator.text(case).encode()
        self.counts["bytecode" if binary else "text"] += 1
        crash = self.runner.run(data, pipeline)
        if crash is None:
            return
        self.counts[f"crashes ({crash.owner()})"] += 1
        if crash.signature not in self.found:
            self.found[crash.signature] = crash
            self.store(data, pipeline, crash, bool(binary))

    def store(self, data, pipeline, crash, binary):
        if not binary and crash.status != "hang":
            data = self.runner.minimise(data, pipeline, crash)
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{crash.name()}{'.mlirbc' if binary else '.mlir'}"
        path.write_bytes(data)
        path.with_suffix(".log").write_text(crash.output)
        print(f"CRASH ({crash.owner()}): {crash.status}\n  " + "\n  ".join(frame[:150] for frame in crash.frames[:8]) +
              f"\n  {shlex.join(self.runner.command(pipeline, path))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opt", default=str(ROOT / "build/release/bin/flashcore-opt"), help="the flashcore-opt to test")
    parser.add_argument("--compiler", default=str(ROOT / "build/release/bin/flashcore-compile"), help="the flashcore-compile that lists chips")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/fuzz-opt")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations (default: the time)")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--minutes", type=float, default=1)
    limit.add_argument("--count", type=int, help="try so many inputs, however long it takes")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else int(time.time())
    end, index = time.monotonic() + 60 * args.minutes, 0
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(Runner(args.opt, folder), seed, args.out, compiler_lists.list_chips(args.compiler))
        try:
            while index < args.count if args.count is not None else time.monotonic() < end:
                fuzzer.step(index)
                index += 1
        except OSError as error:
            print(f"fuzz-opt: {error}", file=sys.stderr)
            return 2
    print(f"seed {seed}: {index} inputs of {len(fuzzer.cases)} cases, {len(fuzzer.found)} distinct crashes; " +
          ", ".join(f"{count} {name}" for name, count in fuzzer.counts.items()))
    return 1 if any(crash.owner() == "ours" for crash in fuzzer.found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
