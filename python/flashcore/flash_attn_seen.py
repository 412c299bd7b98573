"""Calls of flash-attn's functions that were made before.

These functions check arguments by their own rules before they call flashcore.attention, which
takes longer than the kernels of one token. All that the checks look at are sizes, types and
places of tensors, and options: what ``_core.Calls`` tells calls apart by. So a call whose like
was told to ``see``, once it had passed, is run by ``run_seen``, which makes no other Python
object than the result, and returns NotImplemented for all others.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any, Optional, Tuple

from flashcore import _core
from flashcore.flash_attn_options import common_options
from flashcore.operands import CLAUSES
from flashcore.options import make_options
from flashcore.problem import FEW_QUERIES
from flashcore.resolve import resolve

__all__ = ["Arguments", "are_lengths", "caches", "is_plain", "of_cache", "of_sequences", "sequences"]

#: What both methods take.
Arguments = Tuple[Any, ...]


def _make_call(
    without_batch: bool, causal: Any, window_size: Any, softcap: Any, softmax_scale: Any, lse: Any,
    batch_invariant: bool, rotary_interleaved: Any, few: Optional[bool], *unused: None,
) -> "_core.Call":  # fmt: skip
    """The call of options as these functions have them."""
    options = make_options(
        **common_options(softmax_scale, causal, window_size, softcap), lse=lse,
        batch_invariant=batch_invariant, rotary_interleaved=rotary_interleaved,
        has_few_queries=few,
    )  # fmt: skip
    options = replace(options, without_batch=without_batch)
    # Not that of flashcore.attention, whose calls have passed no checks but its own.
    return _core.make_call(partial(resolve, options), True, tuple(CLAUSES), "q")


#: Of caches, and of sequences back to back.
caches = _core.make_calls(partial(_make_call, False))
sequences = _core.make_calls(partial(_make_call, True))

#: Those of the options that _core.Calls tells apart which nothing is said in here.
_UNUSED = (None,) * 8


def is_plain(q: Any, dropout_p: Any = 0.0) -> bool:
    """Whether a call draws nothing, and PyTorch need not see it: as an operator, or as an
    event of its profiler."""
    module = sys.modules["flashcore.attention"]
    draws = type(dropout_p) is not float or dropout_p != 0.0
    return not (draws or module.is_traced(q) or module.is_profiled())


def are_lengths(*lengths: Any) -> bool:
    """Whether they are numbers of rows, which no tensor tells."""
    return all(type(length) is int and length >= 0 for length in lengths)


def _in_order(
    head_scales: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    seqused_k: Any = None,
    page_table: Any = None,
    k_new: Any = None,
    v_new: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    rng: Any = None,
) -> Tuple[Any, ...]:
    """In the order of CLAUSES."""
    return (
        head_scales, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, k_new,
        v_new, rotary_cos, rotary_sin, rng,
    )  # fmt: skip


def of_cache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any,
    v: Any,
    rotary_cos: Any,
    rotary_sin: Any,
    cache_seqlens: Any,
    table: Any,
    alibi_slopes: Any,
    sinks: Any,
    out: Any,
    softmax_scale: Any,
    causal: Any,
    window_size: Any,
    softcap: Any,
    rotary_interleaved: Any,
    lse: Any,
    batch_invariant: bool,
) -> Arguments:
    """Those of flash_attn_with_kvcache whose caches are taken as they are."""
    beside = _in_order(
        None, alibi_slopes, sinks, None, None, cache_seqlens, table, k, v, rotary_cos, rotary_sin
    )
    return (
        q, k_cache, v_cache, None, out, None, beside, causal, window_size, softcap, softmax_scale,
        lse, batch_invariant, rotary_interleaved, None, *_UNUSED,
    )  # fmt: skip


def of_sequences(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    seqused_k: Any,
    table: Any,
    alibi_slopes: Any,
    sinks: Any,
    out: Any,
    softmax_scale: Any,
    causal: Any,
    window_size: Any,
    softcap: Any,
    lse: Any,
    max_seqlen_q: Any,
    batch_invariant: bool,
) -> Arguments:
    """Those of flash_attn_varlen_func."""
    beside = _in_order(
        None, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, table
    )
    return (
        q, k, v, None, out, None, beside, causal, window_size, softcap, softmax_scale, lse,
        batch_invariant, False, max_seqlen_q <= FEW_QUERIES, *_UNUSED,
    )  # fmt: skip
