"""The exceptions of FlashCore.

Wrong arguments are a ValueError or a TypeError, as elsewhere in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Tuple

if TYPE_CHECKING:
    from flashcore.findings import Finding

__all__ = ["Error", "GradientError", "KernelFault", "NoDeviceError", "UnsupportedError"]


class Error(RuntimeError):
    """What the compiler, the runtime or the emulator cannot do, and why."""


class UnsupportedError(Error, NotImplementedError):
    """The attention is right, but this version has no kernel for it."""


class GradientError(UnsupportedError):
    """A gradient is needed of a call, and there is no backward pass."""


def no_backward(function: str) -> str:
    """What a GradientError says."""
    return (
        f"{function} has no backward pass: expects tensors that need no gradient, but got one with "
        "requires_grad; call it under torch.no_grad() or detach() its arguments and what "
        "functions read, or let PyTorch compute such calls with flashcore.torch.set_on_grad('fallback')"
    )


def not_loaded(function: str) -> str:
    """What an Error says of a call whose kernel a CUDA graph would have to load."""
    return (
        "expects the kernel to be loaded before a CUDA graph is captured, but it is not: call "
        f"{function} once before capturing"
    )


class NoDeviceError(Error):
    """There is no device of the kind asked for: no GPU, or no driver."""


class KernelFault(Error):
    """A kernel ran and misbehaved.

    On the emulator the message lists the findings: accesses out of bounds,
    races, values that nobody wrote. They are in `findings`, too.
    """

    def __init__(self, message: str, report: str = "") -> None:
        super().__init__(message)
        self._report = report

    @property
    def findings(self) -> Tuple[Finding, ...]:
        """What the emulator found; empty on a GPU."""
        from flashcore.findings import read_findings

        return read_findings(self._report) if self._report else ()

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), self._report)
