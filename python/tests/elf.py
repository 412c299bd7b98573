"""What a 64-bit ELF file asks of the system that loads it, by the standard library alone."""

import struct
from dataclasses import dataclass
from typing import FrozenSet

_DYNAMIC = 2
_NEEDED, _STRTAB, _RELR, _VERNEED, _VERNEEDNUM = 1, 5, 36, 0x6FFFFFFE, 0x6FFFFFFF


@dataclass(frozen=True)
class Needs:
    """libraries: names; versions: such as "GLIBC_2.17"; has_relr: relocations in the packed format."""

    libraries: FrozenSet[str]
    versions: FrozenSet[str]
    has_relr: bool


def read_needs(path):
    """The Needs of the file; None where it is no ELF file."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    (offset,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]

    def place(address):  # in the file
        return next(
            begin + address - start
            for kind, _, begin, start, _, length in segments
            if kind == 1 and start <= address < start + length
        )

    tags = []
    for kind, _, begin, _, _, length in segments:
        if kind == _DYNAMIC:
            tags += struct.iter_unpack("<qQ", data[begin : begin + length])
    values = dict(tags)
    strings = place(values[_STRTAB])

    def text(at):
        return data[strings + at : data.index(b"\0", strings + at)].decode()

    versions, at = set(), place(values[_VERNEED])
    for _ in range(values[_VERNEEDNUM]):
        _, names, _, first, following = struct.unpack_from("<HHIII", data, at)
        entry = at + first
        for _ in range(names):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, entry)
            versions.add(text(name))
            entry += step
        at += following
    libraries = frozenset(text(value) for tag, value in tags if tag == _NEEDED)
    return Needs(libraries, frozenset(versions), _RELR in values)
