"""FlashCore as an attention implementation of Hugging Face Transformers.

    import flashcore.transformers
    flashcore.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="fc_attention")

``model.set_attn_implementation("fc_attention")`` switches a model that exists.
Grouped heads are not repeated. Causal masks and sliding windows are flags of the
kernel, and padding and static caches lengths that it reads, so that no mask is in
memory, unless a model's mask is of another kind.

``register_flash()`` and "fc_flash_attention_2" are for continuous batching and packed
sequences. (Every name with "flash" in it means flash-attn to Transformers.)
"""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Tuple

import torch

from flashcore import transformers_flash
from flashcore.attention import attention
from flashcore.errors import Error
from flashcore.operators.fallback import attention_by_torch
from flashcore.torch.dropout import dropout_options
from flashcore.transformers_masks import Visible, attention_mask, options_of

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
    _expect_none_of(("flash", "flex_attention", "sdpa", "paged", "eager", "/"), name)
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
    if not isinstance(name, str):
        raise TypeError(f"expects name to be a word, but got {name!r}")
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
    if not isinstance(name, str) or not name:
        raise TypeError(f"expects name to be a word, but got {name!r}")
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
        last key, and sliding_window keys up to its own. int32 (batch, 1, 1, n) is
        what :func:`attention_mask` makes of padding and of longer caches.
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
    visible = options_of(
        attention_mask, is_causal, query.shape[2], key.shape[2], sliding_window, position_bias,
        query.dtype,
    )
    options: Dict[str, Any] = {"softcap": softcap, "scale": scaling}
    if s_aux is not None:
        options["sinks"] = s_aux.float()
    o = _run(query, key, value, visible, dropout, options)
    return o.transpose(1, 2).contiguous(), None


def _run(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    visible: Visible,
    dropout: float,
    options: Dict[str, Any],
) -> torch.Tensor:
    """By FlashCore, or by PyTorch with a warning."""

    def kernel() -> torch.Tensor:
        o: torch.Tensor = attention(
            query, key, value, causal=visible.causal, window=visible.window, bias=visible.bias,
            **dropout_options(dropout, query), **visible.more, **options,
        )  # fmt: skip
        return o

    def by_torch() -> torch.Tensor:
        seen = visible.without_lengths(query, key)
        o: Any = attention_by_torch(
            query, key, value, causal="bottom_right" if seen.causal else None, window=seen.window,
            bias=seen.bias, dropout_p=dropout, **options,
        )  # fmt: skip
        result: torch.Tensor = o
        return result

    sinks = options.get("sinks")
    reason = transformers_flash.reason_against(query, dropout, key, value, sinks, visible.bias)
    return transformers_flash.run(reason, kernel, by_torch)
