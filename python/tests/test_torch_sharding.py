"""DTensors of two processes, jagged tensors, and what the profiler sees."""

import os
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import flashcore

PROGRAM = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
import flashcore

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(1)
q, k, v = (torch.randn(2, h, 20, 32).half() for h in (4, 2, 2))
bias = torch.randn(1, 4, 20, 20).half()

def shard(x, *places):
    return distribute_tensor(x, mesh, list(places))

for layout in ("bhsd", "bshd"):
    heads = layout.index("h")
    order = lambda x: x if layout == "bhsd" else x.transpose(1, 2).contiguous()
    for place in (Shard(0), Shard(heads), Replicate()):
        for options in ({}, {"causal": True}, {"bias": bias}, {"lse": True, "softcap": 5.0}):
            tensors = [order(x) for x in (q, k, v)]
            wanted = flashcore.attention(*tensors, layout=layout, **options)
            given = {**options}
            if "bias" in given:
                of_bias = {0: Replicate(), heads: Shard(1)}.get(getattr(place, "dim", None), place)
                given["bias"] = shard(bias, of_bias)
            result = flashcore.attention(*(shard(x, place) for x in tensors), layout=layout, **given)
            pairs = zip(result, wanted) if isinstance(wanted, tuple) else [(result, wanted)]
            for mine, whole in pairs:
                assert isinstance(mine, DTensor), type(mine)
                if place != Replicate():
                    assert mine.to_local().numel() * 2 == whole.numel(), (place, mine.placements)
                torch.testing.assert_close(mine.full_tensor(), whole, atol=0, rtol=0)
# Heads of k that do not fill the mesh are gathered: a device would have no heads of its own.
one = flashcore.attention(shard(q, Shard(1)), shard(k[:, :1], Replicate()), shard(v[:, :1], Replicate()))
wanted = flashcore.attention(q, k[:, :1], v[:, :1])
torch.testing.assert_close(one.full_tensor(), wanted, atol=0, rtol=0)
dist.destroy_process_group()
print("same")
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_dtensors_are_sharded_over_batch_and_heads():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    for each in running:
        output, _ = each.communicate(timeout=300)
        assert each.returncode == 0 and output.endswith("same\n"), output


def jagged(lengths, heads, seed=1, offsets=None):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(sum(lengths), heads, 32, generator=generator).half()
    if offsets is None:
        ends = torch.tensor(lengths).cumsum(0)
        offsets = torch.cat([ends.new_zeros(1), ends])
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def draw_jagged():
    q, k = jagged([5, 17, 0, 9], 4), jagged([12, 17, 3, 20], 2, 2)
    return q, k, jagged([12, 17, 3, 20], 2, 3, k.offsets())


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("options", [{}, {"causal": True, "window": 4}, {"sinks": torch.ones(4)}])
def test_jagged_tensors_are_sequences(layout, options):
    rows = draw_jagged()
    q, k, v = rows if layout == "bshd" else (x.transpose(1, 2) for x in rows)
    o, lse = flashcore.attention(q, k, v, layout=layout, lse=True, **options)
    assert o.is_nested and o.layout is torch.jagged and o.shape[:2] == q.shape[:2]
    alone = flashcore.attention(q, k, v, layout=layout, **options)
    torch.testing.assert_close(alone.values(), o.values(), atol=2e-3, rtol=2e-3)
    plain = zip(*(x.unbind() for x in rows))
    of_o = (o if layout == "bshd" else o.transpose(1, 2)).unbind()
    for (one, keys, values), mine, of_lse in zip(plain, of_o, lse.transpose(1, 2).unbind()):
        wanted, wanted_lse = flashcore.attention(
            one[None], keys[None], values[None], layout="bshd", lse=True, **options
        )
        torch.testing.assert_close(mine, wanted[0], atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(of_lse.transpose(0, 1), wanted_lse[0], atol=2e-3, rtol=2e-3)


def test_jagged_tensors_are_compiled_and_have_gradients():
    torch.compiler.reset()
    q, k, v = (x.transpose(1, 2) for x in draw_jagged())
    expected = flashcore.attention(q, k, v, causal=True)
    compiled = torch.compile(flashcore.attention, fullgraph=True, backend="aot_eager")
    actual = compiled(q, k, v, causal=True)
    torch.testing.assert_close(actual.values(), expected.values(), atol=2e-3, rtol=2e-3)
    values = torch.randn(22, 4, 32).half().requires_grad_()
    rows = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 5, 22]))
    with pytest.warns(flashcore.torch.FallbackWarning):
        flashcore.operators.fallback._told.clear()
        flashcore.attention(rows, rows, rows, layout="bshd").values().sum().backward()
    assert values.grad.abs().sum() > 0


def test_jagged_tensors_say_where_rows_are():
    q, k, v = (x.transpose(1, 2) for x in draw_jagged())

    def refuse(match, *tensors, **options):
        with pytest.raises(flashcore.UnsupportedError, match=match):
            flashcore.attention(*tensors, **options)

    ends = torch.tensor([0, 3], dtype=torch.int32)
    refuse("no cu_seqlens_q with jagged", q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends)
    refuse("no bias with jagged", q, k, v, bias=torch.zeros(1, 1))
    refuse("expects k to be a jagged tensor", q, torch.zeros(4, 2, 20, 32).half(), v)
    refuse("expects q to be a jagged tensor", *(x.transpose(1, 2) for x in (q, k, v)))


def test_the_profiler_sees_calls():
    q = torch.randn(1, 2, 16, 32).half()
    with torch.profiler.profile() as profile:
        flashcore.attention(q, q, q)
        flashcore.attention(q, q, q, sinks=torch.ones(2))
    names = [event.name for event in profile.events()]
    assert names.count("flashcore::attention") == 2
