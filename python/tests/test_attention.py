"""flashcore.attention on NumPy arrays, on the emulator, against the formula."""

import ml_dtypes
import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw, draw_qkv


@pytest.mark.parametrize("causal", [False, "bottom_right", "top_left"])
@pytest.mark.parametrize("queries, keys", [(40, 40), (20, 70), (70, 20)])
def test_causal(causal, queries, keys):
    q, k, v = draw_qkv(queries=queries, keys=keys)
    o, lse = flashcore.attention(q, k, v, causal=causal, lse=True)
    expected, expected_lse = attention(q, k, v, causal)
    assert o.dtype == numpy.float16 and lse.dtype == numpy.float32
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_causal_true_is_bottom_right():
    q, k, v = draw_qkv(queries=20, keys=30)
    one = flashcore.attention(q, k, v, causal=True)
    assert numpy.array_equal(one, flashcore.attention(q, k, v, causal="bottom_right"))


@pytest.mark.parametrize(
    "window, left, right",
    [
        (5, 5, None),
        ((3, 4), 3, 4),
        ((None, 2), None, 2),
        ((7, -1), 7, None),
        ((-1, -1), None, None),
    ],
)
def test_window(window, left, right):
    q, k, v = draw_qkv(queries=40, keys=50)
    o = flashcore.attention(q, k, v, window=window)
    assert_close(o, attention(q, k, v, left=left, right=right)[0])


def test_a_row_that_sees_no_key_is_zero():
    q, k, v = draw_qkv(queries=40, keys=10)
    o, lse = flashcore.attention(q, k, v, causal=True, lse=True)
    assert (o[:, :, :30] == 0).all() and numpy.isneginf(lse[:, :, :30]).all()
    assert numpy.isfinite(lse[:, :, 30:]).all()


def test_softcap_and_scale():
    q, k, v = draw_qkv()
    o = flashcore.attention(q, k, v, softcap=2.0, scale=0.5)
    assert_close(o, attention(q, k, v, softcap=2.0, scale=0.5)[0])


@pytest.mark.parametrize(
    "shape", [(2, 4, 20, 30), (1, 4, 1, 30), (20, 30), (2, 1, 20, 1), (30,), ()]
)
@pytest.mark.parametrize("dtype", [numpy.float16, numpy.float32])
def test_bias(shape, dtype):
    q, k, v = draw_qkv(batch=2, heads=4, heads_kv=2, queries=20, keys=30)
    bias = draw(*shape, seed=4, dtype=dtype)
    o = flashcore.attention(q, k, v, bias=bias)
    assert_close(o, attention(q, k, v, bias=bias)[0])


def test_bias_of_minus_infinity_hides():
    q, k, v = draw_qkv(queries=20, keys=30)
    hidden = numpy.zeros((20, 30), numpy.float32)
    hidden[:, 10:] = -numpy.inf
    o = flashcore.attention(q, k, v, bias=hidden)
    assert_close(o, attention(q, k[:, :, :10], v[:, :, :10])[0])


def test_bias_with_strides():
    q, k, v = draw_qkv(batch=2, queries=20, keys=30)
    whole = draw(2, 2, 30, 20, seed=4)
    expanded = numpy.broadcast_to(draw(20, 30, seed=5), (2, 2, 20, 30))
    for bias in (whole.swapaxes(-1, -2), whole[:, :, ::-1].swapaxes(-1, -2), expanded):
        o = flashcore.attention(q, k, v, bias=bias)
        assert_close(o, attention(q, k, v, bias=bias)[0])


@pytest.mark.parametrize("heads, heads_kv", [(4, 4), (4, 2), (4, 1), (6, 3)])
def test_grouped_heads(heads, heads_kv):
    q, k, v = draw_qkv(heads=heads, heads_kv=heads_kv)
    assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])


def test_bshd():
    q, k, v = draw_qkv(batch=2, heads=4, heads_kv=2, queries=20, keys=30, dim_v=32)
    o, lse = flashcore.attention(
        *(numpy.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v)), layout="bshd", lse=True
    )
    expected, expected_lse = attention(q, k, v)
    assert o.shape == (2, 20, 4, 32) and o.flags.c_contiguous
    assert_close(o.swapaxes(1, 2), expected)
    assert_close(lse, expected_lse)


