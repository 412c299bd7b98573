"""How the operators are sharded: DTensor's rules, over batch entries and heads.

Importing this module registers them. It imports torch.distributed.tensor, so it is imported
where that was before, or by a call of DTensors.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

__all__: List[str] = []

_Placements = List[Tuple[List[Any], List[Any]]]


def _rules(results: int, q: Any, k: Any, v: Any, bias: Any, layout: str) -> _Placements:
    """Placements of the results and of q, k, v and bias, one pair for each way."""
    heads = 1 if layout == "bhsd" else 2
    has_bias = [] if bias is None else [Replicate()]
    rules: _Placements = [([Replicate()] * results, [Replicate()] * 3 + has_bias)]
    # Grouped heads stay together where each device gets as many of k.
    is_even = k.shape[heads] % k.mesh.size() == 0
    for axis, of_rows in ((0, 0), *(((heads, 1),) if is_even else ())):
        of_bias = has_bias
        if bias is not None:
            place = of_rows - 4 + len(bias.shape)  # of (batch, heads, queries, keys)
            if place >= 0 and bias.shape[place] > 1:
                of_bias = [Shard(place)]
        rules.append(([Shard(axis), Shard(of_rows)][:results], [Shard(axis)] * 3 + of_bias))
    return rules


@register_sharding(torch.ops.flashcore.attention.default)  # type: ignore[untyped-decorator, unused-ignore]
def _attention(
    q: Any, k: Any, v: Any, bias: Any = None, *, layout: str = "bhsd", **options: Any
) -> _Placements:
    return _rules(1, q, k, v, bias, layout)


@register_sharding(torch.ops.flashcore.attention_lse.default)  # type: ignore[untyped-decorator, unused-ignore]
def _attention_lse(
    q: Any, k: Any, v: Any, bias: Any = None, *, layout: str = "bhsd", **options: Any
) -> _Placements:
    return _rules(2, q, k, v, bias, layout)
