"""flashcore.attention on PyTorch's tensors on a GPU."""

import threading

import pytest
import torch

import flashcore
import flashcore.torch
from criterion import assert_exact_enough
from torch_inputs import make

CAUSAL = {"causal": True}
#: Kernels of each kind: dense, causal, decoding with a workspace, and all scores.
KINDS = {
    "plain": ({"queries": 512, "heads": 8, "batch": 1, "dim": 64}, {}),
    "causal": ({"queries": 300, "dim": 128}, CAUSAL),
    "decode": ({"queries": 1, "keys": 2048, "heads": 8, "heads_kv": 2, "dim": 128}, CAUSAL),
    "scores": ({"queries": 200, "dim": 64}, {"window": (63, 0), "softcap": 20.0, "biased": True}),
}


def of_kind(kind, **changes):
    sizes, options = KINDS[kind]
    q, k, v = make(device="cuda", **{**sizes, **changes})
    options = dict(options)
    if options.pop("biased", False):
        options["bias"] = torch.randn(1, q.shape[1], q.shape[2], k.shape[2], device="cuda").half()
    return (q, k, v), options


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("static", [False, True])
def test_results(kind, dtype, layout, static):
    tensors, options = of_kind(kind, dtype=dtype, layout=layout)
    if "bias" in options and layout == "bshd":
        q, k = tensors[0], tensors[1]
        options["bias"] = torch.randn(1, q.shape[2], q.shape[1], k.shape[1], device="cuda")
    result = flashcore.attention(*tensors, lse=True, layout=layout, static=static, **options)
    assert_exact_enough(result, *tensors, lse=True, layout=layout, **options)


@pytest.mark.parametrize(
    "queries, keys", [(1, 1), (1, 4097), (7, 2000), (17, 33), (129, 1000), (1000, 129)]
)
@pytest.mark.parametrize("causal", [False, "bottom_right", "top_left"])
def test_sizes(queries, keys, causal):
    q, k, v = make(queries=queries, keys=keys, heads=4, heads_kv=2, dim=64, device="cuda")
    result = flashcore.attention(q, k, v, causal=causal, lse=True)
    assert_exact_enough(result, q, k, v, causal=causal, lse=True)


