"""What becomes of calls that need gradients, which FlashCore does not compute."""

from __future__ import annotations

from typing import Optional

import torch
from torch.autograd import forward_ad

from flashcore.errors import GradientError, no_backward

__all__ = ["falls_back", "is_exporting", "needs_gradient", "on_grad", "refuse", "set_on_grad"]

_on_grad = "error"


def on_grad() -> str:
    """What a call that needs gradients does: "error" or "fallback"."""
    return _on_grad


def set_on_grad(action: str) -> None:
    """Chooses what a call that needs gradients does, for the process.

    action: "error" raises flashcore.GradientError; "fallback" computes it
        with PyTorch's operators, which have a backward pass, and warns once.

    Raises ValueError for another action.
    """
    global _on_grad
    if action not in ("error", "fallback"):
        raise ValueError(f"expects on_grad to be 'error' or 'fallback', but got {action!r}")
    _on_grad = action


def needs_gradient(*tensors: Optional[torch.Tensor]) -> bool:
    """Whether PyTorch records a gradient of one of these, or has a tangent of it."""
    given = [tensor for tensor in tensors if tensor is not None]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
        return True
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return False
    return any(
        forward_ad.unpack_dual(tensor).tangent is not None
        for tensor in given
    )


# Within a function that torch.compile traces, PyTorch up to 2.13 takes is_exporting() for
# a constant, which is true. What is run while it traces has the flag that export sets.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def is_exporting() -> bool:
    """Whether torch.export traces a call: what is exported has no gradient in it."""
    return bool(torch.compiler.is_exporting())


def falls_back(*tensors: Optional[torch.Tensor]) -> bool:
    """Whether a call of these goes to PyTorch, for its gradients."""
    return _on_grad == "fallback" and needs_gradient(*tensors)


def refuse(name: str) -> None:
    """Raises the error of a call that needs a gradient."""
    raise GradientError(no_backward(name))
