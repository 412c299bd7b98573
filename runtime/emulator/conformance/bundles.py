# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches of whole kernels with seeded operands, such as those of bundles with
static shapes (docs/Bundle.md)."""
import dataclasses
import math
import pathlib
import struct
import sys

from launch import pack
from values import generator

# Bundles come from FlashCore's compiler, and so does what reads them; it needs
# no build of the package. (The emulator alone has neither.)
sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "python/flashcore"))

ELEMENTS = {"f16": 2, "bf16": 2, "f32": 4, "u32": 4}


@dataclasses.dataclass
class Argument:
    """A buffer; an input has normal numbers, an output starts as zeros."""
    name: str
    type: str
    count: int
    is_output: bool

    def bytes(self):
        return self.count * ELEMENTS[self.type]


@dataclasses.dataclass
class KernelLaunch:
    name: str
    ptx: str
    kernel: str
    grid: list
    block: list
    shared: int
    arguments: list

    def outputs(self):
        return [i for i, argument in enumerate(self.arguments) if argument.is_output]

    def data(self, index):
        argument = self.arguments[index]
        if argument.is_output:
            return bytes(argument.bytes())
        rng = generator(f"{self.name} {argument.name}")
        numbers = [rng.gauss(0, 1) for _ in range(argument.count)]
        return encode(argument.type, numbers)


def encode(type_name, numbers):
    if type_name == "f16":
        return struct.pack(f"<{len(numbers)}e", *numbers)
    floats = struct.pack(f"<{len(numbers)}f", *numbers)
    if type_name == "bf16":
        words = struct.unpack(f"<{len(numbers)}I", floats)
        return pack("b16", [(word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words])
    return floats if type_name == "f32" else pack("b32", [int(x * 1e6) & 0xFFFFFFFF for x in numbers])


def from_bundle(folder):
    from bundle import Bundle

    bundle = Bundle(folder)
    sizes, tensors = bundle.sizes(), bundle.tensors
    if len(bundle.chips) != 1:
        raise ValueError(f"{folder}: expects a bundle for one chip, but got {len(bundle.chips)}")
    if bundle.workspace_bytes(sizes):
        raise ValueError(f"{folder}: expects one kernel, but these share a workspace")
    ptx = bundle.ptx.read_text()
    for launch in bundle.launches(sizes):
        arguments = []
        for value in launch.arguments:
            if value not in tensors:
                raise ValueError(f"{folder}: expects static shapes, but the kernel takes the number {value}")
            tensor = tensors[value]
            arguments.append(Argument(tensor.name, tensor.dtype, math.prod(tensor.shape(sizes)), tensor.is_output))
        kernel = launch.kernel
        yield KernelLaunch(bundle.path.stem, ptx, kernel.name, launch.grid, kernel.block, kernel.dynamic_shared_memory,
                           arguments)


def load(folder):
    """The kernels of all bundles in `folder`, by name."""
    folder = pathlib.Path(folder)
    found = [launch for bundle in sorted(folder.glob("*.fcb")) for launch in from_bundle(bundle)]
    if not found:
        raise ValueError(f"{folder}: expects *.fcb bundles, made by scripts/make-bundles.py --only card")
    return {launch.name: launch for launch in found}
