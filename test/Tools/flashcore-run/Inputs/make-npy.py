"""Writes a .npy file of counting values as NumPy does, without NumPy.

usage: make-npy.py FILE TYPE SHAPE [--fortran] [--nan INDEX] [--values 1,0]
TYPE is f2, f4, f8, bf16 or, with values, i4; SHAPE is 1,2,3,4.
"""

import math
import struct
import sys

file, kind, shape = sys.argv[1:4]
sizes = [int(size) for size in shape.split(",")]
values = [i % 7 / 4 for i in range(math.prod(sizes))]
if "--values" in sys.argv:
    values = [int(value) for value in sys.argv[sys.argv.index("--values") + 1].split(",")]
if "--nan" in sys.argv:
    values[int(sys.argv[sys.argv.index("--nan") + 1])] = math.nan
if kind == "bf16":
    descr = "<V2"
    data = b"".join(struct.pack("<f", value)[2:] for value in values)
else:
    descr = f"<{kind}"
    code = {"f2": "e", "f4": "f", "f8": "d", "i4": "i"}[kind]
    data = struct.pack(f"<{len(values)}{code}", *values)
order = "--fortran" in sys.argv
header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({', '.join(map(str, sizes))},), }}"
header += " " * (-(len(header) + 11) % 64) + "\n"
with open(file, "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
