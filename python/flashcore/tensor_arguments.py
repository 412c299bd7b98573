"""Checks of arguments that are PyTorch's tensors, of functions that take no others."""

from __future__ import annotations

from typing import Any

import torch

from flashcore.kinds import describe

__all__ = ["expect_optional", "expect_rank", "expect_tensors"]


def expect_tensors(**given: Any) -> None:
    """Raises TypeError, by its name, for the first that is no tensor."""
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"expects {name} to be a tensor, but got {describe(value)}")


def expect_optional(**given: Any) -> None:
    """The same of arguments that may be None."""
    for name, value in given.items():
        if value is not None and not isinstance(value, torch.Tensor):
            raise TypeError(f"expects {name} to be a tensor or None, but got {describe(value)}")


def expect_rank(axes: str, **given: torch.Tensor) -> None:
    """Raises ValueError for tensors of another number of axes.

    axes: their names, such as "(batch, heads)" or "(batch,)".
    """
    rank = 1 + axes.rstrip("),").count(",")
    for name, tensor in given.items():
        if tensor.dim() != rank:
            raise ValueError(f"expects {name} of {axes}, but got {tuple(tensor.shape)}")
