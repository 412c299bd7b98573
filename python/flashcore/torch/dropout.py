"""The words of a dropout, drawn with PyTorch's generators."""

from __future__ import annotations

from typing import Any, Dict

import torch

from flashcore.kinds import read
from flashcore.operands import SEED

__all__ = ["dropout_options"]


def dropout_options(dropout_p: float, q: torch.Tensor) -> Dict[str, Any]:
    """What ``flashcore.attention`` is told of a dropout: nothing where there is none.

    Seed and offset are drawn where q is, so that a CUDA graph draws them at each replay.
    """
    dropout_p = read("dropout_p", dropout_p)
    if dropout_p == 0:
        return {}
    words = torch.randint(-(2**63), 2**63 - 1, (2,), dtype=torch.int64, device=q.device)
    return {"dropout_p": dropout_p, SEED: words}
