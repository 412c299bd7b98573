# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches of whole kernels with seeded operands, such as those of bundles with
static shapes (docs/Bundle.md)."""
import dataclasses
import json
import math
import pathlib
import struct

from launch import pack
from values import generator

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
    manifest = json.loads((folder / "manifest.json").read_text())
    dims = manifest["attention"]["dims"]
    tensors = {tensor["name"]: tensor for tensor in manifest["tensors"]}
    if len(manifest["variants"]) != 1:
        raise ValueError(f"{folder}: expects a bundle for one chip, but got {len(manifest['variants'])}")
    variant, = manifest["variants"]
    if variant["workspace"]["bytes"]:
        raise ValueError(f"{folder}: expects one kernel, but these share a workspace")
    for kernel in variant["kernels"]:
        arguments = []
        for argument in kernel["arguments"]:
            if argument["kind"] != "pointer":
                raise ValueError(f"{folder}: expects static shapes, but the kernel takes a {argument['kind']}")
            tensor = tensors[argument["tensor"]]
            count = math.prod(dims[axis] for axis in tensor["axes"])
            arguments.append(Argument(tensor["name"], tensor["dtype"], count, tensor["role"] == "output"))
        grid = [math.prod(-(-dims[part["dim"]] // part["tile"]) for part in axis) for axis in kernel["grid"]]
        yield KernelLaunch(folder.stem, (folder / variant["ptx"]["file"]).read_text(), kernel["name"], grid, kernel["block"],
                           kernel["dynamic_shared_memory"], arguments)


def load(folder):
    """The kernels of all bundles in `folder`, by name."""
    folder = pathlib.Path(folder)
    found = [launch for bundle in sorted(folder.glob("*.fcb")) for launch in from_bundle(bundle)]
    if not found:
        raise ValueError(f"{folder}: expects *.fcb bundles, made by scripts/make-bundles.py --only card")
    return {launch.name: launch for launch in found}
