"""The path of arrays on a GPU, on a driver without one (fakes/FakeLibcuda.cpp).

test_gpu_path.py runs this file in a process of its own, which then has that
driver for good. Kernels do nothing there: what is tested is what they are
launched with, where, and what it costs the host. Their results are tested by
scripts/gpu-check.sh.
"""

import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
import types
from pathlib import Path

import pytest

FAKES = Path(os.environ["FLASHCORE_TEST_FAKES"])
driver = ctypes.CDLL(str(FAKES / "libcuda.so.1"))
for name in ("Launches", "ModulesLoaded", "Allocations", "Synchronizations", "Stream", "Context"):
    getattr(driver, f"fake{name}").restype = ctypes.c_uint64
driver.fakeArgument.restype = ctypes.c_uint64
driver.fakeArgument.argtypes = [ctypes.c_uint64]
driver.fakeMapsOfStride.restype = ctypes.c_uint64
driver.fakeMapsOfStride.argtypes = [ctypes.c_uint64]
driver.fakeRemark.argtypes = [ctypes.c_char_p]
sys.path.insert(0, str(FAKES))

import fake_arrays

import flashcore
from flashcore import _core, kernels
from flashcore.options import make_options
from flashcore.problem import Problem
from flashcore.resolve import call_for

CUDA = 2


def array(*shape, strides=None, dtype="float16", device=CUDA, index=0):
    return fake_arrays.array(shape, strides, dtype, device, index)


def arguments(count):
    return [driver.fakeArgument(index) for index in range(count)]


@pytest.fixture(autouse=True)
def default_streams():
    for index in range(2):
        fake_arrays.set_stream(index, 0)


def test_pointers_and_output():
    q, k, v = array(2, 4, 40, 64), array(2, 2, 50, 64), array(2, 2, 50, 32)
    o, lse = flashcore.attention(q, k, v, lse=True)
    assert type(o) is type(q) and o.shape == (2, 4, 40, 32) and lse.shape == (2, 4, 40)
    assert arguments(5) == [x.pointer for x in (q, k, v, o, lse)]


def test_bias_is_passed():
    q, bias = array(1, 2, 40, 64), array(40, 40, dtype="float32")
    flashcore.attention(q, q, q, bias=bias)
    assert bias.pointer in arguments(5)


def test_strides_of_single_rows_leave_pairs_aligned():
    """A kernel that reads a bias in pairs asks all strides whether it may."""
    q, bias = array(1, 3, 512, 32), array(1, 3, 512, 512)
    flashcore.attention(q, q, q, bias=bias)
    strides = arguments(30)[27:]
    assert strides[1:] == [512 * 512, 512] and strides[0] % 8 == 0


def test_out_is_used():
    q, out = array(1, 2, 40, 64), array(1, 2, 40, 64)
    assert flashcore.attention(q, q, q, out=out) is out
    assert arguments(4)[3] == out.pointer


def test_a_call_neither_waits_nor_allocates():
    q = array(1, 2, 40, 64)
    flashcore.attention(q, q, q)
    before = driver.fakeSynchronizations(), driver.fakeAllocations(), driver.fakeModulesLoaded()
    for _ in range(10):
        flashcore.attention(q, q, q)
    after = driver.fakeSynchronizations(), driver.fakeAllocations(), driver.fakeModulesLoaded()
    assert before == after


@pytest.mark.parametrize("current, launched", [(0, 1), (5, 5)])
def test_current_stream(current, launched):
    q = array(1, 2, 40, 64)
    fake_arrays.set_stream(0, current)
    flashcore.attention(q, q, q)
    assert driver.fakeStream() == launched


def test_devices_have_their_contexts_and_streams():
    for index, stream in ((0, 11), (1, 12), (0, 11)):
        fake_arrays.set_stream(index, stream)
        q = array(1, 2, 40, 64, index=index)
        flashcore.attention(q, q, q)
        assert (driver.fakeContext(), driver.fakeStream()) == (100 + index, stream)


