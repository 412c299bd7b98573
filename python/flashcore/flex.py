"""The interface of PyTorch's FlexAttention (torch.nn.attention.flex_attention)."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

from flashcore.attention import attention
from flashcore.blocks import has_size_of_kernels
from flashcore.errors import UnsupportedError
from flashcore.kinds import read
from flashcore.regions import KEY, trace_mods

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
    return_aux: must be None.

    Returns the output: (batch, heads_q, seqlen_q, head_dim_v), of the type of query.

    Raises UnsupportedError for return_aux, and what flashcore.attention raises. There
    is no backward pass.
    """
    if return_aux is not None:
        raise UnsupportedError(
            f"flex_attention expects return_aux=None, but got {return_aux!r}; return_lse=True "
            "returns the log-sum-exp"
        )
    enable_gqa, return_lse = read("enable_gqa", enable_gqa), read("return_lse", return_lse)
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(
            "expects as many heads of key as of query, or enable_gqa=True, but got "
            f"{key.shape[1]} and {query.shape[1]}"
        )
    mask_mod, lists = _read_mask(block_mask)
    return attention(
        query,
        _with_batch(key, query.shape[0]),
        _with_batch(value, query.shape[0]),
        score_mod=score_mod,
        mask_mod=mask_mod,
        block_mask=lists,
        scale=scale,
        lse=return_lse,
    )


def _read_mask(block_mask: Any) -> Tuple[Optional[Callable[..., Any]], Any]:
    """The mask_mod that is asked, and the mask whose lists are used; None for none."""
    if block_mask is None:
        return None, None
    mask_mod: Optional[Callable[..., Any]] = getattr(block_mask, "mask_mod", None)
    if not callable(mask_mod):
        raise TypeError(
            f"expects block_mask to be a BlockMask with a mask_mod, or None, but got {block_mask!r}"
        )
    # PyTorch's name for none: what such a mask hides is in its lists of blocks.
    if getattr(mask_mod, "__name__", "") == "noop_mask":
        return None, block_mask
    needs_lists = _reads_by_key(mask_mod) and has_size_of_kernels(block_mask)
    return mask_mod, block_mask if needs_lists else None


def _reads_by_key(mask_mod: Callable[..., Any]) -> bool:
    """Whether it reads a tensor at a place that depends on the key."""
    traced = trace_mods(None, mask_mod)
    assert traced.mask
    of_key = {KEY}
    for value, op in enumerate(traced.mask.ops):
        if of_key.intersection(op.operands):
            if op.name == "load":
                return True
            of_key.add(value)
    return False


def _with_batch(array: Any, batch: int) -> Any:
    """Keys or values, which one batch entry may have for all."""
    if array.shape[0] != 1 or batch == 1:
        return array
    if hasattr(array, "expand"):
        return array.expand(batch, -1, -1, -1)
    import numpy

    return numpy.broadcast_to(array, (batch, *array.shape[1:]))
