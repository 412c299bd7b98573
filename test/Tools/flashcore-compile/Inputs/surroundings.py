"""Runs a command in surroundings that no shell can make.

usage: surroundings.py closed 2 COMMAND...       without this file descriptor
       surroundings.py file-size N COMMAND...    files end at N bytes, as on a full disk
       surroundings.py memory N COMMAND...       with N bytes of memory
       surroundings.py terminal 0 COMMAND...     the standard output is a terminal
       surroundings.py SIGTERM FILE COMMAND...   gets this signal once FILE holds the
                                                 number of a process, which must end, too

Exits as the command does; with the last, with 0 if the signal ended it.
"""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

kind, value, *command = sys.argv[1:]


def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(value), int(value)))


def is_running(process):
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def run_in_terminal():
    leader, follower = os.openpty()
    code = subprocess.run(command, stdout=follower).returncode
    os.close(follower)
    return code


def interrupt():
    number = getattr(signal, kind)
    # A shell's background job ignores SIGINT, and so would all that it starts.
    process = subprocess.Popen(command, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    deadline = time.monotonic() + 60
    file = pathlib.Path(value)
    while not (file.exists() and file.read_text().endswith("\n")):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"expects the command to write {value}")
        time.sleep(0.01)
    child = int(file.read_text())
    process.send_signal(number)
    code = process.wait()
    if code != -number:
        sys.exit(f"expects the end by {kind}, but got {code}")
    while is_running(child):
        if time.monotonic() > deadline:
            sys.exit(f"expects process {child} to end, too")
        time.sleep(0.01)
    return 0


if kind == "closed":
    sys.exit(subprocess.run(command, close_fds=False, preexec_fn=lambda: os.close(int(value))).returncode)
if kind == "file-size":
    sys.exit(subprocess.run(command, preexec_fn=limit_files, restore_signals=False).returncode)
if kind == "memory":
    limit = int(value), int(value)
    sys.exit(subprocess.run(command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit)).returncode)
sys.exit(run_in_terminal() if kind == "terminal" else interrupt())
