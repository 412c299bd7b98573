"""The interface of PyTorch's FlexAttention (torch.nn.attention.flex_attention)."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional, Tuple

from flashcore.attention import attention
from flashcore.blocks import has_size_of_kernels
from flashcore.errors import UnsupportedError
from flashcore.kinds import describe, is_array, read
from flashcore.mods import reads_by_key

__all__ = ["flex_attention"]


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Optional[Callable[..., Any]] = None,
    block_mask: Any = None,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> Any:
    """torch.nn.attention.flex_attention.flex_attention, without torch.compile.

    query: (batch, heads_q, seqlen_q, head_dim), of float16 or bfloat16.
    key: (batch or 1, heads_kv, seqlen_k, head_dim).
    value: (batch or 1, heads_kv, seqlen_k, head_dim_v).
    score_mod: as of :func:`flashcore.attention`.
    block_mask: a BlockMask, of which ``mask_mod`` is used: the compiler finds the
        tiles that it hides itself. Where the mask_mod reads a tensor at the place of a
        key, which no compiler can look into, the lists of blocks are used, too, and
        alone where there is no mask_mod.
    scale: of query key^T; 1 / sqrt(head_dim) by default.
    enable_gqa: heads_q may be a multiple of heads_kv; else they are equal.
    return_lse: return (output, lse), with the natural logarithm, float32 (batch,
        heads_q, seqlen_q).
    kernel_options: choices of PyTorch's kernels, which change nothing here.
    return_aux: an AuxRequest of PyTorch's: return (output, AuxOutput), which has the ``lse`` that
        it asks for. Not with return_lse.

    Returns the output: (batch, heads_q, seqlen_q, head_dim_v), of the type of query; or it with
    what return_lse or return_aux asks for.

    Raises ValueError for a block_mask of other sizes, UnsupportedError for a return_aux that asks
    for max_scores, and what flashcore.attention raises.
    """
    for name, array in (("query", query), ("key", key), ("value", value)):
        if not is_array(array):
            raise TypeError(f"expects {name} to be an array, but got {describe(array)}")
        if len(array.shape) != 4:
            raise ValueError(
                f"expects {name} of (batch, heads, seqlen, head_dim), but got {tuple(array.shape)}"
            )
    needs_lse = _reads_aux(return_aux, return_lse)
    enable_gqa, return_lse = read("enable_gqa", enable_gqa), read("return_lse", return_lse)
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(
            "expects as many heads of key as of query, or enable_gqa=True, but got "
            f"{key.shape[1]} and {query.shape[1]}"
        )
    mask_mod, lists = _read_mask(block_mask, query)
    _expect_sizes(block_mask, query, key)
    result = attention(
        query,
        _with_batch(key, query.shape[0]),
        _with_batch(value, query.shape[0]),
        score_mod=score_mod,
        mask_mod=mask_mod,
        block_mask=lists,
        scale=scale,
        lse=return_lse or needs_lse,
    )
    if return_aux is None:
        return result
    from torch.nn.attention.flex_attention import AuxOutput

    return (result[0], AuxOutput(lse=result[1])) if needs_lse else (result, AuxOutput())


def _reads_aux(return_aux: Any, return_lse: bool) -> bool:
    """Whether it asks for the log-sum-exp."""
    if return_aux is None:
        return False
    if return_lse:
        raise ValueError(
            f"expects return_lse or return_aux, but got both: return_aux={return_aux!r} has an lse"
        )
    if getattr(return_aux, "max_scores", False):
        raise UnsupportedError(
            "expects return_aux that asks for no max_scores, which no kernel writes, but got "
            f"{return_aux!r}"
        )
    if not hasattr(return_aux, "lse"):
        raise TypeError(
            f"expects return_aux to be an AuxRequest or None, but got {describe(return_aux)}"
        )
    return bool(return_aux.lse)


def _expect_sizes(block_mask: Any, query: Any, key: Any) -> None:
    """PyTorch has no block_mask of other sizes than it was made for, either."""
    made_for = getattr(block_mask, "seq_lengths", None)
    sizes = (query.shape[2], key.shape[2])
    lists = getattr(block_mask, "kv_num_blocks", None)
    for axis, size in zip(("batch", "heads"), () if lists is None else lists.shape[:2]):
        wanted = query.shape[("batch", "heads").index(axis)]
        if size not in (1, wanted):
            raise ValueError(
                f"expects block_mask of {axis} 1 or {wanted}, as query has, but got {size}"
            )
    if made_for is None or _hides_nothing(block_mask) or tuple(made_for) == sizes:
        return
    raise ValueError(
        f"expects block_mask for {sizes[0]} queries and {sizes[1]} keys, but got one that was made "
        f"for {made_for[0]} and {made_for[1]}: make it anew, or call its _adjust"
    )


#: Of the mask that PyTorch makes where there is none, which is for any sizes.
_SIZE_OF_NO_BLOCKS = 1 << 30


def _hides_nothing(block_mask: Any) -> bool:
    return bool(min(block_mask.BLOCK_SIZE) >= _SIZE_OF_NO_BLOCKS)


def _is_noop(mask_mod: Any) -> bool:
    """Whether it is PyTorch's name for none."""
    return getattr(mask_mod, "__name__", "") == "noop_mask"


def _read_mask(block_mask: Any, query: Any) -> Tuple[Optional[Callable[..., Any]], Any]:
    """The mask_mod that is asked, and the mask whose lists are used; None for none."""
    if block_mask is None:
        return None, None
    mask_mod: Optional[Callable[..., Any]] = getattr(block_mask, "mask_mod", None)
    if not callable(mask_mod):
        raise TypeError(
            "expects block_mask to be a BlockMask with a mask_mod, or None, but got "
            f"{describe(block_mask)}"
        )
    if _is_noop(mask_mod):  # what such a mask hides is in its lists of blocks
        return None, block_mask
    needs_lists = _reads_by_key(mask_mod, query) and has_size_of_kernels(block_mask)
    return mask_mod, block_mask if needs_lists else None


def _reads_by_key(mask_mod: Callable[..., Any], query: Any) -> bool:
    """Whether it reads a tensor at a place that depends on the key."""
    if "torch" in sys.modules and sys.modules["flashcore.attention"].is_traced(query):
        from flashcore.operators import traced_mods

        return traced_mods.reads_by_key(mask_mod)
    return reads_by_key(mask_mod)


def _with_batch(array: Any, batch: int) -> Any:
    """Keys or values, which one batch entry may have for all."""
    if array.shape[0] != 1 or batch == 1:
        return array
    if hasattr(array, "expand"):
        return array.expand(batch, -1, -1, -1)
    import numpy

    return numpy.broadcast_to(array, (batch, *array.shape[1:]))