@pytest.mark.parametrize("kind", ["plain", "causal", "decode"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mask", [-1e4, -1e9, torch.finfo(torch.float32).min])
def test_masks_that_are_numbers(kind, dtype, mask):
    """Keys behind a length, and the first ones of every second row."""
    (q, k, v), options = of_kind(kind, dtype=dtype)
    bias = torch.zeros(1, 1, q.shape[2], k.shape[2], device="cuda")
    bias[..., k.shape[2] * 3 // 4 :] = mask
    bias[:, :, 1::2, : k.shape[2] // 8] = mask
    result = flashcore.attention(q, k, v, bias=bias, lse=True, **options)
    # Where a causal row sees masked keys alone, both references sum in their own type.
    seen = slice(k.shape[2] // 8 + 1, None) if options else slice(None)
    rows = [x[:, :, seen] for x in result] if kind == "causal" else result
    q, bias = (q[:, :, seen], bias[:, :, seen]) if kind == "causal" else (q, bias)
    assert_exact_enough(tuple(rows), q, k, v, bias=bias, lse=True, **options)


@pytest.mark.parametrize("kind", ["plain", "decode"])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e6, 4e6])
def test_large_maxima_that_rise_and_fall(kind, size):
    """Scores are those of a float32 bias, so exact, and the error is the same at each size."""
    (q, k, v), options = of_kind(kind)
    number = torch.arange(k.shape[2], device="cuda") // 64
    bias = (size + 0.5 * (5 * number % 8))[None, None, None]
    result = flashcore.attention(q * 0, k, v, bias=bias, lse=True, **options)
    weights = torch.softmax(bias.double() - size, -1)
    expected = (weights @ v.double().repeat_interleave(q.shape[1] // v.shape[1], 1)).expand(q.shape)
    torch.testing.assert_close(result[0].double(), expected, atol=1e-3, rtol=0)


def views(q):
    """Views of the same values, and memory that kernels may not take as it is."""
    wide = q.new_zeros(*q.shape[:3], q.shape[3] + 8)
    wide[..., 1:-7] = q
    apart = q.new_zeros(*q.shape[:3], 2 * q.shape[3])
    apart[..., ::2] = q
    flat = q.new_zeros(q.numel() + 1)
    flat[1:] = q.flatten()
    return {
        "transposed": q.transpose(1, 2).contiguous().transpose(1, 2),
        "unaligned rows": wide[..., 1:-7],
        "elements apart": apart[..., ::2],
        "unaligned start": flat[1:].view(q.shape),
        "every second row": q.repeat_interleave(2, 2)[:, :, ::2],
        "heads last": q.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
    }


@pytest.mark.parametrize("name", list(views(torch.zeros(1, 1, 1, 8))))
def test_views_have_the_bits_of_contiguous_tensors(name):
    q, k, v = make(queries=100, keys=120, dim=64, device="cuda")
    expected = flashcore.attention(q, k, v, causal=True)
    for tensors in ((views(q)[name], k, v), (q, views(k)[name], v), (q, k, views(v)[name])):
        assert torch.equal(flashcore.attention(*tensors, causal=True), expected)


def test_expanded_tensors():
    q, k, v = make(batch=3, queries=100, heads=4, heads_kv=1, dim=64, device="cuda")
    k, v = (x[:1].expand(3, 4, -1, -1) for x in (k, v))
    expected = flashcore.attention(q, k.contiguous(), v.contiguous())
    assert torch.equal(flashcore.attention(q, k, v), expected)
    bias = torch.randn(1, 1, 1, 100, device="cuda").expand(3, 4, 100, 100)
    biased = flashcore.attention(q, k, v, bias=bias)
    assert torch.equal(biased, flashcore.attention(q, k, v, bias=bias.contiguous()))


def test_out_is_written():
    (q, k, v), options = of_kind("causal")
    out = torch.full_like(q, 7.0)
    assert flashcore.attention(q, k, v, out=out, **options) is out
    assert torch.equal(out, flashcore.attention(q, k, v, **options))


def test_empty_tensors():
    for sizes in ({"batch": 0}, {"queries": 0, "keys": 8}):
        q, k, v = make(device="cuda", **sizes)
        assert flashcore.attention(q, k, v).shape == q.shape
    q, k, v = make(keys=8, device="cuda")
    o, lse = flashcore.attention(q, k[:, :, :0], v[:, :, :0], lse=True)
    assert (o == 0).all() and (lse == -torch.inf).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_call_gives_the_same_bits(kind):
    tensors, options = of_kind(kind)
    first = flashcore.attention(*tensors, **options)
    for _ in range(20):
        assert torch.equal(flashcore.attention(*tensors, **options), first)


def test_a_call_keeps_no_memory():
    (q, k, v), options = of_kind("decode")
    flashcore.attention(q, k, v, **options)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(200):
        flashcore.attention(q, k, v, **options)
    assert torch.cuda.memory_allocated() == before


# Streams and graphs ---------------------------------------------------------

#: About 50 ms of a GPU's clock.
LONG = 100_000_000


def run_late(stream, tensors, fresh, options, where):
    """Runs after work that takes long and then replaces the first tensor."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        tensors[0].copy_(fresh)
    if where:
        return flashcore.attention(*tensors, **options, **where)
    with torch.cuda.stream(stream):
        return flashcore.attention(*tensors, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [None, "object", "handle"])
def test_a_call_runs_in_its_stream(kind, given):
    tensors, options = of_kind(kind)
    fresh = torch.randn_like(tensors[0])
    expected = flashcore.attention(fresh, *tensors[1:], **options)
    stream = torch.cuda.Stream()
    where = {None: {}, "object": {"stream": stream}, "handle": {"stream": stream.cuda_stream}}[
        given
    ]
    torch.cuda.synchronize()
    o = run_late(stream, tensors, fresh, options, where)
    assert not stream.query(), "the call waited for its stream"
    stream.synchronize()
    assert torch.equal(o, expected)


def test_threads_with_streams_of_their_own():
    inputs = [of_kind(kind) for kind in KINDS] * 2
    expected = [flashcore.attention(*tensors, **options) for tensors, options in inputs]
    torch.cuda.synchronize()
    wrong = []

    def work(number):
        tensors, options = inputs[number]
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                o = flashcore.attention(*tensors, **options)
                torch.cuda.current_stream().synchronize()
                if not torch.equal(o, expected[number]):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_replay_with_changed_inputs(kind):
    tensors, options = of_kind(kind)
    flashcore.attention(*tensors, **options)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flashcore.attention(*tensors, **options)
    for _ in range(3):
        for tensor in tensors:
            tensor.normal_()
        graph.replay()
        assert torch.equal(o, flashcore.attention(*tensors, **options))


def test_merges_and_their_graphs():
    q, k, v = make(device="cuda", queries=100, keys=600)
    parts = [
        flashcore.attention(q, k[:, :, a:b], v[:, :, a:b], lse=True)
        for a, b in ((0, 250), (250, 600))
    ]
    outputs, lses = (torch.stack(each) for each in zip(*parts))
    o, lse = flashcore.merge(outputs, lses)
    whole, whole_lse = flashcore.attention(q, k, v, lse=True)
    torch.testing.assert_close(o, whole, atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(lse, whole_lse, atol=1e-4, rtol=1e-5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        again, _ = flashcore.merge(outputs, lses)
    outputs.zero_()
    graph.replay()
    assert (again == 0).all()


def test_a_graph_needs_a_loaded_kernel():
    q, k, v = make(queries=64, dim=72, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(flashcore.Error, match="call flashcore.attention once before capturing"):
        with torch.cuda.graph(graph):
            flashcore.attention(q, k, v, softcap=11.0)
    flashcore.attention(q, k, v, softcap=11.0)


# torch.compile and torch.export ---------------------------------------------


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune-no-cudagraphs"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled(mode, kind):
    tensors, options = of_kind(kind)
    options["bias"] = options.pop("bias", None)

    def call(q, k, v):
        return flashcore.attention(q * 2, k, v, **options) + 1

    with torch.no_grad():
        compiled = torch.compile(call, fullgraph=True, mode=mode)
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            torch.testing.assert_close(compiled(*tensors), call(*tensors), atol=2e-3, rtol=2e-3)


def test_compiled_with_dynamic_sizes():
    compiled = torch.compile(
        lambda q, k, v: flashcore.attention(q, k, v, causal=True), fullgraph=True, dynamic=True
    )
    for batch, queries in ((4, 64), (3, 100), (5, 257)):
        q, k, v = make(batch=batch, queries=queries, dim=64, device="cuda")
        assert torch.equal(compiled(q, k, v), flashcore.attention(q, k, v, causal=True))


def test_exported():
    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return flashcore.attention(q, k, v, causal=True)

    seqlen = torch.export.Dim("seqlen", min=2, max=4096)
    inputs = make(queries=64, dim=64, device="cuda")
    sizes = {name: {2: seqlen} for name in "qkv"}
    program = torch.export.export(Model(), inputs, dynamic_shapes=sizes)
    q, k, v = make(queries=333, dim=64, device="cuda")
    assert torch.equal(program.module()(q, k, v), flashcore.attention(q, k, v, causal=True))


@pytest.mark.parametrize("operator", ["attention", "attention_lse"])
def test_operator_passes_opcheck(operator):
    overload = getattr(torch.ops.flashcore, operator).default
    q, k, v = make(queries=64, keys=96, dim=64, device="cuda")
    torch.library.opcheck(overload, (q, k, v), {"causal": "bottom_right", "memory": "bshd"})


def test_lives_with_tritons_compiler():
    """Inductor compiles with Triton's LLVM while ours is in the process."""
    q, k, v = make(queries=77, dim=40, device="cuda")
    scale = torch.compile(lambda x: (x * 3).sin() + x.cos())
    o = flashcore.attention(scale(q), k, v, static=True)
    assert_exact_enough(o, scale(q), k, v)
