"""Compiles kernels and runs them with flashcore-emu.

The manifest of the bundle is all that is needed: grid, block, shared memory
and arguments, as the runtime reads them (docs/Bundle.md).
"""

import dataclasses
import importlib.util
import json
import math
import pathlib
import subprocess

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What persistent kernels are launched for: few, so that blocks walk many tiles.
MULTIPROCESSORS = 2


def _load_attention():
    """The MLIR generator of scripts/make-bundles.py."""
    path = _ROOT / "scripts/make-bundles.py"
    spec = importlib.util.spec_from_file_location("make_bundles", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.attention


attention = _load_attention()


@dataclasses.dataclass
class Launch:
    """A compiled kernel with everything flashcore-emu needs to run it."""
    name: str
    ptx: pathlib.Path
    options: list  # of flashcore-emu, without the PTX file
    outputs: dict  # argument index -> name of the tensor
    row_bytes: int  # distance of two rows of K in global memory
    shared_row_bytes: int  # and in shared memory
    inputs: dict = dataclasses.field(default_factory=dict)
    # argument index -> name of what an earlier kernel of the bundle wrote


class _Tensor:
    """Sizes and strides of one tensor of a manifest."""

    def __init__(self, spec, dims, padding, layout, chosen=None):
        self.spec = spec
        self.extents = [1 if axis == "1" else dims[axis]
                        for axis in spec["axes"]]
        # A dynamic offset must keep rows aligned to 16 bytes.
        self.offset = padding if spec["offset"] is None else spec["offset"]
        if spec["name"] in ("bias", "lse"):  # never copied by rows
            padding, layout = 0, "bhsd"
        self.strides = self._row_major(padding, layout)
        if chosen:
            self.strides = list(chosen["strides"])
            self.offset = chosen.get("offset", 0)
        for i, known in enumerate(spec["strides"]):
            self.strides[i] = self.strides[i] if known is None else known

    def _row_major(self, padding, layout):
        """Strides with `padding` elements after each row; of two axes before
        the rows, bshd puts the sequence first."""
        axes = list(range(len(self.extents)))
        if layout == "bshd" and len(axes) == 4:
            axes = [0, 2, 1, 3]
        strides, step = {}, 1
        for axis in reversed(axes):
            strides[axis] = step
            step *= self.extents[axis]
            if axis == 3:
                step += padding
        return [strides[axis] for axis in range(len(axes))]

    def argument(self, fill):
        """Ends with the last element, so that a step further is out of
        bounds."""
        shape = ",".join(map(str, self.extents))
        if self.strides != _dense(self.extents) or self.offset:
            shape += ":" + ",".join(map(str, self.strides))
        if self.offset:
            shape += f"+{self.offset}"
        return f"{self.spec['dtype']}[{shape}]:{fill}"


def _dense(extents):
    """Row-major strides without padding."""
    return [math.prod(extents[i + 1:]) for i in range(len(extents))]


def _evaluate(product, sizes):
    """The product of the factors of a grid or of a size."""
    return math.prod(f["count"] if "count" in f
                     else -(-sizes[f["dim"]] // f["tile"]) for f in product)


def read_launches(bundle, name=None, dims=(), padding=0, layout="bhsd",
                  tensors=None):
    """How to launch the kernels of a bundle; `dims` gives the sizes its types
    leave open, `tensors` the strides and offsets of some of its tensors."""
    chosen = tensors or {}
    bundle = pathlib.Path(bundle)
    manifest = json.loads((bundle / "manifest.json").read_text())
    variant, = manifest["variants"]
    sizes = {**manifest["attention"]["dims"], **dict(dims)}
    tensors = {t["name"]: _Tensor(t, sizes, padding, layout,
                                  chosen.get(t["name"]))
               for t in manifest["tensors"]}
    floats = sum(term["bytes"] // 4 * _evaluate(term["factors"], sizes)
                 for term in variant["workspace"]["bytes"])
    return [_describe(number, kernel, sizes, tensors, floats,
                      name or bundle.stem, bundle / variant["ptx"]["file"])
            for number, kernel in enumerate(variant["kernels"])]


def _describe(number, kernel, sizes, tensors, floats, name, ptx):
    """The launch of kernel `number` of a bundle. The first one writes the
    workspace, the next ones read it."""
    grid = [_evaluate(factors, sizes) for factors in kernel["grid"]]
    if limit := kernel.get("max_blocks_per_sm"):
        grid[0] = min(grid[0], limit * MULTIPROCESSORS)
    options = ["--kernel", kernel["name"],
               "--grid", ",".join(map(str, grid)),
               "--block", ",".join(map(str, kernel["block"])),
               "--shared", str(kernel["dynamic_shared_memory"])]
    outputs, inputs = {}, {}
    for index, argument in enumerate(kernel["arguments"]):
        tensor = tensors.get(argument.get("tensor"))
        if argument["kind"] == "size":
            text = f"i64:{sizes[argument['dim']]}"
        elif argument["kind"] == "stride":
            text = f"i64:{tensor.strides[argument['axis']]}"
        elif argument["kind"] == "offset":
            text = f"i64:{tensor.offset}"
        elif argument["tensor"] == "workspace":
            text = f"f32[{floats}]:poison"
            (inputs if number else outputs)[index] = "workspace"
        elif tensor.spec["role"] == "output":
            text = tensor.argument("poison")
            outputs[index] = argument["tensor"]
        else:
            text = tensor.argument(f"randn:{index + 1}")
        options += ["--arg", text]
    return Launch(name, ptx, options, outputs, 2 * tensors["k"].strides[2],
                  2 * sizes["head_dim"], inputs)


def compile_launch(compiler, directory, name, mlir, options=(), assemble=False,
                   **launch):
    """Compiles `mlir` to `directory`/`name`.fcb; how to launch its attention
    kernel."""
    bundle = pathlib.Path(directory) / f"{name}.fcb"
    command = [compiler, "-", "--emit=bundle", "-o", str(bundle), *options]
    if not assemble:
        command.append("--no-cubin")
    result = subprocess.run(command, input=mlir, text=True,
                            capture_output=True)
    if result.returncode:
        raise RuntimeError(f"{name}: {' '.join(command)}\n{result.stderr}")
    return read_launches(bundle, name, **launch)[0]


@dataclasses.dataclass
class Run:
    """What flashcore-emu said, and the bytes of the outputs."""
    returncode: int
    text: str
    outputs: dict

    @property
    def notes(self):
        return [line for line in self.text.splitlines()
                if line.startswith("note: ")]


def run(emulator, launch, options, ptx=None, stem=None, written=()):
    """Runs `ptx`, by default the kernel as compiled. `stem` is where the
    outputs are written in between, and `written` has the bytes of what earlier
    kernels wrote, by name."""
    ptx = ptx or launch.ptx
    stem = stem or ptx
    arguments = [i for i, option in enumerate(launch.options)
                 if option == "--arg"]
    command = list(launch.options)
    for i, name in launch.inputs.items():
        path = stem.with_suffix(f".{name}.in.npy")
        path.write_bytes(dict(written)[name])
        command[arguments[i] + 1] = str(path)
    files = {i: stem.with_suffix(f".{name}.npy")
             for i, name in launch.outputs.items()}
    result = subprocess.run(
        [emulator, str(ptx), *command, *options, "-q",
         "--out", *(f"{i}={path}" for i, path in files.items())],
        capture_output=True, text=True)
    outputs = {}
    for i, path in files.items():
        if path.exists():
            outputs[i] = path.read_bytes()
            path.unlink()
    return Run(result.returncode, result.stdout + result.stderr, outputs)
