"""A bundle's manifest, evaluated: what to launch for a problem.

docs/Bundle.md describes the format; the runtime (runtime/lib/Launch.cpp) reads
it the same way. Only what Python needs is read here: bundles are written by
flashcore-compile, which has checked them.
"""

import dataclasses
import json
import math
import pathlib

from .errors import UserError

MANIFEST_VERSION = 4


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A tensor as the host holds it: its address, without the offset, and
    strides and offset in elements."""

    pointer: int
    strides: tuple
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class Launch:
    """One kernel launch; every argument is 8 bytes."""

    name: str
    grid: tuple
    block: tuple
    shared_bytes: int
    arguments: tuple


class Bundle:
    """A directory written by `flashcore-compile --emit=bundle`. Of several
    variants `variant` is the one that a device of `device_chip` runs, as the
    runtime picks it: by its cubin, else the newest whose PTX it runs. Without a
    chip it is the oldest."""

    def __init__(self, directory, device_chip=None):
        self.directory = pathlib.Path(directory)
        path = self.directory / "manifest.json"
        try:
            self.manifest = json.loads(path.read_text())
        except OSError as error:
            raise UserError(f"cannot read '{path}': {error.strerror}")
        except ValueError as error:
            raise UserError(f"'{path}' is not JSON: {error}")
        found = self.manifest.get("format"), self.manifest.get("version")
        if found[0] != "flashcore-bundle" or found[1] != MANIFEST_VERSION:
            raise UserError(
                f"'{path}': expects a flashcore-bundle of version "
                f"{MANIFEST_VERSION}, but got {found[0]} "
                f"of version {found[1]}; compile the bundle again"
            )
        self.variant = choose_variant(self.manifest["variants"], device_chip)

    @property
    def chip(self):
        return self.variant["chip"]

    @property
    def ptx(self):
        """File, size and checksum."""
        return self.variant["ptx"]

    @property
    def kernels(self):
        return self.variant["kernels"]

    @property
    def tensors(self):
        return {spec["name"]: spec for spec in self.manifest["tensors"]}

    def dims(self, chosen=()):
        """All sizes: those the bundle fixes, which `chosen` may repeat, and
        those it leaves open, which `chosen` must give."""
        known = self.manifest["attention"]["dims"]
        dims = {**known, **dict(chosen)}
        for name, size in dims.items():
            if size is None:
                raise UserError(
                    f"'{self.directory}' leaves {name} open: give it"
                )
            if known.get(name) not in (None, size):
                raise UserError(
                    f"'{self.directory}' was compiled for {name} "
                    f"{known[name]}, but got {size}"
                )
        return dims

    def code(self, device_chip):
        """The code for a device, as the runtime takes it: its own cubin, else
        PTX that is not newer than it. Returns a file and its description."""
        for cubin in self.variant["cubins"]:
            if cubin["chip"] == device_chip:
                return self.directory / cubin["file"], f"cubin {device_chip}"
        if chip_number(device_chip) < chip_number(self.chip):
            raise UserError(
                f"'{self.directory}' has PTX for {self.chip}, which a device "
                f"of {device_chip} cannot run; compile with --chip={device_chip}"
            )
        return self.directory / self.ptx["file"], f"PTX {self.chip}"

    def workspace_bytes(self, dims):
        return sum(
            term["bytes"] * evaluate(term["factors"], dims)
            for term in self.variant["workspace"]["bytes"]
        )

    def plan(self, dims, buffers, multiprocessors, workspace=0):
        """The launches for sizes from dims() and one Buffer a tensor, on a
        device with so many multiprocessors. A grid of zero blocks is left
        out."""
        values = {
            "pointer": lambda a: (
                workspace
                if a["tensor"] == "workspace"
                else buffers[a["tensor"]].pointer
            ),
            "size": lambda a: dims[a["dim"]],
            "stride": lambda a: buffers[a["tensor"]].strides[a["axis"]],
            "offset": lambda a: buffers[a["tensor"]].offset,
        }
        launches = []
        for kernel in self.kernels:
            grid = [evaluate(factors, dims) for factors in kernel["grid"]]
            if math.prod(grid) == 0:
                continue
            if limit := kernel.get("max_blocks_per_sm"):
                grid[0] = min(grid[0], limit * multiprocessors)
            arguments = []
            for argument in kernel["arguments"]:
                if argument["kind"] not in values:
                    raise UserError(
                        f"'{self.directory}': kernel {kernel['name']} takes an "
                        f"argument of the unknown kind '{argument['kind']}'"
                    )
                arguments.append(values[argument["kind"]](argument))
            launches.append(
                Launch(
                    kernel["name"],
                    tuple(grid),
                    tuple(kernel["block"]),
                    kernel["dynamic_shared_memory"],
                    tuple(arguments),
                )
            )
        return launches

    def emulator_runs(self, dims):
        """For each kernel the options of flashcore-emu that run it on dense
        tensors: random inputs and workspace, poisoned outputs."""
        runs = []
        workspace = self.workspace_bytes(dims)
        for kernel in self.kernels:
            grid = [evaluate(factors, dims) for factors in kernel["grid"]]
            options = [
                "--kernel",
                kernel["name"],
                "--grid",
                ",".join(map(str, grid)),
                "--block",
                ",".join(map(str, kernel["block"])),
                "--shared",
                str(kernel["dynamic_shared_memory"]),
            ]
            for index, argument in enumerate(kernel["arguments"]):
                text = self._emulator_argument(argument, index, dims, workspace)
                options += ["--arg", text]
            runs.append(options)
        return runs

    def _emulator_argument(self, argument, index, dims, workspace):
        if argument["kind"] == "size":
            return f"i64:{dims[argument['dim']]}"
        if argument.get("tensor") == "workspace":
            return f"f32[{-(-workspace // 4)}]:randn:{index + 1}"
        spec = self.tensors[argument["tensor"]]
        shape = tensor_shape(spec, dims)
        if argument["kind"] == "stride":
            return f"i64:{dense_strides(shape)[argument['axis']]}"
        if argument["kind"] == "offset":
            return "i64:0"
        fill = "poison" if spec["role"] == "output" else f"randn:{index + 1}"
        return f"{spec['dtype']}[{','.join(map(str, shape))}]:{fill}"


def choose_variant(variants, device_chip):
    """The variant whose kernels a device runs."""
    by_age = sorted(variants, key=lambda v: chip_number(v["chip"]))
    if device_chip is None:
        return by_age[0]
    for variant in variants:
        if any(cubin["chip"] == device_chip for cubin in variant["cubins"]):
            return variant
    device = chip_number(device_chip)
    runnable = [v for v in by_age if chip_number(v["chip"]) <= device]
    return runnable[-1] if runnable else by_age[0]


def chip_number(chip):
    """89 for sm_89, 90 for sm_90a."""
    return int("".join(filter(str.isdigit, chip)))


def evaluate(factors, dims):
    """A product of ceil(dim / tile) and of counts that no size changes."""
    return math.prod(
        factor["count"]
        if "count" in factor
        else -(-dims[factor["dim"]] // factor["tile"])
        for factor in factors
    )


def tensor_shape(spec, dims):
    return [1 if axis == "1" else dims[axis] for axis in spec["axes"]]


def dense_strides(shape):
    """Row-major strides without padding."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
