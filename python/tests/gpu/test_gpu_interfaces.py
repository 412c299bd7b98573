"""scaled_dot_product_attention and flash-attn's functions on a GPU."""

import functools
import warnings

import pytest
import torch
import torch.nn.functional as F

import flashcore
import flashcore.torch
from criterion import assert_exact_enough
from flashcore import flash_attn
from torch_inputs import assert_same_as, draw_sequences, make, no_host_reads, reference, sequences

sdpa = flashcore.torch.scaled_dot_product_attention
LENGTHS = [(1, 1), (1, 257), (64, 64), (113, 203), (203, 113), (1024, 1023)]


@pytest.fixture(autouse=True)
def no_fallback():
    with warnings.catch_warnings():
        warnings.simplefilter("error", flashcore.torch.FallbackWarning)
        yield


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("queries, keys", LENGTHS)
@pytest.mark.parametrize("dim", [16, 40, 64, 128, 256])
@pytest.mark.parametrize("mask", [None, "causal", "boolean", "float", "keys"])
def test_sdpa(dtype, queries, keys, dim, mask):
    tensors = make(
        queries=queries, keys=keys, dim=dim, heads=4, heads_kv=2, dtype=dtype, device="cuda"
    )
    keep = torch.rand(queries, keys, device="cuda") < 0.8
    hidden = torch.zeros(keep.shape, device="cuda").masked_fill(~keep, -torch.inf)
    scores = torch.randn(2, 4, queries, keys, device="cuda", dtype=dtype)
    of_keys = torch.rand(2, 1, 1, keys, device="cuda") < 0.8
    theirs, formula = {
        None: ({}, {}),
        "causal": ({"is_causal": True}, {"causal": "top_left"}),
        "boolean": ({"attn_mask": keep}, {"bias": hidden}),
        "float": ({"attn_mask": scores}, {"bias": scores}),
        "keys": (
            {"attn_mask": of_keys},
            {"bias": torch.zeros(of_keys.shape, device="cuda").masked_fill(~of_keys, -torch.inf)},
        ),
    }[mask]
    o = sdpa(*tensors, enable_gqa=True, **theirs)
    assert_exact_enough(o, *tensors, **formula)


