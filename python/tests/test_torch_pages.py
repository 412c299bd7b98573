"""flash-attn's functions for caches: pages, rotary embeddings, padding and slopes."""

import functools

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import flashcore
from flashcore import flash_attn, flash_attn_caches
from torch_inputs import assert_same_as, check_dropped, make, no_host_reads, reference

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
#: Keys that are there. New ones begin and end within a page, and reach into the next.
LENGTHS = [70, 0, 29, 64]
ROWS = 96


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def i32(values, device="cpu"):
    return torch.tensor(values, dtype=torch.int32, device=device)


def to_pages(caches, page_size, seed=3):
    """Pools of pages in no order, some of nobody, and the table."""
    batch, rows = caches[0].shape[:2]
    each = rows // page_size
    names = torch.randperm(batch * each + 2, generator=torch.Generator().manual_seed(seed))
    names = names[: batch * each].to(caches[0].device)
    pools = []
    for cache in caches:
        pool = cache.new_full((batch * each + 2, page_size, *cache.shape[2:]), torch.nan)
        pool[names] = cache.reshape(batch * each, page_size, *cache.shape[2:])
        pools.append(pool)
    return pools, names.reshape(batch, each).int()


def from_pages(pool, table):
    """(batch, rows, heads, head_dim)."""
    return pool[table.long()].flatten(1, 2)


def draw(queries, device, batch=len(LENGTHS), new=None, dtype=torch.float16, lengths=LENGTHS):
    """q, new rows, and caches that hold NaN behind their keys."""
    q, k, v = make(
        batch, 4, 2, queries, new or queries, dim=64, layout="bshd", device=device, dtype=dtype
    )
    _, *caches = make(
        batch, 4, 2, 1, ROWS, dim=64, layout="bshd", device=device, seed=1, dtype=dtype
    )
    for i, n in enumerate(lengths):
        for cache in caches:
            cache[i, n:] = torch.nan
    return q, k, v, caches


def turn(x, cos, sin, positions, interleaved):
    """Rotary embeddings of one batch entry, (rows, heads, head_dim), column by column."""
    y = x.double().clone()
    half = cos.shape[1]
    for row, position in enumerate(positions):
        for i in range(half):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
            c, s = cos[position, i].double(), sin[position, i].double()
            y[row, :, a] = x[row, :, a].double() * c - x[row, :, b].double() * s
            y[row, :, b] = x[row, :, a].double() * s + x[row, :, b].double() * c
    return y.to(x.dtype)


def expected_of(
    q, new, caches, lengths, causal=False, window=(-1, -1), slopes=None, leftpad=None, rotary=None,
    **options,
):  # fmt: skip
    """Entry by entry, with its keys cut out: out, lse and what the caches hold then."""
    outs, held = [], [cache.clone() for cache in caches]
    for i, n in enumerate(lengths):
        queries, rows = q[i], [x[i] for x in new] if new else []
        if rotary:
            place = [n + row if causal or window != (-1, -1) else n for row in range(len(queries))]
            queries = turn(queries, *rotary[:2], place, rotary[2])
            rows[0] = turn(rows[0], *rotary[:2], range(n, n + len(rows[0])), rotary[2])
        for cache, row in zip(held, rows):
            cache[i, n : n + len(row)] = row
        first, end = leftpad[i] if leftpad else 0, n + (len(rows[0]) if rows else 0)
        keys = [cache[i : i + 1, first : max(first, end)] for cache in held]
        bias = None
        if slopes is not None:
            bias = flash_attn._alibi(slopes[i], len(queries), keys[0].shape[1])
        result = reference(
            queries[None], *keys, layout="bshd", lse=True, causal=causal, window=window, bias=bias,
            **options,
        )  # fmt: skip
        outs.append(result)
    return tuple(map(torch.cat, zip(*outs))), held


def run(q, new, caches, lengths, page_size, device, **options):
    """out, lse and what the caches hold then; a page_size of None has no table."""
    caches, table = [cache.clone() for cache in caches], None
    if page_size:
        caches, table = to_pages(caches, page_size)
    used = lengths if isinstance(lengths, int) else i32(lengths, device)
    with no_host_reads(device):
        result = flash_attn.flash_attn_with_kvcache(
            q, *caches, *(new or ()), cache_seqlens=used, block_table=table,
            return_softmax_lse=True, **options,
        )  # fmt: skip
    if table is not None:
        caches = [from_pages(pool, table) for pool in caches]
    return result, caches


