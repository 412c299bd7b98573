"""Lists of the blocks of queries and keys that meet, for masks that are data."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence, Tuple

from flashcore import _core
from flashcore.arrays import is_tensor, library_of
from flashcore.errors import UnsupportedError
from flashcore.kinds import describe
from flashcore.options import read_block_size

__all__ = ["BlockLists", "block_lists", "read_lists"]


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
    queries, keys = read_block_size(block_size)
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


def has_size_of_kernels(block_mask: Any) -> bool:
    """Whether kernels take lists of blocks of that size."""
    try:
        read_block_size(_size_of(block_mask))
    except ValueError:
        return False
    return True


def _size_of(block_mask: Any) -> Any:
    size = getattr(block_mask, "BLOCK_SIZE", None)
    return getattr(block_mask, "block_size", None) if size is None else size


def read_lists(block_mask: Any) -> Tuple[Any, Tuple[Any, Any, Any, Any]]:
    """The size of blocks, and the lists as arguments in the order of ``LISTS``, unchecked.

    block_mask: BlockLists, or a BlockMask of FlexAttention.
    """
    counts = getattr(block_mask, "kv_num_blocks", None)
    indices = getattr(block_mask, "kv_indices", None)
    if counts is None or indices is None:
        raise TypeError(
            "expects block_mask to be flashcore.BlockLists or a BlockMask with kv_num_blocks and "
            f"kv_indices, but got {describe(block_mask)}"
        )
    size = _size_of(block_mask)
    full_counts = getattr(block_mask, "full_kv_num_blocks", None)
    full_indices = getattr(block_mask, "full_kv_indices", None)
    return size, (counts, indices, full_counts, full_indices)


def complete(lists: Tuple[Any, Any, Any, Any]) -> Tuple[Any, Any, Any, Any]:
    """The same with full lists of no blocks where there are none."""
    counts, indices, full_counts, full_indices = lists
    if (full_counts is None) != (full_indices is None):
        raise ValueError(
            "expects full_kv_num_blocks and full_kv_indices together, but got one of them alone"
        )
    if full_counts is not None:
        return lists
    library = library_of(counts)
    if library is None:
        raise UnsupportedError(
            f"expects lists of PyTorch, NumPy or CuPy, but got {type(counts).__name__}"
        )
    shape = _core.view(counts, None, "kv_num_blocks").shape
    return counts, indices, library.full(counts, shape, 0, "int32"), indices


def word_of(block_size: Tuple[int, int], lists: Sequence[Any]) -> str:
    """The word of a problem for lists that are complete, such as "128x128:bh".

    Behind the colon are the axes that they have, b and h, or 1 where they are broadcast.

    Raises TypeError and ValueError, by names of ``BlockLists``, for what are no lists.
    """
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
    axes = "".join("1" if size == 1 else axis for axis, size in zip("bh", shape))
    return f"{block_size[0]}x{block_size[1]}:{axes}"


def size_of_word(word: str) -> Tuple[int, int]:
    """Queries and keys of a block, of such a word."""
    queries, keys = (int(text) for text in word.partition(":")[0].split("x"))
    return queries, keys


def blocks_of(rows: int, each: int) -> int:
    """The fewest that a list has of rows: one, where there are none."""
    return max(-(-rows // each), 1)


def check_blocks(
    sizes: Tuple[int, ...], block_size: Tuple[int, int], batch: int, heads: int, q: int, k: int
) -> None:
    """The sizes of block_indices against those of an attention."""
    queries, keys = block_size
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