def test_devices_must_agree():
    q, k = array(1, 2, 40, 64), array(1, 2, 40, 64, index=1)
    with pytest.raises(ValueError, match="expects k where q is, on cuda:0, but got it on cuda:1"):
        flashcore.attention(q, k, q)
    host = array(1, 2, 40, 64, device=1)
    with pytest.raises(ValueError, match="expects k where q is, on cuda:0, but got it on cpu"):
        flashcore.attention(q, host, q)


def test_other_devices_are_refused():
    q = array(1, 2, 40, 64, device=10)
    with pytest.raises(ValueError, match="but got device type 10 of DLPack"):
        flashcore.attention(q, q, q)
    q = array(1, 2, 40, 64)
    for device in ("emulator", "reference"):
        with pytest.raises(ValueError, match="copy them to the host first"):
            flashcore.attention(q, q, q, device=device)


def test_workspace_comes_from_the_library():
    q, k = array(1, 8, 1, 64), array(1, 8, 3000, 64)
    before = driver.fakeAllocations(), driver.fakeLaunches()
    assert flashcore.attention(q, k, k).shape == q.shape
    # The second kernel merges what the first one left in the workspace.
    assert (driver.fakeAllocations(), driver.fakeLaunches()) == (before[0], before[1] + 2)


def test_rows_that_a_kernel_cannot_read_are_refused():
    """This library has no copies."""
    q = array(1, 2, 40, 64, strides=(10000, 5000, 67, 1))
    with pytest.raises(ValueError, match="need not be copied to aligned rows"):
        flashcore.attention(q, q, q)


def test_version_of_the_exchange_api():
    """The capsule holds a table of version 2, and one of version 1 behind it."""
    assert _core.has_exchange_api(array(1, 2, 40, 64))


def test_strides_are_part_of_a_plan():
    flat, wide = array(1, 2, 40, 112), array(1, 2, 40, 112, strides=(20000, 10000, 144, 1))
    flashcore.attention(flat, flat, flat)
    one = kernels.statistics.compiled
    before = driver.fakeMapsOfStride(2 * 144)
    flashcore.attention(flat, wide, wide)
    assert kernels.statistics.compiled == one
    assert driver.fakeMapsOfStride(2 * 144) == before + 2  # k and v


def test_calls_of_a_class_compile_one_kernel():
    """Whatever their sizes are: all of them together as many as there are classes."""
    before, classes = kernels.statistics.compiled, {}
    sizes = [
        (batch, heads, queries, keys)
        for batch, heads in ((1, 2), (3, 11), (1, 70), (4, 64))
        for queries in (17, 64, 65, 300, 2000)
        for keys in (1, 64, 1024, 1025, 9000)
    ]
    for batch, heads, queries, keys in sizes:
        q, k = array(batch, heads, queries, 32), array(batch, heads, keys, 32)
        once = kernels.statistics.compiled
        flashcore.attention(q, k, k)
        found = _core.call_class("sm_90a", batch * heads, queries, keys, 132)
        is_new = found not in classes
        assert kernels.statistics.compiled == once + is_new, (found, batch, heads, queries, keys)
        classes[found] = True
    assert set(classes) == set(_core.call_classes("sm_90a"))
    assert kernels.statistics.compiled == before + len(classes)


def test_host_arrays_are_copied_there_and_back():
    numpy = pytest.importorskip("numpy")
    q = numpy.ones((1, 2, 40, 64), numpy.float16)
    before = driver.fakeLaunches()
    assert flashcore.attention(q, q, q, device="cuda").shape == q.shape
    assert driver.fakeLaunches() == before + 1


def test_threads():
    q = array(1, 2, 40, 64)
    flashcore.attention(q, q, q)
    before, failures = driver.fakeLaunches(), []

    def work():
        try:
            for size in range(17, 317):
                k = array(1, 2, size, 64)
                flashcore.attention(q, k, k)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and driver.fakeLaunches() == before + 1200


