"""Compiles kernels and runs them with flashcore-emu, as their bundles say."""

import dataclasses
import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The package's reader of bundles, which needs no build of the package.
sys.path.append(str(_ROOT / "python/flashcore"))

from bundle import Bundle, TensorMap

# What persistent kernels are launched for: few, so that blocks walk many tiles.
MULTIPROCESSORS = 2


sys.path.insert(0, str(_ROOT / "benchmarks"))
from flashcore_benchmarks.mlir import attention, may_have_lse, source_arguments


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
    kernel: str = None  # of the file; the first one where it is not given


def place(tensor, sizes, padding, layout):
    """Strides and offset of a tensor of a bundle where it fixes none: with
    `padding` elements before the first row and after each; of two axes before
    the rows, bshd puts the sequence first."""
    axes = list(range(len(tensor.axes)))
    if tensor.name in ("bias", "lse"):  # never copied by rows
        padding, layout = 0, "bhsd"
    if layout == "bshd" and len(axes) == 4:
        axes = [0, 2, 1, 3]
    shape, strides, step = tensor.shape(sizes), {}, 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= shape[axis]
        if axis == 3:
            step += padding
    # The offset keeps rows aligned to 16 bytes, as `padding` does.
    return _fix(tensor, [strides[axis] for axis in range(len(axes))], padding)


def _fix(tensor, strides, offset):
    """The same with what the bundle fixes."""
    pairs = zip(tensor.strides, strides)
    strides = tuple(own if known is None else known for known, own in pairs)
    return strides, offset if tensor.offset is None else tensor.offset


def read_launches(path, name=None, dims=(), padding=0, layout="bhsd",
                  tensors=None):
    """How to launch the kernels of a bundle; `dims` gives the sizes its types
    leave open, `tensors` the strides and offsets of some of its tensors."""
    bundle = Bundle(path)
    if len(bundle.chips) != 1:
        raise ValueError(f"{path}: expects one chip, but got {bundle.chips}")
    sizes = bundle.sizes(**dict(dims))
    places = {each.name: place(each, sizes, padding, layout)
              for each in bundle.tensors.values()}
    for each, chosen in (tensors or {}).items():
        places[each] = _fix(bundle.tensors[each], chosen["strides"],
                            chosen.get("offset", 0))
    launches = bundle.launches(sizes, places, MULTIPROCESSORS)
    described, written = [], set()
    # Of no blocks there is none, as that of scores of no keys.
    for launch in filter(lambda each: all(each.grid), launches):
        described.append(_describe(launch, bundle, sizes, places,
                                   name or bundle.path.stem, written))
        written |= set(described[-1].outputs.values())
    return described


def _describe(launch, bundle, sizes, places, name, earlier):
    """A launch with its operands. What an earlier kernel of the bundle writes,
    the next ones read: the workspace, which they may write to as well, for
    probabilities lse, and k and v that rows were appended to."""
    tensors = bundle.tensors
    written = {each.name for each in tensors.values() if each.is_output}
    updated = {each.name for each in tensors.values()
               if each.role == "updated"}
    floats = bundle.workspace_bytes(sizes) // 4
    pointers = {"workspace": f"f32[{floats}]:poison",
                **bundle.emulator_copies(sizes, "poison")}
    outputs, inputs = {}, {}
    for index, value in enumerate(launch.arguments):
        tensor = value.tensor if isinstance(value, TensorMap) else value
        if isinstance(value, str) and value.startswith("workspace"):
            outputs[index] = tensor
            if tensor in earlier:
                inputs[index] = tensor
        elif tensor not in pointers and isinstance(tensor, str):
            fill = "poison" if tensor in written else f"randn:{index + 1}"
            if tensor == "page_table":
                # Every entry names a page; its own, where rows are written.
                fill = "iota" if updated else "zeros"
            pointers[tensor] = tensors[tensor].emulator_argument(
                sizes, fill, places[tensor])
            if tensor in written | updated:
                (inputs if tensor in earlier else outputs)[index] = tensor
    return Launch(name, bundle.ptx, launch.emulator_options(pointers), outputs,
                  2 * places["k"][0][2], 2 * sizes["head_dim"], inputs)


def compile_launch(compiler, directory, name, source, options=(),
                   assemble=False, **launch):
    """Compiles `source`, a module or words of --shape, to `directory`/`name`.fcb;
    how to launch its attention kernel."""
    bundle = pathlib.Path(directory) / f"{name}.fcb"
    named, text = source_arguments(source)
    command = [compiler, *named, "--emit=bundle", "-o", str(bundle), *options]
    if not assemble:
        command.append("--no-cubin")
    result = subprocess.run(command, input=text, text=True,
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
