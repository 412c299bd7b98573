"""Compares what ptxas says that two PTX files use, kernel by kernel. Prints it,
and exits with 1 unless registers, stack and spills are the same.

usage: same-resources.py PTXAS CHIP OURS.ptx THEIRS.ptx
"""
import re
import subprocess
import sys

ptxas, chip, *files = sys.argv[1:]


def report(file):
    """The lines of `ptxas -v` on each kernel, but for times and memory banks."""
    text = subprocess.run(
        [ptxas, "-v", "-O3", f"-arch={chip}", file, "-o", "/dev/null"],
        check=True, capture_output=True, text=True,
    ).stderr
    kernels = re.split(r"Compiling entry function '(\w+)'", text)[1:]
    return {
        name: (
            int(re.search(r"Used (\d+) registers", body)[1]),
            int(re.search(r"(\d+) bytes stack frame", body)[1]),
            int(re.search(r"(\d+) bytes spill stores", body)[1]),
        )
        for name, body in zip(kernels[::2], kernels[1::2])
    }


ours, theirs = map(report, files)
for name, (registers, stack, spills) in ours.items():
    print(f"{name}: {registers} registers, {stack} bytes of stack, {spills} spilled")
if ours != theirs:
    sys.exit(f"expects the same of both, but got {theirs}")