def test_the_map_of_sizes_is_bounded():
    call = call_for(make_options())
    q = array(1, 1, 40, 64)
    for size in range(17, 1400):
        k = array(1, 1, size, 64)
        flashcore.attention(q, k, k)
        assert call.size <= 1024


def test_no_leak():
    q = array(1, 2, 40, 64)
    for _ in range(100):
        flashcore.attention(q, q, q, lse=True)
    gc.collect()
    before = resident()
    counts = sys.getrefcount(q), sys.getrefcount(type(q))
    for _ in range(20000):
        flashcore.attention(q, q, q, lse=True)
    gc.collect()
    assert (sys.getrefcount(q), sys.getrefcount(type(q))) == counts
    assert resident() - before < 2 << 20


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def test_arguments_are_not_kept():
    """An output that nobody holds is freed, and so are inputs."""
    import weakref

    q = FakeTorchTensor((1, 2, 40, 64))
    alive = weakref.ref(q)
    flashcore.attention(q, q, q)
    del q
    gc.collect()
    assert alive() is None


# A library as PyTorch before 2.10: methods in place of the exchange API ------


class FakeTorchTensor:
    requires_grad = is_nested = is_quantized = is_mkldnn = is_meta = is_negative = False
    layout = "torch.strided"

    def __init__(self, shape, strides=None, dtype=None):
        self.memory = array(*shape, strides=strides)
        self.shape = tuple(shape)
        steps, step = [], 1
        for size in reversed(shape):
            steps.append(step)
            step *= size
        self.strides = strides or tuple(reversed(steps))
        self.dtype = dtype or fake_torch.float16
        self.device = types.SimpleNamespace(type="cuda", index=0)

    def data_ptr(self):
        return self.memory.pointer if self.memory else 0

    def is_neg(self):
        return self.is_negative

    def _is_zerotensor(self):
        return self.memory is None

    def stride(self):
        return self.strides

    def clone(self, memory_format):
        return FakeTorchTensor(self.shape)


FakeTorchTensor.__module__ = "torch"


class Dtype:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


def _empty(shape, dtype, device):
    return FakeTorchTensor(shape, None, dtype)


def _empty_strided(shape, strides, dtype, device):
    return FakeTorchTensor(shape, strides, dtype)


fake_torch = types.ModuleType("torch")
fake_torch.Tensor = FakeTorchTensor
for name in ("float16", "bfloat16", "float32", "uint8"):
    setattr(fake_torch, name, Dtype(name))
fake_torch.empty, fake_torch.empty_strided = _empty, _empty_strided
fake_torch.empty_like = lambda q: FakeTorchTensor(q.shape, q.strides, q.dtype)
fake_torch.contiguous_format = None
fake_torch.grad_enabled, fake_torch.capturing, fake_torch.stream = True, False, 9
fake_torch.is_grad_enabled = lambda: fake_torch.grad_enabled
fake_torch.cuda = types.SimpleNamespace(is_current_stream_capturing=lambda: fake_torch.capturing)
fake_torch._C = types.SimpleNamespace(
    _cuda_getCurrentRawStream=lambda index: fake_torch.stream,
    _len_torch_dispatch_stack=lambda: 0,
    _functorch=types.SimpleNamespace(peek_interpreter_stack=lambda: None),
    _get_tracing_state=lambda: None,
)
fake_torch.compiler = types.SimpleNamespace(is_dynamo_compiling=lambda: False)
fake_torch.autograd = types.SimpleNamespace(forward_ad=types.SimpleNamespace(_current_level=-1))
sys.modules["torch"] = fake_torch
fake_overrides = types.ModuleType("torch.overrides")
fake_overrides.TorchFunctionMode = contextlib.nullcontext
sys.modules["torch.overrides"] = fake_overrides


def test_older_pytorch():
    q = FakeTorchTensor((1, 2, 40, 64))
    o, lse = flashcore.attention(q, q, q, lse=True)
    assert type(o) is FakeTorchTensor and lse.dtype is fake_torch.float32
    assert arguments(5) == [x.data_ptr() for x in (q, q, q, o, lse)]
    assert driver.fakeStream() == 9


