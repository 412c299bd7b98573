"""Puts FlashCore in the place of PyTorch's ``scaled_dot_product_attention``.

The switch is of the process: it replaces an attribute of torch.nn.functional,
which all threads see. What is on is a stack; its top says how.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, List, Optional

import torch
import torch.nn.functional as functional

from flashcore.operators import gradients
from flashcore.operators.fallback import original_sdpa
from flashcore.torch import dropin

__all__ = ["disable", "enable", "is_enabled", "sdpa"]


@dataclass(frozen=True, eq=False)
class _Setting:
    """One use of the switch. Two are never equal, so each ends its own."""

    on_grad: Optional[str]
    emulate: bool


_lock = threading.Lock()
_stack: List[_Setting] = []
_top: Optional[_Setting] = None
_enabled: Optional[_Setting] = None
#: What torch.nn.functional held before.
_replaced: Any = original_sdpa


def enable(*, on_grad: Optional[str] = None, emulate: bool = False) -> None:
    """``torch.nn.functional.scaled_dot_product_attention`` becomes FlashCore's.

    For the process and all its threads, until :func:`disable`. Whatever calls it
    as ``torch.nn.functional.scaled_dot_product_attention`` or ``F.scaled_...`` is
    switched, and so are the modules of torch.nn; code that imported the function
    by its name before keeps PyTorch's. What is compiled already is compiled again.

    on_grad: what calls that need gradients do, "backward", "fallback" or "error"; None is
        what :func:`set_on_grad` says.
    emulate: whether tensors in host memory run on the emulator, which is slow.
        They go to PyTorch otherwise, with one warning.

    Raises ValueError for another on_grad. A second call replaces the options.
    """
    global _enabled
    setting = _setting(on_grad, emulate)
    with _lock:
        if _enabled is not None:
            _stack.remove(_enabled)
        _stack.insert(0, setting)
        _enabled = setting
        _update()


def disable() -> None:
    """Ends :func:`enable`; nothing if it was not called."""
    global _enabled
    with _lock:
        if _enabled is not None:
            _stack.remove(_enabled)
        _enabled = None
        _update()


def is_enabled() -> bool:
    """Whether ``torch.nn.functional`` holds FlashCore's function."""
    return _top is not None


@contextmanager
def sdpa(*, on_grad: Optional[str] = None, emulate: bool = False) -> Iterator[None]:
    """:func:`enable` for the length of a ``with`` statement.

    It holds for all threads. Such statements may be nested, and overlap in several
    threads: the switch is off after the last of them, and the options are those of
    the one entered last.
    """
    setting = _setting(on_grad, emulate)
    with _lock:
        _stack.append(setting)
        _update()
    try:
        yield
    finally:
        with _lock:
            _stack.remove(setting)
            _update()


def _setting(on_grad: Optional[str], emulate: bool) -> _Setting:
    return _Setting(None if on_grad is None else gradients.read_action(on_grad), emulate)


def _update() -> None:
    """Makes torch.nn.functional hold what the stack says."""
    global _top, _replaced
    _top = _stack[-1] if _stack else None
    held = functional.scaled_dot_product_attention
    if _top is not None and held is not _switched:
        _replaced = held
        functional.scaled_dot_product_attention = _switched  # type: ignore[assignment]
    elif _top is None and held is _switched:
        functional.scaled_dot_product_attention = _replaced
    elif _top is None and _replaced is not held and _replaced is not original_sdpa:
        warnings.warn(
            "flashcore: torch.nn.functional.scaled_dot_product_attention was replaced while "
            "FlashCore's was in its place, and is left as it is",
            stacklevel=4,
        )


def _switched(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    setting = _top
    if setting is None:  # held by someone who took it while the switch was on
        return _replaced(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    return dropin.run(
        _replaced, setting.emulate, setting.on_grad or gradients.on_grad(),
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
    )  # fmt: skip
