"""The interface of PyTorch's FlexAttention (torch.nn.attention.flex_attention)."""

from __future__ import annotations

from typing import Any, Callable, Optional

from flashcore.attention import attention
from flashcore.errors import UnsupportedError

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
        tiles that it hides itself. One of lists of tiles alone is refused.
    scale: of query key^T; 1 / sqrt(head_dim) by default.
    enable_gqa: heads_q may be a multiple of heads_kv; else they are equal.
    return_lse: return (output, lse), with the natural logarithm, float32 (batch,
        heads_q, seqlen_q).
    kernel_options: choices of PyTorch's kernels, which change nothing here.
    return_aux: must be None.

    Returns the output: (batch, heads_q, seqlen_q, head_dim_v), of the type of query.

    Raises UnsupportedError for return_aux and for a block_mask without a
    mask_mod, and what flashcore.attention raises. There is no backward pass.
    """
    if return_aux is not None:
        raise UnsupportedError(
            f"flex_attention expects return_aux=None, but got {return_aux!r}; return_lse=True "
            "returns the log-sum-exp"
        )
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(
            "expects as many heads of key as of query, or enable_gqa=True, but got "
            f"{key.shape[1]} and {query.shape[1]}"
        )
    return attention(
        query,
        _with_batch(key, query.shape[0]),
        _with_batch(value, query.shape[0]),
        score_mod=score_mod,
        mask_mod=_mask_mod(block_mask),
        scale=scale,
        lse=return_lse,
    )


def _mask_mod(block_mask: Any) -> Optional[Callable[..., Any]]:
    if block_mask is None:
        return None
    mask_mod: Optional[Callable[..., Any]] = getattr(block_mask, "mask_mod", None)
    if not callable(mask_mod):
        raise TypeError(
            f"expects block_mask to be a BlockMask with a mask_mod, or None, but got {block_mask!r}"
        )
    # PyTorch's name for none: what such a mask hides is in its lists of tiles.
    if getattr(mask_mod, "__name__", "") == "noop_mask":
        raise UnsupportedError(
            "flex_attention expects a block_mask with a mask_mod, but got one of lists of tiles "
            "alone; where all keys are seen, block_mask=None says so"
        )
    return mask_mod


def _with_batch(array: Any, batch: int) -> Any:
    """Keys or values, which one batch entry may have for all."""
    if array.shape[0] != 1 or batch == 1:
        return array
    if hasattr(array, "expand"):
        return array.expand(batch, -1, -1, -1)
    import numpy

    return numpy.broadcast_to(array, (batch, *array.shape[1:]))
