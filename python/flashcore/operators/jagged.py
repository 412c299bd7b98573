"""Calls of jagged nested tensors: sequences back to back, whose values and offsets these have."""

from __future__ import annotations

from typing import Any, Callable, Tuple

import torch

from flashcore.errors import UnsupportedError
from flashcore.operands import CLAUSES, ENDS, of_use

__all__ = ["attend"]

_NAMES = tuple(CLAUSES)
#: What says itself where rows of a batch are.
_OTHERS = of_use("Sequence", "Append", "Blocks")


def attend(
    run: "Callable[..., Any]",
    layout: str,
    beside: Tuple[Any, ...],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Any,
) -> Any:
    """``flashcore.attention`` of such tensors.

    q, k, v: (batch, heads, jagged, head_dim), or (batch, jagged, heads, head_dim) with the layout
        bshd; k and v with the same offsets.
    run: the call of plain tensors in the layout bshd, of them and of ``beside``.

    Returns o, or a tuple, nested as q is; lse is (batch, heads, jagged).

    Raises UnsupportedError for nested tensors of other kinds, and for arguments that say where
    rows are.
    """
    given = dict(zip(_NAMES, beside))
    others = [name for name in _OTHERS if given.get(name) is not None]
    if bias is not None:
        others.append("bias")
    if others:
        raise UnsupportedError(
            f"expects no {others[0]} with jagged tensors, whose offsets say where sequences are, "
            "but got one"
        )
    rows = [_rows(name, x, layout) for name, x in (("q", q), ("k", k), ("v", v))]
    offsets = [x.offsets() for x in rows]
    tensors = list(beside)
    for name, each in zip(ENDS, offsets):
        tensors[_NAMES.index(name)] = each.to(torch.int32)
    result = run(*(x.values()[None] for x in rows), tuple(tensors))
    if not isinstance(result, tuple):
        return _nested(result[0], offsets[0], layout)
    o, lse = result
    of_rows = _nested(lse[0].transpose(0, 1), offsets[0], "bshd").transpose(1, 2)
    return _nested(o[0], offsets[0], layout), of_rows


def _rows(name: str, tensor: torch.Tensor, layout: str) -> Any:
    """(batch, jagged, heads, head_dim)."""
    is_jagged = tensor.is_nested and tensor.layout is torch.jagged and tensor.dim() == 4
    rows: Any = tensor.transpose(1, 2) if is_jagged and layout == "bhsd" else tensor
    if not is_jagged or rows._ragged_idx != 1 or rows.lengths() is not None:
        axes = "heads, jagged" if layout == "bhsd" else "jagged, heads"
        raise UnsupportedError(
            f"expects {name} to be a jagged tensor of (batch, {axes}, head_dim) without holes, as "
            f"one of q, k and v is, but got {type(tensor).__name__} of {tuple(tensor.shape)}"
        )
    return rows


def _nested(values: torch.Tensor, offsets: torch.Tensor, layout: str) -> Any:
    rows = torch.nested.nested_tensor_from_jagged(values, offsets)
    return rows.transpose(1, 2) if layout == "bhsd" else rows
