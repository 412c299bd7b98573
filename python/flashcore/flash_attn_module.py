"""A module ``flash_attn`` for code that imports that name, where flash-attn is not installed.

    import flashcore.flash_attn
    flashcore.flash_attn.register()
    from flash_attn import flash_attn_func  # FlashCore's
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Callable, Dict, NamedTuple, Tuple

import torch

__all__ = ["register"]

#: The release whose functions these are.
_VERSION = "2.8.3"


def register(functions: Dict[str, Callable[..., Any]]) -> bool:
    """Makes ``flash_attn`` of these functions importable; False where another is installed."""
    found = sys.modules.get("flash_attn")
    if found is not None:
        return bool(getattr(found, "is_flashcore", False))
    if importlib.util.find_spec("flash_attn") is not None:
        return False
    padding = {"pad_input": pad_input, "unpad_input": unpad_input, "index_first_axis": index_first_axis}
    package = _module("flash_attn", {**functions, "__version__": _VERSION, "is_flashcore": True})
    package.__path__ = []
    for name, members in (("flash_attn_interface", functions), ("bert_padding", padding)):
        setattr(package, name, _module(f"flash_attn.{name}", members))
    return True


def _module(name: str, members: Dict[str, Any]) -> types.ModuleType:
    module = types.ModuleType(name, "FlashCore's functions by flash-attn's names.")
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package="." not in name)
    vars(module).update(members)
    sys.modules[name] = module
    return module


# flash_attn.bert_padding ----------------------------------------------------


class Unpadded(NamedTuple):
    """Rows of tokens that are there, and where they were."""

    hidden_states: torch.Tensor
    indices: torch.Tensor
    cu_seqlens: torch.Tensor
    max_seqlen: int
    used: torch.Tensor


def index_first_axis(rows: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The rows of these numbers."""
    return rows.index_select(0, indices)


def unpad_input(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, unused_mask: Any = None
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]:
    """The tokens that are there, back to back.

    hidden_states: (batch, seqlen, ...).
    attention_mask: (batch, seqlen), 1 where a token is.
    unused_mask: (batch, seqlen), 1 where memory is kept for one that is not used.

    Returns them (total, ...), their indices in (batch * seqlen), int32 (batch + 1) where each
    entry's begin, the most of an entry, and how many are used of each, int32 (batch).
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(-1, dtype=torch.int32)
    used = attention_mask.sum(-1, dtype=torch.int32)
    indices = kept.flatten().nonzero().flatten()
    ends = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    rows = hidden_states.flatten(0, 1)
    return Unpadded(index_first_axis(rows, indices), indices, ends, int(lengths.max()), used)


def pad_input(
    hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int
) -> torch.Tensor:
    """The inverse of unpad_input: (batch, seqlen, ...), 0 where no token is."""
    padded = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return padded.index_copy(0, indices, hidden_states).unflatten(0, (batch, seqlen))
