"""Commands of a fuzzer: its own arguments, what ends those that it runs, and which ends are faults."""
import argparse
import os
import pathlib
import resource
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Inputs of which a comparison that failed must pass all.
RETRIES = 3
# Seconds a command. Time of the processor decides, because the machine may be busy;
# the clock ends what sleeps. Wide kernels of threads take two minutes of the emulator.
CPU_LIMIT = 240
CLOCK_LIMIT = 1200
# What no message to a user contains.
INTERNAL = ("PLEASE submit", "LLVM ERROR", "Assertion", "UNREACHABLE", "Stack dump", "failed to legalize", "internal error",
            "does not dominate", "Intrinsic has incorrect", "terminate called", "runtime error:", "AddressSanitizer")


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT + 5))


class Problem(Exception):
    """What is wrong with a configuration; `kind` groups its counts."""

    def __init__(self, kind, detail):
        super().__init__(detail)
        self.kind = kind


def execute(command, **options):
    """Runs it to its end with its output as text; raises a Problem where it has none, or one that no user should see."""
    try:
        result = subprocess.run(command, text=True, errors="replace", capture_output=True, timeout=CLOCK_LIMIT, preexec_fn=limit_cpu, **options)
    except subprocess.TimeoutExpired:
        raise Problem("hang", f"{command[0]} takes more than {CLOCK_LIMIT} s") from None
    if result.returncode == -signal.SIGXCPU:
        raise Problem("hang", f"{command[0]} takes more than {CPU_LIMIT} s of the processor")
    text = result.stdout + result.stderr
    internal = next((word for word in INTERNAL if word in text), None)
    if result.returncode not in (0, 1, 2):
        raise Problem("crash", f"{command[0]} ends with {result.returncode}\n{text[-2000:]}")
    if internal:
        raise Problem("internal error", f"{command[0]} says '{internal}'\n{text[-2000:]}")
    return result


def make_parser(description, drawn):
    """What the command lines of fuzzers that compile and run have alike; ``drawn`` is what they draw, in the plural."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    binaries = ROOT / "build/release/bin"
    parser.add_argument("--compiler", default=binaries / "flashcore-compile", type=os.fspath)
    parser.add_argument("--runner", default=binaries / "flashcore-run", type=os.fspath)
    parser.add_argument("--device", choices=["emulator", "cuda"], default="emulator")
    parser.add_argument("--seed", type=int, default=None, help="of what is drawn (default: the time)")
    parser.add_argument("--print", action="store_true", help=f"print the {drawn} that --count draws and stop")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--minutes", type=float, default=1)
    limit.add_argument("--count", type=int, help=f"draw so many {drawn}, however long it takes")
    return parser