def check(actual, expected):
    (result, caches), (wanted, held) = actual, expected
    for ours, theirs in zip(result, wanted):
        assert_same_as(ours, theirs)
    for ours, theirs in zip(caches, held):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


# Caches in pages ------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 16, 32])
@pytest.mark.parametrize("queries, new", [(1, 1), (5, 5), (5, 20), (40, None)])
@pytest.mark.parametrize("causal, window", [(False, (-1, -1)), (True, (-1, -1)), (False, (20, 0))])
def test_pages(device, page_size, queries, new, causal, window):
    q, k, v, caches = draw(queries, device, new=new)
    rows = (k, v) if new else None
    options = {"causal": causal}
    actual = run(q, rows, caches, LENGTHS, page_size, device, window_size=window, **options)
    check(actual, expected_of(q, rows, caches, LENGTHS, window=window, **options))


@pytest.mark.parametrize("page_size", [None, 32])
@pytest.mark.parametrize("new", [None, 3])
def test_one_length_for_all(device, page_size, new):
    q, k, v, caches = draw(3, device, new=new, lengths=[50] * 4)
    rows = (k, v) if new else None
    expected = expected_of(q, rows, caches, [50] * 4, causal=True)
    check(run(q, rows, caches, 50, page_size, device, causal=True, num_splits=3), expected)


def test_all_pages_are_there(device):
    q, _, _, caches = draw(3, device, lengths=[ROWS] * 4)
    pools, table = to_pages(caches, 32)
    out = flash_attn.flash_attn_with_kvcache(q, *pools, block_table=table, softcap=2.0)
    assert_same_as(out, reference(q, *caches, layout="bshd", softcap=2.0))


@pytest.mark.parametrize("page_size", [None, 16])
def test_slopes(device, page_size):
    slopes = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)).to(device)
    q, k, v, caches = draw(5, device)
    call = functools.partial(run, q, (k, v), caches, LENGTHS, page_size, device, causal=True)
    for given in (slopes, slopes[2]):
        expected = expected_of(q, (k, v), caches, LENGTHS, causal=True, slopes=given.expand(4, 4))
        check(call(alibi_slopes=given, softcap=0.0), expected)


def test_slopes_of_a_cache_without_lengths(device):
    slopes = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)).to(device)
    q, _, _, caches = draw(5, device, lengths=[ROWS] * 4)
    out = flash_attn.flash_attn_with_kvcache(q, *caches, alibi_slopes=slopes)
    bias = flash_attn._alibi(slopes, 5, ROWS)
    assert_same_as(out, reference(q, *caches, layout="bshd", bias=bias))


@pytest.mark.parametrize("page_size", [None, 16])
@pytest.mark.parametrize("causal, window", [(False, (-1, -1)), (True, (-1, -1)), (False, (20, 0))])
def test_leftpad(device, page_size, causal, window):
    q, k, v, caches = draw(3, device)
    leftpad = [5, 0, 32, 64]  # the third entry sees nothing, the last its new rows alone
    options = {"causal": causal}
    actual = run(
        q, (k, v), caches, LENGTHS, page_size, device, window_size=window,
        cache_leftpad=i32(leftpad, device), **options,
    )  # fmt: skip
    expected = expected_of(q, (k, v), caches, LENGTHS, window=window, leftpad=leftpad, **options)
    check(actual, expected)


# Entries by their numbers ---------------------------------------------------


def run_by_index(q, new, caches, lengths, device, rows=ROWS, index=torch.int32, **options):
    """As run, in larger caches whose entries have rows of nobody behind them."""
    entries = torch.tensor([5, 0, 3, 2], dtype=index, device=device)
    wide = [cache.new_full((6, rows, *cache.shape[2:]), torch.nan) for cache in caches]
    held = [x[:, :ROWS] for x in wide]
    for x, cache in zip(held, caches):
        x[entries.long()] = cache
    before = [x.clone() for x in wide]
    used = lengths if isinstance(lengths, int) else i32(lengths, device)
    with no_host_reads(device):
        result = flash_attn.flash_attn_with_kvcache(
            q, *held, *(new or ()), cache_seqlens=used, cache_batch_idx=entries,
            return_softmax_lse=True, **options,
        )  # fmt: skip
    for x, old in zip(wide, before):  # nothing of others was written
        torch.testing.assert_close(x[[1, 4]], old[[1, 4]], equal_nan=True)
        torch.testing.assert_close(x[:, ROWS:], old[:, ROWS:], equal_nan=True)
    return result, [x[entries.long()] for x in held]


