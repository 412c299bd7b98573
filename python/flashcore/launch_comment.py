"""The launch that PTX of flashcore-compile describes in a comment, in the words of
a bundle's manifest (docs/Bundle.md)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

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
    if len(launch["kernels"]) != 1 or launch["workspace"]["bytes"]:
        raise ValueError(
            "expects PTX of one kernel without workspace where the grid is None; run "
            "flashcore-emu on the file"
        )
    names = [tensor["name"] for tensor in launch["tensors"]]
    if sorted(args) != sorted(names):
        raise ValueError(f"expects arrays {', '.join(names)}, but got {', '.join(args)}")
    sizes = _bind_sizes(launch, args)
    kernel = launch["kernels"][0]
    grid = [_product(factors, sizes) for factors in kernel["grid"]]
    if "max_blocks_per_sm" in kernel:
        grid[0] = min(grid[0], kernel["max_blocks_per_sm"] * _MULTIPROCESSORS)
    values = [_described_argument(one, args, sizes) for one in kernel["arguments"]]
    return kernel["name"], grid, kernel["block"], kernel["dynamic_shared_memory"], values


def _bind_sizes(launch: Dict[str, Any], arrays: Mapping[str, Any]) -> Dict[str, int]:
    """Sizes of the axes, which the shapes of the arrays give."""
    sizes = {name: size for name, size in launch["attention"]["dims"].items() if size is not None}
    sizes["1"] = 1
    for tensor in launch["tensors"]:
        name, axes, shape = tensor["name"], tensor["axes"], arrays[tensor["name"]].shape
        if len(shape) != len(axes):
            raise ValueError(f"expects {name} to have axes {', '.join(axes)}, but got {shape}")
        for axis, extent in zip(axes, shape):
            if sizes.setdefault(axis, extent) != extent:
                raise ValueError(f"expects {axis} of {name} to be {sizes[axis]}, but got {extent}")
        if tensor["offset"] or _dense(shape, tensor["strides"]) != _dense(shape, None):
            raise ValueError(
                f"{name} is not contiguous in this kernel; run flashcore-emu on the file"
            )
    return sizes


def _dense(shape: Sequence[int], strides: Optional[Sequence[Optional[int]]]) -> List[int]:
    """Strides in elements; those that are open are dense."""
    dense: List[int] = []
    step = 1
    for extent in reversed(shape):
        dense.insert(0, step)
        step *= extent
    if strides is None:
        return dense
    return [have if given is None else given for given, have in zip(strides, dense)]


def _product(factors: Sequence[Dict[str, Any]], sizes: Dict[str, int]) -> int:
    product = 1
    for factor in factors:
        product *= (
            factor["count"] if "count" in factor else -(-sizes[factor["dim"]] // factor["tile"])
        )
    return product


def _described_argument(
    entry: Dict[str, Any], arrays: Mapping[str, Any], sizes: Dict[str, int]
) -> Any:
    if entry["kind"] == "size":
        return sizes[entry["dim"]]
    array = arrays[entry["tensor"]]
    if entry["kind"] == "stride":
        return _dense(array.shape, None)[entry["axis"]]
    return 0 if entry["kind"] == "offset" else array
