"""What torch.utils.flop_counter counts of the operators: the two products, whatever masks hide.

That is the convention of PyTorch's own attentions.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch
from torch.utils.flop_counter import register_flop_formula

from flashcore.operands import CLAUSES, PAGES

__all__ = ["register"]

_PAGE_TABLE = tuple(CLAUSES).index(PAGES)


def _count(
    q: Sequence[int],
    k: Sequence[int],
    v: Sequence[int],
    bias: Any = None,
    beside: Optional[Sequence[Any]] = None,
    *,
    layout: str = "bhsd",
    **options: Any,
) -> int:
    """Of shapes."""
    (batch, heads, queries, dim), (_, _, keys, _) = (_ordered(x, layout) for x in (q, k))
    table = beside[_PAGE_TABLE] if beside else None
    if table is not None:
        keys *= table[1]
    return 2 * batch * heads * queries * keys * (dim + v[3])


def _ordered(shape: Sequence[int], layout: str) -> Tuple[int, int, int, int]:
    """(batch, heads, seqlen, dim)."""
    first, second, third, last = shape
    return (first, second, third, last) if layout == "bhsd" else (first, third, second, last)


def register() -> None:
    operators = torch.ops.flashcore
    register_flop_formula(
        [
            operators.attention, operators.attention_lse, operators.attention_with,
            operators.attention_append,
        ]
    )(_count)  # fmt: skip
