"""The masks that Transformers makes for FlashCore: flags and lengths where these say it all.

A mask is made once for all layers of a kind, and is

* None, where the flags of a layer (causal, window) say it all;
* int32 (batch, 1, 1, n), where keys are there in one piece: with n = 1 how many from the first
  on, with n = 2 the first and the end of those that are behind padding, both for masks that
  are aligned to the last query; with n = 3, in the first column, how many there are before
  padding, for queries from the first key on;
* else what is added to the scores, (batch or 1, 1, seqlen_q, seqlen_k).

The second has four axes as the third, since Transformers takes one of two for padding. Only
models that Transformers runs with flash-attn get it, which hand masks on as they are, and only
where no gradient may be needed.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch

from flashcore.operands import LENGTHS
from flashcore.torch.dropin import additive

__all__ = ["attention_mask", "options_of"]

Window = Tuple[Optional[int], Optional[int]]


class Visible(NamedTuple):
    """What a layer's mask says, as arguments of flashcore.attention."""

    causal: Any
    window: Window
    bias: Optional[torch.Tensor]
    #: seqused_k and mask_mod, where there are any.
    more: Dict[str, Any]

    def without_lengths(self, query: torch.Tensor, key: torch.Tensor) -> Visible:
        """The same, with a bias of all scores in the place of ``more``."""
        used = self.more.get(LENGTHS)
        if used is None:
            return self
        batch, _, rows, _ = query.shape
        entry = torch.arange(batch, device=query.device).view(-1, 1, 1, 1)
        i = torch.arange(rows, device=query.device).view(-1, 1)
        j = torch.arange(key.shape[2], device=query.device)
        lengths = used.view(-1, 1, 1, 1)
        own = i if self.causal == "top_left" else i + (lengths - rows)
        seen = j < lengths
        left, right = self.window
        right = 0 if self.causal else right
        seen = seen if left is None else seen & (j >= own - left)
        seen = seen if right is None else seen & (j <= own + right)
        if "mask_mod" in self.more:
            seen = seen & self.more["mask_mod"](entry, 0, i, j)
        return Visible(False, (None, None), _bias(seen, self.bias, query.dtype), {})


def options_of(
    mask: Optional[torch.Tensor],
    is_causal: bool,
    queries: int,
    keys: int,
    sliding_window: Optional[int],
    position_bias: Optional[torch.Tensor],
    dtype: torch.dtype,
) -> Visible:
    """Of a layer that says is_causal and sliding_window, for such a mask."""
    window = _window(sliding_window, is_causal)
    # One query sees all keys; a static choice keeps compiled code free of symbols.
    causal: Any = is_causal and queries > 1
    if mask is None:
        return Visible(causal, window, position_bias, {})
    if mask.dtype != torch.int32:
        return Visible(False, (None, None), _bias(mask, position_bias, dtype), {})
    columns = mask.shape[-1]
    used = mask[:, 0, 0, 1 if columns == 2 else 0]
    if columns == 2:
        starts = mask[:, 0, 0, 0]
        if torch.compiler.is_compiling():  # which has no constant of a function that is made here
            seen = torch.arange(keys, device=mask.device) >= mask[..., :1]
            return Visible(causal, window, _bias(seen, position_bias, dtype), {LENGTHS: used})
        more = {LENGTHS: used, "mask_mod": lambda b, h, i, j: j >= starts[b]}
        return Visible(causal, window, position_bias, more)
    if columns == 3:
        causal = "top_left"
    return Visible(causal, window, position_bias, {LENGTHS: used})


def _window(sliding_window: Optional[int], is_causal: bool) -> Window:
    """Keys to the left and right: Transformers counts a query's own to the window."""
    if sliding_window is None:
        return None, None
    return sliding_window - 1, None if is_causal else sliding_window - 1


def _bias(
    mask: Optional[torch.Tensor], position_bias: Optional[torch.Tensor], dtype: torch.dtype
) -> Optional[torch.Tensor]:
    if mask is not None and mask.dtype == torch.bool:
        mask = additive(mask, dtype)
    if mask is None or position_bias is None:
        return position_bias if mask is None else mask
    return mask + position_bias


# Making them ----------------------------------------------------------------


