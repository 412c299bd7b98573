"""What arguments of other attentions are called here, for errors that name one."""

from __future__ import annotations

import difflib
import inspect
from typing import Any, Callable, Dict, NoReturn

__all__ = ["refuse"]

#: Of flashcore.attention, by what PyTorch's SDPA and FlexAttention, flash-attn, xFormers, JAX and
#: vLLM call the same thing.
_HINTS: Dict[str, str] = {
    "is_causal": 'write causal="top_left", as PyTorch aligns it, or causal=True, where the last '
    "query sees the last key",
    "attn_mask": "write mask_mod, a function of (batch, head, q_idx, kv_idx), or bias for what is "
    "added to scores; flashcore.torch.scaled_dot_product_attention takes it as it is",
    "mask": "write mask_mod, a function of (batch, head, q_idx, kv_idx), or bias",
    "attn_bias": "write bias",
    "enable_gqa": "leave it out: the heads of q may be any multiple of those of k",
    "softmax_scale": "write scale",
    "sm_scale": "write scale",
    "window_size": "write window, (left, right)",
    "sliding_window": "write window=n - 1, which does not count a query's own key",
    "local_window_size": "write window, (left, right)",
    "logits_soft_cap": "write softcap",
    "return_lse": "write lse=True",
    "return_aux": "write lse=True; flashcore.flex_attention takes it as it is",
    "return_attn_probs": 'write lse=True, or scores="probabilities" for the weights',
    "return_softmax_lse": "write lse=True",
    "kernel_options": "write schedule, the choices of flashcore-compile --help",
    "query": "it is the first argument, q",
    "key": "it is the second argument, k",
    "value": "it is the third argument, v",
    "block_table": "write page_table",
    "cache_seqlens": "write seqused_k",
    "key_value_seq_lengths": "write seqused_k",
    "max_seqlen_k": "leave it out: no kernel needs it",
    "s_aux": "write sinks",
    "learnable_sink": "write sinks",
    "q_descale": "leave it out: there are no kernels of 8 bits",
    "k_descale": "leave it out: there are no kernels of 8 bits",
    "v_descale": "leave it out: there are no kernels of 8 bits",
    "deterministic": "leave it out: equal calls give equal bits",
    "num_splits": "leave it out, or write batch_invariant=True for 1",
}


def refuse(function: Callable[..., Any], unknown: Dict[str, Any]) -> NoReturn:
    """Raises TypeError for arguments that a function has not.

    unknown: by their names; the first is spoken of.
    """
    name = next(iter(unknown))
    hint = _HINTS.get(name)
    if hint is None:
        near = difflib.get_close_matches(name, inspect.signature(function).parameters, 1)
        hint = f"write {near[0]}" if near else f"help(flashcore.{function.__name__}) has them all"
    raise TypeError(
        f"expects an argument of flashcore.{function.__name__}, but got {name}: {hint}"
    )
