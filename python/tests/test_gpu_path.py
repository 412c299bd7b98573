"""Runs gpu_path.py in a process with a driver that needs no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "fakes"))

import build


@pytest.mark.skipif(build.compiler() is None, reason="needs a C++ compiler")
def test_gpu_path(tmp_path):
    build.build(tmp_path)
    environment = dict(
        os.environ,
        FLASHCORE_TEST_FAKES=str(tmp_path),
        FLASHCORE_CACHE_DIR=str(tmp_path / "cache"),
        FLASHCORE_PTXAS="none",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "gpu_path.py"]
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
