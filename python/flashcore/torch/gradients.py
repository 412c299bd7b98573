"""What becomes of calls that need gradients, which FlashCore does not compute."""

from __future__ import annotations

from typing import Optional

import torch

from flashcore.errors import UnsupportedError

__all__ = ["needs_gradient", "on_grad", "refuse", "set_on_grad"]

_on_grad = "error"


def on_grad() -> str:
    """What a call that needs gradients does: "error" or "fallback"."""
    return _on_grad


def set_on_grad(action: str) -> None:
    """Chooses what a call that needs gradients does, for the process.

    action: "error" raises flashcore.UnsupportedError; "fallback" computes it
        with PyTorch's operators, which have a backward pass, and warns once.

    Raises ValueError for another action.
    """
    global _on_grad
    if action not in ("error", "fallback"):
        raise ValueError(f"expects on_grad to be 'error' or 'fallback', but got {action!r}")
    _on_grad = action


def needs_gradient(*tensors: Optional[torch.Tensor]) -> bool:
    """Whether PyTorch records a gradient of one of these."""
    if not torch.is_grad_enabled():
        return False
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def refuse(name: str) -> None:
    """Raises the error of a call that needs a gradient."""
    raise UnsupportedError(
        f"{name} has no backward pass: expects tensors that need no gradient, but got one with "
        "requires_grad; call it under torch.no_grad() or detach() its arguments, or let PyTorch "
        "compute such calls with flashcore.torch.set_on_grad('fallback')"
    )
