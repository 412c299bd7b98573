"""flashcore completion, each shell's by the shell itself."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flashcore.cli import COMMANDS, TOOLS, main
from flashcore.cli.completion import FOLDER, SHELLS

COMPLETE = """
flashcore() {{ '{python}' -m flashcore "$@"; }}
source <(flashcore completion bash)
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
complete -p flashcore > /dev/null || exit 1
_shtab_flashcore flashcore "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
echo "${{COMPREPLY[@]}}"
"""


def bash(words):
    script = COMPLETE.format(python=sys.executable, words=words)
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.parametrize(
    "words, expected",
    [
        ("flashcore ''", [*TOOLS, *COMMANDS]),
        ("flashcore do", ["doctor"]),
        ("flashcore cache p", ["path", "prune", "precompile"]),
        ("flashcore cache prune --l", ["--limit"]),
        ("flashcore attention --st", ["--static"]),
        ("flashcore attention --device ''", ["cuda", "emulator", "reference"]),
        ("flashcore compile --block", ["--block-m", "--block-n"]),
        ("flashcore compile --emit b", ["bundle"]),
        ("flashcore run --device e", ["emulator"]),
        ("flashcore emu --ker", ["--kernel"]),
        ("flashcore bench ru", ["run"]),
        ("flashcore bench run --pe", ["--peers"]),
        ("flashcore tune run --min", ["--minutes", "--min-gain"]),
        ("flashcore completion ''", list(SHELLS)),
        ("flashcore attention x", []),
    ],
)
def test_bash(words, expected):
    assert bash(words) == expected


# zsh and fish complete for a terminal alone, so they get one ----------------

#: What is typed before the tabulator, and what stands in the line after it.
LINES = [
    ("flashcore do", "flashcore doctor "),
    ("flashcore cache pre", "flashcore cache precompile "),
    ("flashcore cache precompile --ch", "flashcore cache precompile --chips "),
    ("flashcore attention --st", "flashcore attention --static "),
    ("flashcore attention --device e", "flashcore attention --device emulator "),
    ("flashcore compile --block-", "flashcore compile --block-"),
    ("flashcore compile --emit bu", "flashcore compile --emit bundle "),
    ("flashcore emu --ker", "flashcore emu --kernel "),
    ("flashcore bench run --pe", "flashcore bench run --peers "),
    ("flashcore tune run --pro", "flashcore tune run --problems "),
    ("flashcore completion z", "flashcore completion zsh "),
]
#: Where a shell looks for completions, and a key that writes the line to a file.
SETTINGS = {
    "zsh": (
        "_flashcore",
        ".zshrc",
        """
fpath=({home} $fpath)
autoload -U compinit; compinit -u -d {home}/dump
unsetopt prompt_cr prompt_sp
report() {{ print -r -- "$BUFFER" > {home}/line; BUFFER=""; zle redisplay }}
zle -N report; bindkey '^X' report
PS1='READY>'
""",
    ),
    "fish": (
        "fish/completions/flashcore.fish",
        "fish/config.fish",
        """
function fish_prompt; echo -n 'READY>'; end
function report; commandline > {home}/line; commandline ''; end
bind \\cx report
""",
    ),
}


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, shell, home):
        place, settings, text = SETTINGS[shell]
        for name, content in (
            (place, (FOLDER / f"flashcore.{shell}").read_text()),
            (settings, text.format(home=home)),
            ("bin/flashcore", "#!/bin/sh\n"),  # fish completes what can run
        ):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(content)
        (home / "bin/flashcore").chmod(0o755)
        self.line = home / "line"
        environment = {
            "HOME": home, "ZDOTDIR": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home / "data",
            "PATH": f"{home}/bin:{os.environ['PATH']}", "TERM": "xterm", "LC_ALL": "C.UTF-8",
        }  # fmt: skip
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", shell, "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
            env={name: str(value) for name, value in environment.items()}, cwd=home,
        )  # fmt: skip
        os.close(theirs)
        self.file, self.shown = ours, b""
        assert self.wait(lambda: b"READY>" in self.shown), self.shown

    def wait(self, is_done, seconds=30):
        end = time.monotonic() + seconds
        while not is_done() and time.monotonic() < end:
            if select.select([self.file], [], [], 0.05)[0]:
                self.shown += os.read(self.file, 65536)
        return is_done()

    def complete(self, text):
        """The line after a tabulator."""
        self.line.unlink(missing_ok=True)
        os.write(self.file, f"{text}\t\x18".encode())
        written = lambda: self.line.exists() and self.line.read_text().endswith("\n")
        assert self.wait(written), self.shown
        return self.line.read_text()[:-1]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.file)


@pytest.fixture(scope="module", params=list(SETTINGS))
def terminal(request, tmp_path_factory):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    terminal = Terminal(request.param, tmp_path_factory.mktemp(request.param))
    yield terminal
    terminal.close()


@pytest.mark.parametrize("typed, expected", LINES)
def test_in_a_terminal(terminal, typed, expected):
    assert terminal.complete(typed) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_they_are_printed(shell):
    said = subprocess.run(
        [sys.executable, "-m", "flashcore", "completion", shell], capture_output=True, text=True
    ).stdout
    assert said == (FOLDER / f"flashcore.{shell}").read_text()


def test_a_package_without_them_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("flashcore.cli.completion.FOLDER", tmp_path)
    assert main(["completion", "zsh"]) == 2
    assert f"expects completions at {tmp_path}/flashcore.zsh, but got none" in capsys.readouterr().err


def test_they_are_fresh():
    """What the wheel has is what the arguments say."""
    pytest.importorskip("shtab")
    script = Path(__file__).resolve().parents[2] / "scripts/completions.py"
    if not script.exists():
        pytest.skip("not in the source tree")
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
