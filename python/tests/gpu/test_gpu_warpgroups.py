"""Code that is for compute capability 9.0 alone: chosen by itself, and right."""

import sys

import pytest
import torch

import flashcore
from criterion import assert_exact_enough
from flashcore import kernels, resolve
from torch_inputs import make

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
    reason="needs a GPU of compute capability 9.0",
)

#: Dense, of lengths that fill tiles and lengths that do not, masked, and with a bias.
KINDS = {
    "dense": ({"queries": 1024}, {}),
    "ragged": ({"queries": 1000, "keys": 777}, {}),
    "causal": ({"queries": 1024}, {"causal": True}),
    "causal, ragged": ({"queries": 500, "keys": 1011}, {"causal": True}),
    "grouped": ({"queries": 700, "heads": 8, "heads_kv": 2}, {"causal": True}),
    "window": ({"queries": 700}, {"window": (100, 0)}),
}


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """What this process knows of kernels and calls is for this test alone."""
    attention = sys.modules["flashcore.attention"]
    monkeypatch.setattr(kernels, "_modules", {})
    monkeypatch.setattr(attention, "_calls", attention._new_calls())
    monkeypatch.setattr(resolve, "_calls_of_options", {})


def call(q, k, v, **options):
    """Calls with kernels loaded anew; returns the results and the kernel."""
    attention = sys.modules["flashcore.attention"]
    attention._calls = attention._new_calls()
    for table in (kernels._modules, resolve._calls_of_options):
        table.clear()
    result = flashcore.attention(q, k, v, lse=True, **options)
    (loaded,) = kernels.loaded().values()
    return result, loaded


def code_of(loaded):
    """Without what the cache did."""
    return loaded.module.code.split(",")[0]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("error:flashcore")
def test_results(kind, dim, dtype, static):
    sizes, options = KINDS[kind]
    q, k, v = make(**{"batch": 4, "heads": 8, "dim": dim, **sizes}, dtype=dtype, device="cuda")
    result, loaded = call(q, k, v, static=static, **options)
    assert code_of(loaded) in ("cubin sm_90a", "PTX sm_90a")
    # Kernels of warpgroups alone take tensor maps. Known sizes may fill the GPU too little.
    assert static or '"tensor_map"' in loaded.bundle.manifest
    assert_exact_enough(result, q, k, v, lse=True, **options)


@pytest.mark.filterwarnings("error:flashcore")
def test_the_driver_assembles_whole_programs(cache_dir, monkeypatch):
    """Without ptxas, with a cache that is empty and with one that is not."""
    monkeypatch.setenv("FLASHCORE_PTXAS", "none")
    q, k, v = make(batch=4, heads=8, queries=900, dim=128, device="cuda")
    for _ in range(2):
        result, loaded = call(q, k, v, causal=True, softcap=30.0)
        assert loaded.module.code == "PTX sm_90a"
        del loaded  # with it goes the code
        assert_exact_enough(result, q, k, v, causal=True, softcap=30.0, lse=True)


def test_portable_code_by_the_environment(monkeypatch):
    monkeypatch.setenv("FLASHCORE_CHIP", "sm_90")
    q, k, v = make(batch=4, heads=8, queries=300, dim=128, device="cuda")
    result, loaded = call(q, k, v)
    assert code_of(loaded) in ("cubin sm_90", "PTX sm_90")
    assert_exact_enough(result, q, k, v, lse=True)
