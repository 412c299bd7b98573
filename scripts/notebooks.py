#!/usr/bin/env python3
"""Runs the notebooks of docs/notebooks and writes their outputs into them.

Needs nbclient, ipykernel and the Python package. A cell that raises is an error;
--check also fails where an output differs from that in the file, times apart,
and writes nothing.
"""
import argparse
import pathlib
import re
import sys

import nbclient
import nbformat

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs/notebooks"


def execute(path):
    notebook = nbformat.read(path, 4)
    try:
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False).execute()
    except nbclient.exceptions.CellExecutionError as error:
        sys.exit(f"{path.name}: {error}")
    # The machine's Python is not what a notebook is about.
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
    return notebook


def outputs(notebook):
    """What is compared, by cell."""
    shown = []
    for cell in notebook.cells:
        texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
        shown.append(re.sub(r"\d+\.\d+ m?s\b", "... s", "".join(texts)))
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    stale = []
    for path in sorted(FOLDER.glob("*.ipynb")):
        was, now = nbformat.read(path, 4), execute(path)
        for number, (before, after) in enumerate(zip(outputs(was), outputs(now))):
            if before != after:
                stale.append(f"{path.name}: cell {number} prints\n{after}\nand the file has\n{before}")
        if not args.check:
            path.write_text(nbformat.writes(now) + "\n")
    if args.check and stale:
        sys.exit("\n".join([*stale, "run scripts/notebooks.py"]))


if __name__ == "__main__":
    main()
