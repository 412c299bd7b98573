"""Lists of blocks on NumPy arrays, on the emulator, against the formula."""

import numpy
import pytest

import flashcore
from flashcore.blocks import complete, read_lists, word_of
from formula import assert_close, attention, draw_qkv


def as_bias(seen):
    return numpy.where(seen, 0, -numpy.inf)[None, None]


def draw_mask(queries, keys, seed=7, size=64):
    """Some blocks that are all seen, some in part, some not at all, and queries that see nothing."""
    generator = numpy.random.default_rng(seed)
    mask = generator.random((queries, keys)) < 0.5
    for i in range(0, queries, size):
        for j in range(0, keys, size):
            kind = generator.integers(3)
            if kind < 2:
                mask[i : i + size, j : j + size] = bool(kind)
    mask[:size] = False
    return mask


def shown(lists, queries, keys, mask):
    """What lists say, entry by entry."""
    seen = numpy.zeros((queries, keys), bool)
    rows, columns = lists.block_size
    for i in range(queries):
        block = i // rows
        for n in range(lists.kv_num_blocks[0, 0, block]):
            first = lists.kv_indices[0, 0, block, n] * columns
            seen[i, first : first + columns] |= mask[i, first : first + columns]
        for n in range(lists.full_kv_num_blocks[0, 0, block]):
            first = lists.full_kv_indices[0, 0, block, n] * columns
            seen[i, first : first + columns] = True
    return seen


@pytest.mark.parametrize("size", [(64, 64), (16, 32), (128, 128)])
@pytest.mark.parametrize("device", ["emulator", "reference"])
@pytest.mark.parametrize("static", [False, True])
def test_masks_of_arrays(size, device, static):
    mask = draw_mask(150, 203)
    q, k, v = draw_qkv(2, 4, 2, 150, 203)
    lists = flashcore.block_lists(mask, size)
    read = flashcore.capture(mask)
    o, lse = flashcore.attention(
        q, k, v, mask_mod=lambda b, h, q, k: read[q, k], block_mask=lists, lse=True, device=device,
        static=static,
    )  # fmt: skip
    expected, expected_lse = attention(q, k, v, bias=as_bias(mask))
    assert_close(o, expected)
    assert_close(lse, expected_lse)
    assert (o[:, :, :64] == 0).all() and numpy.isneginf(lse[:, :, :64]).all()


def test_lists_say_what_the_array_does():
    for seed, size in ((1, (64, 64)), (2, (32, 48)), (3, (16, 16))):
        mask = draw_mask(150, 203, seed)
        assert (shown(flashcore.block_lists(mask, size), 150, 203, mask) == mask).all()
    lists = flashcore.block_lists(numpy.ones((3, 2, 130, 70), bool), (64, 64))
    assert lists.kv_num_blocks.shape == (3, 2, 3) and lists.kv_indices.shape == (3, 2, 3, 2)
    assert (lists.kv_num_blocks == 0).all() and (lists.full_kv_num_blocks == 2).all()
    assert (lists.full_kv_indices == [0, 1]).all()
    assert all(array.dtype == numpy.int32 for array in lists[:4])


