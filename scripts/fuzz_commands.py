"""Commands of a fuzzer: what ends them, and which ends are faults."""
import resource
import signal
import subprocess

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
