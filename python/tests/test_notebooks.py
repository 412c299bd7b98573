"""The notebooks of the documentation run, and show what they print."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flashcore

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/notebooks.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="not in the source tree")
def test_notebooks():
    pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
    pytest.importorskip("ipykernel", reason="pip install nbclient ipykernel")
    environment = {**os.environ, "PYTHONPATH": str(Path(flashcore.__file__).parents[1])}
    result = subprocess.run(
        [sys.executable, SCRIPT, "--check"], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