@pytest.fixture
def tables(monkeypatch):
    """The page tables of calls, in which no entry may be copied."""
    seen, attention = [], flash_attn.attention

    def spy(q, k, v, **options):
        seen.append(options["page_table"])
        return attention(q, k, v, **options)

    def refuse(*arguments):
        raise AssertionError("expects no copy of the entries")

    monkeypatch.setattr(flash_attn, "attention", spy)
    monkeypatch.setattr(torch.Tensor, "index_select", refuse)
    monkeypatch.setattr(torch.Tensor, "index_put_", refuse)
    return seen


@pytest.mark.parametrize("rows, page_size", [(ROWS, 32), (ROWS + 40, 8)])
@pytest.mark.parametrize("queries, new", [(1, 1), (5, 5), (5, None)])
@pytest.mark.parametrize("causal, window", [(False, (-1, -1)), (True, (-1, -1)), (False, (20, 0))])
def test_entries_are_not_copied(device, tables, rows, page_size, queries, new, causal, window):
    q, k, v, caches = draw(queries, device, new=new)
    added = (k, v) if new else None
    actual = run_by_index(
        q, added, caches, LENGTHS, device, rows, causal=causal, window_size=window
    )
    check(actual, expected_of(q, added, caches, LENGTHS, causal, window))
    (table,) = tables
    assert table.dtype == torch.int32 and table.shape == (4, ROWS // page_size)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_entries_with_padding_and_slopes(device, tables, index):
    leftpad, slopes = [5, 0, 32, 64], torch.rand(4, 4).to(device)
    q, k, v, caches = draw(3, device)
    actual = run_by_index(
        q, (k, v), caches, LENGTHS, device, index=index, causal=True,
        cache_leftpad=i32(leftpad, device),
    )  # fmt: skip
    check(actual, expected_of(q, (k, v), caches, LENGTHS, causal=True, leftpad=leftpad))
    actual = run_by_index(
        q, (k, v), caches, LENGTHS, device, index=index, alibi_slopes=slopes, softcap=0.0
    )
    check(actual, expected_of(q, (k, v), caches, LENGTHS, slopes=slopes))
    assert all(table is not None for table in tables)


@pytest.mark.parametrize("interleaved", [False, True])
def test_entries_with_rotary_embeddings(device, tables, interleaved):
    q, k, v, caches = draw(3, device)
    cos, sin = draw_rotary(64, device)
    (out, _), held = run_by_index(
        q, (k, v), caches, LENGTHS, device, causal=True, rotary_cos=cos, rotary_sin=sin,
        rotary_interleaved=interleaved,
    )  # fmt: skip
    expected, written = expected_of(
        q, (k, v), caches, LENGTHS, causal=True, rotary=(cos, sin, interleaved)
    )
    assert_same_as(out, expected[0])
    for ours, theirs in zip(held, written):
        torch.testing.assert_close(ours, theirs, equal_nan=True, atol=1e-3, rtol=4e-3)
    assert tables[0] is not None


def test_entries_of_one_length_and_of_all(device, tables):
    q, k, v, caches = draw(3, device, lengths=[50] * 4)
    for new in ((k, v), None):
        actual = run_by_index(q, new, caches, 50, device, causal=True)
        check(actual, expected_of(q, new, caches, [50] * 4, causal=True))
    q, _, _, caches = draw(3, device, lengths=[ROWS] * 4)
    index = torch.tensor([2, 0, 0, 1], device=device)  # some may name one
    out = flash_attn.flash_attn_with_kvcache(q, *caches, cache_batch_idx=index)
    assert_same_as(out, reference(q, *(x[index] for x in caches), layout="bshd"))
    assert all(table is not None for table in tables) and len(tables) == 3


CHANGES = ["rows", "step", "unequal", "apart", "unaligned", "offset"]


def change_memory(caches, change):
    """The same rows, 92 of ROWS for "rows", in memory of which pages are small or none."""
    if change == "rows":  # no multiple of 8
        return [x[:, :92].clone() for x in caches]
    if change == "step":
        return [torch.cat([x, x[:, :3]], 1)[:, : x.shape[1]] for x in caches]
    if change == "unequal":
        return [torch.cat([x] * n, 1)[:, : x.shape[1]] for n, x in zip((2, 1), caches)]
    if change == "apart":
        return [torch.stack([x, x], -1)[..., 0] for x in caches]
    if change == "unaligned":
        return [torch.cat([x, x[..., :1]], -1)[..., : x.shape[-1]] for x in caches]
    assert change == "offset"
    return [torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape) for x in caches]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("new", [None, 1])