def test_output_is_ordered_as_q():
    q = FakeTorchTensor((1, 2, 40, 64), (5120, 64, 128, 1))
    assert flashcore.attention(q, q, q).stride() == (5120, 64, 128, 1)
    part = FakeTorchTensor((1, 2, 40, 64), (10240, 64, 256, 1))  # of something wider
    assert flashcore.attention(part, q, q).stride() == (5120, 64, 128, 1)
    wider = FakeTorchTensor((1, 2, 40, 32), (2560, 32, 64, 1))
    assert flashcore.attention(q, q, wider).stride() == (2560, 32, 64, 1)


def test_misaligned_rows_are_copied():
    q = FakeTorchTensor((1, 2, 40, 64), (5360, 2680, 67, 1))
    k = FakeTorchTensor((1, 2, 40, 64))
    flashcore.attention(q, k, k)
    assert q.data_ptr() not in arguments(3) and arguments(3)[1:] == [k.data_ptr()] * 2


def test_gradients_are_refused():
    q = FakeTorchTensor((1, 2, 40, 64))
    wants = FakeTorchTensor((1, 2, 40, 64))
    wants.requires_grad = True
    call = call_for(make_options())
    with pytest.raises(flashcore.GradientError, match="has no backward pass"):
        call.run(q, wants, q, None, None, None)
    fake_torch.grad_enabled = False
    try:
        call.run(q, wants, q, None, None, None)
    finally:
        fake_torch.grad_enabled = True


def test_memory_is_looked_at_at_each_call():
    """Of calls whose sizes are known, too."""
    arrays = [FakeTorchTensor((1, 2, 40, 64)) for _ in "qkv"]
    flashcore.attention(*arrays)
    launches = driver.fakeLaunches()
    for array, name in zip(arrays, "qkv"):
        array.is_negative = True
        with pytest.raises(TypeError, match=f"pass {name}.resolve_neg"):
            flashcore.attention(*arrays)
        array.is_negative = False
        array.memory, memory = None, array.memory
        with pytest.raises(TypeError, match=f"expects {name} .* of zeros without memory"):
            flashcore.attention(*arrays)
        array.memory = memory
    assert driver.fakeLaunches() == launches
    flashcore.attention(*arrays)


def test_outputs_share_no_memory_with_inputs():
    """Which is asked of each call: sizes and strides say nothing of it."""
    arrays, out = [FakeTorchTensor((1, 2, 40, 64)) for _ in "qkv"], FakeTorchTensor((1, 2, 40, 64))
    for _ in range(2):
        flashcore.attention(*arrays, out=out)
        for array, name in zip(arrays, "qkv"):
            with pytest.raises(ValueError, match=f"but it overlaps {name}"):
                flashcore.attention(*arrays, out=array)


def test_options_are_told_by_their_types():
    q = FakeTorchTensor((1, 2, 40, 64))
    for _ in range(3):
        flashcore.attention(q, q, q, window=5, lse=True)
        for wrong in ({"window": 5.0, "lse": True}, {"window": 5, "lse": 1}):
            with pytest.raises(TypeError, match="expects (window|lse) to be"):
                flashcore.attention(q, q, q, **wrong)


def test_capture_needs_a_loaded_kernel():
    q = FakeTorchTensor((1, 2, 40, 96))
    fake_torch.capturing = True
    try:
        with pytest.raises(flashcore.Error, match="call flashcore.attention once before capturing"):
            flashcore.attention(q, q, q)
        fake_torch.capturing = False
        flashcore.attention(q, q, q)
        fake_torch.capturing = True
        before = driver.fakeModulesLoaded(), driver.fakeSynchronizations()
        longer = FakeTorchTensor((1, 2, 50, 96))  # a new plan, but no new kernel
        flashcore.attention(longer, longer, longer)
        larger = FakeTorchTensor((4, 64, 500, 96))  # of a class that is not loaded: another's runs
        flashcore.attention(larger, larger, larger)
        with pytest.raises(flashcore.Error, match="once before capturing"):
            flashcore.attention(larger, larger, larger, schedule={"num_stages": 3})
        assert before == (driver.fakeModulesLoaded(), driver.fakeSynchronizations())
    finally:
        fake_torch.capturing = False


