"""Rows that a call appends to a cache, and rotary embeddings of them and of the queries."""

import numpy as np
import pytest

import flashcore

BATCH, HEADS, HEADS_KV, ROWS = 2, 4, 2, 40
LENGTHS = [23, 5]


def draw(seed, queries, new, dim=32, dim_v=32, dtype="float16"):
    """q, k, v, k_new and v_new; what is behind LENGTHS in k and v is NaN."""
    generator = np.random.default_rng(seed)

    def one(heads, rows, columns):
        return generator.standard_normal((BATCH, heads, rows, columns)).astype(dtype)

    q, k, v = one(HEADS, queries, dim), one(HEADS_KV, ROWS, dim), one(HEADS_KV, ROWS, dim_v)
    for cache in (k, v):
        for entry, length in enumerate(LENGTHS):
            cache[entry, :, length:] = np.nan
    return q, k, v, one(HEADS_KV, new, dim), one(HEADS_KV, new, dim_v)


def used():
    return np.array(LENGTHS, "int32")


def draw_angles(seed, dim, positions=64, dtype="float16"):
    angles = np.random.default_rng(seed).uniform(0, 7, (positions, dim // 2))
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def turn(rows, positions, cos, sin, interleaved):
    """Rows (heads, rows, dim) by the formula, in float32, rounded once."""
    pairs = cos.shape[1]
    first = np.arange(pairs) * 2 if interleaved else np.arange(pairs)
    second = first + 1 if interleaved else first + pairs
    c, s = (table[positions].astype("float32") for table in (cos, sin))
    turned = rows.copy()
    x, y = (rows[..., columns].astype("float32") for columns in (first, second))
    turned[..., first] = (x * c - y * s).astype(rows.dtype)
    turned[..., second] = (x * s + y * c).astype(rows.dtype)
    return turned


def expect(q, k, v, k_new, v_new, causal=False, angles=None, interleaved=False):
    """The caches as they are to be, and o in float64."""
    k, v, o = k.copy(), v.copy(), []
    count, queries = k_new.shape[2], q.shape[2]
    for entry, length in enumerate(LENGTHS):
        rows, asked = k_new[entry], q[entry]
        if angles:
            places = length + np.arange(count)
            rows = turn(rows, places, *angles, interleaved)
            of_queries = length + np.arange(queries) * causal
            asked = turn(asked, of_queries, *angles, interleaved)
        k[entry, :, length : length + count] = rows
        v[entry, :, length : length + count] = v_new[entry]
        keys, values = (
            np.repeat(x[entry, :, : length + count].astype("float64"), HEADS // HEADS_KV, 0)
            for x in (k, v)
        )
        scores = asked.astype("float64") @ keys.transpose(0, 2, 1) / np.sqrt(q.shape[3])
        if causal:
            shown = np.tri(queries, length + count, length + count - queries, dtype=bool)
            scores = np.where(shown, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        o.append(weights / weights.sum(-1, keepdims=True) @ values)
    return k, v, np.array(o)


def assert_same(cache, expected):
    assert np.array_equal(cache.view("uint16"), expected.view("uint16"))


@pytest.mark.parametrize("device", ["emulator", "reference"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, new", [(1, 1), (3, 3), (5, 2), (2, 9)])
def test_rows_are_appended_in_place(device, causal, queries, new):
    q, k, v, k_new, v_new = draw(1, queries, new)
    k_expected, v_expected, o_expected = expect(q, k, v, k_new, v_new, causal)
    o = flashcore.attention(
        q, k, v, seqused_k=used(), k_new=k_new, v_new=v_new, causal=causal, device=device
    )
    assert_same(k, k_expected)
    assert_same(v, v_expected)
    np.testing.assert_allclose(o, o_expected, atol=2e-3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim, dim_v, rotary_dim", [(64, 64, 64), (32, 16, 8), (40, 40, 20), (18, 7, 6)])
def test_rotary_turns_new_keys_and_queries(causal, interleaved, dim, dim_v, rotary_dim):
    q, k, v, k_new, v_new = draw(2, 4, 4, dim, dim_v)
    cos, sin = angles = draw_angles(3, rotary_dim)
    k_expected, v_expected, o_expected = expect(
        q, k, v, k_new, v_new, causal, angles, interleaved
    )
    before = q.copy()
    o = flashcore.attention(
        q, k, v, seqused_k=used(), k_new=k_new, v_new=v_new, causal=causal, rotary_cos=cos,
        rotary_sin=sin, rotary_interleaved=interleaved,
    )  # fmt: skip
    assert_same(k, k_expected)
    assert_same(v, v_expected)
    assert_same(q, before)
    np.testing.assert_allclose(o, o_expected, atol=2e-3)


@pytest.mark.parametrize("options", [{"key_splits": 2}, {"chip": None}, {"product": "warpgroup"}])
def test_every_schedule_appends(options, monkeypatch):
    if options.pop("chip", "") is None or "product" in options:
        monkeypatch.setenv("FLASHCORE_CHIP", "sm_90a")
    q, k, v, k_new, v_new = draw(4, 6, 6, 64, 64)
    cos, sin = angles = draw_angles(5, 64)
    k_expected, v_expected, o_expected = expect(q, k, v, k_new, v_new, True, angles)
    o = flashcore.attention(
        q, k, v, seqused_k=used(), k_new=k_new, v_new=v_new, causal=True, rotary_cos=cos,
        rotary_sin=sin, schedule=options,
    )  # fmt: skip
    assert_same(k, k_expected)
    assert_same(v, v_expected)
    np.testing.assert_allclose(o, o_expected, atol=2e-3)


@pytest.mark.parametrize("page_size", [1, 8, 12, 16])
def test_rows_go_to_pages(page_size):
    q, k, v, k_new, v_new = draw(6, 3, 9)
    k_expected, v_expected, o_expected = expect(q, k, v, k_new, v_new)
    pages = ROWS // page_size
    table = np.random.default_rng(7).permutation(BATCH * pages).astype("int32").reshape(BATCH, -1)

    def to_pool(cache):
        pool = np.zeros((BATCH * pages, HEADS_KV, page_size, cache.shape[3]), cache.dtype)
        for entry, row in enumerate(table):
            for place, page in enumerate(row):
                first = place * page_size
                pool[page] = cache[entry, :, first : first + page_size]
        return pool

    k_pool, v_pool = to_pool(k[:, :, : pages * page_size]), to_pool(v[:, :, : pages * page_size])
    o = flashcore.attention(
        q, k_pool, v_pool, seqused_k=used(), page_table=table, k_new=k_new, v_new=v_new
    )
    assert_same(k_pool, to_pool(k_expected))
    assert_same(v_pool, to_pool(v_expected))
    np.testing.assert_allclose(o, o_expected, atol=2e-3)


def test_layout_bshd_and_caches_in_one_tensor():
    """k and v lie in each other's gaps, and nothing of the one is written with the other."""
    q, k, v, k_new, v_new = draw(8, 2, 3)
    k_expected, v_expected, o_expected = expect(q, k, v, k_new, v_new)
    both = np.stack([k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)], 2)
    o = flashcore.attention(
        q.transpose(0, 2, 1, 3), both[:, :, 0], both[:, :, 1], seqused_k=used(),
        k_new=k_new.transpose(0, 2, 1, 3), v_new=v_new.transpose(0, 2, 1, 3), layout="bshd",
    )  # fmt: skip
    assert_same(np.ascontiguousarray(both[:, :, 0].transpose(0, 2, 1, 3)), k_expected)
    assert_same(np.ascontiguousarray(both[:, :, 1].transpose(0, 2, 1, 3)), v_expected)
    np.testing.assert_allclose(o.transpose(0, 2, 1, 3), o_expected, atol=2e-3)


def test_rows_without_room_are_not_written():
    q, k, v, k_new, v_new = draw(9, 1, 4)
    k[:], v[:] = 1, 2
    lengths = np.array([ROWS - 1, ROWS + 3], "int32")
    flashcore.attention(q, k, v, seqused_k=lengths, k_new=k_new, v_new=v_new)
    assert_same(k[0, :, ROWS - 1], k_new[0, :, 0])
    assert (k[0, :, : ROWS - 1] == 1).all() and (k[1] == 1).all()
    assert (v[0, :, : ROWS - 1] == 2).all() and (v[1] == 2).all()


def as_numpy(array):
    return array


def as_torch(array):
    """Whose arrays without elements have no address."""
    return pytest.importorskip("torch", reason="needs PyTorch").from_numpy(array)


@pytest.mark.parametrize("device", ["emulator", "reference"])
@pytest.mark.parametrize("library", [as_numpy, as_torch])
@pytest.mark.parametrize("queries, chip", [(1, "sm_80"), (5, "sm_90a")])
@pytest.mark.parametrize("turned", [False, True])
def test_no_rows_are_appended(device, library, queries, chip, turned, monkeypatch):
    """As without k_new, but that queries may be turned."""
    monkeypatch.setenv("FLASHCORE_CHIP", chip)
    q, k, v, k_new, v_new = draw(14, queries, 0)
    angles = draw_angles(6, 32) if turned else None
    expected = expect(q, k, v, k_new, v_new, causal=True, angles=angles)[2]
    before = k.copy(), v.copy()
    q, caches = library(q), [library(x) for x in (k, v)]
    rotary = dict(zip(("rotary_cos", "rotary_sin"), map(library, angles or ())))
    o = flashcore.attention(
        q, *caches, seqused_k=library(used()), causal=True, device=device,
        k_new=library(k_new), v_new=library(v_new), **rotary,
    )  # fmt: skip
    np.testing.assert_allclose(np.asarray(o), expected, atol=2e-3)
    for cache, old in zip(caches, before):
        assert_same(np.asarray(cache), old)


@pytest.mark.parametrize("device", ["emulator", "reference"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("options", [{}, {"key_splits": 2}, {"product": "warpgroup"}])
def test_entry_of_negative_length_is_not_there(device, turned, options, monkeypatch):
    """A batch is filled up: no page of such an entry is looked at."""
    if "product" in options:
        monkeypatch.setenv("FLASHCORE_CHIP", "sm_90a")
    q, k, v, k_new, v_new = draw(11, 2, 2, 64, 64)
    pools = [x[0].reshape(HEADS_KV, -1, 8, 64).transpose(1, 0, 2, 3).copy() for x in (k, v)]
    table = np.array([np.arange(ROWS // 8), [-1] * (ROWS // 8)], "int32")
    rotary = dict(zip(("rotary_cos", "rotary_sin"), draw_angles(5, 64))) if turned else {}
    new = {"k_new": k_new, "v_new": v_new, **rotary}
    before = [pool.copy() for pool in pools]
    o, lse = flashcore.attention(
        q, *pools, seqused_k=np.array([LENGTHS[0], -1], "int32"), page_table=table, causal=True,
        lse=True, schedule=options, device=device, **new,
    )  # fmt: skip
    assert (o[1] == 0).all() and (lse[1] == -np.inf).all()
    flashcore.attention(q, k, v, seqused_k=used(), causal=True, **new)
    for pool, old, cache in zip(pools, before, (k, v)):
        whole, rest = (x.transpose(1, 0, 2, 3).reshape(HEADS_KV, -1, 64) for x in (pool, old))
        rest[:, LENGTHS[0] : LENGTHS[0] + 2] = cache[0, :, LENGTHS[0] : LENGTHS[0] + 2]
        assert_same(np.ascontiguousarray(whole), np.ascontiguousarray(rest))


@pytest.mark.parametrize("device", ["emulator", "reference"])
def test_caches_that_both_span_one_pool(device):
    """Pages of keys and of values take turns, so that k and v are views which overlap."""
    q, _, _, k_new, v_new = draw(12, 1, 1)
    pool = np.random.default_rng(13).standard_normal((12, HEADS_KV, 8, 32)).astype("float16")
    expected = pool.copy()
    table = np.array([[0, 4, 6], [2, 8, 0]], "int32")
    expected[6, :, 7], expected[7, :, 7] = k_new[0, :, 0], v_new[0, :, 0]
    expected[2, :, 5], expected[3, :, 5] = k_new[1, :, 0], v_new[1, :, 0]
    o = flashcore.attention(
        q, pool[:-1], pool[1:], seqused_k=used(), page_table=table, k_new=k_new, v_new=v_new,
        device=device,
    )  # fmt: skip
    assert_same(pool, expected)
    assert np.isfinite(o).all()


def test_positions_past_the_table_are_its_last():
    q, k, v, k_new, v_new = draw(10, 1, 2)
    cos, sin = draw_angles(11, 8, positions=3)
    flashcore.attention(
        q, k, v, seqused_k=used(), k_new=k_new, v_new=v_new, rotary_cos=cos, rotary_sin=sin
    )
    for entry, length in enumerate(LENGTHS):
        expected = turn(k_new[entry], np.array([2, 2]), cos, sin, False)
        assert_same(k[entry, :, length : length + 2], expected)


def test_a_repeated_call_writes_the_same():
    q, k, v, k_new, v_new = draw(12, 1, 1)
    options = {"seqused_k": used(), "k_new": k_new, "v_new": v_new}
    first = flashcore.attention(q, k, v, **options)
    before = k.copy()
    assert_same(flashcore.attention(q, k, v, **options), first)
    assert_same(k, before)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"v_new": None}, ValueError, "expects k_new and v_new together, but got k_new alone"),
        ({"seqused_k": None}, ValueError, "expects seqused_k with k_new, but got None"),
        ({"rotary_cos": np.zeros((64, 4), "float16")}, ValueError, "rotary_cos and rotary_sin together"),
        (
            {"k_new": None, "v_new": None, "rotary_cos": np.zeros((64, 4), "float16"),
             "rotary_sin": np.zeros((64, 4), "float16")},
            ValueError, "expects k_new with rotary_cos, but got None: keys that are there were turned",
        ),
        (
            {"v_new": np.zeros((2, 2, 3, 32), "float16")}, ValueError,
            r"expects v_new of \(2, 2, 2, 32\) in the order \(batch, heads, rows, head_dim\), but got \(2, 2, 3, 32\)",
        ),
        ({"k_new": np.zeros((2, 2, 2, 32), "float32")}, TypeError, "expects k_new of the type of q, float16"),
        (
            {"rotary_cos": np.zeros((64, 17), "float16"), "rotary_sin": np.zeros((64, 17), "float16")},
            ValueError, "a rotary_dim of 2 to 32, the head_dim",
        ),
    ],
)  # fmt: skip
def test_refused(change, error, message):
    q, k, v, k_new, v_new = draw(13, 1, 2)
    given = {"seqused_k": used(), "k_new": k_new, "v_new": v_new, **change}
    with pytest.raises(error, match=message):
        flashcore.attention(q, k, v, **given)


def test_caches_must_be_writable_as_they_are():
    q, k, v, k_new, v_new = draw(14, 1, 2)
    options = {"seqused_k": used(), "k_new": k_new, "v_new": v_new}
    k.flags.writeable = False
    with pytest.raises(ValueError, match="expects k to be writable, as k_new is appended to it"):
        flashcore.attention(q, k, v, **options)
    apart = np.zeros((BATCH, HEADS_KV, ROWS, 64), "float16")[..., ::2]
    with pytest.raises(ValueError, match="expects v whose rows are aligned"):
        flashcore.attention(q, apart.copy(), apart, **options)


def test_words_have_the_append():
    words = "b2 h4/2 s3x40 d32 append=3 rotary=16:half"
    problem = flashcore.Problem.parse(words)
    assert (problem.append, problem.rotary) == (3, "16:half")
    assert flashcore.Problem.parse(problem.words()) == problem
    assert flashcore.Problem.parse("append=?").append == "?"
