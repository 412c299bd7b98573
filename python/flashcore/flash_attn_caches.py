"""Caches of flash-attn's functions: in entries of their own or in pages, and what is appended."""

from __future__ import annotations

import math
import sys
from typing import Any, Callable, NamedTuple, Optional, Tuple, Union

import torch

from flashcore import _core
from flashcore.problem import row_step
from flashcore.tensors import check_no_overlap

__all__ = [
    "LEAST_PAGE", "Caches", "check_caches", "check_count", "check_lengths", "check_new", "check_rotary", "copy_back",
    "fill", "in_pages", "leftpad_mod", "to_append_to", "whole_pages",
]  # fmt: skip


class Caches(NamedTuple):
    """Where keys and values are kept: in entries of their own, or in pages.

    k, v: (batch_cache, seqlen, heads, head_dim), or (pages, page_size, ...) with table.
    entries: (batch), that of the caches for each of q; None is the same.
    table: (batch, pages of each), or None.
    """

    k: torch.Tensor
    v: torch.Tensor
    entries: Optional[torch.Tensor]
    table: Optional[torch.Tensor]

    @property
    def rows(self) -> int:
        """The most keys of an entry."""
        size: int = self.k.shape[1]
        return size if self.table is None else size * int(self.table.shape[1])

    def places(self, rows: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Indices of the first two axes, for the rows (batch, count) of each entry.

        Of pages and entries that are not there, those of others.
        """
        if self.table is not None:
            page = self.table.long().gather(1, rows // self.k.shape[1])
            return page.clamp(0, self.k.shape[0] - 1), rows % self.k.shape[1]
        if self.entries is not None:
            return self.entries.long().clamp(0, self.k.shape[0] - 1)[:, None], rows
        return torch.arange(rows.shape[0], device=rows.device)[:, None], rows


def check_caches(caches: Caches, batch: int) -> None:
    """Of what says where rows are, before any is written."""
    table, entries = caches.table, caches.entries
    if entries is not None:
        if entries.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"expects cache_batch_idx of int32 or int64, but got {entries.dtype}")
        if entries.shape != (batch,):
            raise ValueError(
                f"expects cache_batch_idx of ({batch},), one a batch entry, but got "
                f"{tuple(entries.shape)}"
            )
    if table is None:
        return
    if entries is not None:
        raise ValueError(
            "expects cache_batch_idx or block_table, but got both: the table names the pages of "
            "each entry of q"
        )
    if table.dtype != torch.int32:
        raise TypeError(f"expects block_table of int32, but got {table.dtype}")
    if table.dim() != 2 or table.shape[0] != batch:
        raise ValueError(
            f"expects block_table of ({batch}, blocks of each), a row a batch entry, but got "
            f"{tuple(table.shape)}"
        )


def in_pages(caches: Caches, batch: int) -> Optional[Caches]:
    """The caches of so many entries as pages of a table; None where they are no whole pages.

    Raises ValueError and TypeError for a table or entries that do not fit.
    """
    check_caches(caches, batch)
    if caches.table is not None:
        return caches
    if caches.entries is None and min(caches.k.shape[0], caches.v.shape[0]) < batch:
        raise ValueError(
            f"expects k_cache and v_cache of {batch} entries or more, one a sequence, but got "
            f"{caches.k.shape[0]} and {caches.v.shape[0]}"
        )
    if caches.entries is None:
        every = torch.arange(batch, dtype=torch.int32, device=caches.k.device)
        caches = caches._replace(entries=every)
    paged = whole_pages(caches, least=1)
    return None if paged.table is None else paged


def whole_pages(caches: Caches, least: int) -> Caches:
    """Entries that are chosen as pages of a table, where that can tell where their rows are.

    least: rows of a page, at least.
    """
    entries = caches.entries
    if entries is None:
        return caches
    size = _page_size(caches)
    if size is None or size < least:
        return caches
    steps, rows = _entry_step(caches.k), caches.k.shape[1]
    assert steps is not None
    each = torch.arange(rows // size, dtype=torch.int32, device=entries.device)
    table = entries.int()[:, None] * (steps // size) + each
    count = (caches.k.shape[0] - 1) * (steps // size) + rows // size

    def pool(cache: torch.Tensor) -> torch.Tensor:
        _, step, *others = cache.stride()
        shape = (count, size, *cache.shape[2:])
        return cache.as_strided(shape, (size * step, step, *others))

    return Caches(pool(caches.k), pool(caches.v), None, table)


#: A page of fewer keys takes too many copies of keys that are read; one of more saves none.
LEAST_PAGE, _LARGEST_PAGE = 8, 256


def _page_size(caches: Caches) -> Optional[int]:
    """Keys of a page, if the entries of both caches can be taken for whole pages."""
    steps = _entry_step(caches.k)
    if steps is None or steps != _entry_step(caches.v) or caches.k.shape[:2] != caches.v.shape[:2]:
        return None
    both = math.gcd(steps, caches.k.shape[1])
    return min(both & -both, _LARGEST_PAGE)


def _entry_step(cache: torch.Tensor) -> Optional[int]:
    """Rows from one entry of a cache to the next, if kernels take its rows as they are."""
    if 0 in cache.shape or cache.dim() != 4 or not _has_rows(cache):
        return None
    entries, rows = cache.shape[:2]
    if entries == 1 or rows == 1:
        return int(rows)
    outer, inner = cache.stride(0), cache.stride(1)
    is_whole = inner != 0 and outer % inner == 0 and outer // inner >= rows
    return outer // inner if is_whole else None


def check_count(count: int, rows: int) -> None:
    if not 0 <= count <= rows:
        raise ValueError(
            f"expects cache_seqlens, with what is appended, from 0 to {rows}, the rows of the "
            f"cache, but got {count}"
        )


def fill(number: int, count: int, like: torch.Tensor) -> torch.Tensor:
    return torch.full((count,), number, dtype=torch.int32, device=like.device)


def _has_rows(cache: torch.Tensor) -> bool:
    """Whether kernels take it as it is, of (..., heads, head_dim).

    What PyTorch traces has no memory yet; the operator tells where that is not aligned.
    """
    if not sys.modules["flashcore.attention"].is_traced(cache):
        return _core.has_rows(cache, "a cache")
    step = row_step(cache.shape[-1])
    return cache.stride(-1) == 1 and all(
        s % step == 0 for n, s in zip(cache.shape[:-1], cache.stride()) if n > 1
    )


def to_append_to(caches: Caches, batch: int) -> Tuple[Caches, Optional[Caches]]:
    """What a kernel appends to, and the copies of the caches that this is, if it is.

    It has all entries and pages, so that where rows go, and whether they go anywhere, is
    for the kernel to say.
    """
    held = whole_pages(caches, least=1)
    if held.entries is None and all(_has_rows(cache) for cache in (held.k, held.v)):
        return held, None
    for name, cache in (("k_cache", caches.k), ("v_cache", caches.v)):
        check_no_overlap(name, cache)
    copies = caches._replace(k=_dense(caches.k), v=_dense(caches.v))
    held = whole_pages(copies, least=1)
    if held.entries is not None:  # no rows to append to
        k, v = (cache.new_empty(batch, *cache.shape[1:]) for cache in (held.k, held.v))
        held = Caches(k, v, None, None)
    return held, copies


def _dense(cache: torch.Tensor) -> torch.Tensor:
    return cache.clone(memory_format=torch.contiguous_format)


def copy_back(caches: Caches, copies: Caches, used: torch.Tensor, count: int) -> None:
    """The rows that a kernel may have written to copies of the caches.

    In the place of rows that it did not write others are copied, which are what they were:
    so nothing is asked of lengths and tables on the host, and no index is out of range.
    """
    if count == 0 or 0 in caches.k.shape:
        return
    first = used.long().clamp(0)[:, None]
    rows = (first + torch.arange(count, device=used.device)).clamp(max=caches.rows - 1)
    places = caches.places(rows)
    for cache, copy in ((caches.k, copies.k), (caches.v, copies.v)):
        cache.index_put_(places, copy[places])


def check_new(
    caches: Caches, k: Optional[torch.Tensor], v: Optional[torch.Tensor]
) -> Tuple[torch.Tensor, torch.Tensor]:
    if k is None or v is None:
        raise ValueError(
            f"expects k and v together, but got {'v' if k is None else 'k'} alone: both are "
            "appended to the cache"
        )
    for cache, new in ((caches.k, k), (caches.v, v)):
        if new.dtype != cache.dtype:
            raise TypeError(
                f"expects k and v of the type of their caches, {cache.dtype}, but got {new.dtype}"
            )
    if caches.entries is not None and caches.k.shape[:2] != caches.v.shape[:2]:
        raise ValueError(
            "expects k_cache and v_cache of as many entries and rows with cache_batch_idx, but got "
            f"{tuple(caches.k.shape)} and {tuple(caches.v.shape)}"
        )
    return k, v


def check_lengths(
    caches: Caches,
    cache_seqlens: Optional[Union[int, torch.Tensor]],
    batch: int,
    count: int,
) -> Union[int, torch.Tensor]:
    """How many keys are there, where so many rows are appended to each entry."""
    if cache_seqlens is None:
        raise ValueError(
            "expects cache_seqlens with k and v, but got None: it says where they are appended"
        )
    if isinstance(cache_seqlens, int):
        check_count(cache_seqlens + count, caches.rows)
    else:
        _check_cache_seqlens(cache_seqlens, batch)
    return cache_seqlens


def _check_cache_seqlens(cache_seqlens: torch.Tensor, batch: int) -> None:
    """Before the caches are written."""
    if cache_seqlens.dtype != torch.int32:
        raise TypeError(f"expects cache_seqlens of int32, but got {cache_seqlens.dtype}")
    if cache_seqlens.shape != (batch,):
        raise ValueError(
            f"expects cache_seqlens of ({batch},), one a batch entry, but got "
            f"{tuple(cache_seqlens.shape)}"
        )


def leftpad_mod(leftpad: Optional[torch.Tensor], batch: int) -> Optional[Callable[..., Any]]:
    """The mask_mod that hides the first keys of each entry."""
    if leftpad is None:
        return None
    if leftpad.dtype != torch.int32 or leftpad.shape != (batch,):
        raise ValueError(
            f"expects cache_leftpad of int32 ({batch},), one a batch entry, but got "
            f"{leftpad.dtype} {tuple(leftpad.shape)}"
        )
    return lambda entry, head, i, j: j >= leftpad[entry]


# Rotary embeddings ----------------------------------------------------------


def check_rotary(
    q: torch.Tensor,
    k: Optional[torch.Tensor],
    cos: Optional[torch.Tensor],
    sin: Optional[torch.Tensor],
    cache_seqlens: Optional[Union[int, torch.Tensor]],
    is_one_place: bool,
    rows: int,
) -> None:
    if cos is None or sin is None:
        raise ValueError(
            "expects rotary_cos and rotary_sin together, but got "
            f"rotary_{'sin' if cos is None else 'cos'} alone"
        )
    if k is None or cache_seqlens is None:
        raise ValueError(
            "expects k, v and cache_seqlens with rotary_cos, but got none: they say what is "
            "rotated, and how far"
        )
    for name, table in (("rotary_cos", cos), ("rotary_sin", sin)):
        if table.dtype != q.dtype:
            raise TypeError(f"expects {name} of the type of q, {q.dtype}, but got {table.dtype}")
        if table.dim() != 2 or 2 * table.shape[1] > q.shape[3] or table.shape != cos.shape:
            raise ValueError(
                "expects rotary_cos and rotary_sin of (positions, rotary_dim / 2), both of one "
                f"size and with a rotary_dim of at most {q.shape[3]}, the head_dim, but got {name} "
                f"of {tuple(table.shape)}"
            )
        if table.shape[0] < rows:
            raise ValueError(
                f"expects {name} of at least {rows} positions, the rows of the cache, but got "
                f"{table.shape[0]}"
            )
    if isinstance(cache_seqlens, int):
        check_count(cache_seqlens + max(k.shape[1], 1 if is_one_place else q.shape[1]), rows)