def test_entries_that_are_no_pages_are_copied(device, change, new):
    lengths = [40, 0, 29, 64]
    q, k, v, caches = draw(1, device, new=new, lengths=lengths)
    entries = i32([3, 1, 2, 0], device)
    held = change_memory([cache[entries.long()] for cache in caches], change)
    assert flash_attn_caches.whole_pages(flash_attn_caches.Caches(*held, entries, None), 8).table is None
    used = i32(lengths, device)
    with no_host_reads(device):
        result = flash_attn.flash_attn_with_kvcache(
            q, *held, *((k, v) if new else ()), cache_seqlens=used,
            cache_batch_idx=entries, return_softmax_lse=True,
        )  # fmt: skip
    expected, written = expected_of(q, (k, v) if new else None, caches, lengths)
    written = [x[:, : held[0].shape[1]] for x in written]
    check((result, [x[entries.long()] for x in held]), (expected, written))


# Rows without a place -------------------------------------------------------

#: Past the end, of no entry, in front of the end, and in the middle.
EDGES = [ROWS - 1, -1, ROWS - 3, 40]


def append_at_edges(q, k, v, caches, device, layout, change):
    """Three rows for entries of lengths that leave no room: (out, lse), and what is held."""
    batch, rows = caches[0].shape[:2]
    options, more = {}, 2
    if layout == "pages":
        caches, table = to_pages(caches, 16)
        table[1] = -1  # of an entry that is not there
        options["block_table"] = table
    elif layout == "entries":
        entries = torch.tensor([3, 0, 4, 1], device=device)
        entries[1] = 3  # that of another, for an entry that is not there
        caches = [torch.cat([x, x[:more]])[[1, 3, 4, 0, 2, 5]] for x in caches]
        options["cache_batch_idx"] = entries
    caches = change_memory(caches, change) if change else [x.clone() for x in caches]
    used = i32(EDGES, device)
    with no_host_reads(device):
        result = flash_attn.flash_attn_with_kvcache(
            q, *caches, k, v, cache_seqlens=used, causal=True,
            return_softmax_lse=True, **options,
        )  # fmt: skip
    return result, caches


@pytest.mark.parametrize("layout", [None, "pages", "entries"])
@pytest.mark.parametrize("change", ["apart", "unaligned", "offset"])
def test_rows_without_a_place_are_written_nowhere_in_any_memory(device, layout, change):
    q, k, v, caches = draw(1, device, new=3, lengths=[ROWS] * 4)
    call = functools.partial(append_at_edges, q, k, v, caches, device, layout)
    (expected, held), (actual, ours) = call(None), call(change)
    for x, y in zip((*actual, *ours), (*expected, *held)):
        torch.testing.assert_close(x, y, equal_nan=True, atol=0, rtol=0)
    out, lse = actual
    assert (out[1] == 0).all() and (lse[1] == -torch.inf).all()
    if layout is None:  # and these are the rules
        for cache, new in zip((x.clone() for x in caches), (k, v)):
            cache[0, ROWS - 1], cache[2, ROWS - 3 :] = new[0, 0], new[2]
            cache[3, 40:43] = new[3]
            assert any(torch.equal(cache, x) for x in ours)


@pytest.mark.parametrize("rows", [92, 95])
def test_entries_of_small_pages_take_rows_without_copies(device, tables, rows):
    """Also rows that there is no room for: the room is that of the entries."""
    q, k, v, caches = draw(1, device, new=3, lengths=[ROWS] * 4)
    caches = [x[:, :rows].clone() for x in caches]
    held = [x.clone() for x in caches]
    result = flash_attn.flash_attn_with_kvcache(
        q, *held, k, v, cache_seqlens=i32([rows - 1, -1, rows, 40], device),
        cache_batch_idx=i32([2, -1, 0, 1], device), causal=True, return_softmax_lse=True,
    )  # fmt: skip
    for cache, new, ours in zip(caches, (k, v), held):
        cache[2, rows - 1], cache[1, 40:43] = new[0, 0], new[3]
        assert torch.equal(ours, cache)
    assert (result[0][1] == 0).all() and tables[0].shape[0] == 4


