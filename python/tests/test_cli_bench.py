"""flashcore bench and flashcore tune; test/Benchmarks has their own tests."""

import subprocess
import sys

import pytest

import flashcore
from flashcore.cli import tools


def run(*arguments, **options):
    command = [sys.executable, "-m", "flashcore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_list():
    result = run("bench", "list")
    assert result.returncode == 0 and "reference-causal" in result.stdout


def test_compile_uses_the_tools_of_the_package(tmp_path):
    result = run("bench", "compile", "--problems", "reference-dense", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    out = tmp_path / "flashcore-results/bench"
    assert list(out.glob("**/*.fcb")) and tools.executable().exists()


def test_names():
    for name in ("bench", "tune"):
        assert f"usage: flashcore {name} " in run(name, "--help").stdout
    assert f"flashcore-{name}" not in run(name, "--help").stdout


@pytest.mark.parametrize("arguments", [["bench", "run"], ["tune", "run"]])
def test_without_torch(tmp_path, arguments):
    """Says how to get it."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    path = f"{tmp_path}:{flashcore.__path__[0]}/.."
    result = run(*arguments, "--problems=reference-dense", cwd=tmp_path, env={"PYTHONPATH": path})
    assert result.returncode == 2
    assert result.stderr == (
        "flashcore: error: No module named 'torch'; run needs PyTorch: "
        "https://pytorch.org/get-started/locally\n"
    )
