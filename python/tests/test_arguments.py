"""What flashcore.attention refuses, and how it says so."""

import re
import sys
import types

import numpy
import pytest

import flashcore
from formula import draw, draw_qkv
from flashcore.options import make_options


def refused(error, message, *arrays, **options):
    if not arrays:
        arrays = draw_qkv(queries=20)
    with pytest.raises(error, match=re.escape(message)):
        flashcore.attention(*arrays, **options)


def test_axes():
    q, k, v = draw_qkv(queries=20)
    refused(
        ValueError,
        "expects k to have 4 axes, (batch, heads, seqlen, head_dim), but got 3",
        q, k[0], v,
    )  # fmt: skip
    refused(
        ValueError,
        "expects q to have 4 axes, (batch, seqlen, heads, head_dim), but got 5",
        q[None], k, v, layout="bshd",
    )  # fmt: skip


def test_types():
    q, k, v = draw_qkv(queries=20)
    refused(
        TypeError,
        "expects q of float16 or bfloat16, but got float32: convert q, k and v first",
        *(x.astype(numpy.float32) for x in (q, k, v)),
    )
    refused(
        TypeError,
        "expects v of the type of q, float16, but got float32",
        q, k, v.astype(numpy.float32),
    )  # fmt: skip
    refused(TypeError, "expects an array with __dlpack__", [1], k, v)
    refused(TypeError, "expects an array with __dlpack__", q, k, None)


def test_other_types_have_names():
    q, k, v = draw_qkv(queries=20)
    for dtype, name in [
        (">f2", ">f2"),
        ("M8[s]", "datetime64[s]"),
        ("i8", "int64"),
        ("?", "bool"),
        ("c8", "complex64"),
    ]:
        refused(TypeError, f"but got {name}", numpy.zeros(q.shape, dtype), k, v)


def test_sizes():
    q, k, v = draw_qkv(queries=20)
    refused(ValueError, "expects batch of k to be 2, but got 1", draw(2, 2, 20, 64), k, v)
    refused(ValueError, "expects head_dim of k to be 32, but got 64", draw(1, 2, 20, 32), k, v)
    refused(ValueError, "expects seqlen of v to be 20, but got 10", q, k, v[:, :, :10])
    refused(ValueError, "expects heads of v to be 2, but got 1", q, k, v[:, :1])
    refused(
        ValueError,
        "expects the heads of q to be a multiple of those of k, but got 3 and 2",
        draw(1, 3, 20, 64), k, v,
    )  # fmt: skip
    refused(ValueError, "expects a head_dim of at least 1, but got 0", q, k, v[..., :0])


def test_head_dim():
    refused(NotImplementedError, "has head_dim 264", *draw_qkv(queries=20, dim=264))


def test_bias():
    refused(
        ValueError,
        "expects bias to be broadcastable to (batch, heads, seqlen_q, seqlen_k) = (1, 2, 20, 20), "
        "but got (1, 1, 20, 19)",
        bias=draw(20, 19),
    )
    refused(
        TypeError,
        "expects bias of float16, bfloat16 or float32, but got bool: 0 shows a key and -inf hides",
        bias=numpy.ones((20, 20), bool),
    )
    refused(
        ValueError, "expects bias to have at most 4 axes, but got 5", bias=draw(1, 1, 1, 20, 20)
    )


def test_options():
    refused(ValueError, "expects causal to be one of False, True, 'bottom_right'", causal="upper")
    refused(ValueError, "expects layout to be one of 'bhsd', 'bshd', but got 'sbhd'", layout="sbhd")
    refused(ValueError, "expects device to be one of None, 'cuda'", device="tpu")
    refused(ValueError, "expects window to be at least 0, or -1", window=-2)
    refused(TypeError, "expects window to be whole numbers", window=(1.5, 2))
    refused(ValueError, "expects window to be keys or (left, right)", window=(1, 2, 3))
    assert make_options(window=[3, -1]) == make_options(window=(3, None))
    refused(ValueError, "expects softcap to be a positive number of float32, or None", softcap=0)
    refused(ValueError, "expects scale to be a positive number of float32", scale=float("nan"))
    refused(ValueError, "expects scale to be a positive number of float32", scale=1e300)
    refused(ValueError, "expects scale to be a positive number of float32", scale=1e-60)
    refused(ValueError, "that is normal, of at least 2^-126 (1.1754944e-38), or None", scale=1e-39)
    refused(TypeError, "expects softcap to be a number or None, but got 'x'", softcap="x")
    refused(flashcore.Error, "no-such", schedule={"no-such": 1})