@pytest.mark.parametrize("layout", [None, "pages", "unaligned"])
@pytest.mark.parametrize("rotary", [False, True])
def test_no_rows_are_appended(device, layout, rotary):
    q, k, v, caches = draw(2, device)
    table = None
    if layout == "pages":
        caches, table = to_pages(caches, 16)
    elif layout:
        caches = change_memory(caches, layout)
    options = {"cache_seqlens": i32(LENGTHS, device), "block_table": table, "causal": True}
    before = [x.clone() for x in caches]
    if rotary:  # q is turned
        cos, sin = draw_rotary(64, device)
        turns = {"rotary_cos": cos, "rotary_sin": sin, "rotary_interleaved": False}
        turned = torch.stack([
            turn(x, cos, sin, [n, n + 1], False) for x, n in zip(q, LENGTHS)
        ])  # fmt: skip
    none = [x[:, :0] for x in (k, v)]
    ours = flash_attn.flash_attn_with_kvcache(
        q, *caches, *none, **(turns if rotary else {}), **options
    )
    theirs = flash_attn.flash_attn_with_kvcache(turned if rotary else q, *caches, **options)
    assert_same_as(ours, theirs)
    for x, y in zip(caches, before):
        torch.testing.assert_close(x, y, equal_nan=True, atol=0, rtol=0)


def test_caches_that_overlap_are_refused_before_they_are_copied(device):
    q, k, v, caches = draw(1, device)
    shared = [x[:1, :, :, ::2].expand(4, -1, -1, -1) for x in caches]
    with pytest.raises(ValueError, match="expects k_cache whose elements do not overlap, but got"):
        flash_attn.flash_attn_with_kvcache(
            q[..., ::2], *shared, k[..., ::2], v[..., ::2], cache_seqlens=5
        )
    entries = i32([0, 1, 2, 3], device)
    with pytest.raises(ValueError, match="k_cache and v_cache of as many entries and rows with c"):
        flash_attn.flash_attn_with_kvcache(
            q, caches[0], caches[1][:, :90], k, v, cache_seqlens=5, cache_batch_idx=entries
        )


def test_entries_that_overlap_are_no_pages():
    _, _, _, caches = draw(1, "cpu")
    shared = [cache[:1].expand(4, -1, -1, -1) for cache in caches]
    assert flash_attn_caches.whole_pages(flash_attn_caches.Caches(*shared, i32([0, 3]), None), 1).table is None
    one = [cache[:1] for cache in caches]
    found = flash_attn_caches.whole_pages(flash_attn_caches.Caches(*one, i32([0, 0]), None), 8)
    assert found.k.data_ptr() == one[0].data_ptr() and found.k.shape == (3, 32, 2, 64)


# Rotary embeddings ----------------------------------------------------------