def test_output_is_ordered_as_q():
    q, k, v = draw_qkv(batch=2, heads=4, queries=20)
    q = numpy.ascontiguousarray(q.swapaxes(1, 2)).swapaxes(1, 2)
    o = flashcore.attention(q, k, v)
    assert o.shape == q.shape and o.strides == q.strides
    assert_close(o, attention(q, k, v)[0])


def test_bfloat16():
    q, k, v = draw_qkv(dtype=ml_dtypes.bfloat16)
    o = flashcore.attention(q, k, v, causal=True)
    assert o.dtype == ml_dtypes.bfloat16
    assert_close(o, attention(q, k, v, causal=True)[0], 3e-2)


def test_one_kernel_serves_all_sizes(cache_dir, compiled):
    for batch, heads, heads_kv, queries, keys in [
        (1, 2, 1, 33, 65),
        (2, 4, 4, 64, 64),
        (3, 6, 2, 20, 7),
        (1, 1, 1, 5, 9),
    ]:
        q, k, v = draw_qkv(batch, heads, heads_kv, queries, keys)
        assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])
    assert compiled() == 1


def test_decoding_compiles_once(cache_dir, compiled):
    for keys in (1, 2, 17, 300):
        for batch in (1, 2):
            q, k, v = draw_qkv(batch, heads=4, heads_kv=2, queries=1, keys=keys)
            for causal in (False, True):
                o = flashcore.attention(q, k, v, causal=causal)
                assert_close(o, attention(q, k, v)[0])
    assert compiled() == 1


def test_few_queries_over_many_keys():
    q, k, v = draw_qkv(heads=2, heads_kv=1, queries=3, keys=1030, dim=16)
    o, lse = flashcore.attention(q, k, v, causal=True, lse=True)
    expected, expected_lse = attention(q, k, v, causal=True)
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_static_compiles_for_each_size(cache_dir, compiled):
    for queries in (20, 30, 20):
        q, k, v = draw_qkv(queries=queries)
        assert_close(flashcore.attention(q, k, v, static=True), attention(q, k, v)[0])
    assert compiled() == 2


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_static_layouts(layout):
    q, k, v = draw_qkv(batch=2, heads=2, heads_kv=1, queries=20)
    expected = attention(q, k, v)[0]
    if layout == "bshd":
        q, k, v = (numpy.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v))
        expected = expected.swapaxes(1, 2)
    for inputs in (
        (q, k, v),
        (q, k[:, ::1], v),
        (q, *(numpy.concatenate([x, x], 3)[..., :64] for x in (k, v))),
    ):
        assert_close(flashcore.attention(*inputs, layout=layout, static=True), expected)


def test_a_repeated_call_gives_the_same_bits():
    q, k, v = draw_qkv()
    one = flashcore.attention(q, k, v)
    assert numpy.array_equal(one, flashcore.attention(q, k, v))


def test_schedule(cache_dir, compiled):
    q, k, v = draw_qkv()
    for schedule in ({"block_n": 32}, {"block-n": 32}, [("block-n", "32")]):
        o = flashcore.attention(q, k, v, schedule=schedule)
        assert_close(o, attention(q, k, v)[0])
    assert compiled() == 1


def test_views():
    """Strides that a kernel takes, and others, which are copied."""
    packed = draw(2, 30, 3, 2, 64)
    q, k, v = (packed[:, :, i].swapaxes(1, 2) for i in range(3))
    assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])
    odd = draw(2, 2, 30, 67)[..., 1:65]
    assert_close(flashcore.attention(odd, k, v), attention(odd, k, v)[0])
    turned = draw(2, 2, 64, 30).swapaxes(-1, -2)
    assert_close(flashcore.attention(q, turned, v), attention(q, turned, v)[0])
    back = q[:, :, ::-1]
    assert_close(flashcore.attention(back, k, v), attention(back, k, v)[0])
    same = numpy.broadcast_to(k[:, :1], k.shape)
    assert_close(flashcore.attention(q, same, v), attention(q, same, v)[0])


