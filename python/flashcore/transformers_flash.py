"""What Hugging Face Transformers calls where a model runs with flash-attn's functions.

Continuous batching, packed sequences and padded batches reach FlashCore here, by
the name of :func:`flashcore.transformers.register_flash`. Transformers looks up
which parameters the functions have, so theirs are flash-attn's with ``s_aux``.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, Dict, Optional, Set

import torch

from flashcore.attention import attention
from flashcore.errors import Error, GradientError, UnsupportedError
from flashcore.flash_attn_options import Window, common_options
from flashcore.operators import gradients
from flashcore.operators.fallback import attention_by_torch, sequences_by_torch, warn_once
from flashcore.torch.dropout import dropout_options

__all__ = ["install", "reason_against", "run"]

# By a kernel, or by PyTorch ---------------------------------------------------

#: What dropout a kernel has; Transformers knows of any share.
_LEAST_DROPOUT = 2**-17


def reason_against(
    query: torch.Tensor, dropout: float, *others: Optional[torch.Tensor]
) -> Optional[str]:
    """Why PyTorch computes a call, whatever it is; None if a kernel may.

    others: tensors beside query that may need gradients.
    """
    if query.dtype not in (torch.float16, torch.bfloat16):
        return f"query is of {query.dtype}, and not of float16 or bfloat16"
    if dropout > 0.0:
        if gradients.needs_gradient(query, *others):
            return "it has dropout, and needs gradients"
        if not _LEAST_DROPOUT <= dropout < 1 - _LEAST_DROPOUT:
            return f"its dropout is {dropout}, and not from 2^-17 to below 1 - 2^-17"
    return None


def run(
    reason: Optional[str],
    kernel: Callable[[], torch.Tensor],
    by_torch: Callable[[], torch.Tensor],
) -> torch.Tensor:
    """One of both: PyTorch's, with a warning, for a reason or what no kernel takes.

    Raises flashcore.GradientError where ``set_on_grad("error")`` was called.
    """
    if reason is None:
        try:
            return kernel()
        except GradientError:
            if gradients.on_grad() == "error":
                raise
            reason = "it needs gradients"
        except UnsupportedError as error:
            reason = str(error)
    warn_once(reason)
    return by_torch()


# Functions ------------------------------------------------------------------


def flash_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    deterministic: bool = False,
    s_aux: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """``flash_attn_func`` with sinks: s_aux, (heads_q). All of (batch, rows, heads, dim)."""
    options = _options_of(q, softmax_scale, causal, window_size, softcap)

    def kernel() -> torch.Tensor:
        o: torch.Tensor = _attention(q, k, v, dropout_p, s_aux, options)
        return o

    def by_torch() -> torch.Tensor:
        where = "bottom_right" if options["causal"] else None
        o: Any = attention_by_torch(
            q, k, v, **{**options, "causal": where}, sinks=s_aux, dropout_p=dropout_p
        )
        result: torch.Tensor = o
        return result

    return run(reason_against(q, dropout_p, k, v, s_aux), kernel, by_torch)


def flash_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: Any = None,
    max_seqlen_k: Any = None,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    deterministic: bool = False,
    s_aux: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """``flash_attn_varlen_func`` with sinks. All of (rows, heads, dim).

    By PyTorch, a mask of (rows of q, rows of k) is in memory.
    """
    options = common_options(softmax_scale, causal, window_size, softcap)

    def kernel() -> torch.Tensor:
        few = max_seqlen_q if isinstance(max_seqlen_q, int) else None
        places = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "max_seqlen_q": few}
        o: torch.Tensor = _attention(
            q[None], k[None], v[None], dropout_p, s_aux, {**options, **places}
        )
        return o[0]

    def by_torch() -> torch.Tensor:
        where = "bottom_right" if causal else None
        return sequences_by_torch(
            q, k, v, cu_seqlens_q, cu_seqlens_k, causal=where, window=options["window"],
            softcap=options["softcap"], scale=softmax_scale, sinks=s_aux, dropout_p=dropout_p,
        )  # fmt: skip

    return run(reason_against(q, dropout_p, k, v, s_aux), kernel, by_torch)


def flash_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache_seqlens: torch.Tensor,
    block_table: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    s_aux: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """``flash_attn_with_kvcache`` with sinks: new rows go to pages, in the same call.

    An entry whose cache_seqlens is negative fills up the batch: nothing of it is written.

    Raises flashcore.UnsupportedError for other types than float16 and bfloat16, and
    for gradients: PyTorch has nothing to compute it by.
    """
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise UnsupportedError(
            f"expects q of float16 or bfloat16 with block_table, but got {q.dtype}: convert the "
            "model, or decode without pages, ContinuousBatchingConfig(max_blocks_per_request=0)"
        )
    options = _options_of(q, softmax_scale, causal, window_size, softcap)
    pages = {"k_new": k, "v_new": v, "seqused_k": cache_seqlens, "page_table": block_table}
    o: torch.Tensor = _attention(q, k_cache, v_cache, dropout_p, s_aux, {**options, **pages})
    return o


def _options_of(
    q: torch.Tensor,
    softmax_scale: Optional[float],
    causal: bool,
    window_size: Window,
    softcap: float,
) -> Dict[str, Any]:
    """Of entries of equal rows. One query sees all keys: its own is the last."""
    options = common_options(softmax_scale, causal, window_size, softcap)
    return options if q.shape[1] > 1 else {**options, "causal": False}


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float,
    sinks: Optional[torch.Tensor],
    options: Dict[str, Any],
) -> Any:
    """``flashcore.attention``."""
    if sinks is not None:
        options = {**options, "sinks": sinks.float()}
    return attention(q, k, v, **dropout_options(dropout_p, q), **options)


# Where Transformers finds them ------------------------------------------------

_FUNCTIONS = (flash_func, flash_varlen_func, flash_with_kvcache)
#: Those that the functions are installed for.
_names: Set[str] = set()


def install(name: str) -> None:
    """Makes ``lazy_import_flash_attention(name)`` of Transformers return the functions above.

    What it loads for other names stays as it is. Raises flashcore.Error for a
    Transformers that looks for them elsewhere.
    """
    from transformers import PreTrainedModel
    from transformers import modeling_flash_attention_utils as utils

    _replace(utils, "_lazy_imports", _load_ours)
    _replace(PreTrainedModel, "_check_and_adjust_attn_implementation", _choose_ours)
    _names.add(name)
    try:
        functions, of_arguments = utils.lazy_import_flash_attention(name)
        agrees = functions[:2] == _FUNCTIONS[:2] and (len(functions), len(of_arguments)) == (5, 2)
    except (AttributeError, TypeError, ValueError):
        agrees = False
    if not agrees:
        _names.discard(name)
        raise _unknown("lazy_import_flash_attention takes five functions")


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Puts what ``make`` makes of a function in its place, once."""
    found = getattr(owner, name, None)
    if found is None:
        raise _unknown(f"{owner.__name__} has {name}")
    if not getattr(found, "is_of_flashcore", False):
        replacement: Any = wraps(found)(make(found))
        replacement.is_of_flashcore = True
        setattr(owner, name, replacement)