def draw_rotary(dim, device, dtype=torch.float16):
    angle = torch.rand(ROWS, dim // 2, generator=torch.Generator().manual_seed(2)) * 7
    return [x.to(device, dtype) for x in (angle.cos(), angle.sin())]


@pytest.mark.parametrize("dtype, dim", [(torch.float16, 64), (torch.bfloat16, 32)])
@pytest.mark.parametrize("page_size", [None, 16])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("causal, window", [(False, (-1, -1)), (True, (-1, -1)), (False, (20, 0))])
def test_rotary(device, dtype, page_size, interleaved, dim, causal, window):
    q, k, v, caches = draw(3, device, dtype=dtype)
    cos, sin = draw_rotary(dim, device, dtype)
    (result, held) = run(
        q, (k, v), caches, LENGTHS, page_size, device, causal=causal, window_size=window,
        rotary_cos=cos, rotary_sin=sin, rotary_interleaved=interleaved,
    )  # fmt: skip
    expected, caches = expected_of(
        q, (k, v), caches, LENGTHS, causal, window, rotary=(cos, sin, interleaved)
    )
    tolerance = 4 * torch.finfo(dtype).eps
    for ours, theirs in zip(result, expected):
        assert_same_as(ours, theirs, max(4e-3, tolerance))
    # A float32 that is between two of dtype may go either way.
    for ours, theirs in zip(held, caches):
        torch.testing.assert_close(ours, theirs, equal_nan=True, atol=1e-3, rtol=tolerance)


def test_rotary_of_one_length(device):
    q, k, v, caches = draw(3, device, lengths=[50] * 4)
    cos, sin = draw_rotary(64, device)
    actual, _ = run(
        q, (k, v), caches, 50, None, device, causal=True, rotary_cos=cos, rotary_sin=sin
    )
    expected, _ = expected_of(q, (k, v), caches, [50] * 4, causal=True, rotary=(cos, sin, True))
    assert_same_as(actual[0], expected[0])


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotation_is_that_of_flash_attn(interleaved):
    """As its apply_rotary_emb_torch has it: x * cos + rotate_half(x) * sin."""
    q, x, v = make(1, 1, queries=4, dim=8, layout="bshd")
    caches = [x.new_zeros(1, ROWS, 1, 8) for _ in range(2)]
    cos, sin = draw_rotary(4, "cpu")
    head = x[0, :, 0, :4].double()
    if interleaved:
        half = torch.stack([-head[:, 1::2], head[:, ::2]], -1).flatten(1)
        c, s = (table[2:6].repeat_interleave(2, 1) for table in (cos, sin))
    else:
        half = torch.cat([-head[:, 2:], head[:, :2]], 1)
        c, s = (table[2:6].repeat(1, 2) for table in (cos, sin))
    flash_attn.flash_attn_with_kvcache(
        q, *caches, x, v, cos, sin, cache_seqlens=2, rotary_interleaved=interleaved
    )
    turned = caches[0][:, 2:6]
    assert_same_as(turned[0, :, 0, :4], head * c + half * s, 1e-3)
    assert torch.equal(turned[..., 4:], x[..., 4:])


# Sequences in pages ---------------------------------------------------------


@pytest.mark.parametrize("page_size", [8, 32])
@pytest.mark.parametrize("with_slopes", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_varlen(device, page_size, with_slopes, causal):
    queries = [40, 0, 3, 1]
    _, _, _, caches = draw(1, device)
    q = make(1, 4, 2, sum(queries), dim=64, layout="bshd", device=device, seed=4)[0][0]
    pools, table = to_pages(caches, page_size)
    slopes = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)).to(device)
    cu_q, cu_k = (torch.tensor([0, *n]).cumsum(0).int().to(device) for n in (queries, LENGTHS))
    with no_host_reads(device):
        out, lse, _ = flash_attn.flash_attn_varlen_func(
            q, *pools, cu_q, cu_k, 40, 70, causal=causal, block_table=table,
            alibi_slopes=slopes if with_slopes else None, return_attn_probs=True,
        )  # fmt: skip
    first = 0
    for i, (count, keys) in enumerate(zip(queries, LENGTHS)):
        rows = slice(first, first + count)
        first = rows.stop
        bias = flash_attn._alibi(slopes[i], count, keys) if with_slopes else None
        expected, expected_lse = reference(
            q[None, rows], *(cache[i : i + 1, :keys] for cache in caches), layout="bshd",
            causal=causal, bias=bias, lse=True,
        )  # fmt: skip
        assert_same_as(out[None, rows], expected)
        assert_same_as(lse[None, :, rows], expected_lse)


