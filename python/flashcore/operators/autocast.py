"""What PyTorch's autocast makes of q, k and v, as of its own attention."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

__all__ = ["cast", "type_of"]


def type_of(q: Any) -> Optional[torch.dtype]:
    """The type in which attention is computed where q lies; None without autocast."""
    device = q.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


def cast(q: Any, k: Any, v: Any) -> Tuple[Any, Any, Any]:
    """Tensors of float32 in that type; others as they are."""
    if not any(getattr(x, "dtype", None) is torch.float32 for x in (q, k, v)):
        return q, k, v
    dtype = type_of(q)
    if dtype is None:
        return q, k, v
    q, k, v = (x.to(dtype) if x.dtype is torch.float32 else x for x in (q, k, v))
    return q, k, v