def test_a_merge_runs_in_the_stream_and_waits_for_nothing():
    outputs = FakeTorchTensor((3, 1, 2, 40, 96))
    lses = FakeTorchTensor((3, 1, 2, 40), None, fake_torch.float32)
    fake_torch.capturing = True
    try:
        with pytest.raises(flashcore.Error, match="call flashcore.merge once before capturing"):
            flashcore.merge(outputs, lses)
        fake_torch.capturing = False
        flashcore.merge(outputs, lses)
        fake_torch.capturing = True
        before = driver.fakeModulesLoaded(), driver.fakeSynchronizations()
        o, lse = flashcore.merge(outputs, lses)
        assert before == (driver.fakeModulesLoaded(), driver.fakeSynchronizations())
    finally:
        fake_torch.capturing = False
    assert type(o) is FakeTorchTensor and o.shape == (1, 2, 40, 96)
    sizes = [1, 2, 40, 3]
    of_outputs, of_lses = [7680, 8, 3840, 96], [80, 4, 40, 1]  # one batch: 16 bytes
    pointers = [x.data_ptr() for x in (outputs, lses, o, lse)]
    assert arguments(21) == [*pointers, *sizes, *of_outputs, *of_lses, 8, 3840, 96, 4, 40]
    assert driver.fakeStream() == 9


def test_a_merge_copies_misaligned_rows():
    outputs = FakeTorchTensor((2, 1, 2, 40, 64), (5360, 5360, 2680, 67, 1))
    lses = FakeTorchTensor((2, 1, 2, 40), (0, 80, 40, 1), fake_torch.float32)
    flashcore.merge(outputs, lses)
    assert outputs.data_ptr() not in arguments(1) and arguments(2)[1] == lses.data_ptr()
    with pytest.raises(ValueError, match="expects arrays in host memory for device='emulator'"):
        flashcore.merge(outputs, lses, device="emulator")
    other = array(2, 1, 2, 40, 64, device=10), array(2, 1, 2, 40, dtype="float32", device=10)
    with pytest.raises(ValueError, match="but got device type 10 of DLPack"):
        flashcore.merge(*other)
    on_host = array(2, 1, 2, 40, dtype="float32", device=1)
    message = "expects lses where the outputs are, on cuda:0, but got them on cpu"
    with pytest.raises(ValueError, match=message):
        flashcore.merge(array(2, 1, 2, 40, 64), on_host)
    outputs, lses = array(2, 1, 2, 40, 64), array(2, 1, 2, 40, dtype="float32")
    flashcore.merge(outputs, lses)  # which tells the stream in use by its C interface
    assert arguments(2) == [outputs.pointer, lses.pointer]


def causal(batch, head, q_idx, kv_idx):
    return q_idx >= kv_idx


@pytest.mark.parametrize(
    "queries, keys", [(40, 40), (1, 5000)]
)  # of several kernels, with workspace
def test_what_functions_read_is_passed_and_not_kept(queries, keys):
    import weakref

    q, k = FakeTorchTensor((1, 2, queries, 64)), FakeTorchTensor((1, 2, keys, 64))
    loaded = []
    for _ in range(2):
        slopes = FakeTorchTensor((2,), None, fake_torch.float32)
        read = flashcore.capture(slopes)
        before = driver.fakeModulesLoaded(), driver.fakeSynchronizations()
        o, lse = flashcore.attention(
            q, k, k, score_mod=lambda s, b, h, i, j: s - read[h] * j, mask_mod=causal, lse=True
        )
        loaded.append((driver.fakeModulesLoaded(), driver.fakeSynchronizations()) != before)
        assert type(o) is FakeTorchTensor and lse.dtype is fake_torch.float32
        assert driver.fakeStream() == 9
        if queries > 1:
            pointers = [x.data_ptr() for x in (q, k, k, slopes, o, lse)]
            assert set(pointers) <= set(arguments(6))
        alive = weakref.ref(slopes)
        del slopes, read
        gc.collect()
        assert alive() is None
    assert loaded == [True, False]