@pytest.mark.parametrize("most", [70, 200])  # a table of 96 keys
def test_varlen_says_what_was_dropped(device, most):
    queries = [40, 0, 3, 1]
    _, _, _, caches = draw(1, device)
    q = make(1, 4, 2, sum(queries), dim=64, layout="bshd", device=device, seed=4)[0][0]
    pools, table = to_pages(caches, 16)
    for i, count in enumerate(LENGTHS):
        table[i, -(-count // 16) :] = -1
    cu_q, cu_k = (torch.tensor([0, *n]).cumsum(0).int().to(device) for n in (queries, LENGTHS))
    with no_host_reads(device):
        out, _, mask = flash_attn.flash_attn_varlen_func(
            q, *pools, cu_q, cu_k, 40, most, 0.2, causal=True, block_table=table,
            return_attn_probs=True,
        )  # fmt: skip
    assert mask.shape == (4, 4, 128, 128 if most == 70 else 256)
    first = 0
    for i, (count, keys) in enumerate(zip(queries, LENGTHS)):
        rows, first = slice(first, first + count), first + count
        if count and keys:
            parts = q[None, rows], *(cache[i : i + 1, :keys] for cache in caches)
            check_dropped(out[rows], mask[i, :, :count, :keys], *parts, 0.2, causal=True)
        assert (mask[i, :, count:] == 0).all() and (mask[i, :, :, keys:] == 0).all()


def test_varlen_refuses_what_does_not_fit():
    _, _, _, caches = draw(1, "cpu")
    pools, table = to_pages(caches, 16)
    q, cu = torch.zeros(8, 4, 64, dtype=torch.float16), i32([0, 2, 4, 6, 8])

    def call(cu_k=cu, pools=pools, table=table):
        return flash_attn.flash_attn_varlen_func(q, *pools, cu, cu_k, 2, 2, block_table=table)

    with pytest.raises(TypeError, match="expects cu_seqlens_k of int32, but got torch.int64"):
        call(cu.long())
    with pytest.raises(ValueError, match=r"of as many entries, .* but got \(5,\) and \(4,\)"):
        call(cu[1:])
    with pytest.raises(ValueError, match=r"page_table of \(4, 6\), a row a sequence, but got \(3"):
        call(table=table[1:])
    with pytest.raises(ValueError, match="page_size of k and v of at least 1, but got 0"):
        call(pools=[pool[:, :0] for pool in pools])


# What is refused ------------------------------------------------------------


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"cache_batch_idx": i32([0, 1])}, ValueError, "expects cache_batch_idx or block_table"),
        ({"cache_batch_idx": torch.zeros(2)}, TypeError, "_idx of int32 or int64, but got torch"),
        ({"cache_batch_idx": i32([0])}, ValueError, r"_idx of \(2,\), one a batch entry, but got"),
        ({"block_table": torch.zeros(2, 6)}, TypeError, "block_table of int32, but got torch.floa"),
        ({"block_table": i32([[0] * 6])}, ValueError, r"block_table of \(2, blocks of each\), a r"),
        ({"cache_seqlens": 95}, ValueError, "what is appended, from 0 to 96, the rows of the cac"),
        ({"rotary_cos": None}, ValueError, "rotary_sin together, but got rotary_sin alone"),
        ({"rotary_sin": None}, ValueError, "rotary_sin together, but got rotary_cos alone"),
        ({"k": None, "v": None}, ValueError, "expects k, v and cache_seqlens with rotary_cos"),
        ({"rotary_cos": torch.zeros(96, 8)}, TypeError, "rotary_cos of the type of q, torch.float"),
        (
            {"rotary_sin": torch.zeros(96, 16, dtype=torch.float16)},
            ValueError,
            r"both of one size .* but got rotary_sin of \(96, 16\)",
        ),
        (
            {"rotary_cos": torch.zeros(96, 40, dtype=torch.float16)},
            ValueError,
            r"rotary_dim of at most 64, the head_dim, but got rotary_cos of \(96, 40\)",
        ),
        (
            dict.fromkeys(["rotary_cos", "rotary_sin"], torch.zeros(95, 8, dtype=torch.float16)),
            ValueError,
            "rotary_cos of at least 96 positions, the rows of the cache, but got 95",
        ),
        ({"cache_leftpad": i32([0])}, ValueError, r"cache_leftpad of int32 \(2,\), one a batch e"),
        (
            {"alibi_slopes": torch.zeros(1, 4)},
            ValueError,
            r"alibi_slopes of float32 \(4,\) or \(2, 4\), but got torch.float32 \(1, 4\)",
        ),
    ],
)
def test_refused(change, error, message):
    q, k, v, caches = draw(3, "cpu", 2, lengths=[70, 0])
    pools, table = to_pages(caches, 16)
    cos, sin = draw_rotary(16, "cpu")
    given = {"k": k, "v": v, "cache_seqlens": i32([70, 0]), "block_table": table}
    given |= {"rotary_cos": cos, "rotary_sin": sin, **change}
    with pytest.raises(error, match=message):
        flash_attn.flash_attn_with_kvcache(q, *pools, **given)


def test_gradients_are_refused():
    q, _, _, caches = draw(1, "cpu")
    pools, table = to_pages(caches, 16)
    with pytest.raises(flashcore.GradientError, match="has no backward pass.*page_table"):
        flash_attn.flash_attn_with_kvcache(q.requires_grad_(), *pools, block_table=table)