def test_outputs():
    q, k, v = draw_qkv(queries=20)
    refused(ValueError, "expects out of (1, 2, 20, 64)", q, k, v, out=q[:, :, :10].copy())
    frozen = numpy.empty_like(q)
    frozen.flags.writeable = False
    refused(ValueError, "expects out to be writable, but it is read-only", q, k, v, out=frozen)
    refused(
        ValueError,
        "expects out whose elements do not overlap",
        q, k, v, out=numpy.lib.stride_tricks.as_strided(q.copy(), strides=(0, 0, 128, 2)),
    )  # fmt: skip
    lse = numpy.empty((1, 2, 20), numpy.float32)
    refused(ValueError, "expects one array as out without lse=True", q, k, v, out=(q.copy(), lse))
    refused(
        ValueError,
        "expects the lse of out to be float32",
        q, k, v, lse=True, out=(q.copy(), numpy.zeros((1, 2, 20), numpy.float16)),
    )  # fmt: skip


def test_streams_are_for_gpus():
    with pytest.raises(TypeError, match="expects stream to be an int, or an object with"):
        flashcore.attention(*draw_qkv(queries=20), stream="x")
    refused(ValueError, "expects no stream for arrays in host memory, but got 3", stream=3)


def test_no_gpu(monkeypatch):
    try:
        flashcore.attention(*draw_qkv(queries=20), device="cuda")
    except flashcore.NoDeviceError as error:
        assert "no CUDA device" in str(error)


def test_schedules():
    wanted = "expects schedule to be a dict or pairs of names and values, such as {'block_n': 64}"
    for schedule in ("block-m=7", ["block-m"], 7, [("block-m", 16, 1)]):
        refused(TypeError, wanted, schedule=schedule)
    refused(TypeError, "expects block_m of schedule to be a number, but got [16]", schedule={"block_m": [16]})
    q, k, v = draw_qkv(queries=20)
    for schedule in ({"block_n": 32}, [("block-n", numpy.int64(32))], (("block_n", "32"),)):
        assert flashcore.attention(q, k, v, schedule=schedule).shape == q.shape


def overlapping(name):
    """Arguments of a call whose out shares memory with one of them."""
    q, k, v = draw_qkv(queries=20)
    arrays = {
        "q": q, "k": k, "v": v,
        "bias": numpy.zeros((20, 20), numpy.float32),
        "the lse of out": numpy.zeros((1, 2, 20), numpy.float32),
    }  # fmt: skip
    memory = numpy.zeros(q.nbytes, numpy.uint8)
    shared = arrays[name]
    arrays[name] = memory[-shared.nbytes :].view(shared.dtype).reshape(shared.shape)
    out = memory.view(q.dtype).reshape(q.shape), arrays.pop("the lse of out")
    return [arrays.pop(each) for each in "qkv"], {**arrays, "lse": True, "out": out}


@pytest.mark.parametrize("name", ["q", "k", "v", "bias", "the lse of out"])
def test_outputs_share_no_memory(name):
    arrays, options = overlapping(name)
    wanted = f"expects out in memory of its own, but it overlaps {name}, which the call reads or"
    for _ in range(2):
        refused(ValueError, wanted, *arrays, **options)
    (q, k, v), options = overlapping("q")
    o = numpy.empty_like(q)
    flashcore.attention(q, k, v, lse=True, out=(o, options["out"][1]))
    shifted = numpy.empty(q.size + 1, q.dtype)
    q = shifted[1:].reshape(q.shape)
    refused(ValueError, "overlaps q", q, k, v, out=shifted[:-1].reshape(q.shape))


def test_outputs_may_interleave_with_inputs():
    """q, k, v and o of one array, as packed tensors are."""
    packed = draw(1, 20, 4, 2, 64)
    q, k, v, o = packed.transpose(2, 0, 3, 1, 4)
    expected = flashcore.attention(q.copy(), k.copy(), v.copy())
    assert flashcore.attention(q, k, v, out=o) is o and (o == expected).all()


