"""FlashCore as an attention implementation of Hugging Face Transformers.

    import flashcore.transformers
    flashcore.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="fc_attention")

``model.set_attn_implementation("fc_attention")`` switches a model that exists.
Grouped heads are not repeated. Causal masks and sliding windows are flags of the
kernel, so that no mask is in memory, unless a batch is padded, the cache is
static, or a model's mask is of another kind.

``register_flash()`` and "fc_flash_attention_2" are for continuous batching and packed
sequences. (Every name with "flash" in it means flash-attn to Transformers.)
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Dict, Optional, Tuple

import torch

from flashcore import transformers_flash
from flashcore.attention import attention
from flashcore.errors import Error
from flashcore.operators.fallback import attention_by_torch
from flashcore.torch.dropin import additive
from flashcore.torch.dropout import dropout_options

Window = Tuple[Optional[int], Optional[int]]

__all__ = ["attention_forward", "attention_mask", "register", "register_flash"]

NAME = "fc_attention"
FLASH_NAME = "fc_flash_attention_2"


def register(name: str = NAME) -> None:
    """Registers FlashCore with Transformers, as ``attn_implementation=name``.

    May be called again. Raises flashcore.Error for a Transformers older than 5.4, and
    ValueError for a name that it takes for one of its own.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    _expect_known_transformers()
    _expect_none_of(("flash", "flex_attention", "sdpa", "paged"), name)
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, attention_mask)


def register_flash(name: str = FLASH_NAME) -> None:
    """Registers FlashCore in the place of flash-attn, as ``attn_implementation=name``.

    For what Transformers does with flash-attn alone: continuous batching
    (``model.generate_batch``) without masks, and on a GPU with a page table; sequences
    packed by position_ids; padded batches, whose padding is taken out. May be called
    again, and beside :func:`register`.

    float32, dropout with gradients, gradients after
    ``flashcore.torch.set_on_grad("fallback")``, and what there is no kernel for go to
    PyTorch, with one FallbackWarning for each reason; decoding by a page table
    raises flashcore.UnsupportedError.

    It replaces two functions that are private in Transformers, which go on as they are
    for all other names. Raises flashcore.Error for a Transformers that has no such
    functions (5.19 to 5.24 do), and ValueError for a name that it takes for another.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    _expect_known_transformers()
    # By these it finds functions that read a page table.
    if not re.fullmatch(r"\w*flash\w*[23]\w*", name) or re.fullmatch(r"flash_attention_\d", name):
        raise ValueError(
            "expects a word with 'flash' and a 2 or 3 behind it that is none of Transformers, such "
            f"as {FLASH_NAME!r}, but got {name!r}"
        )
    _expect_none_of(("flex_attention", "sdpa", "paged"), name)
    transformers_flash.install(name)
    interfaces: Tuple[Any, ...] = (AttentionInterface, AttentionMaskInterface)
    for interface in interfaces:
        interface.register(name, interface()["flash_attention_2"])


def _expect_none_of(words: Tuple[str, ...], name: str) -> None:
    for word in words:
        if word in name:
            hint = ": register_flash takes it" if word == "flash" else ""
            raise ValueError(
                f"expects a name without {word!r}, which means something else to Transformers, "
                f"but got {name!r}{hint}"
            )


#: The first whose masks are made of lengths, as ours are.
_OLDEST = (5, 4)


def _expect_known_transformers() -> None:
    import transformers

    version = transformers.__version__
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        raise Error(
            f"expects Transformers {'.'.join(map(str, _OLDEST))} or newer, but got {version}: "
            "masks of older ones are made of other arguments"
        )


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Optional[torch.Tensor],
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    sliding_window: Optional[int] = None,
    softcap: Optional[float] = None,
    is_causal: Optional[bool] = None,
    position_bias: Optional[torch.Tensor] = None,
    s_aux: Optional[torch.Tensor] = None,
    **others: Any,
) -> Tuple[torch.Tensor, None]:
    """What Transformers calls for a layer's attention.

    query: (batch, heads_q, seqlen_q, head_dim), of float16 or bfloat16.
    key, value: (batch, heads_kv, seqlen_k, head_dim).
    attention_mask: (batch or 1, heads_q or 1, seqlen_q, seqlen_k), True keeps a
        key, or what is added to the scores. It is the whole mask: is_causal and
        sliding_window then say nothing more. Without one the last query sees the
        last key, and sliding_window keys up to its own.
    dropout: the probability that an element of the softmax is dropped, drawn with
        PyTorch's generator of the device.
    position_bias: added to the scores besides.
    s_aux: (heads_q), sinks: logits that take part in each softmax and have no value.

    Returns (o, None), o: (batch, seqlen_q, heads_q, head_dim), contiguous.

    float32, and dropout or sinks with gradients, go to PyTorch, with one FallbackWarning for
    each reason; other gradients are those of PyTorch's backward pass on what the kernel leaves.
    """
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", True))
    causal = False
    window: Window = (None, None)
    if attention_mask is None:
        # One query sees all keys; a static choice keeps compiled code free of symbols.
        causal = is_causal and query.shape[2] > 1
        window = _window(sliding_window, is_causal)
    options: Dict[str, Any] = {
        "softcap": softcap,
        "scale": scaling,
        "bias": _bias(attention_mask, position_bias, query.dtype),
    }
    if s_aux is not None:
        options["sinks"] = s_aux.float()
    o = _run(query, key, value, causal, window, dropout, options)
    return o.transpose(1, 2).contiguous(), None


def _run(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    causal: bool,
    window: Window,
    dropout: float,
    options: Dict[str, Any],
) -> torch.Tensor:
    """By FlashCore, or by PyTorch with a warning."""

    def kernel() -> torch.Tensor:
        o: torch.Tensor = attention(
            query, key, value, causal=causal, window=window, **dropout_options(dropout, query),
            **options,
        )  # fmt: skip
        return o

    def by_torch() -> torch.Tensor:
        where = "bottom_right" if causal else None
        o: Any = attention_by_torch(
            query, key, value, causal=where, window=window, dropout_p=dropout, **options
        )
        result: torch.Tensor = o
        return result

    sinks = options.get("sinks")
    reason = transformers_flash.reason_against(query, dropout, key, value, sinks, options["bias"])
    return transformers_flash.run(reason, kernel, by_torch)


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


# Masks ----------------------------------------------------------------------


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

    Returns None where the flags of :func:`attention_forward` say it all, else what
    is added to the scores: (batch, 1, q_length, kv_length) of ``dtype``.
    """
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    is_plain = local_size is None or kv_length < local_size
    if allow_is_causal_skip:
        is_plain = (is_plain or _window_is_flag(local_size, config)) and _ends_together(
            q_length, kv_length, q_offset, kv_offset
        )
    elif not allow_is_bidirectional_skip:
        is_plain = False
    if is_plain and _shows_all(attention_mask, kv_length, kv_offset):
        return None
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


@lru_cache(maxsize=None)
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


def _shows_all(padding: Optional[torch.Tensor], kv_length: int, kv_offset: int) -> bool:
    """Whether a mask of (batch, keys) hides none of the keys."""
    if padding is None:
        return True
    if torch.compiler.is_compiling():
        return False  # its values are not known
    seen = padding[:, kv_offset : kv_offset + kv_length]
    return seen.shape[1] == kv_length and bool(seen.all())
