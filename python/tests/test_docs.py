"""The commands of the pages that need the package are as shown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flashcore

ROOT = Path(__file__).resolve().parents[2]
CHECKER = ROOT / "scripts/check-docs.py"
CANDIDATES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [page for page in CANDIDATES if page.exists() and "<!-- check: package" in page.read_text()]


def test_there_are_pages():
    assert not CHECKER.exists() or ROOT / "docs/CommandLine.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path):
    for name, arguments in (("flashcore", "-m flashcore "), ("python3", "")):
        command = tmp_path / name
        command.write_text(f"#!/bin/sh\nexec '{sys.executable}' {arguments}\"$@\"\n")
        command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(flashcore.__file__).parents[1]),
    }
    result = subprocess.run(
        [sys.executable, CHECKER, "--when=package", "--llvm", tmp_path, page.relative_to(ROOT)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
