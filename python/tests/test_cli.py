"""The command flashcore: what it hands on, and how it says errors."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flashcore import _core
from flashcore.cli import COMMANDS, TOOLS, tools

SHAPE = "b1 h1 s16 d16 f16"


def flashcore(*arguments, **options):
    command = [sys.executable, "-m", "flashcore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def refused(message, *arguments, **options):
    result = flashcore(*arguments, **options)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"flashcore: error: {message}\n"


def test_help_lists_all():
    for spelling in ("--help", "-h", "help"):
        result = flashcore(spelling)
        assert result.returncode == 0
        listed = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")]
        assert listed == [*TOOLS, *COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each(name):
    result = flashcore(name, "--help")
    assert result.returncode == 0 and f"usage: flashcore {name}" in result.stdout


def test_version():
    executable = subprocess.run([tools.executable(), "--version"], capture_output=True, text=True)
    assert flashcore("--version").stdout == executable.stdout == f"{_core.version()}\n"


def test_usage_errors():
    refused("expects a subcommand, but got none; see flashcore --help")
    listed = ", ".join([*TOOLS, *COMMANDS])
    refused(f"expects one of {listed} as subcommand, but got 'comple'; see flashcore --help", "comple")
    see = "; see flashcore attention --help"
    refused(f"expects PROBLEM, but got none{see}", "attention")
    refused(f"expects a value for --seed, but got none{see}", "attention", SHAPE, "--seed")
    refused(f"expects --seed to be a whole number, but got '-1'{see}", "attention", SHAPE, "--seed=-1")
    refused(f"expects no further arguments, but got '--sed 1'{see}", "attention", SHAPE, "--sed", "1")
    refused(f"expects no value for --json, but got '1'{see}", "attention", SHAPE, "--json=1")
    result = flashcore("attention", SHAPE, "--device=tpu")
    assert result.returncode == 2 and "but got 'tpu'" in result.stderr
    assert result.stderr.startswith("flashcore: error: expects --device to be one of ")


def tool(*arguments, **options):
    """The executable, without Python."""
    command = [tools.executable(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.mark.parametrize(
    "arguments",
    [
        ["opt", "--version"],
        ["compile", f"--shape={SHAPE}"],
        ["compile", "--shape=nothing"],
        ["compile", "--emit=input", f"--shape={SHAPE}", "-o", "/nowhere/at/all"],
        ["run", f"--shape={SHAPE}", "--device=emulator", "--seed=1"],
        ["run", "--shape", SHAPE, "--device=emulator", "--", "--block-n=17"],
        ["emu", "--help"],
    ],
)
def test_tools_are_handed_on(arguments):
    ours, theirs = flashcore(*arguments), tool(*arguments)
    said = [
        (result.returncode, result.stdout, re.sub(r"flashcore-run-\w+", "TMP", result.stderr))
        for result in (ours, theirs)
    ]
    assert said[0] == said[1] and (ours.stdout or ours.stderr)


def test_input_and_output_are_streams():
    module = tool("compile", f"--shape={SHAPE}", "--emit=input").stdout
    assert flashcore("opt", "-", input=module).stdout == tool("opt", "-", input=module).stdout != ""


def test_a_reader_that_leaves_ends_a_tool():
    """Python ignores SIGPIPE; a tool that it becomes must not."""
    script = f"'{sys.executable}' -m flashcore compile --help | head -n1; echo ${{PIPESTATUS[0]}}"
    output = subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout
    first, code = output.splitlines()
    assert first.startswith("OVERVIEW") and int(code) in (0, 128 + signal.SIGPIPE)


def test_signals_reach_a_tool():
    """The process is the tool: what ends it is what the caller sees."""
    command = [sys.executable, "-m", "flashcore", "opt", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    name = Path(f"/proc/{process.pid}/exe")
    deadline = time.monotonic() + 60
    while os.readlink(name) != str(tools.executable().resolve()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()  # SIGINT may be ignored, where tests run in the background
    process.communicate()
    assert process.returncode == -signal.SIGTERM


def test_tools_cost_little():
    """Neither NumPy nor PyTorch, nor what only other subcommands need."""
    script = (
        "import os, sys\n"
        "os.execv = lambda *_: print(*sys.modules)\n"
        "from flashcore.cli import main\n"
        "main(['compile', '--version'])\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = set(said.stdout.split())
    assert "flashcore.cli.tools" in loaded
    assert not loaded & {"numpy", "torch", "argparse", "json", "flashcore.resolve"}


def test_a_package_without_tools(monkeypatch, capsys):
    monkeypatch.setattr(tools, "executable", lambda: Path("/nowhere/flashcore"))
    assert tools.execute("opt", []) == 2
    assert capsys.readouterr().err == (
        "flashcore: error: expects the tools at /nowhere/flashcore, but got: No such file or "
        "directory; install the package again\n"
    )


def test_json_has_no_nan(capsys):
    from flashcore.cli.command import print_json

    print_json({"a": [float("nan"), float("inf"), 1.5], "b": (True, None, "x")})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None, 1.5], "b": [True, None, "x"]}


# Progress -------------------------------------------------------------------


class Terminal:
    def __init__(self, is_terminal=True):
        self.text, self.is_terminal = "", is_terminal

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.mark.parametrize(
    "is_terminal, silent, seconds, shown",
    [(True, False, 0.1, True), (True, False, 0, False), (False, False, 0.1, False), (True, True, 0.1, False)],
)
def test_progress(monkeypatch, is_terminal, silent, seconds, shown):
    from flashcore.cli.progress import Progress

    stream = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(Progress, "DELAY", 0.03)
    monkeypatch.setattr(Progress, "INTERVAL", 0.01)
    with Progress("thinking", silent=silent) as progress:
        time.sleep(seconds)
        progress.say("acting")
        time.sleep(seconds)
    assert ("thinking (" in stream.text) == ("acting (" in stream.text) == shown
    assert not shown or stream.text.endswith("\r\033[K")
