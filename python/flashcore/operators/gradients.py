"""What becomes of calls that need gradients, for which FlashCore has no backward pass."""

from __future__ import annotations

from typing import Optional

import torch
from torch.autograd import forward_ad

from flashcore.errors import GradientError, no_backward

__all__ = [
    "ACTIONS",
    "falls_back",
    "is_exporting",
    "needs_gradient",
    "on_grad",
    "read_action",
    "refuse",
    "set_on_grad",
]

ACTIONS = ("backward", "fallback", "error")

_on_grad = "backward"


def on_grad() -> str:
    """What a call that needs gradients does: "backward", "fallback" or "error"."""
    return _on_grad


def set_on_grad(action: str) -> None:
    """Chooses what a call that needs gradients does, for the process.

    action: "backward", the default, runs FlashCore's kernel, and PyTorch's backward
        pass on what it leaves; a call that this does not take is computed by
        PyTorch's operators as a whole, with one warning for each reason. "fallback"
        computes every such call by PyTorch's operators; "error" raises
        flashcore.GradientError.

    Raises ValueError for another action.
    """
    global _on_grad
    _on_grad = read_action(action)


def read_action(action: str) -> str:
    """``action``, if it is one."""
    if action not in ACTIONS:
        raise ValueError(
            f"expects on_grad to be 'backward', 'fallback' or 'error', but got {action!r}"
        )
    return action


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


def is_exporting() -> bool:
    """Whether torch.export traces a call: what is exported has no gradient in it."""
    # PyTorch up to 2.13 takes torch.compiler.is_exporting() for a constant, which is true, in
    # whatever torch.compile traces, so the flag is read that export sets.
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))


def falls_back(*tensors: Optional[torch.Tensor]) -> bool:
    """Whether a call of these goes to PyTorch where the kernel has no backward pass at all."""
    return _on_grad != "error" and needs_gradient(*tensors)


def refuse(name: str, reason: str = "") -> None:
    """Raises the error of a call that needs a gradient; ``reason``: why PyTorch's do not do."""
    raise GradientError(no_backward(name) + (f" ({reason})" if reason else ""))