def test_functions_and_other_libraries():
    q = array(1, 2, 40, 64)
    flashcore.attention(q, q, q, mask_mod=causal)
    assert arguments(3) == [q.pointer] * 3
    device = kernels.device("cuda", 0)
    only = OnlyDLPack(_core.make_array(device, 0, (1, 2, 40, 64), "float16"))
    sinks = OnlyDLPack(_core.make_array(device, 0, (2,), "float32"))
    o, lse, scores = flashcore.attention(
        only, only, only, mask_mod=causal, sinks=sinks, lse=True, scores="masked"
    )
    assert {type(x) for x in (o, lse, scores)} == {OnlyDLPack}
    flashcore.attention(only, only, only, mask_mod=causal, sinks=sinks)
    assert sinks.source.pointer in arguments(5)
    q = FakeTorchTensor((1, 2, 40, 64))
    host = flashcore.capture(array(40, dtype="float32", device=1))
    message = "expects capture0 where q is, on cuda:0, but got it on cpu"
    with pytest.raises(ValueError, match=message):
        flashcore.attention(q, q, q, mask_mod=lambda b, h, i, j: host[j] > 0)


def test_gradients_of_what_functions_read_are_refused(monkeypatch):
    # The module is on PyTorch's own.
    asked = types.SimpleNamespace(on_grad=lambda: "error")
    monkeypatch.setitem(sys.modules, "flashcore.operators.gradients", asked)
    q = FakeTorchTensor((1, 2, 40, 64))
    slopes = FakeTorchTensor((2,), None, fake_torch.float32)
    slopes.requires_grad = True
    read = flashcore.capture(slopes)
    with pytest.raises(flashcore.GradientError, match="or detach.. its arguments and what"):
        flashcore.attention(q, q, q, score_mod=lambda s, b, h, i, j: s + read[h])


# Arrays of a library with __dlpack__ alone ----------------------------------


class OnlyDLPack:
    """An array that cannot be written, as JAX's."""

    def __init__(self, source):
        self.source = source
        self.streams = []

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return self.source.__dlpack__(stream=stream, max_version=max_version)

    def __dlpack_device__(self):
        return self.source.__dlpack_device__()

    def __array_namespace__(self):
        return types.SimpleNamespace(from_dlpack=OnlyDLPack)


@pytest.mark.parametrize("lse", [False, True])
def test_results_by_dlpack(lse):
    device = kernels.device("cuda", 1)
    q, k, v = (OnlyDLPack(_core.make_array(device, 1, (1, 2, 40, 64), "float16")) for _ in "qkv")
    waits = driver.fakeSynchronizations()
    result = flashcore.attention(q, k, v, lse=lse)
    o = result[0] if lse else result
    assert type(o) is OnlyDLPack and o.__dlpack_device__() == (CUDA, 1)
    assert arguments(4)[3] == o.source.pointer
    assert driver.fakeStream() == 1 and q.streams[-1] == 1
    assert driver.fakeSynchronizations() == waits + 1
    with pytest.raises(ValueError, match="expects out=None"):
        flashcore.attention(q, k, v, out=o)
    with pytest.raises(ValueError, match="expects out in memory of its own, but it overlaps q"):
        flashcore.attention(q, k, v, out=q)
    flashcore.attention(q, k, v, stream=21)
    assert driver.fakeStream() == 21 and q.streams[-1] == 21


class FakeCuPyArray(OnlyDLPack):
    """Of a module named cupy, which has a current stream."""

    __module__ = "cupy._core"

    @property
    def device(self):
        return contextlib.nullcontext()