def attention_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Any = None,
    attention_mask: Optional[torch.Tensor] = None,
    local_size: Optional[int] = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    dtype: torch.dtype = torch.float16,
    config: Any = None,
    **others: Any,
) -> Optional[torch.Tensor]:
    """What Transformers calls for a mask, once for all layers of a kind.

    Returns what the description of this module says.
    """
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    padding = _read_padding(attention_mask, kv_length, kv_offset)
    is_short = local_size is None or kv_length < local_size
    is_causal = mask_function is None or mask_function is causal_mask_function
    has_flags = is_short or (allow_is_causal_skip and _window_is_flag(local_size, config))
    if has_flags and padding.kind == "none" and padding.columns == kv_length:
        if allow_is_bidirectional_skip and not allow_is_causal_skip:
            return None
        if allow_is_causal_skip and _ends_together(q_length, kv_length, q_offset, kv_offset):
            return None
    if has_flags and kv_offset == 0 and _takes_lengths(config, dtype):
        lengths = None
        if allow_is_causal_skip or is_causal:
            device = others.get("device", padding.device)
            lengths = _causal_lengths(
                padding, batch_size, q_length, kv_length, q_offset, is_short, device
            )
        elif allow_is_bidirectional_skip and padding.columns == kv_length:
            lengths = {"right": padding.ends, "left": padding.spans}.get(padding.kind)
        if lengths is not None:
            # A column in one piece, so that no layer copies it.
            return lengths.t().contiguous().t()[:, None, None]
    mask = sdpa_mask(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=causal_mask_function if mask_function is None else mask_function,
        attention_mask=attention_mask,
        local_size=local_size,
        allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False,
        **others,
    )
    return None if mask is None else additive(mask, dtype)


class _Padding(NamedTuple):
    """What a mask of (batch, keys) hides: "none", keys in one piece on the "left" or "right" of
    those that are seen, or "other" keys, also where it is not known."""

    kind: str
    columns: int
    device: Any = None
    #: int32 (batch, 1), behind the last key that is seen, and (batch, 2), with the first.
    ends: Optional[torch.Tensor] = None
    spans: Optional[torch.Tensor] = None


def _read_padding(padding: Optional[torch.Tensor], kv_length: int, kv_offset: int) -> _Padding:
    if padding is None:
        return _Padding("none", kv_length)
    seen = padding[:, kv_offset : kv_offset + kv_length] != 0
    columns = seen.shape[1]
    if torch.compiler.is_compiling() or columns == 0:  # its values are not known
        return _Padding("other", columns, seen.device)
    first = seen.int().argmax(1)
    end = columns - seen.flip(1).int().argmax(1)
    in_one_piece = (end - first == seen.sum(1)).all()
    is_left, is_right = (end == columns).all(), (first == 0).all()
    # One look at the GPU for all.
    whole, left, right = torch.stack([in_one_piece, is_left, is_right]).tolist()
    kind = {(True, True): "none", (True, False): "left", (False, True): "right"}.get(
        (left, right), "other"
    )
    ends = end.int()[:, None]
    spans = torch.cat([first.int()[:, None], ends], 1)
    return _Padding(kind if whole else "other", columns, seen.device, ends, spans)


def _causal_lengths(
    padding: _Padding,
    batch: int,
    queries: int,
    keys: int,
    q_offset: Any,
    is_short: bool,
    device: Any,
) -> Optional[torch.Tensor]:
    """int32 (batch, n) for a causal mask; None where it is none of lengths."""
    total = q_offset + queries
    if padding.kind == "right":
        if not is_short or not isinstance(q_offset, int) or q_offset or padding.columns != queries:
            return None
        assert padding.ends is not None
        return padding.ends.expand(-1, 3)
    is_grown = isinstance(total, int) and total == keys
    if isinstance(total, int) and padding.columns < total:
        return None
    if padding.kind == "other" or device is None or (padding.kind == "left" and queries == 1 and is_grown):
        return None
    if isinstance(total, torch.Tensor):
        ends = total.to(torch.int32).reshape(1, 1).repeat(batch, 1)
    else:
        ends = torch.full((batch, 1), total, dtype=torch.int32, device=device)
    if padding.kind == "none":
        return ends
    assert padding.spans is not None
    return torch.cat([padding.spans[:, :1], ends], 1)


def _takes_lengths(config: Any, dtype: torch.dtype) -> bool:
    """Whether layers get the mask as it is, and the kernel computes them."""
    kind: Any = type(config)
    is_half = dtype in (torch.float16, torch.bfloat16)
    return is_half and config is not None and not torch.is_grad_enabled() and _passes_window(kind)


def _ends_together(q_length: int, kv_length: int, q_offset: Any, kv_offset: int) -> bool:
    """Whether the last query's own key is the last; a static cache is longer."""
    return isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length


def _window_is_flag(local_size: Optional[int], config: Any) -> bool:
    """Whether layers get what limits their keys as ``sliding_window``."""
    if torch.compiler.is_compiling() or config is None:
        return False
    # A chunk of keys is no window.
    kind: Any = type(config)
    return getattr(config, "sliding_window", None) == local_size and _passes_window(kind)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _passes_window(config: Any) -> bool:
    """Whether models of a configuration hand their window to the attention.

    Those that run with flash-attn do, which gets no mask either.
    """
    from transformers import AutoModel

    try:
        model = AutoModel._model_mapping[config]
    except KeyError:
        return False
    return bool(getattr(model, "_supports_flash_attn", False))