def test_lists_alone_with_causal():
    """What lists leave out is hidden, and causal is asked where a block is not full."""
    q, k, v = draw_qkv(1, 2, 2, 128, 128)
    counts = numpy.array([[[1, 1]]], numpy.int32)
    indices = numpy.array([[[[0, 9], [1, -5]]]], numpy.int32)
    lists = flashcore.BlockLists(counts, indices, block_size=(64, 64))
    o = flashcore.attention(q, k, v, causal=True, block_mask=lists)
    i, j = numpy.arange(128)[:, None], numpy.arange(128)[None]
    assert_close(o, attention(q, k, v, bias=as_bias((j <= i) & (i // 64 == j // 64)))[0])
    full = flashcore.BlockLists(counts * 0, indices, counts, indices, (64, 64))
    o = flashcore.attention(q, k, v, causal=True, block_mask=full)
    assert_close(o, attention(q, k, v, bias=as_bias(i // 64 == j // 64))[0])
    # Full blocks show keys behind the query's position, at a distance that is not negative.
    slopes = numpy.array([0.5, 0.125], numpy.float32)
    o = flashcore.attention(q, k, v, causal=True, block_mask=full, alibi_slopes=slopes)
    distances = -slopes[:, None, None] * abs(i - j)
    assert_close(o, attention(q, k, v, bias=as_bias(i // 64 == j // 64) + distances)[0])


def test_lists_of_each_head_and_length():
    q, k, v = draw_qkv(2, 2, 1, 70, 130)
    generator = numpy.random.default_rng(3)
    mask = generator.random((2, 2, 70, 130)) < 0.5
    mask[:, 0, :, 64:] = False
    mask[1, 1, :64, :64] = True
    lists = flashcore.block_lists(mask, (64, 64))
    read, used = flashcore.capture(mask), numpy.array([130, 70], numpy.int32)
    o = flashcore.attention(
        q, k, v, mask_mod=lambda b, h, q, k: read[b, h, q, k], block_mask=lists, seqused_k=used
    )
    mask &= numpy.arange(130) < used[:, None, None, None]
    assert_close(o, attention(q, k, v, bias=numpy.where(mask, 0, -numpy.inf))[0])


def test_one_query():
    q, k, v = draw_qkv(1, 8, 2, 1, 1100, 128)
    mask = numpy.zeros((1, 1100), bool)
    mask[:, 300:390] = mask[:, 1024:] = True
    o = flashcore.attention(q, k, v, block_mask=flashcore.block_lists(mask, (16, 16)))
    wide = numpy.zeros((1, 1100), bool)
    wide[:, 288:400] = wide[:, 1024:] = True  # of blocks that no mask is asked in
    assert_close(o, attention(q, k, v, bias=as_bias(wide))[0])


@pytest.mark.parametrize("queries", [1, 5, 16, 17])
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("device", ["emulator", "reference"])
def test_lists_of_more_rows_than_q_has(queries, static, device):
    """Lists made once serve a q of any number of rows, and fewer keys: of its first rows."""
    mask = draw_mask(140, 1300)
    mask[:20] = draw_mask(20, 1300, size=4)
    q, k, v = draw_qkv(1, 4, 2, queries, 1100)
    lists, shown = flashcore.block_lists(mask, (16, 64)), flashcore.capture(mask)
    o = flashcore.attention(
        q, k, v, mask_mod=lambda b, h, i, j: shown[i, j], block_mask=lists, static=static,
        device=device,
    )  # fmt: skip
    assert_close(o, attention(q, k, v, bias=as_bias(mask[:queries, :1100]))[0])


def test_what_is_no_mask():
    with pytest.raises(
        TypeError, match="expects mask to be a NumPy array or a PyTorch tensor, but got"
    ):
        flashcore.block_lists([[True]])
    with pytest.raises(TypeError, match="expects mask of bool, but got int32"):
        flashcore.block_lists(numpy.ones((4, 4), numpy.int32))
    with pytest.raises(
        ValueError, match="expects mask of .batch, heads, seqlen_q, seqlen_k., or of its"
    ):
        flashcore.block_lists(numpy.ones(4, bool))
    with pytest.raises(ValueError, match="expects blocks of queries and keys of multiples of 16"):
        flashcore.block_lists(numpy.ones((4, 4), bool), (64, 20))


def test_what_are_no_lists():
    counts, indices = numpy.zeros((1, 1, 2), numpy.int32), numpy.zeros((1, 1, 2, 2), numpy.int32)

    def word(block_mask):
        size, lists = read_lists(block_mask)
        return word_of(size, complete(lists))

    with pytest.raises(
        TypeError, match="expects block_mask to be flashcore.BlockLists or a BlockMask"
    ):
        word(counts)
    with pytest.raises(TypeError, match="expects kv_indices of int32, but got int64"):
        word(flashcore.BlockLists(counts, indices.astype(numpy.int64)))
    with pytest.raises(ValueError, match="expects kv_num_blocks of .*, but got .1, 1, 3."):
        word(flashcore.BlockLists(numpy.zeros((1, 1, 3), numpy.int32), indices))
    with pytest.raises(ValueError, match="expects full_kv_num_blocks and full_kv_indices together"):
        word(flashcore.BlockLists(counts, indices, counts))
    assert word(flashcore.BlockLists(counts, indices)) == "128x128:11"
    q = draw_qkv(queries=20)
    for wrong in (
        flashcore.BlockLists(counts, indices.astype(numpy.int64)),
        flashcore.BlockLists(counts, indices, counts),
        flashcore.BlockLists(counts, indices, block_size=(64, 20)),
    ):
        for _ in range(2):
            with pytest.raises((TypeError, ValueError), match="expects "):
                flashcore.attention(*q, block_mask=wrong)


def test_what_does_not_go_with_lists():
    q, k, v = draw_qkv(1, 2, 2, 200, 200)
    lists = flashcore.block_lists(numpy.ones((200, 200), bool))
    with pytest.raises(
        flashcore.UnsupportedError, match="expects no block_mask with scores, but got both"
    ):
        flashcore.attention(q, k, v, block_mask=lists, scores="masked")
    ends = numpy.array([0, 200], numpy.int32)
    with pytest.raises(flashcore.UnsupportedError, match="expects no block_mask with cu_seqlens_q"):
        flashcore.attention(q, k, v, block_mask=lists, cu_seqlens_q=ends, cu_seqlens_k=ends)
    few = flashcore.block_lists(numpy.ones((200, 100), bool))
    with pytest.raises(
        ValueError, match="at least 2 blocks of 128 for the 200 rows of k, but got 1"
    ):
        flashcore.attention(q, k, v, block_mask=few)
    many = flashcore.block_lists(numpy.ones((3, 1, 200, 200), bool))
    with pytest.raises(
        ValueError, match="expects the batch of block_mask to be 1 or 1, as q has, but got 3"
    ):
        flashcore.attention(q, k, v, block_mask=many)


def test_problems_have_words_of_lists():
    problem = flashcore.Problem.parse("s? blocks=128x64:b1")
    assert problem.blocks == "128x64:b1"
    assert "blocks=128x64:b1" in problem.words()
    assert flashcore.Problem.parse("").blocks is None


def test_flex_attention_takes_lists_where_it_needs_them():
    """A BlockMask by its fields, of a mask that is an array, of one that is not, and of lists alone."""
    mask = draw_mask(130, 200)
    q, k, v = draw_qkv(1, 2, 2, 130, 200)
    lists = flashcore.block_lists(mask, (64, 64))
    read = flashcore.capture(mask)

    class Mask:
        BLOCK_SIZE = (64, 64)
        kv_num_blocks, kv_indices = lists.kv_num_blocks, lists.kv_indices
        full_kv_num_blocks, full_kv_indices = lists.full_kv_num_blocks, lists.full_kv_indices

    Mask.mask_mod = staticmethod(lambda b, h, q, k: read[q, k])
    assert_close(
        flashcore.flex_attention(q, k, v, block_mask=Mask),
        attention(q, k, v, bias=as_bias(mask))[0],
    )
    # The lists are those of another mask, and not looked at.
    Mask.mask_mod = staticmethod(lambda b, h, q, k: k <= q)
    i, j = numpy.arange(130)[:, None], numpy.arange(200)[None]
    assert_close(
        flashcore.flex_attention(q, k, v, block_mask=Mask),
        attention(q, k, v, bias=as_bias(j <= i))[0],
    )

    def noop_mask(b, h, q, k):
        raise AssertionError("nobody calls it")

    Mask.mask_mod = staticmethod(noop_mask)
    every = shown(lists, 130, 200, numpy.ones((130, 200), bool))
    assert_close(
        flashcore.flex_attention(q, k, v, block_mask=Mask),
        attention(q, k, v, bias=as_bias(every))[0],
    )
