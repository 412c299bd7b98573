# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One kernel launch of the corpus: PTX, operands, and what its results are."""
import array
import collections.abc
import dataclasses
import functools
import re

ELEMENT_BYTES = {"u8": 1, "b16": 2, "b32": 4, "f32": 4, "b64": 8, "f64": 8}
ARRAY_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def pack(type_name, values):
    return array.array(ARRAY_CODES[ELEMENT_BYTES[type_name]], values).tobytes()


def unpack(size, data):
    return array.array(ARRAY_CODES[size], data)


@dataclasses.dataclass
class Result:
    """`count` elements from `offset` of the output buffer are the results of
    one instruction variant. `type` says how to read them, `rule` how far those
    of two devices may be apart."""
    label: str
    offset: int
    count: int
    type: str
    rule: str


class Drawn(collections.abc.Sequence):
    """A list that `make` gives when it is first looked at: operands take most
    of the corpus's time, and its PTX and its results are asked for without."""

    def __init__(self, make):
        self._make = make

    @functools.cached_property
    def _values(self):
        return self._make()

    def __getitem__(self, index):
        return self._values[index]

    def __len__(self):
        return len(self._values)


@dataclasses.dataclass
class Launch:
    """A kernel takes pointers to its inputs and then one to its output."""
    name: str
    ptx: str
    grid: int
    block: int
    inputs: collections.abc.Sequence  # of (memory type, values)
    output_type: str
    results: list
    shape: object = None  # of an mma, wmma or wgmma: see mma.py, wmma.py and wgmma.py

    def target(self):
        """The chip that the PTX is for, such as sm_90a."""
        return re.search(r"\.target (\w+)", self.ptx)[1]

    def runs_on(self, chip):
        """Whether a card such as sm_90 assembles the PTX: that for sm_90a is for
        no other, and the rest for later ones too."""
        target = self.target()
        if target.endswith("a"):
            return target == f"{chip}a"
        return int(target.removeprefix("sm_")) <= int(chip.removeprefix("sm_"))

    def input_bytes(self):
        return [pack(t, values) for t, values in self.inputs]

    def element_bytes(self):
        return ELEMENT_BYTES[self.output_type]

    def output_bytes(self):
        return self.element_bytes() * max(r.offset + r.count for r in self.results)
