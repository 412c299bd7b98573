"""Calls with clauses and functions on a GPU: as on the emulator, compiled, and in CUDA graphs."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import flashcore
from clause_calls import make_calls

CALLS = sorted(make_calls())


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()


def flat(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_emulator(name):
    here, there = make_calls("cuda")[name], make_calls("cpu")[name]
    results, expected = flat(here[0](*here[1:])), flat(there[0](*there[1:]))
    for result, wanted in zip((*results, *here[1:]), (*expected, *there[1:])):
        torch.testing.assert_close(result.cpu(), wanted, atol=4e-3, rtol=4e-3)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_call_has_the_bits_of_the_eager_one(name, backend):
    function, *tensors = make_calls("cuda")[name]
    ours, theirs = ([x.clone() for x in tensors] for _ in range(2))
    expected = flat(function(*ours))
    results = flat(torch.compile(function, fullgraph=True, backend=backend)(*theirs))
    for result, wanted in zip((*results, *theirs), (*expected, *ours)):
        assert torch.equal(result, wanted)


@pytest.mark.parametrize("name", CALLS)
def test_replays_of_a_graph_follow_its_tensors(name):
    function, *tensors = make_calls("cuda")[name]
    kept = [x.clone() for x in tensors]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        function(*tensors)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = flat(function(*tensors))
    generator = torch.Generator("cuda").manual_seed(1)
    for x in kept:
        if x.dtype is torch.float16:
            x.normal_(generator=generator)
    for target, source in zip(tensors, kept):
        target.copy_(source)
    graph.replay()
    expected = flat(function(*kept))
    for result, wanted in zip((*results, *tensors), (*expected, *kept)):
        assert torch.equal(result, wanted)


def test_numbers_that_are_data():
    q, k, v = make_calls("cuda")["sinks"][1:4]

    def call(width):
        width = flashcore.number(width)
        return flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: i - j < width)

    call(1)
    before = flashcore.kernels.statistics.compiled
    results = [call(width) for width in (3, -5)]
    assert flashcore.kernels.statistics.compiled == before
    for result, width in zip(results, (3, -5)):
        expected = flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: i - j < width)
        torch.testing.assert_close(result, expected, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", ["sinks", "mask_mod"])
def test_autocast_casts_float32(name):
    function, q, k, v, *others = make_calls("cuda")[name]
    with torch.autocast("cuda", torch.bfloat16):
        o = function(q.float(), k.float(), v.float(), *others)
    assert torch.equal(o, function(*(x.bfloat16() for x in (q, k, v)), *others))
