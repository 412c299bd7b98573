"""Arrays of other libraries in host memory: DLPack, read-only arrays, leaks."""

import ctypes
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


class Structure(ctypes.Structure):
    """A managed tensor of DLPack before 1.0, of float16 in host memory."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("sizes", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class OfStructure:
    """An array whose capsule says what we want."""

    def __init__(self, array, **changed):
        def numbers(values):
            return (ctypes.c_int64 * len(values))(*values)

        self.array, self.deleted = array, []
        said = {
            "data": array.ctypes.data, "device": (ctypes.c_int32 * 2)(1, 0), "rank": array.ndim,
            "code": 2, "bits": 16, "lanes": 1, "sizes": numbers(array.shape),
            "strides": numbers([step // 2 for step in array.strides]),
        }  # fmt: skip
        self.structure = Structure(**{**said, **changed})
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.deleted.append)
        self.structure.deleter = ctypes.cast(self.deleter, ctypes.c_void_p)

    def __dlpack__(self, **options):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.structure), b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("name", ["q", "k", "v", "all"])
def test_elements_that_lie_apart_are_copied(name):
    arrays = dict(zip("qkv", draw_qkv(queries=20, dim=128)))
    arrays = {each: array[..., ::2] for each, array in arrays.items()}
    wrapped = {each: OfStructure(x) if name in (each, "all") else x for each, x in arrays.items()}
    assert_close(flashcore.attention(*wrapped.values()), attention(*arrays.values())[0])
    gc.collect()
    assert all(x.deleted for x in wrapped.values() if isinstance(x, OfStructure))


def test_deleters_run_beside_an_error():
    q, k, v = draw_qkv(queries=20)
    last = OfStructure(v[:, :, :10])
    for _ in range(2):
        with pytest.raises(ValueError, match="expects seqlen of v to be 20, but got 10"):
            flashcore.attention(q, k, last)
    assert len(last.deleted) >= 2


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"sizes": None}, "k: expects a DLPack tensor with a size for each axis, but got one of 4"),
        ({"rank": -1}, "k: expects a DLPack tensor with a size for each axis, but got one of -1"),
        ({"data": None}, "expects k with memory, but got an array without an address"),
    ],
)
def test_capsules_that_say_too_little(changed, message):
    q, k, v = draw_qkv(queries=20)
    with pytest.raises((BufferError, ValueError), match=message):
        flashcore.attention(q, OfStructure(k, **changed), v)


def test_a_capsule_without_strides_is_dense():
    q, k, v = draw_qkv(queries=20)
    o = flashcore.attention(q, OfStructure(k, strides=None), v)
    assert_close(o, attention(q, k, v)[0])


def test_fields_of_records():
    q, k, v = draw_qkv(queries=20)
    records = numpy.zeros(k.shape, [("k", "f2"), ("tag", "u1")])
    records["k"] = k
    message = "k: expects strides of whole elements, but got .* bytes for elements of 2: numpy.ascont"
    with pytest.raises(ValueError, match=message):
        flashcore.attention(q, records["k"], v)


def test_what_functions_read_of_any_library():
    q, k, v = draw_qkv(queries=20, keys=40)
    table = numpy.arange(80, dtype="int16") % 7 - 3
    for array in (table[:40], table[::2], table[39::-1], Producer(table[::2])):
        held = numpy.from_dlpack(array) if isinstance(array, Producer) else array
        shown = flashcore.capture(array)
        o = flashcore.attention(q, k, v, score_mod=lambda s, b, h, i, j: s + shown[j])
        assert_close(o, attention(q, k, v, bias=held.astype("float32"))[0])
    message = "expects captured tensors of float16, .*, bool, but got uint16"
    with pytest.raises(TypeError, match=message):
        shown = flashcore.capture(table.astype("uint16"))
        flashcore.attention(q, k, v, score_mod=lambda s, b, h, i, j: s + shown[j])


def test_nothing_to_append():
    """Arrays without elements may have no address."""
    q, k, v = draw_qkv(queries=3, keys=64)
    none = OfStructure(k[:, :, :0], data=None)
    used = numpy.array([20], "int32")
    o = flashcore.attention(q, k, v, k_new=none, v_new=none, seqused_k=used, causal=True)
    assert_close(o, attention(q, k[:, :, :20], v[:, :, :20], causal=True)[0])


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
