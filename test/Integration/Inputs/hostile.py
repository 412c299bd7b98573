"""Kernels of warpgroups on inputs that no random draw has.

usage: hostile.py COMPILER RUN WORK_DIR

All keys and queries equal, so that each row of O is the mean of the values; and a
NaN in one key of one head, which makes all of that head's rows NaN and leaves
the others' bits as they are. For each way to follow the row maximum.
"""

import pathlib
import random
import struct
import subprocess
import sys

from arrays import read_npy, write_npy

HEADS, QUERIES, KEYS, DIM = 2, 130, 200, 64
FORMS = {
    "exact": ["--row-max=exact"],
    "stale": ["--row-max=stale"],
    "checked": ["--row-max=checked", "--overlap=none"],
}


def write(path, rows, values):
    write_npy(path, (1, HEADS, rows, DIM), "e", values)


def read_heads(path):
    """The bytes of O of each head."""
    data = read_npy(path)
    size = len(data) // HEADS
    return [data[i * size:(i + 1) * size] for i in range(HEADS)]


def run(command, *options):
    return subprocess.run([*map(str, command), *map(str, options)], text=True,
                          capture_output=True)


def main():
    compiler, runner = sys.argv[1:3]
    folder = pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    draw = lambda rows: [rng.gauss(0, 1) for _ in range(HEADS * rows * DIM)]
    key = draw(KEYS)
    write(folder / "q.npy", QUERIES, draw(QUERIES))
    write(folder / "v.npy", KEYS, draw(KEYS))
    write(folder / "k.npy", KEYS, key)
    key[100 * DIM + 7] = float("nan")
    write(folder / "nan.npy", KEYS, key)
    for name, rows in (("q", QUERIES), ("k", KEYS)):
        write(folder / f"equal-{name}.npy", rows, [0.5] * HEADS * rows * DIM)
    for name, options in FORMS.items():
        bundle = folder / f"{name}.fcb"
        shape = f"h{HEADS} s{QUERIES}x{KEYS} d{DIM}"
        made = run([compiler, "--shape", shape, "--chip=sm_90a", "--emit=bundle"],
                   "--product=warpgroup", "--no-cubin", "-o", bundle, *options)
        if made.returncode:
            sys.exit(made.stderr)
        command = [runner, bundle, "--device=emulator", "--v", folder / "v.npy"]
        equal = run(command, "--q", folder / "equal-q.npy", "--k",
                    folder / "equal-k.npy")
        print(f"{name}: equal rows {equal.stdout.split()[0]}")
        outputs = []
        for k in ("k", "nan"):
            o = folder / f"{name}-{k}-o.npy"
            run(command, "--q", folder / "q.npy", "--k", folder / f"{k}.npy",
                "--out-o", o)
            outputs.append(read_heads(o))
        (_, plain), (lost, other) = outputs
        values = struct.unpack(f"<{len(lost) // 2}e", lost)
        print(f"{name}: rows of the head with a NaN "
              f"{'NaN' if all(x != x for x in values) else 'numbers'}, of the "
              f"other {'the same' if plain == other else 'others'}")


main()
