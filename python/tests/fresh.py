"""What a process of its own does not know yet."""

import sys

from flashcore import kernels, resolve


def forget(monkeypatch):
    """Kernels and calls that are in memory; what is on disk stays."""
    module = sys.modules["flashcore.attention"]
    monkeypatch.setattr(kernels, "_modules", {})
    monkeypatch.setattr(module, "_calls", module._new_calls())
    monkeypatch.setattr(resolve, "_calls_of_options", {})