def test_out():
    q, k, v = draw_qkv(batch=2, queries=20)
    expected = attention(q, k, v)[0]
    out = numpy.empty_like(q)
    assert flashcore.attention(q, k, v, out=out) is out
    assert_close(out, expected)
    # What lies between the elements of a view is not touched.
    memory = numpy.full((2, 2, 20, 100), 7, numpy.float16)
    view = memory[..., 3:67]
    assert flashcore.attention(q, k, v, out=view) is view
    assert_close(view, expected)
    assert (memory[..., :3] == 7).all() and (memory[..., 67:] == 7).all()


def test_out_with_lse():
    q, k, v = draw_qkv(batch=2, queries=20)
    expected, expected_lse = attention(q, k, v)
    out, out_lse = numpy.empty_like(q), numpy.empty((2, 2, 20), numpy.float32)
    o, lse = flashcore.attention(q, k, v, lse=True, out=(out, out_lse))
    assert o is out and lse is out_lse
    assert_close(out, expected)
    assert_close(out_lse, expected_lse)
    turned = numpy.empty((20, 2, 2), numpy.float32).T
    o, lse = flashcore.attention(q, k, v, lse=True, out=(out, turned))
    assert lse is turned
    assert_close(turned, expected_lse)
    o, lse = flashcore.attention(q, k, v, lse=True, out=out)
    assert o is out
    assert_close(lse, expected_lse)


@pytest.mark.parametrize("dim, dim_v", [(20, 20), (8, 8), (64, 12), (33, 64), (1, 7)])
def test_any_head_dim(dim, dim_v, copies):
    """Rows that begin at multiples of 8, 16, 4 or 2 bytes, taken as they are."""
    q, k, v = draw_qkv(batch=2, queries=20, dim=dim, dim_v=dim_v)
    out = numpy.empty((2, 2, 20, dim_v), numpy.float16)
    o, lse = flashcore.attention(q, k, v, lse=True, out=out)
    assert o is out and not copies
    expected, expected_lse = attention(q, k, v)
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_rows_that_are_copied(copies):
    """Strides that are no multiples of what a head_dim has: those of 32 are no 16 bytes apart."""
    wide = draw_qkv(queries=20, dim=36)
    for dim, count in ((32, 3), (20, 0)):
        q, k, v = (x[..., :dim] for x in wide)
        copies.clear()
        assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])
        assert len(copies) == count


@pytest.mark.parametrize(
    "batch, heads, queries, keys", [(0, 2, 5, 5), (1, 0, 5, 5), (1, 2, 0, 5), (1, 2, 5, 0)]
)
def test_empty(batch, heads, queries, keys):
    q = numpy.ones((batch, heads, queries, 64), numpy.float16)
    k = v = numpy.ones((batch, heads, keys, 64), numpy.float16)
    o, lse = flashcore.attention(q, k, v, lse=True)
    assert o.shape == q.shape and lse.shape == (batch, heads, queries)
    assert (o == 0).all() and numpy.isneginf(lse).all()
    out = numpy.full_like(q, 7)
    assert flashcore.attention(q, k, v, out=out) is out
    assert (out == 0).all()


def test_reference():
    q, k, v = draw_qkv(heads=4, heads_kv=2, queries=20, keys=30)
    bias = draw(20, 30, seed=4, dtype=numpy.float32)
    o, lse = flashcore.attention(
        q, k, v, causal=True, softcap=3.0, bias=bias, lse=True, device="reference"
    )
    expected, expected_lse = attention(q, k, v, causal=True, softcap=3.0, bias=bias)
    assert_close(o, expected, 1e-3)  # half a step of f16 at 2
    assert_close(lse, expected_lse, 1e-6)


def test_emulator_against_reference():
    q, k, v = draw_qkv(heads=4, heads_kv=2, queries=50, keys=60, dim=72, dim_v=40)
    for options in ({}, {"causal": True}, {"window": (5, 6)}, {"softcap": 2.0}):
        one = flashcore.attention(q, k, v, **options)
        two = flashcore.attention(q, k, v, device="reference", **options)
        assert_close(one, two.astype(numpy.float64))