def _unknown(what: str) -> Error:
    import transformers

    return Error(
        f"expects a Transformers whose {what}, as 5.19 to 5.24 do, but got "
        f"{transformers.__version__}: install one of these, or use "
        "flashcore.transformers.register, which has no continuous batching"
    )


def _load_ours(original: Any) -> Any:
    """In the place of the function that imports flash-attn or loads it from the hub."""

    def load(implementation: Optional[str], *args: Any, **options: Any) -> Any:
        if implementation not in _names:
            return original(implementation, *args, **options)
        from transformers import modeling_flash_attention_utils as utils

        return (*_FUNCTIONS, utils._pad_input, utils._unpad_input)

    return load


def _choose_ours(original: Any) -> Any:
    """In the place of the check of a name, which has its own for a model with sinks.

    Transformers replaces a name that is not among those which such a model lists.
    """

    def choose(self: Any, attn_implementation: Optional[str], *args: Any, **options: Any) -> Any:
        if attn_implementation not in _names:
            return original(self, attn_implementation, *args, **options)
        if not self._supports_flash_attn:
            raise ValueError(
                f"expects a model that Transformers runs with flash-attn for "
                f"{attn_implementation!r}, but got {type(self).__name__}: use "
                "flashcore.transformers.register"
            )
        from transformers import modeling_flash_attention_utils as utils

        utils.lazy_import_flash_attention(attn_implementation)
        return self.get_correct_attn_implementation(attn_implementation)

    return choose
