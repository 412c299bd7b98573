"""Two GPUs of one process: each call is on the GPU of its tensors, and in its stream."""

import threading

import pytest
import torch

import flashcore
import flashcore.torch
from criterion import assert_exact_enough
from torch_inputs import make

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")

#: A kernel alone, and two with a workspace between them.
KINDS = {
    "plain": {"queries": 300, "heads": 8, "dim": 64},
    "decode": {"queries": 1, "keys": 3000, "heads": 8, "heads_kv": 2, "dim": 128},
}
LAST = torch.cuda.device_count() - 1


@pytest.fixture(autouse=True)
def first():
    torch.cuda.set_device(0)
    yield
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize(LAST)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("current", [0, LAST])
@pytest.mark.parametrize("static", [False, True])
def test_the_tensors_say_which_gpu(kind, current, static):
    for index in (0, LAST, 0):
        q, k, v = make(device=f"cuda:{index}", **KINDS[kind])
        with torch.cuda.device(current):
            result = flashcore.attention(q, k, v, causal=True, lse=True, static=static)
            assert torch.cuda.current_device() == current
        assert [x.device.index for x in result] == [index, index]
        assert_exact_enough(result, q, k, v, causal=True, lse=True)


def test_devices_of_one_call_must_agree():
    q, k, v = make(device="cuda:0", **KINDS["plain"])
    with pytest.raises(ValueError, match=f"expects k where q is, on cuda:0, but got it on cuda:{LAST}"):
        flashcore.attention(q, k.to(LAST), v)


@pytest.mark.parametrize("kind", KINDS)
def test_current_streams_of_both(kind):
    """A call waits for what its stream has to do, and not for the other GPU."""
    tensors = [make(device=f"cuda:{index}", **KINDS[kind]) for index in (0, LAST)]
    expected = [flashcore.attention(*each) for each in tensors]
    fresh = [[x.clone() for x in each] for each in tensors]
    streams = [torch.cuda.Stream(index) for index in (0, LAST)]
    for each, stream in zip(tensors, streams):
        each[0].zero_()
        torch.cuda.synchronize(stream.device)
    results = []
    for each, new, stream in zip(tensors, fresh, streams):
        with torch.cuda.device(stream.device), torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            each[0].copy_(new[0])
            results.append(flashcore.attention(*each))
            assert not stream.query(), "the call waited for its stream"
    for result, o, stream in zip(results, expected, streams):
        stream.synchronize()
        assert torch.equal(result, o)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_on_both(kind):
    """As data-parallel modules call: threads, each with a GPU of its own."""
    errors = []
    barrier = threading.Barrier(4)

    def work(number):
        try:
            index = (0, LAST)[number % 2]
            generator = torch.Generator(f"cuda:{index}").manual_seed(number)
            with torch.cuda.device(index), torch.cuda.stream(torch.cuda.Stream(index)):
                q, k, v = make(device=f"cuda:{index}", **KINDS[kind])
                barrier.wait()
                for _ in range(20):
                    q = torch.randn(q.shape, device=q.device, generator=generator).to(q.dtype)
                    result = flashcore.attention(q, k, v, causal=True, lse=True)
                torch.cuda.current_stream().synchronize()
                assert_exact_enough(result, q, k, v, causal=True, lse=True)
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_graphs_of_both():
    for index in (LAST, 0):
        q, k, v = make(device=f"cuda:{index}", **KINDS["decode"])
        with torch.cuda.device(index):
            expected = flashcore.attention(q, k, v)
            graph = torch.cuda.CUDAGraph()
            # PyTorch's own stream for captures is of the GPU that captured first.
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(index)):
                o = flashcore.attention(q, k, v)
            o.zero_()
            graph.replay()
            torch.cuda.synchronize(index)
        assert torch.equal(o, expected)


def test_sdpa_on_the_other_gpu():
    q, k, v = make(device=f"cuda:{LAST}", **KINDS["plain"])
    before = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    with flashcore.torch.sdpa():
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert o.device == q.device
    torch.testing.assert_close(o, before, atol=2e-2, rtol=2e-2)


def test_plans_of_both(tmp_path):
    """Bundles that are loaded by hand say themselves where they run."""
    path = tmp_path / "attention.fcb"
    flashcore.compile("b1 h8 s128 d64").write_bundle(path)
    for index in (0, LAST):
        device = flashcore.open_device("cuda", index)
        q, k, v = make(device=f"cuda:{index}", batch=1, heads=8, queries=128, dim=64)
        tensors = {"q": q, "k": k, "v": v, "o": torch.empty_like(q)}
        plan = device.load(path).plan({name: (x.shape, x.stride()) for name, x in tensors.items()})
        torch.cuda.synchronize(index)
        plan.launch([x.data_ptr() for x in tensors.values()])
        device.synchronize()
        assert_exact_enough(tensors["o"], q, k, v)
