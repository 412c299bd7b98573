"""The options of flash-attn's functions, as flashcore.attention has them."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import torch

from flashcore.kinds import FLAG, describe, read
from flashcore.options import is_scale

__all__ = ["Window", "common_options", "sides"]

Window = Sequence[int]


def common_options(
    softmax_scale: Optional[float], causal: bool, window_size: Window, softcap: float
) -> Dict[str, Any]:
    """What flashcore.attention is told of all of these functions."""
    left, right = sides(window_size)
    is_causal = read("causal", causal, FLAG)
    cap = read("softcap", softcap)
    if cap is not None and not cap >= 0:
        raise ValueError(f"expects softcap to be 0, for none, or positive, but got {softcap!r}")
    if softmax_scale is not None and not is_scale(read("softmax_scale", softmax_scale)):
        raise ValueError(
            f"expects softmax_scale to be positive and a number of float32, but got {softmax_scale!r}"
        )
    return {
        "causal": is_causal,
        # A causal call sees nothing to the right, whatever its window says.
        "window": (left, None if is_causal else right),
        "softcap": cap if cap is not None and cap > 0 else None,
        "scale": read("softmax_scale", softmax_scale),
        "layout": "bshd",
    }


def sides(window_size: Window) -> Tuple[Optional[int], Optional[int]]:
    """Keys to the left and right, None without a bound."""
    # flash-attn's callers have both in a tensor, too; in host memory it is read at each call.
    if isinstance(window_size, torch.Tensor) and window_size.device.type == "cpu":
        window_size = window_size.tolist()
    if not hasattr(window_size, "__len__") or len(window_size) != 2:
        raise ValueError(
            f"expects window_size to be (left, right), but got {describe(window_size)}"
        )
    left, right = (read("window_size", side, whole=window_size) for side in window_size)
    return left if left >= 0 else None, right if right >= 0 else None
