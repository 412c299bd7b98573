"""flashcore completion, bash's by bash itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flashcore.cli import COMMANDS, TOOLS
from flashcore.cli.completion import SHELLS

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
    ],
)
def test_bash(words, expected):
    assert bash(words) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_it(shell):
    said = subprocess.run(
        [sys.executable, "-m", "flashcore", "completion", shell], capture_output=True, text=True
    ).stdout
    assert "doctor" in said and "flashcore" in said
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=said, text=True, check=True)


def test_they_are_fresh():
    """What is committed is what the arguments say."""
    pytest.importorskip("shtab")
    script = Path(__file__).resolve().parents[2] / "scripts/completions.py"
    if not script.exists():
        pytest.skip("not in the source tree")
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
