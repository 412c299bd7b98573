"""Arguments without their memory: what they are called, sizes, strides and places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence, Tuple

from flashcore import _core
from flashcore.arrays import contiguous_strides
from flashcore.problem import row_step

__all__ = [
    "AXES", "Sizes", "Tensor", "check_no_overlap", "expect_no_overlap", "has_rows", "is_dense",
    "is_like", "normal_strides", "read_tensor", "reorder", "strides_of",
]  # fmt: skip

Sizes = Tuple[int, ...]

#: By layouts.
AXES = {"bhsd": "(batch, heads, seqlen, head_dim)", "bshd": "(batch, seqlen, heads, head_dim)"}


@dataclass(frozen=True)
class Tensor:
    """An argument, its axes in the order (batch, heads, seqlen, dim).

    It does not hold the array: what is kept of a call must not keep its memory.
    """

    name: str
    dtype: str
    sizes: Sizes
    strides: Sizes
    device: Tuple[int, int]
    is_aligned: bool
    is_read_only: bool


def read_tensor(name: str, array: Any, layout: str, stream: Any) -> Tensor:
    """An argument of 4 axes, in the order of a layout.

    stream: that in which it is waited for, None for none. Raises ValueError, by its name.
    """
    view = _core.view(array, stream, name)
    if view.rank != 4:
        raise ValueError(f"expects {name} to have 4 axes, {AXES[layout]}, but got {view.rank}")
    return Tensor(
        name,
        view.dtype,
        reorder(view.shape, layout),
        reorder(view.strides, layout),
        view.device,
        view.pointer % (2 * row_step(view.shape[-1])) == 0,
        view.read_only,
    )


def reorder(values: Sizes, layout: str) -> Sizes:
    """Between (batch, heads, seqlen, dim) and the caller's order, either way."""
    return values if layout == "bhsd" else (values[0], values[2], values[1], values[3])


def expect_no_overlap(tensor: Tensor) -> None:
    """Raises ValueError if elements share memory."""
    covered = 1
    if 0 in tensor.sizes:
        return
    for stride, size in sorted(zip(tensor.strides, tensor.sizes)):
        if size > 1 and stride < covered:
            raise ValueError(
                f"expects {tensor.name} whose elements do not overlap, but got strides "
                f"{tensor.strides}"
            )
        covered += (size - 1) * stride


def check_no_overlap(name: str, array: Any) -> None:
    """Of an array of 4 axes that is written in place.

    Raises ValueError, by the name, if elements share memory.
    """
    expect_no_overlap(read_tensor(name, array, "bshd", None))


# Strides --------------------------------------------------------------------


def has_rows(tensor: Tensor) -> bool:
    """Whether columns lie side by side, and rows where kernels can read them."""
    *outer, inner = zip(tensor.strides, tensor.sizes)
    step = row_step(inner[1])
    return inner[0] == 1 and all(
        size == 1 or (stride >= 0 and stride % step == 0) for stride, size in outer
    )


def is_like(tensor: Tensor, strides: Sequence[int]) -> bool:
    """Whether these are its strides; those of axes of size 1 mean nothing."""
    return all(
        size == 1 or ours == wanted
        for size, ours, wanted in zip(tensor.sizes, tensor.strides, strides)
    )


def is_dense(tensor: Tensor) -> bool:
    """Whether it has the strides of one of the layouts."""
    return any(is_like(tensor, strides_of(tensor.sizes, layout)) for layout in AXES)


def strides_of(sizes: Sizes, layout: str) -> Sizes:
    """Of a dense tensor whose axes are (batch, heads, seqlen, dim)."""
    batch, heads, seqlen, dim = sizes
    if layout == "bhsd":
        return contiguous_strides(sizes)
    return (seqlen * heads * dim, dim, heads * dim, 1)


def normal_strides(sizes: Sizes, strides: Sequence[int]) -> Sizes:
    """Strides with those of axes of size 1, which mean nothing, made regular."""
    dense = contiguous_strides(sizes)
    return tuple(d if size == 1 else s for size, s, d in zip(sizes, strides, dense))
