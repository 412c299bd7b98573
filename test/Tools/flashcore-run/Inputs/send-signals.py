"""send-signals.py FLASHCORE_RUN COMPILER OUT_DIR: ends flashcore-run by signals.

COMPILER is called in place of flashcore-compile. It writes its process number
into $PID_FILE and then waits. After each signal no directory may be left in
TMPDIR, the compiler must be gone, and the exit must name the signal.
"""

import os
import resource
import signal
import subprocess
import sys
import time

tool, compiler, out = sys.argv[1:]
temporary = os.path.join(out, "tmp")
pid_file = os.path.join(out, "pid")
os.makedirs(temporary)
environment = dict(os.environ, TMPDIR=temporary, PID_FILE=pid_file)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU,
           signal.SIGABRT, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "nothing happened for a minute"
        time.sleep(0.01)


def compiler_pid():
    """The number that the compiler wrote whole, or 0."""
    try:
        text = open(pid_file).read()
    except FileNotFoundError:
        return 0
    return int(text) if text.endswith("\n") else 0


def is_running(pid):
    try:
        state = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def start(ignored=()):
    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    if os.path.exists(pid_file):
        os.remove(pid_file)
    process = subprocess.Popen([tool, "a.mlir", f"--compiler={compiler}"], env=environment, preexec_fn=prepare)
    wait_for(compiler_pid)
    assert os.listdir(temporary), "expects a temporary directory while the compiler runs"
    return process


def check_end(process, number):
    process.wait(timeout=60)
    assert process.returncode == -number, f"expects {-number}, but got {process.returncode}"
    assert os.listdir(temporary) == [], f"expects nothing in TMPDIR, but got {os.listdir(temporary)}"
    wait_for(lambda: not is_running(compiler_pid()))


for number in SIGNALS:
    process = start()
    process.send_signal(number)
    check_end(process, number)
    print(number.name, "leaves nothing")

# Under nohup SIGHUP is ignored, and stays so.
process = start(ignored=[signal.SIGHUP])
process.send_signal(signal.SIGHUP)
time.sleep(0.2)
assert process.poll() is None, "SIGHUP ended a process that ignores it"
process.send_signal(signal.SIGTERM)
check_end(process, signal.SIGTERM)
print("an ignored SIGHUP stays ignored")
