"""Runs stored bundles of all versions on the emulator: bundles_test.py TOOLS FOLDER."""

import json
import pathlib
import subprocess
import sys
import tempfile

tools, folder = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/flashcore"))

from bundle import Bundle

stored = {int(path.stem.split("-")[1]): path for path in folder.glob("version-*.fcb")}
with tempfile.TemporaryDirectory() as out:
    now = pathlib.Path(out, "now.fcb")
    command = [tools / "flashcore-compile", "--shape=d16 s16", "--no-cubin", "--emit=bundle", "-o", now]
    subprocess.run(command, check=True)
    written = json.loads((now / "manifest.json").read_text())["version"]
if written not in stored:
    sys.exit(f"expects a bundle of version {written} in {folder}, but got {sorted(stored)}")
if max(stored) - min(stored) + 1 != len(stored):
    sys.exit(f"expects a bundle of every version, but got {sorted(stored)}")
for version, path in sorted(stored.items()):
    found = json.loads((path / "manifest.json").read_text())["version"]
    if found != version:
        sys.exit(f"expects {path} to be of version {version}, but got {found}")
    Bundle(path)
    command = [tools / "flashcore-run", path, "--device=emulator", "--seed=1"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode or not result.stdout.startswith("PASS "):
        sys.exit(f"{path}: {result.stdout}{result.stderr}")
