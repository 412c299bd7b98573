"""Lists of the blocks of queries and keys that meet, for masks that are data."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from flashcore import _core
from flashcore.arrays import is_tensor, library_of
from flashcore.errors import UnsupportedError
from flashcore.kinds import read

__all__ = ["BlockLists", "block_lists", "read_blocks"]

#: The clauses of the lists, in their order.
LISTS = tuple(argument for argument, *_, axes, _ in _core.operands() if "query_blocks" in axes)

#: What a size of a block is a multiple of, and its largest.
_UNIT, _MOST = 16, 65536


class BlockLists(NamedTuple):
    """Which blocks of queries and keys meet, as a BlockMask of FlexAttention has them.

    Of batch entry b and head h, the queries from n * block_size[0] on see keys of the
    blocks that the first kv_num_blocks[b, h, n] entries of kv_indices[b, h, n] name,
    as far as the mask shows them, and all keys of those that the full lists name.
    An axis of size 1 of batch or heads is broadcast.

    kv_num_blocks: int32 (batch or 1, heads_q or 1, blocks of queries).
    kv_indices: int32 (batch or 1, heads_q or 1, blocks of queries, blocks of keys).
    full_kv_num_blocks, full_kv_indices: the same of blocks that no mask is asked in,
        none of them in the other list; None for no such blocks.
    block_size: queries and keys of a block, multiples of 16.
    """

    kv_num_blocks: Any
    kv_indices: Any
    full_kv_num_blocks: Any = None
    full_kv_indices: Any = None
    block_size: Tuple[int, int] = (128, 128)


def block_lists(mask: Any, block_size: Tuple[int, int] = (128, 128)) -> BlockLists:
    """The lists of a mask that is an array.

    mask: bool (batch or 1, heads or 1, seqlen_q, seqlen_k), or without the first axes,
        a NumPy array or a PyTorch tensor: True where the query sees the key.
    block_size: queries and keys of a block, multiples of 16.

    Returns lists for ``flashcore.attention(..., block_mask=...)``, where mask is: of
    blocks with some keys that are seen, in which a mask_mod that reads the array says
    which, and of blocks with no others::

        lists = flashcore.block_lists(mask)
        flashcore.attention(q, k, v, mask_mod=lambda b, h, q, k: mask[q, k], block_mask=lists)

    Raises TypeError for what is neither, or not of bool, and ValueError for sizes that do
    not fit.
    """
    import numpy

    is_torch = is_tensor("mask", mask)
    if str(mask.dtype).rpartition(".")[2] != "bool":
        raise TypeError(f"expects mask of bool, but got {mask.dtype}")
    if not 2 <= mask.ndim <= 4 or 0 in mask.shape:
        raise ValueError(
            f"expects mask of (batch, heads, seqlen_q, seqlen_k), or of its last axes, but got "
            f"{tuple(mask.shape)}"
        )
    queries, keys = _check_size(block_size)
    mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
    *outer, rows, columns = mask.shape
    padded = (*outer, -(-rows // queries) * queries, -(-columns // keys) * keys)

    def cover(beyond: bool) -> Any:
        """The mask in blocks, with ``beyond`` where there are no queries or keys."""
        whole = mask.new_full(padded, beyond) if is_torch else numpy.full(padded, beyond)
        whole[..., :rows, :columns] = mask
        return whole.reshape(*outer, padded[2] // queries, queries, padded[3] // keys, keys)

    some = cover(False).any(-1).any(-2)
    every = cover(True).all(-1).all(-2)
    listed = _list_torch if is_torch else _list_numpy
    return BlockLists(*listed(some & ~every), *listed(some & every), (queries, keys))


def _list_numpy(blocks: Any) -> Tuple[Any, Any]:
    """How many blocks of each row are there, and their numbers in front of the others."""
    import numpy

    order = numpy.argsort(~blocks, axis=-1, kind="stable")
    return blocks.sum(-1, dtype=numpy.int32), order.astype(numpy.int32)


def _list_torch(blocks: Any) -> Tuple[Any, Any]:
    import torch

    order = torch.argsort((~blocks).to(torch.int8), dim=-1, stable=True)
    return blocks.sum(-1, dtype=torch.int32), order.to(torch.int32)


def _check_size(block_size: Any) -> Tuple[int, int]:
    sizes = block_size if isinstance(block_size, (tuple, list)) else (block_size, block_size)
    sizes = [read("block_size", size, whole=block_size) for size in sizes]
    if len(sizes) != 2 or any(s % _UNIT or not 0 < s <= _MOST for s in sizes):
        raise ValueError(
            f"expects blocks of queries and keys of multiples of {_UNIT} up to {_MOST}, but got "
            f"{block_size!r}"
        )
    return sizes[0], sizes[1]


def has_size_of_kernels(block_mask: Any) -> bool:
    """Whether kernels take lists of blocks of that size."""
    try:
        _check_size(_size_of(block_mask))
    except ValueError:
        return False
    return True


def _size_of(block_mask: Any) -> Any:
    size = getattr(block_mask, "BLOCK_SIZE", None)
    return getattr(block_mask, "block_size", None) if size is None else size


def read_blocks(block_mask: Any) -> Tuple[str, Dict[str, Any]]:
    """The words of a problem for lists, and the arrays by the names of their clauses.

    block_mask: BlockLists, or a BlockMask of FlexAttention.
    """
    counts = getattr(block_mask, "kv_num_blocks", None)
    indices = getattr(block_mask, "kv_indices", None)
    if counts is None or indices is None:
        raise TypeError(
            "expects block_mask to be flashcore.BlockLists or a BlockMask with kv_num_blocks and "
            f"kv_indices, but got {block_mask!r}"
        )
    queries, keys = _check_size(_size_of(block_mask))
    full_counts: Optional[Any] = getattr(block_mask, "full_kv_num_blocks", None)
    full_indices: Optional[Any] = getattr(block_mask, "full_kv_indices", None)
    if (full_counts is None) != (full_indices is None):
        raise ValueError(
            "expects full_kv_num_blocks and full_kv_indices together, but got one of them alone"
        )
    if full_counts is None:
        full_counts, full_indices = _none(counts), indices
    lists = [counts, indices, full_counts, full_indices]
    axes = _check_lists(lists)
    return f"{queries}x{keys}:{axes}", dict(zip(LISTS, lists))


def _none(counts: Any) -> Any:
    library = library_of(counts)
    if library is None:
        raise UnsupportedError(
            f"expects lists of PyTorch, NumPy or CuPy, but got {type(counts).__name__}"
        )
    return library.full(counts, _core.view(counts, None, "kv_num_blocks").shape, 0, "int32")


def _check_lists(lists: List[Any]) -> str:
    """The axes that lists have: b and h, or 1 where they are broadcast."""
    names = BlockLists._fields
    views = [_core.view(array, None, name) for name, array in zip(names, lists)]
    shape = views[1].shape
    for name, view in zip(names, views):
        rank = 4 if name.endswith("indices") else 3
        if view.dtype != "int32":
            raise TypeError(f"expects {name} of int32, but got {view.dtype}: convert it first")
        if view.shape != shape[:rank] or len(shape) != 4:
            raise ValueError(
                f"expects {name} of {('batch', 'heads', 'blocks of queries', 'blocks of keys')[:rank]}"
                f", as kv_indices of {shape} has them, but got {view.shape}"
            )
    return "".join("1" if size == 1 else axis for axis, size in zip("bh", shape))


def size_of_word(word: str) -> Tuple[int, int]:
    """Queries and keys of a block, of the word of a problem."""
    queries, keys = (int(text) for text in word.partition(":")[0].split("x"))
    return queries, keys


def blocks_of(rows: int, each: int) -> int:
    """The fewest that a list has of rows: one, where there are none."""
    return max(-(-rows // each), 1)


def check_blocks(sizes: Tuple[int, ...], word: str, batch: int, heads: int, q: int, k: int) -> None:
    """The sizes of block_indices against those of an attention."""
    queries, keys = size_of_word(word)
    for axis, size, whole in (("batch", sizes[0], batch), ("heads", sizes[1], heads)):
        if size not in (1, whole):
            raise ValueError(
                f"expects the {axis} of block_mask to be 1 or {whole}, as q has, but got {size}"
            )
    for rows, size, total, each in (("q", sizes[2], q, queries), ("k", sizes[3], k, keys)):
        least = blocks_of(total, each)
        if size < least:
            raise ValueError(
                f"expects block_mask to have at least {least} blocks of {each} for the {total} "
                f"rows of {rows}, but got {size}"
            )