def test_sdpa_switch_in_a_model():
    layer = torch.nn.TransformerEncoderLayer(128, 4, dropout=0.0, batch_first=True)
    layer = layer.cuda().half().eval()
    x = torch.randn(2, 200, 128, device="cuda").half()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            expected = layer(x)
            with flashcore.torch.sdpa():
                assert (
                    F.scaled_dot_product_attention is not torch._C._nn.scaled_dot_product_attention
                )
                actual = layer(x)
                compiled = torch.compile(layer, fullgraph=True)(x)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    torch.testing.assert_close(actual, expected, atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(compiled, expected, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("queries, keys", LENGTHS)
@pytest.mark.parametrize("dim", [32, 59, 64, 111, 128])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature", ["plain", "window", "softcap", "alibi"])
def test_flash_attn(dtype, queries, keys, dim, causal, feature):
    q, k, v = make(
        queries=queries, keys=keys, dim=dim, heads=4, heads_kv=2, dtype=dtype, device="cuda",
        layout="bshd",
    )  # fmt: skip
    options, formula = {}, {"causal": causal}
    if feature == "window":
        options["window_size"] = (keys // 3, keys // 5)
        formula["window"] = (keys // 3, None if causal else keys // 5)
    elif feature == "softcap":
        options["softcap"] = formula["softcap"] = 15.0
    elif feature == "alibi":
        options["alibi_slopes"] = torch.rand(4, device="cuda") * 0.3
        i = torch.arange(queries, device="cuda")[:, None] + keys - queries
        distance = (i - torch.arange(keys, device="cuda")).abs()
        formula["bias"] = -options["alibi_slopes"][:, None, None] * distance
    out, lse, _ = flash_attn.flash_attn_func(
        q, k, v, causal=causal, return_attn_probs=True, **options
    )
    assert_exact_enough((out, lse), q, k, v, lse=True, layout="bshd", **formula)


def test_packed_flash_attn():
    q, k, v = make(queries=300, dim=64, heads=4, device="cuda", layout="bshd")
    out = flash_attn.flash_attn_func(q, k, v, causal=True)
    qkv, kv = torch.stack([q, k, v], 2), torch.stack([k, v], 2)
    assert torch.equal(flash_attn.flash_attn_qkvpacked_func(qkv, causal=True), out)
    assert torch.equal(flash_attn.flash_attn_kvpacked_func(q, kv, causal=True), out)


# Several lengths ------------------------------------------------------------

SEQUENCES = [(70, 70), (0, 0), (1, 333), (240, 117), (0, 20), (9, 0), (529, 700)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dim", [16, 64, 111, 128])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature", ["plain", "window", "softcap", "alibi"])
def test_flash_attn_varlen(dtype, dim, causal, feature):
    q, k, v, cu_q, cu_k = draw_sequences(SEQUENCES, dim=dim, dtype=dtype, device="cuda")
    options, formula = {}, {"causal": causal}
    if feature == "window":
        options["window_size"] = (50, 20)
        formula["window"] = (50, None if causal else 20)
    elif feature == "softcap":
        options["softcap"] = formula["softcap"] = 15.0
    elif feature == "alibi":
        options["alibi_slopes"] = torch.rand(4, device="cuda") * 0.3
    call = functools.partial(
        flash_attn.flash_attn_varlen_func, q, k, v, cu_q, cu_k, 529, 700, causal=causal,
        return_attn_probs=True, **options,
    )  # fmt: skip
    with no_host_reads("cuda"):
        out, lse, _ = call()
    for *parts, rows in sequences(q, k, v, SEQUENCES):
        if rows.start == rows.stop:
            continue
        if feature == "alibi":
            sizes = [x.shape[1] for x in parts[:2]]
            formula["bias"] = flash_attn._alibi(options["alibi_slopes"], *sizes)
        actual = (out[None, rows], lse[None, :, rows])
        assert_exact_enough(actual, *parts, lse=True, layout="bshd", **formula)
    assert torch.equal(call()[0], out)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("queries", [1, 5, 200])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 128])
def test_flash_attn_cache(dtype, queries, causal, dim):
    """New rows go behind those that are there; what lies behind them is NaN."""
    q, new_k, new_v = make(
        3, 4, 2, queries, queries, dim, None, dtype, layout="bshd", device="cuda"
    )
    _, k, v = make(3, 4, 2, 1, 2000, dim, None, dtype, layout="bshd", device="cuda", seed=1)
    lengths = [1800, 0, 517]
    for i, n in enumerate(lengths):
        k[i, n:] = v[i, n:] = torch.nan
    used = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    with no_host_reads("cuda"):
        out, lse = flash_attn.flash_attn_with_kvcache(
            q, k, v, new_k, new_v, cache_seqlens=used, causal=causal, return_softmax_lse=True
        )
    for i, n in enumerate(lengths):
        one, end = slice(i, i + 1), n + queries
        assert torch.equal(k[i, n:end], new_k[i]) and torch.equal(v[i, n:end], new_v[i])
        assert_exact_enough(
            (out[one], lse[one]), q[one], k[one, :end], v[one, :end], lse=True, layout="bshd",
            causal=causal,
        )  # fmt: skip


def test_a_graph_of_a_cache_follows_its_lengths():
    q, new_k, new_v = make(2, 4, 2, 1, dim=64, layout="bshd", device="cuda")
    _, k, v = make(2, 4, 2, 1, 300, dim=64, layout="bshd", device="cuda", seed=1)
    used = torch.tensor([5, 100], dtype=torch.int32, device="cuda")

    def call():
        return flash_attn.flash_attn_with_kvcache(q, k, v, new_k, new_v, cache_seqlens=used)

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    used.copy_(torch.tensor([200, 7]))
    graph.replay()
    assert torch.equal(out, call())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("queries, keys", [*LENGTHS, (1, 4000)])
@pytest.mark.parametrize("window", [None, 100])
def test_sinks(dtype, queries, keys, window):
    q, k, v = make(queries=queries, keys=keys, dim=64, heads=8, heads_kv=1, dtype=dtype,
                   device="cuda")  # fmt: skip
    sinks = torch.randn(8, device="cuda")
    o, lse = flashcore.attention(q, k, v, causal=True, window=window, sinks=sinks, lse=True)
    exact, of_keys = reference(q, k, v, causal=True, window=window, lse=True, dtype=torch.float32)
    whole = torch.logaddexp(of_keys, sinks[:, None])
    tolerance = 4 * torch.finfo(dtype).eps
    assert_same_as(o, exact * torch.exp(of_keys - whole)[..., None], tolerance)
    assert_same_as(lse, whole, tolerance)
