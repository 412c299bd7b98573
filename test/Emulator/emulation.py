"""Compiles a kernel and says how flashcore-emu launches it.

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
    outputs: list  # (argument index, tensor name) of each output
    row_bytes: int  # distance of two rows of K in global memory
    shared_row_bytes: int  # and in shared memory


def _extents(tensor, dims):
    return [dims[axis] for axis in tensor["axes"]]


def _strides(tensor, dims, padding):
    """Those of the type; a dynamic one as in a row-major tensor with `padding`
    elements after each row."""
    strides, step = [], 1
    for i, extent in reversed(list(enumerate(_extents(tensor, dims)))):
        known = tensor["strides"][i]
        strides.insert(0, step if known is None else known)
        step = strides[0] * extent
        if i == len(tensor["axes"]) - 1 and tensor["dtype"] != "f32":
            step += padding
    return strides


def _count(tensor, dims, strides, offset):
    """Elements up to the last one, so that one step further is out of bounds."""
    extents = _extents(tensor, dims)
    return offset + 1 + sum((e - 1) * s for e, s in zip(extents, strides))


def _arguments(manifest, kernel, dims, padding):
    tensors = {t["name"]: t for t in manifest["tensors"]}
    strides = {n: _strides(t, dims, padding) for n, t in tensors.items()}
    # A dynamic offset must keep rows aligned to 16 bytes.
    offsets = {n: padding if t["offset"] is None else t["offset"]
               for n, t in tensors.items()}
    arguments, outputs = [], []
    for index, argument in enumerate(kernel["arguments"]):
        if argument["kind"] == "size":
            arguments.append(f"i64:{dims[argument['dim']]}")
            continue
        name = argument["tensor"]
        if argument["kind"] == "stride":
            arguments.append(f"i64:{strides[name][argument['axis']]}")
        elif argument["kind"] == "offset":
            arguments.append(f"i64:{offsets[name]}")
        else:
            tensor = tensors[name]
            count = _count(tensor, dims, strides[name], offsets[name])
            is_output = tensor["role"] == "output"
            fill = "poison" if is_output else f"randn:{index + 1}"
            arguments.append(f"{tensor['dtype']}[{count}]:{fill}")
            if is_output:
                outputs.append((index, name))
    return arguments, outputs, 2 * strides["k"][2]


def compile_launch(compiler, directory, name, mlir, options=(), dims=(),
                   padding=0):
    """Compiles `mlir` to `directory`/`name`.fcb and reads its manifest. `dims`
    gives the sizes that the types leave open."""
    bundle = pathlib.Path(directory) / f"{name}.fcb"
    command = [compiler, "-", "--emit=bundle", "--no-cubin", "-o", str(bundle),
               *options]
    result = subprocess.run(command, input=mlir, text=True,
                            capture_output=True)
    if result.returncode:
        raise RuntimeError(f"{name}: {' '.join(command)}\n{result.stderr}")
    manifest = json.loads((bundle / "manifest.json").read_text())
    kernel, = manifest["kernels"]
    sizes = {**manifest["attention"]["dims"], **dict(dims)}
    grid = [math.prod(-(-sizes[f["dim"]] // f["tile"]) for f in factors)
            for factors in kernel["grid"]]
    arguments, outputs, row_bytes = _arguments(manifest, kernel, sizes,
                                               padding)
    launch = ["--grid", ",".join(map(str, grid)),
              "--block", ",".join(map(str, kernel["block"])),
              "--shared", str(kernel["dynamic_shared_memory"])]
    for argument in arguments:
        launch += ["--arg", argument]
    return Launch(name, bundle / manifest["ptx"]["file"], launch, outputs,
                  row_bytes, 2 * sizes["head_dim"])
