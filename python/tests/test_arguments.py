"""What flashcore.attention refuses, and how it says so."""

import re

import numpy
import pytest

import flashcore
from formula import draw, draw_qkv
from flashcore.attention import make_options


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
        (">f2", "another type"),
        ("i8", "int64"),
        ("?", "bool"),
        ("c8", "complex64"),
    ]:
        refused(TypeError, f"but got {name}", q.astype(dtype), k, v)


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
    refused(TypeError, "expects softcap to be a number or None, but got 'x'", softcap="x")
    refused(flashcore.Error, "no-such", schedule={"no-such": 1})


def test_outputs():
    q, k, v = draw_qkv(queries=20)
    refused(ValueError, "expects out of (1, 2, 20, 64)", q, k, v, out=q[:, :, :10])
    frozen = numpy.empty_like(q)
    frozen.flags.writeable = False
    refused(ValueError, "expects out to be writable, but it is read-only", q, k, v, out=frozen)
    refused(
        ValueError,
        "expects out whose elements do not overlap",
        q, k, v, out=numpy.lib.stride_tricks.as_strided(q, strides=(0, 0, 128, 2)),
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


def test_an_error_leaves_nothing_behind():
    q, k, v = draw_qkv(queries=20)
    for _ in range(3):
        refused(ValueError, "expects batch of k", draw(2, 2, 20, 64), k, v)
    assert flashcore.attention(q, k, v).shape == q.shape