def test_cupy_runs_in_its_stream_and_waits_for_nothing(monkeypatch):
    device = kernels.device("cuda", 1)

    def empty(shape, dtype):
        return FakeCuPyArray(_core.make_array(device, 1, shape, str(dtype)))

    stream = types.SimpleNamespace(ptr=33, is_capturing=lambda: False)
    cuda = types.SimpleNamespace(get_current_stream=lambda index=None: stream)
    cupy = types.SimpleNamespace(empty=empty, dtype=str, cuda=cuda)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    q, k, v = (empty((1, 2, 40, 64), "float16") for _ in "qkv")
    waits = driver.fakeSynchronizations()
    o = flashcore.attention(q, k, v)
    assert type(o) is FakeCuPyArray and arguments(4)[3] == o.source.pointer
    assert driver.fakeStream() == 33 and driver.fakeSynchronizations() == waits
    assert {*q.streams, *k.streams, *v.streams} == {-1}


# The kernels of warpgroups of these GPUs, whose compute capability is 9.0 ----


def code_of(q, **options):
    """What runs for such a call, loaded anew."""
    flashcore.attention(q, q, q, **options)
    key, loaded = list(kernels.loaded().items())[-1]
    return loaded.module.code


def test_code_of_the_chip_runs():
    assert code_of(array(1, 2, 40, 128)) == "PTX sm_90a"


def test_code_without_its_products_is_kept_as_a_cubin(monkeypatch):
    """As of few queries, for which such products are too large."""
    monkeypatch.setattr(kernels, "_modules", {})
    for cached in ("", ", cached"):
        problem, schedule = Problem.parse("b1 h8 s1x100 d128 strided").kernel_class(132)
        loaded = kernels.load(kernels.device("cuda"), problem, schedule)
        assert loaded.module.code == f"PTX sm_90a{cached}"
        del loaded
        kernels._modules.clear()


def test_another_chip_by_the_environment(monkeypatch):
    monkeypatch.setenv("FLASHCORE_CHIP", "sm_80")
    assert code_of(array(1, 2, 40, 136)) == "PTX sm_80"


@pytest.fixture
def slow_assembler():
    driver.fakeRemark(b"info : (C7510) Potential Performance Loss: wgmma is serialized\n")
    yield
    driver.fakeRemark(b"")


def test_slow_code_is_replaced(slow_assembler, monkeypatch):
    q = array(1, 2, 40, 144)
    with pytest.warns(UserWarning, match="a kernel for sm_90 runs.*for sm_90a cannot.*C7510"):
        assert code_of(q) == "PTX sm_90"
    # The driver has it in its cache now, and no log; the next process knows it all the same.
    driver.fakeRemark(b"")
    monkeypatch.setattr(kernels, "_modules", {})
    with pytest.warns(UserWarning, match="C7510"):
        assert code_of(array(1, 2, 41, 144)).split(",")[0] == "PTX sm_90"


def test_slow_code_that_was_asked_for_is_refused(slow_assembler, monkeypatch):
    monkeypatch.setenv("FLASHCORE_CHIP", "sm_90a")
    q = array(1, 2, 40, 152)
    with pytest.raises(flashcore.Error, match="C7510"):
        flashcore.attention(q, q, q)


def test_a_bundle_with_code_for_all_chips(slow_assembler, tmp_path):
    made = flashcore.compile("b1 h2 s? d160 strided", chip=["sm_80", "sm_90", "sm_90a"])
    made.write_bundle(tmp_path / "all.fcb")
    device = flashcore.open_device("cuda")
    with pytest.warns(UserWarning, match="for sm_90 run in the place of those for sm_90a.*C7510"):
        loaded = device.load(tmp_path / "all.fcb")
    assert loaded.code == "PTX sm_90" and loaded.bundle.chip == "sm_90"
    driver.fakeRemark(b"")
    made = flashcore.compile("b1 h2 s? d168 strided", chip=["sm_80", "sm_90", "sm_90a"])
    made.write_bundle(tmp_path / "all.fcb")
    loaded = device.load(tmp_path / "all.fcb")
    assert loaded.code == "PTX sm_90a" and loaded.bundle.chip == "sm_90a"


