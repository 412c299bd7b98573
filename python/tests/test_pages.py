"""A paged cache on NumPy arrays, on the emulator, against the formula."""

import re

import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw, draw_qkv
from test_lengths import expected_of, i32

#: Unlike the sizes of tiles and pages; the last entries have one page, and none.
USED = [133, 64, 3, 0]


def split(cache, page_size, tables, layout="bhsd"):
    """The pages of (batch, heads, keys, dim); what no key is in holds NaN."""
    batch, heads, keys, dim = cache.shape
    pool = numpy.full((tables.max() + 3, heads, page_size, dim), numpy.nan, cache.dtype)
    for entry, row in zip(cache, tables):
        for page, name in enumerate(row):
            part = entry[:, page * page_size : (page + 1) * page_size]
            pool[name, :, : part.shape[1]] = part
    return pool if layout == "bhsd" else numpy.ascontiguousarray(pool.swapaxes(1, 2))


def draw_table(batch, keys, page_size, seed=5):
    """Pages in no order, with some that nobody names."""
    each = -(-keys // page_size)
    names = numpy.random.default_rng(seed).permutation(batch * each + 3)[: batch * each]
    return names.reshape(batch, each).astype(numpy.int32)


def draw_paged(queries, page_size, used=USED, layout="bhsd", dim=64):
    """q, k and v, pools of k and v, and the table, whose entries behind the keys are none."""
    q, k, v = draw_qkv(len(used), 4, 2, queries, max(used), dim)
    for i, count in enumerate(used):
        k[i, :, count:] = v[i, :, count:] = numpy.nan
    table = draw_table(len(used), max(used), page_size)
    pools = [split(x, page_size, table, layout) for x in (k, v)]
    for row, count in zip(table, used):
        row[-(-count // page_size) :] = -1 << 20
    return (q, k, v), pools, table


def assert_entries(o, lse, q, k, v, used, causal=None, sinks=None, slopes=None, **options):
    """Each batch entry is what its own keys say."""
    for i, count in enumerate(used):
        one = slice(i, i + 1)
        expected, expected_lse = expected_of(
            q[one], k[one, :, :count], v[one, :, :count], causal, sinks, slopes, **options
        )
        assert_close(o[one], expected)
        assert_close(lse[one], expected_lse)


@pytest.mark.parametrize("page_size", [1, 8, 12, 16, 48, 64, 80, 256])
@pytest.mark.parametrize("queries", [1, 5, 40])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_pages(page_size, queries, layout):
    (q, k, v), pools, table = draw_paged(queries, page_size, layout=layout)
    given = q if layout == "bhsd" else numpy.ascontiguousarray(q.swapaxes(1, 2))
    o, lse = flashcore.attention(
        given, *pools, page_table=table, seqused_k=i32(*USED), causal=True, lse=True, layout=layout
    )
    o = o if layout == "bhsd" else o.swapaxes(1, 2)
    assert_entries(o, lse, q, k, v, USED, True)


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("causal", [False, True, "top_left"])
@pytest.mark.parametrize("window", [None, 20, (20, 3)])
def test_masks(queries, causal, window):
    (q, k, v), pools, table = draw_paged(queries, 16)
    o, lse = flashcore.attention(
        q, *pools, page_table=table, seqused_k=i32(*USED), causal=causal, window=window, lse=True
    )
    left, right = window if isinstance(window, tuple) else (window, None)
    assert_entries(o, lse, q, k, v, USED, causal or None, left=left, right=right)


@pytest.mark.parametrize("device", [None, "reference"])
def test_sinks_alibi_and_softcap(device):
    (q, k, v), pools, table = draw_paged(5, 32)
    sinks, slopes = draw(4, dtype=numpy.float32), draw(4, seed=1, dtype=numpy.float32)
    o, lse = flashcore.attention(
        q, *pools, page_table=table, seqused_k=i32(*USED), causal=True, lse=True, sinks=sinks,
        alibi_slopes=slopes, softcap=5.0, device=device,
    )  # fmt: skip
    assert_entries(o, lse, q, k, v, USED, True, sinks, slopes, softcap=5.0)


def test_functions_count_keys_as_the_table_orders_them():
    (q, k, v), pools, table = draw_paged(10, 16)
    bias = draw(4, 133, dtype=numpy.float32)
    captured = flashcore.capture(bias)
    o, lse = flashcore.attention(
        q, *pools, page_table=table, seqused_k=i32(*USED), lse=True,
        score_mod=lambda score, b, h, i, j: score + captured[b, j],
        mask_mod=lambda b, h, i, j: j % 3 != 1,
    )  # fmt: skip
    for i, count in enumerate(USED):
        whole = numpy.where(numpy.arange(count) % 3 != 1, bias[i, :count], -numpy.inf)
        one = slice(i, i + 1)
        expected, expected_lse = attention(q[one], k[one, :, :count], v[one, :, :count], bias=whole)
        assert_close(o[one], expected)
        assert_close(lse[one], expected_lse)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("queries", [1, 20])
def test_all_keys_of_all_pages(static, queries):
    q, k, v = draw_qkv(2, 4, 2, queries, 96)
    table = draw_table(2, 96, 32)
    pools = [split(x, 32, table) for x in (k, v)]
    o = flashcore.attention(q, *pools, page_table=table, causal=True, static=static)
    assert_close(o, attention(q, k, v, True)[0])


def test_entries_share_pages():
    q, k, v = draw_qkv(2, 4, 2, 7, 64)
    k[1, :, :32], v[1, :, :32] = k[0, :, :32], v[0, :, :32]
    table = i32([2, 0], [2, 4])
    pools = [split(x, 32, table) for x in (k, v)]
    assert_close(flashcore.attention(q, *pools, page_table=table), attention(q, k, v)[0])


def test_any_head_dim():
    (q, k, v), pools, table = draw_paged(5, 16, dim=20)
    o, lse = flashcore.attention(q, *pools, page_table=table, seqused_k=i32(*USED), lse=True)
    assert_entries(o, lse, q, k, v, USED)


@pytest.mark.parametrize("page_size", [4, 48, 64])
@pytest.mark.parametrize("causal, window", [(None, None), (True, None), (None, (30, 4))])
def test_sequences(page_size, causal, window):
    queries = [70, 0, 1, 129]
    (_, k, v), pools, table = draw_paged(1, page_size)
    q = draw(1, 4, sum(queries), 64, seed=9)
    cu = numpy.cumsum([0, *queries]).astype(numpy.int32)
    sinks = draw(4, dtype=numpy.float32)
    o, lse = flashcore.attention(
        q, *pools, page_table=table, cu_seqlens_q=cu, seqused_k=i32(*USED), causal=bool(causal),
        window=window, sinks=sinks, lse=True,
    )  # fmt: skip
    left, right = window or (None, None)
    for i, count in enumerate(USED):
        rows, one = slice(cu[i], cu[i + 1]), slice(i, i + 1)
        expected, expected_lse = expected_of(
            q[:, :, rows], k[one, :, :count], v[one, :, :count], causal, sinks, left=left,
            right=right,
        )  # fmt: skip
        assert_close(o[:, :, rows], expected)
        assert_close(lse[:, :, rows], expected_lse)


def test_nothing_to_look_at():
    q, k, v = draw_qkv(2, 4, 2, 5, 16)
    for pools, table in (
        ((k[:0], v[:0]), i32([0], [0])),
        ((k, v), numpy.zeros((2, 0), numpy.int32)),
    ):
        o, lse = flashcore.attention(q, *pools, page_table=table, seqused_k=i32(0, 0), lse=True)
        assert (o == 0).all() and (lse == -numpy.inf).all()


# Which kernel ---------------------------------------------------------------


def test_tables_and_lengths_are_data(cache_dir, compiled):
    for pages, batch in ((3, 2), (5, 2), (2, 3)):
        q, k, v = draw_qkv(batch, 4, 2, 20, 16 * pages)
        table = draw_table(batch, 16 * pages, 16, seed=pages)
        pools = [split(x, 16, table) for x in (k, v)]
        wide = numpy.concatenate([table, table], 1)[:, :pages]  # whose rows lie apart
        assert_close(flashcore.attention(q, *pools, page_table=wide), attention(q, k, v)[0])
    assert compiled() == 1
    flashcore.attention(q, k[:, :, :8], v[:, :, :8], page_table=i32([0], [1], [2]))
    assert compiled() == 2  # of another page size


def test_decoding_splits_the_keys_of_all_pages():
    """As without pages: the longest length counts."""
    before = set(flashcore.kernels.loaded())
    q, k, v = draw_qkv(1, 4, 2, 1, 4096)
    table = draw_table(1, 4096, 128)
    pools = [split(x, 128, table) for x in (k, v)]
    assert_close(flashcore.attention(q, *pools, page_table=table), attention(q, k, v)[0])
    (key,) = set(flashcore.kernels.loaded()) - before
    problem = flashcore.Problem.parse("b1 h4/2 s1x4096 d64 page_size=128")
    target = flashcore.kernels.device("emulator")
    served, schedule = problem.kernel_class(target.multiprocessors)
    assert (key.words, key.schedule) == (served.words(), schedule)


# What is refused ------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (
            {"page_table": numpy.zeros((2, 4), int)},
            TypeError,
            "expects page_table of int32, but got int64: convert it first",
        ),
        (
            {"page_table": i32(0, 1)},
            ValueError,
            "expects page_table to have 2 axes, (entries, pages_per_sequence), but got 1",
        ),
        (
            {"page_table": numpy.zeros((3, 4), numpy.int32)},
            ValueError,
            "expects page_table of (2, 4), a row a batch entry, but got (3, 4)",
        ),
        (
            {"bias": draw(5, 64)},
            ValueError,
            "expects no bias with page_table, but got one: score_mod adds",
        ),
        (
            {"seqused_k": i32(1, 2, 3)},
            ValueError,
            "expects seqused_k of (2,), one a batch entry, but got (3,)",
        ),
        (
            {"cu_seqlens_q": i32(0, 5), "cu_seqlens_k": i32(0, 5)},
            ValueError,
            "expects no cu_seqlens_k with page_table, but got one: pass how many keys each "
            "sequence has as seqused_k",
        ),
        (
            {"cu_seqlens_q": i32(0, 5)},
            ValueError,
            "expects seqused_k with page_table and cu_seqlens_q, but got None",
        ),
        (
            {"cu_seqlens_q": i32(0, 5), "seqused_k": i32(1)},
            ValueError,
            "expects q of batch 1 with cu_seqlens_q, but got 2",
        ),
        (
            {"k": draw(6, 2, 0, 64), "v": draw(6, 2, 0, 64)},
            ValueError,
            "expects a page_size of k and v of at least 1, but got 0; with page_table "
            "axes are (pages, heads, page_size, head_dim) with layout='bhsd'",
        ),
        (
            {"v": draw(7, 2, 16, 64)},
            ValueError,
            "expects pages of v to be 6, but got 7; axes are (pages, heads, page_size, head_dim)",
        ),
        ({"v": draw(6, 2, 32, 64)}, ValueError, "expects page_size of v to be 16, but got 32"),
    ],
)
def test_refused(arguments, error, message):
    q = draw(2, 4, 5, 64)
    given = {
        "k": draw(6, 2, 16, 64), "v": draw(6, 2, 16, 64),
        "page_table": numpy.zeros((2, 4), numpy.int32), **arguments,
    }  # fmt: skip
    with pytest.raises(error, match=re.escape(message)):
        flashcore.attention(q, **given)


def test_refused_without_a_table():
    """Pages alone are keys and values of another batch."""
    with pytest.raises(ValueError, match="expects batch of k to be 2, but got 6; axes are"):
        flashcore.attention(draw(2, 4, 5, 64), draw(6, 2, 16, 64), draw(6, 2, 16, 64))


def test_reference_refuses_pages_outside():
    (q, _, _), pools, table = draw_paged(5, 16)
    table[0, 1] = 1000
    with pytest.raises(flashcore.Error, match=r"page_table\[0, 1\]"):
        flashcore.attention(q, *pools, page_table=table, seqused_k=i32(*USED), device="reference")
