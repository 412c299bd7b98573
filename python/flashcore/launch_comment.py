"""The launch that PTX of flashcore-compile describes in a comment, in the words of
a bundle's manifest (docs/Bundle.md)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from flashcore.bundle import Kernel, Tensor, TensorMap

#: For how many a persistent kernel is launched, as flashcore-emu does.
_MULTIPROCESSORS = 132


def described_launch(
    launch: Optional[Dict[str, Any]], args: Any
) -> Tuple[str, Any, Any, int, List[Any]]:
    """Kernel, grid, block, dynamic shared memory and arguments."""
    if launch is None:
        raise ValueError("expects a grid: the PTX does not say how it is launched")
    if not isinstance(args, Mapping):
        raise TypeError("expects arrays by the names of tensors where the grid is None")
    if len(launch["kernels"]) != 1 or launch["workspace"]:
        raise ValueError(
            "expects PTX of one kernel without workspace where the grid is None; run "
            "flashcore-emu on the file"
        )
    tensors = [Tensor.read(said) for said in launch["tensors"]]
    names = [tensor.name for tensor in tensors]
    if sorted(args) != sorted(names):
        raise ValueError(f"expects arrays {', '.join(names)}, but got {', '.join(args)}")
    sizes = _bind_sizes(launch["sizes"], tensors, args)
    kernel = Kernel.read(launch["kernels"][0])
    values = kernel.values(sizes, {tensor.name: tensor.layout(sizes) for tensor in tensors})
    if any(isinstance(value, TensorMap) for value in values):
        raise ValueError(
            f"expects PTX without tensor maps where the grid is None, but '{kernel.name}' takes "
            "some; run flashcore-emu on the file"
        )
    return (
        kernel.name,
        kernel.grid(sizes, _MULTIPROCESSORS),
        kernel.block,
        kernel.dynamic_shared_memory,
        [args[value] if isinstance(value, str) else value for value in values],
    )


def _bind_sizes(
    dims: Mapping[str, Optional[int]], tensors: Sequence[Tensor], arrays: Mapping[str, Any]
) -> Dict[str, int]:
    """Sizes of the axes, which the shapes of the arrays give."""
    sizes = {name: size for name, size in dims.items() if size is not None}
    for tensor in tensors:
        name, shape = tensor.name, arrays[tensor.name].shape
        if len(shape) != len(tensor.axes):
            raise ValueError(
                f"expects {name} to have axes {', '.join(tensor.axes)}, but got {shape}"
            )
        for axis, extent in zip(tensor.axes, shape):
            expected = 1 if axis == "1" else sizes.setdefault(axis, extent)
            if extent != expected:
                raise ValueError(f"expects {axis} of {name} to be {expected}, but got {extent}")
    for tensor in tensors:
        if tensor.layout(sizes) != (tensor.dense_strides(sizes), 0):
            raise ValueError(
                f"{tensor.name} is not contiguous in this kernel; run flashcore-emu on the file"
            )
    return sizes
