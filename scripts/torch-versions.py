#!/usr/bin/env python3
"""Runs the tests of the Python package beside several PyTorchs and Transformers.

Each pair has an environment of its own in build/torch-versions, with the wheel that
scripts/wheel.sh built, and runs scripts/transformers-models.py, too. With --update what
is supported is written into docs/PyTorch.md. The exit code is 1 if a test fails, a model
does not agree, or a pair was not installed.
"""
import argparse
import concurrent.futures
import datetime
import os
import pathlib
import re
import subprocess
import sys

import marked_blocks

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/PyTorch.md"
VENVS = ROOT / "build/torch-versions"
#: PyTorch and Transformers, as pip is told; "" is the newest. The oldest of each, those
#: of the figures on the pages, and the oldest that `register_flash` knows.
PAIRS = [("==2.8.*", "==5.4.*"), ("==2.11.*", ""), ("", "==5.19.*"), ("", "")]
HEADING = "| PyTorch | Transformers | passed | skipped | failed | models |\n|---|---|---:|---:|---:|---|\n"


def install(python, torch, transformers):
    (wheel,) = (ROOT / "build/wheel").glob("*.whl")
    # Without psutil Transformers takes a CPU for one without memory, and batches nothing.
    packages = [f"{wheel}[test]", f"torch{torch}", f"transformers{transformers}", "psutil"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--upgrade", *packages], check=True)
    # The wheel of the tree, whatever was there.
    again = ["--quiet", "--no-deps", "--force-reinstall", wheel]
    subprocess.run([python, "-m", "pip", "install", *again], check=True)
    versions = "import torch, transformers; print(torch.__version__.partition('+')[0], transformers.__version__)"
    return subprocess.run([python, "-c", versions], check=True, capture_output=True, text=True).stdout.split()


def test(python, arguments):
    """How many passed, were skipped and failed; errors are failures."""
    files = arguments or sorted(str(path) for path in (ROOT / "python/tests").glob("test_*.py"))
    # Not from the root, where `import flashcore` would find the sources.
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--show-capture=no", *files]
    run = subprocess.run(command, cwd=ROOT / "build", capture_output=True, text=True)
    print(command[0], run.stdout[-20000:], run.stderr[-2000:], flush=True)
    last = run.stdout.strip().splitlines()[-1] if run.stdout.strip() else ""
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|skipped|failed|error)", last)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if run.returncode and not failed:
        failed = 1  # it did not get as far
    return counts.get("passed", 0), counts.get("skipped", 0), failed


def run_models(python):
    """What the last line of scripts/transformers-models.py says, and whether all agree."""
    command = [python, ROOT / "scripts/transformers-models.py"]
    run = subprocess.run(command, cwd=ROOT / "build", capture_output=True, text=True)
    print(run.stdout, run.stderr[-2000:], flush=True)
    said = re.search(r"^(\d+ of \d+) models agree with PyTorch(.*)$", run.stdout, re.M)
    return said.expand(r"\1\2") if said else "not run", run.returncode == 0


def run_pair(number, tests):
    """The row of a pair, and how much of it is wrong."""
    torch, transformers = PAIRS[number]
    venv = VENVS / f"{number}"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin/python"
    try:
        versions = install(python, torch, transformers)
    except subprocess.CalledProcessError:
        print(f"torch-versions: cannot install torch{torch} and transformers{transformers}", flush=True)
        return "", 1
    passed, skipped, failed = test(python, tests)
    models, agree = ("not run", True) if tests else run_models(python)
    print(f"torch-versions: PyTorch {versions[0]}, Transformers {versions[1]}: "
          f"{passed} passed, {skipped} skipped, {failed} failed, models: {models}", flush=True)  # fmt: skip
    return f"| {' | '.join(versions)} | {passed:,} | {skipped:,} | {failed} | {models} |\n", failed + (not agree)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the table into docs/PyTorch.md")
    parser.add_argument("tests", nargs="*", help="files of tests, with their whole paths; all by default")
    args = parser.parse_args()
    if args.update and args.tests:
        parser.error("expects --update with all tests, but got some")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda number: run_pair(number, args.tests), range(len(PAIRS))))
    rows, bad = "".join(row for row, _ in results), sum(wrong for _, wrong in results)
    if args.update:
        day = datetime.date.today()
        marked_blocks.write(PAGE, "torch-versions", f"{day.day} {day:%B %Y}, on the CPU:\n\n{HEADING}{rows}")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