def calls_with_clauses():
    """A call with each kind of clause and function, whose tensors cost nothing to make."""
    heads, rows = 8, 64
    q, k = array(2, heads, rows, 64), array(2, heads, rows, 64)
    one, packed = array(2, heads, 1, 64), array(1, heads, 2 * rows, 64)
    of_heads, used = array(heads, dtype="float32"), array(2, dtype="int32")
    ends, table = array(3, dtype="int32"), array(2, 4, dtype="int32")
    pages, rng = array(8, heads, 16, 64), array(2, dtype="int64")
    counts, indices = array(1, 1, 4, dtype="int32"), array(1, 1, 4, 4, dtype="int32")
    lists = flashcore.BlockLists(counts, indices, counts, indices, (16, 16))
    slopes, step = flashcore.capture(of_heads), 7
    parts, lses = array(2, 2, heads, rows, 64), array(2, 2, heads, rows, dtype="float32")
    handle = flashcore.mask(causal)

    def biased(score, batch, head, q_idx, kv_idx):
        return score - slopes[head] * (q_idx - kv_idx)

    def near(batch, head, q_idx, kv_idx):
        return q_idx - kv_idx < step

    return {
        "causal": lambda: flashcore.attention(q, k, k, causal=True),
        "head_scales": lambda: flashcore.attention(q, k, k, head_scales=of_heads),
        "alibi_slopes": lambda: flashcore.attention(q, k, k, alibi_slopes=of_heads),
        "sinks": lambda: flashcore.attention(q, k, k, sinks=of_heads),
        "seqused_k": lambda: flashcore.attention(q, k, k, seqused_k=used),
        "cu_seqlens": lambda: flashcore.attention(
            packed, packed, packed, cu_seqlens_q=ends, cu_seqlens_k=ends, max_seqlen_q=rows
        ),
        "page_table": lambda: flashcore.attention(
            q, pages, pages, page_table=table, seqused_k=used
        ),
        "k_new, v_new": lambda: flashcore.attention(
            one, k, array_v, k_new=one, v_new=one, seqused_k=used
        ),
        "dropout_p": lambda: flashcore.attention(q, k, k, dropout_p=0.1, rng=rng),
        "scores": lambda: flashcore.attention(q, k, k, scores="masked"),
        "block_mask": lambda: flashcore.attention(q, k, k, block_mask=lists),
        "schedule": lambda: flashcore.attention(q, k, k, schedule={"block_n": 32}),
        "mask_mod": lambda: flashcore.attention(q, k, k, mask_mod=near),
        "mask_mod of mask": lambda: flashcore.attention(q, k, k, mask_mod=handle),
        "score_mod": lambda: flashcore.attention(q, k, k, score_mod=biased),
        "both": lambda: flashcore.attention(q, k, k, score_mod=biased, mask_mod=near),
        "merge": lambda: flashcore.merge(parts, lses),
    }


array_v = array(2, 8, 64, 64)


def test_host_time():
    """Of our own, with outputs allocated by a library that costs nothing."""
    q = array(1, 8, 512, 64)
    calls = {"plain": lambda: flashcore.attention(q, q, q), **calls_with_clauses()}
    for call in calls.values():
        call()
    before = driver.fakeModulesLoaded(), driver.fakeSynchronizations()
    times = {name: min(timed(call) for _ in range(10)) for name, call in calls.items()}
    for name, seconds in times.items():
        print(f"host time of a call: {name:20} {seconds * 1e6:6.2f} us")
    assert before == (driver.fakeModulesLoaded(), driver.fakeSynchronizations())
    # Ten times what they take on an idle machine.
    assert max(times.values()) < 100e-6 and times["plain"] < 20e-6


def timed(call, count=1000):
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count
