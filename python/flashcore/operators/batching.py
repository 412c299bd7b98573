"""``torch.vmap`` over the operators: its axis becomes a part of the batch, or is a loop."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import torch

__all__ = ["register_folded", "register_looped"]


def _folded(tensor: torch.Tensor, axis: Optional[int], count: int) -> torch.Tensor:
    """(batch, ...) with the axis of vmap in front of the batch, both as one; expanded where
    it has none."""
    if axis is None:
        tensor, axis = tensor.expand(count, *tensor.shape), 0
    return tensor.movedim(axis, 0).flatten(0, 1)


def _folded_bias(
    bias: Optional[torch.Tensor], axis: Optional[int], count: int, batch: int
) -> Optional[torch.Tensor]:
    """The same of a bias, which may have fewer axes, and one entry for all of a batch."""
    if bias is None or axis is None and (bias.dim() < 4 or bias.shape[0] == 1):
        return bias
    if axis is None:
        bias, axis = bias.expand(count, *bias.shape), 0
    bias = bias.movedim(axis, 0)
    missing = 5 - bias.dim()
    bias = bias.reshape(count, *(1,) * missing, *bias.shape[1:])
    return bias.expand(count, batch, *bias.shape[2:]).flatten(0, 1)


def register_folded(name: str, library: Any) -> None:
    """Of ``flashcore::NAME``(q, k, v, bias=None, *, ...): one launch for all."""
    operator = getattr(torch.ops.flashcore, name)

    def rule(info: Any, in_dims: Tuple[Any, ...], *arguments: Any, **options: Any) -> Any:
        count = info.batch_size
        q, k, v = (_folded(x, d, count) for x, d in zip(arguments[:3], in_dims))
        bias = None
        if len(arguments) > 3:
            batch = q.shape[0] // count
            bias = _folded_bias(arguments[3], in_dims[3], count, batch)
        results = operator(q, k, v, bias, **options)
        if isinstance(results, tuple):
            return tuple(_unfolded(x, count) for x in results), (0,) * len(results)
        return _unfolded(results, count), 0

    torch.library.register_vmap(f"flashcore::{name}", rule, lib=library)


def _unfolded(tensor: torch.Tensor, count: int) -> torch.Tensor:
    return tensor.unflatten(0, (count, -1))


def register_looped(name: str, library: Any) -> None:
    """Of an operator whose tensors are not all of a batch, such as slopes: a launch for each
    entry."""
    operator: Callable[..., Any] = getattr(torch.ops.flashcore, name)

    def rule(info: Any, in_dims: Tuple[Any, ...], *arguments: Any, **options: Any) -> Any:
        results = [
            operator(*(_entry(x, d, i) for x, d in zip(arguments, in_dims)), **options)
            for i in range(info.batch_size)
        ]
        stacked = tuple(torch.stack(each) for each in zip(*results))
        return stacked, (0,) * len(stacked)

    torch.library.register_vmap(f"flashcore::{name}", rule, lib=library)


def _entry(argument: Any, axis: Any, index: int) -> Any:
    if isinstance(argument, (list, tuple)):
        return [_entry(x, d, index) for x, d in zip(argument, axis)]
    return argument if axis is None else argument.select(axis, index)
