# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One-dimensional .npy files and .npz archives, without NumPy."""
import zipfile

MAGIC = b"\x93NUMPY\x01\x00"
TYPES = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def encode(data, element_bytes):
    header = f"{{'descr': '{TYPES[element_bytes]}', 'fortran_order': False, 'shape': ({len(data) // element_bytes},), }}"
    header += " " * (-(len(MAGIC) + 2 + len(header) + 1) % 64) + "\n"
    return MAGIC + len(header).to_bytes(2, "little") + header.encode() + data


def decode(data):
    """The elements' bytes."""
    if data[:6] != MAGIC[:6]:
        raise ValueError("it is no .npy file")
    return data[10 + int.from_bytes(data[8:10], "little"):]


class Archive:
    """A .npz file: arrays by name, and a text note. They are stored as they are:
    compressed as one (xz), the file takes less than half of what it would with
    each array compressed."""

    def __init__(self, path, mode="r"):
        self.file = zipfile.ZipFile(path, mode, zipfile.ZIP_STORED)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, name, data, element_bytes):
        self.file.writestr(name + ".npy", encode(data, element_bytes))

    def read(self, name):
        return decode(self.file.read(name + ".npy"))

    def names(self):
        return [name.removesuffix(".npy") for name in self.file.namelist() if name.endswith(".npy")]

    def write_note(self, text):
        self.file.writestr("note.json", text)

    def read_note(self):
        return self.file.read("note.json").decode()