def test_what_is_appended_to_shares_no_memory():
    k, v = draw(1, 2, 64, 64), draw(1, 2, 64, 64)
    q, used = draw(1, 2, 1, 64), numpy.array([20], "int32")
    new = {"seqused_k": used, "k_new": draw(1, 2, 1, 64), "v_new": draw(1, 2, 1, 64)}
    wanted = "expects k in memory of its own, but it overlaps {}, which the call reads or writes"
    refused(ValueError, wanted.format("k_new"), q, k, v, **{**new, "k_new": k[:, :, 40:41]})
    refused(ValueError, wanted.format("q"), k[:, :, :1], k, v, **new)
    refused(ValueError, wanted.format("v"), q, k, k, **new)
    pool = numpy.zeros(256, "uint8")
    slopes, out = pool[:8].view("float32"), pool.view("float16").reshape(q.shape)
    refused(ValueError, "overlaps alibi_slopes", q, k, v, alibi_slopes=slopes, out=out)
    flashcore.attention(q, k, v, **new)


def test_sequences_that_fall():
    q, k = draw(1, 2, 30, 64), draw(1, 2, 40, 64)
    cu_q, cu_k = numpy.array([0, 20, 10, 30], "int32"), numpy.array([0, 10, 20, 40], "int32")
    wanted = "expects cu_seqlens_q[2] to be at least cu_seqlens_q[1] (20), but got 10"
    refused(ValueError, wanted, q, k, k, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    wanted = "expects cu_seqlens_k[1] to be at least cu_seqlens_k[0] (41), but got 10"
    cu_q, cu_k = numpy.array([0, 10, 20, 30], "int32"), numpy.array([41, 10, 20, 40], "int32")
    refused(ValueError, wanted, q, k, k, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)


def test_an_error_leaves_nothing_behind():
    q, k, v = draw_qkv(queries=20)
    for _ in range(3):
        refused(ValueError, "expects batch of k", draw(2, 2, 20, 64), k, v)
    assert flashcore.attention(q, k, v).shape == q.shape


def test_clauses_are_those_of_the_table(monkeypatch):
    """Every operand of the compiler's table that may stand beside q, k, v and bias arrives,
    under its own name."""
    from flashcore.beside import name_all
    from flashcore.operands import CLAUSES, LISTS
    from flashcore.options import Options

    seen = {}

    def run(q, k, v, bias, out, stream, beside, *options):
        seen.update(name_all(Options(), beside))

    module = sys.modules["flashcore.attention"]
    monkeypatch.setattr(module, "_calls", types.SimpleNamespace(run=run))
    q, k, v = draw_qkv(queries=20)
    counts = numpy.ones((1, 1, 1), numpy.int32)
    lists = flashcore.BlockLists(counts, counts[..., None], counts, counts[..., None])
    arguments = {name: name for name in CLAUSES if name not in LISTS}
    flashcore.attention(q, k, v, dropout_p=0.1, block_mask=lists, **arguments)
    assert {name: array for name, array in seen.items() if name not in LISTS} == arguments
    assert set(seen) == set(CLAUSES) and seen["block_counts"] is counts
    for name in set(arguments) - {"rng"}:  # which nothing looks at without a dropout
        seen.clear()
        flashcore.attention(q, k, v, **{name: name})
        assert seen == {name: name}

    assert CLAUSES["sinks"].tensor == "sink_logits"
    assert CLAUSES["sinks"].dtype == "float32"
    assert CLAUSES["block_indices"].rank == 4
    assert CLAUSES["k_new"].word == CLAUSES["v_new"].word == "append"


def test_wrong_clauses_are_called_by_their_names():
    from flashcore.operands import CLAUSES, LISTS

    q, k, v = draw_qkv(queries=20)
    for name in CLAUSES:
        if name not in LISTS:
            more = {"dropout_p": 0.1} if name == "rng" else {}
            wanted = f"{name}: expects an array with __dlpack__"
            refused(TypeError, wanted, q, k, v, **{name: "text"}, **more)
