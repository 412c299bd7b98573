"""Arrays of other libraries in host memory: DLPack, read-only arrays, leaks."""

import gc
import os
import sys
import threading
import types
import weakref
from pathlib import Path

import ml_dtypes
import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw, draw_qkv
from flashcore import _core


class Producer:
    """An array with __dlpack__ alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None, max_version=None):
        assert stream is None  # of host memory
        return self.array.__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldProducer(Producer):
    """From before DLPack 1.0."""

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__()


class WithNamespace(Producer):
    def __array_namespace__(self):
        return types.SimpleNamespace(asarray=lambda array: WithNamespace(array))


@pytest.mark.parametrize("kind", [Producer, OldProducer, WithNamespace])
def test_dlpack(kind):
    q, k, v = draw_qkv(batch=2, heads=4, heads_kv=2, queries=20, keys=30, dim_v=32)
    o, lse = flashcore.attention(kind(q), kind(k), kind(v), causal=True, lse=True)
    if kind is WithNamespace:
        assert type(o) is WithNamespace and type(lse) is WithNamespace
        o, lse = o.array, lse.array
    expected, expected_lse = attention(q, k, v, causal=True)
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_dlpack_with_strides_and_bias():
    q, k, v = draw_qkv(batch=2, queries=20)
    bias = draw(20, 20, seed=4, dtype=numpy.float32)
    turned = numpy.ascontiguousarray(k.swapaxes(1, 2)).swapaxes(1, 2)
    o = flashcore.attention(Producer(q), Producer(turned), Producer(v), bias=Producer(bias))
    assert_close(o, attention(q, k, v, bias=bias)[0])


def test_dlpack_is_not_written():
    q, k, v = map(Producer, draw_qkv(queries=20))
    with pytest.raises(ValueError, match="expects out=None for arrays of"):
        flashcore.attention(q, k, v, out=draw(1, 2, 20, 64))


def test_read_only_inputs():
    q, k, v = draw_qkv(queries=20)
    for array in (q, k, v):
        array.flags.writeable = False
    assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])


def test_read_only_after_writable():
    """What is said of one array is not believed of the next."""
    q, k, v = draw_qkv(queries=20)
    out = numpy.empty_like(q)
    flashcore.attention(q, k, v, out=out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        flashcore.attention(q, k, v, out=out)


def test_views_know_their_arrays():
    array = draw(2, 3, 4, 16)[:, ::2, 1:, 3:]
    view = _core.view(array, None)
    assert view.pointer == array.ctypes.data
    assert view.shape == array.shape and view.rank == 4
    assert view.strides == tuple(step // 2 for step in array.strides)
    assert view.dtype == "float16" and view.device == (1, 0) and not view.read_only
    assert _core.view(array.astype(ml_dtypes.bfloat16), None).dtype == "bfloat16"
    assert _core.view(numpy.zeros((1, 2, 3, 4, 5)), None).rank == 5


def test_a_broken_producer():
    class Broken(Producer):
        def __dlpack__(self, *, stream=None, max_version=None):
            raise BufferError("no memory to give")

    q, k, v = draw_qkv(queries=20)
    with pytest.raises(BufferError, match="no memory to give"):
        flashcore.attention(q, Broken(k), v)

    class Empty(Producer):
        def __dlpack__(self, *, stream=None, max_version=None):
            return 5

    with pytest.raises(Exception, match="PyCapsule"):
        flashcore.attention(q, Empty(k), v)


def test_a_capsule_is_taken_over_once():
    class Once(Producer):
        def __dlpack__(self, *, stream=None, max_version=None):
            self.capsule = self.array.__dlpack__(max_version=max_version)
            return self.capsule

    q, k, v = map(Once, draw_qkv(queries=20))
    flashcore.attention(q, k, v)
    assert '"used_dltensor_versioned"' in repr(q.capsule)


def test_a_type_that_goes_leaves_nothing():
    """Types are few, but a program may make many."""
    q, k, v = draw_qkv(queries=20)
    for number in range(600):
        kind = type(f"Producer{number}", (Producer,), {})
        _core.view(kind(q), None)
    assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("wrap", [lambda array: array, Producer, OldProducer])
def test_no_leak(wrap):
    q, k, v = (wrap(array) for array in draw_qkv(queries=16, heads=1, dim=16))

    def run(count):
        for _ in range(count):
            flashcore.attention(q, k, v, lse=True, device="reference")
            with pytest.raises(ValueError):
                flashcore.attention(q, k, v, layout="bshd", bias=draw(3, 3))
        gc.collect()

    run(200)
    before = resident()
    things = (q, k, v, flashcore.attention, None, numpy.dtype("f2"))
    counts = [sys.getrefcount(thing) for thing in things]
    run(2000)
    after = [sys.getrefcount(thing) for thing in things]
    assert all(abs(one - two) < 50 for one, two in zip(counts, after))
    assert resident() - before < 4 << 20


def test_arrays_are_not_kept():
    q, k, v = (array.view(Subclass) for array in draw_qkv(queries=20))
    alive = [weakref.ref(array) for array in (q, k, v)]
    flashcore.attention(q, k, v)
    flashcore.attention(q[:, :, ::-1], k, v)
    del q, k, v
    gc.collect()
    assert [ref() for ref in alive] == [None] * 3


class Subclass(numpy.ndarray):
    pass


def test_threads(cache_dir, compiled):
    """Many callers compile a kernel once, and get their own results."""
    inputs = [draw_qkv(queries=16 + number, heads=1, dim=32) for number in range(8)]
    expected = [attention(*one, causal=True)[0] for one in inputs]
    failures = []
    barrier = threading.Barrier(8)

    def work(number):
        try:
            barrier.wait()
            for _ in range(5):
                o = flashcore.attention(*inputs[number], causal=True)
                assert_close(o, expected[number])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and compiled() == 1
