"""flashcore.attention on CuPy's and JAX's arrays: the bits of PyTorch's call."""

import os

import pytest
import torch

import flashcore
from torch_inputs import make

# Else JAX takes three quarters of the GPU's memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

CALLS = {
    "plain": ({"queries": 512, "heads": 8, "dim": 64}, {}),
    "causal": ({"queries": 300, "heads": 4, "heads_kv": 2, "dim": 128}, {"causal": True}),
    "decode": ({"queries": 1, "keys": 2048, "heads": 8, "heads_kv": 2, "dim": 128}, {}),
    "window": ({"queries": 200, "dim": 64}, {"window": (63, 0), "softcap": 20.0}),
    "narrow": ({"queries": 100, "dim": 60}, {}),
    "odd": ({"queries": 100, "dim": 33}, {}),
}


def cupy_of(tensors):
    cupy = pytest.importorskip("cupy")
    return [cupy.from_dlpack(x) for x in tensors]


def jax_of(tensors):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs JAX for GPUs")
    return [jax.dlpack.from_dlpack(x) for x in tensors]


LIBRARIES = {"cupy": cupy_of, "jax": jax_of}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_results_are_those_of_pytorch(library, kind):
    sizes, options = CALLS[kind]
    tensors = make(device="cuda", **sizes)
    expected = flashcore.attention(*tensors, lse=True, **options)
    torch.cuda.synchronize()
    arrays = LIBRARIES[library](tensors)
    results = flashcore.attention(*arrays, lse=True, **options)
    for ours, wanted in zip(results, expected):
        assert type(ours).__module__.split(".")[0] == type(arrays[0]).__module__.split(".")[0]
        assert torch.equal(torch.from_dlpack(ours), wanted)


def test_bfloat16_of_jax():
    tensors = make(device="cuda", queries=100, dim=64, dtype=torch.bfloat16)
    expected = flashcore.attention(*tensors)
    torch.cuda.synchronize()
    o = flashcore.attention(*jax_of(tensors))
    assert str(o.dtype) == "bfloat16" and torch.equal(torch.from_dlpack(o), expected)


def test_strided_views_of_cupy():
    tensors = make(device="cuda", queries=64, dim=64, layout="bshd")
    views = [x.transpose(1, 2) for x in tensors]
    expected = flashcore.attention(*views)
    torch.cuda.synchronize()
    assert torch.equal(torch.from_dlpack(flashcore.attention(*cupy_of(views))), expected)


def test_out_of_cupy_and_its_stream():
    cupy = pytest.importorskip("cupy")
    tensors = make(device="cuda", queries=512, heads=8, dim=64)
    expected = flashcore.attention(*tensors)
    torch.cuda.synchronize()
    q, k, v = cupy_of(tensors)
    out = cupy.empty_like(q)
    given = cupy.cuda.Stream(non_blocking=True)
    for options in ({}, {"stream": given}, {"stream": given.ptr}):
        out.fill(0)
        cupy.cuda.get_current_stream().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as current:
            assert flashcore.attention(q, k, v, out=out, **options) is out
            current.synchronize()
        given.synchronize()
        assert torch.equal(torch.from_dlpack(out), expected)


def test_graph_of_cupy():
    cupy = pytest.importorskip("cupy")
    tensors = make(device="cuda", queries=64, dim=64)
    q, k, v = cupy_of(tensors)
    out = cupy.empty_like(q)
    flashcore.attention(q, k, v, out=out)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        flashcore.attention(q, k, v, out=out)
        graph = stream.end_capture()
        q *= 2
        graph.launch(stream)
        stream.synchronize()
    changed = flashcore.attention(torch.from_dlpack(q), *tensors[1:])
    assert torch.equal(torch.from_dlpack(out), changed)
