"""Documents that lie back to back in a sequence, as bounds of a mask."""

from __future__ import annotations

from typing import Any, Tuple

from flashcore.arrays import is_tensor

__all__ = ["document_bounds"]


def document_bounds(documents: Any) -> Tuple[Any, Any]:
    """The first and the last token of each token's document.

    documents: whole numbers (..., seqlen), a NumPy array or a PyTorch tensor: tokens
        that follow each other with equal numbers are a document.

    Returns (first, last): int32, of the shape of documents and where it is; nothing
    is read back to the host. In a mask_mod they say the same as a comparison of
    numbers, but as bounds of a query's keys, whose tiles outside are skipped::

        first, last = flashcore.document_bounds(documents)
        flashcore.attention(q, k, v, mask_mod=lambda b, h, q, k: (k >= first[q]) & (k <= last[q]))

    Raises TypeError for what is neither, or no whole numbers, and ValueError without
    an axis.
    """
    is_torch = is_tensor("documents", documents)
    if documents.ndim < 1:
        raise ValueError("expects documents of (..., seqlen), but got a single number")
    return _of_torch(documents) if is_torch else _of_numpy(documents)


def _expect_whole(is_whole: bool, dtype: Any) -> None:
    if not is_whole:
        raise TypeError(f"expects documents of whole numbers, but got {dtype}")


def _of_torch(documents: Any) -> Tuple[Any, Any]:
    import torch

    _expect_whole(not documents.is_floating_point() and not documents.is_complex(), documents.dtype)
    places = torch.arange(documents.shape[-1], dtype=torch.int32, device=documents.device)
    changes = documents[..., 1:] != documents[..., :-1]
    edge = torch.ones_like(documents[..., :1], dtype=torch.bool)
    begins = torch.cat([edge, changes], -1)
    ends = torch.cat([changes, edge], -1)
    most = documents.shape[-1]
    first = torch.where(begins, places, 0).cummax(-1).values
    last = torch.where(ends, places, most).flip(-1).cummin(-1).values.flip(-1)
    return first.to(torch.int32), last.to(torch.int32)


def _of_numpy(documents: Any) -> Tuple[Any, Any]:
    import numpy

    _expect_whole(documents.dtype.kind in "iub", documents.dtype)
    places = numpy.arange(documents.shape[-1], dtype=numpy.int32)
    changes = documents[..., 1:] != documents[..., :-1]
    edge = numpy.ones_like(documents[..., :1], dtype=bool)
    begins = numpy.concatenate([edge, changes], -1)
    ends = numpy.concatenate([changes, edge], -1)
    first = numpy.maximum.accumulate(numpy.where(begins, places, 0), -1)
    falling = numpy.where(ends, places, documents.shape[-1])[..., ::-1]
    last = numpy.minimum.accumulate(falling, -1)[..., ::-1]
    return first.astype(numpy.int32), numpy.ascontiguousarray(last).astype(numpy.int32)
