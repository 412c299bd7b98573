"""Takes the PTX out of a gpu.binary, and writes what stages/layouts.mlir reads and what it should write.

usage: layouts.py ISA.mlir FOLDER
"""
import pathlib
import re
import sys

from arrays import write_npy

SIZE = 16


def multiply(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(SIZE)) for j in range(SIZE)] for i in range(SIZE)]


def flatten(rows):
    return [value for row in rows for value in row]


def main(isa, folder):
    folder = pathlib.Path(folder)
    text = re.search(r'assembly = "((?:[^"\\]|\\.)*)"', pathlib.Path(isa).read_text()).group(1)
    ptx = re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code.group(1), 16)), text)
    (folder / "kernel.ptx").write_text(ptx.rstrip("\0"))

    # Small integers: every sum is exact.
    x = [[(7 * i + 3 * j * j) % 9 - 4 for j in range(SIZE)] for i in range(SIZE)]
    square = multiply([[2 * value for value in row] for row in x], [[2 * value for value in row] for row in x])
    columns = [sum(row[j] for row in square) for j in range(SIZE)]
    places = [[-x[i][j] if i <= j else x[i][j] for j in range(SIZE)] for i in range(SIZE)]
    write_npy(folder / "x.npy", (SIZE, SIZE), "e", flatten(x))
    write_npy(folder / "centred.npy", (SIZE, SIZE), "f", flatten([[v - c for v, c in zip(row, columns)] for row in square]))
    write_npy(folder / "columns.npy", (SIZE,), "f", columns)
    write_npy(folder / "rows.npy", (SIZE,), "f", [max(row) for row in places])
    write_npy(folder / "mapped.npy", (SIZE, SIZE), "f", flatten(multiply(x, places)))


main(*sys.argv[1:])
