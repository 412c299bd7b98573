"""FlashCore in PyTorch's registry of flash attentions on a GPU, with PyTorch's own kernels behind it."""

import math

import pytest
import torch

if not hasattr(torch.nn.attention, "register_flash_attention_impl"):
    pytest.skip("needs PyTorch 2.11", allow_module_level=True)

# Before anything is activated, as models do.
from torch.nn.functional import scaled_dot_product_attention

import flashcore.torch
from criterion import assert_exact_enough
from torch.nn.attention import SDPBackend, sdpa_kernel, varlen
from torch_inputs import assert_same_as, draw_sequences, make, reference, sequences
from torch_taken import count_taken

aten = torch.ops.aten
HAS_PAGES = "block_table" in str(aten._flash_attention_forward.default._schema)
GROUPED = {"enable_gqa": True} if HAS_PAGES else {}
LENGTHS = [(7, 9), (1, 130), (64, 64), (113, 203)]


@pytest.fixture(autouse=True)
def activated(monkeypatch):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    torch.nn.attention.activate_flash_attention_impl("flashcore")
    yield
    torch.nn.attention.restore_flash_attention_impl()


@pytest.fixture
def taken(monkeypatch):
    """The options of the calls that FlashCore computes."""
    return count_taken(monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_a_function_imported_before(taken, dtype, dim, causal):
    q, k, v = make(queries=200, keys=200, dim=dim, heads=4, heads_kv=2, dtype=dtype, device="cuda")
    o = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    assert_exact_enough(o, q, k, v, causal="top_left" if causal else None)
    assert len(taken) == 1 and "lse" not in taken[0]


def test_masks(taken):
    q, k, v = make(queries=100, keys=130, dim=64, device="cuda")
    keep = torch.rand(100, 130, device="cuda") < 0.8
    o = scaled_dot_product_attention(q, k, v, keep)
    bias = torch.zeros(keep.shape, device="cuda").masked_fill(~keep, -math.inf)
    assert_exact_enough(o, q, k, v, bias=bias)
    assert len(taken) == 1


def test_inference_mode(taken):
    with torch.inference_mode():
        q, k, v = make(queries=100, dim=64, device="cuda")
        assert_exact_enough(scaled_dot_product_attention(q, k, v), q, k, v)
    assert len(taken) == 1


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 128])
def test_gradients(taken, causal, dim):
    """The forward pass is FlashCore's, the backward pass PyTorch's flash kernel's, on our lse."""
    q, k, v = (x.requires_grad_() for x in make(queries=200, keys=200, dim=dim, heads=4, device="cuda"))
    g = torch.randn_like(q)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        o = scaled_dot_product_attention(q, k, v, is_causal=causal)
        ours = torch.autograd.grad(o, (q, k, v), g)
    assert len(taken) == 1 and taken[0]["lse"]
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    expected = reference(*exact, causal="top_left" if causal else None)
    assert_same_as(o.detach(), expected.detach())
    for mine, wanted in zip(ours, torch.autograd.grad(expected, exact, g.double())):
        assert_same_as(mine, wanted, 2e-2)


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_compiled(taken, needs_gradient):
    """What was compiled calls the flash operator, which FlashCore computes with an lse."""
    q, k, v = make(queries=200, keys=200, dim=64, heads=4, device="cuda")
    q.requires_grad_(needs_gradient)
    compiled = torch.compile(lambda *x: scaled_dot_product_attention(*x, is_causal=True), fullgraph=True)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        o = compiled(q, k, v)
        if needs_gradient:
            o.sum().backward()
            assert torch.isfinite(q.grad).all() and q.grad.abs().sum() > 0
    assert_exact_enough(o.detach(), *(x.detach() for x in (q, k, v)), causal="top_left")
    assert taken and taken[-1]["lse"]


def test_a_graph(taken):
    q, k, v = make(queries=200, dim=64, device="cuda")
    scaled_dot_product_attention(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = scaled_dot_product_attention(q, k, v)
    q.normal_()
    graph.replay()
    assert_exact_enough(o, q, k, v)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (30, 0), (20, 5)])
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_varlen(taken, window, needs_gradient):
    q, k, v, cu_q, cu_k = draw_sequences(LENGTHS, heads_kv=2 if GROUPED else 4, device="cuda")
    for x in (q, k, v):
        x.requires_grad_(needs_gradient)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        o, lse = varlen.varlen_attn(
            q, k, v, cu_q, cu_k, 113, 203, window_size=window,
            return_aux=varlen.AuxRequest(lse=True), **GROUPED,
        )  # fmt: skip
        if needs_gradient:
            g = torch.randn_like(o)
            ours = torch.autograd.grad(o, (q, k, v), g)
    bounds = tuple(None if side == -1 else side for side in window)
    exact = [x.detach().double().requires_grad_(needs_gradient) for x in (q, k, v)]
    total = 0.0
    for *parts, rows in sequences(*exact, LENGTHS):
        expected, expected_lse = reference(*parts, window=bounds, layout="bshd", lse=True)
        assert_same_as(o[None, rows].detach(), expected.detach())
        assert_same_as(lse[None, :, rows], expected_lse.detach())
        if needs_gradient:
            total = total + (expected * g[None, rows].double()).sum()
    if needs_gradient:
        for mine, wanted in zip(ours, torch.autograd.grad(total, exact)):
            assert_same_as(mine, wanted, 2e-2)
    assert len(taken) == 1


@pytest.mark.skipif(not HAS_PAGES, reason="needs a varlen_attn with block_table")
@pytest.mark.parametrize("into", [False, True])
def test_varlen_reads_pages(taken, into):
    size, heads = 64, 2
    lengths = [keys for _, keys in LENGTHS]
    q, _, _, cu_q, _ = draw_sequences(LENGTHS, heads_kv=heads, device="cuda")
    width = -(-max(lengths) // size)
    table = torch.randperm(len(lengths) * width, device="cuda").to(torch.int32).view(len(lengths), width)
    pages = [q.new_empty(table.numel(), size, heads, q.shape[-1]).normal_() for _ in "kv"]
    used = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    options = {"seqused_k": used, "block_table": table, "window_size": (-1, 0), **GROUPED}
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        if into:
            o = torch.full_like(q, math.nan)
            varlen.varlen_attn_out(o, q, *pages, cu_q, None, 113, max(lengths), **options)
        else:
            o = varlen.varlen_attn(q, *pages, cu_q, None, 113, max(lengths), **options)
    for i, keys in enumerate(lengths):
        rows = slice(int(cu_q[i]), int(cu_q[i + 1]))
        parts = [pool[table[i].long()].flatten(0, 1)[None, :keys] for pool in pages]
        assert_same_as(o[None, rows], reference(q[None, rows], *parts, causal=True, layout="bshd"))
    assert len(taken) == 1


def test_dropout_is_pytorchs(taken):
    q, k, v = (x.requires_grad_() for x in make(queries=64, dim=64, device="cuda"))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        with pytest.warns(flashcore.torch.FallbackWarning, match="it has dropout"):
            o = scaled_dot_product_attention(q, k, v, dropout_p=0.3)
        o.sum().backward()
    assert not taken and torch.isfinite(q.grad).all()


def test_float32_goes_to_pytorch(taken):
    q, k, v = (x.float() for x in make(queries=64, dim=64, device="cuda"))
    with pytest.warns(flashcore.torch.FallbackWarning, match="query is of torch.float32"):
        o = scaled_dot_product_attention(q, k, v)
    assert_same_as(o, reference(q, k, v))
    assert not taken


def test_streams_are_those_of_the_caller(taken):
    q, k, v = make(queries=200, dim=64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        o = scaled_dot_product_attention(q * 2, k, v)
    stream.synchronize()
    assert_exact_enough(o, q * 2, k, v)


def test_restored():
    q, k, v = make(queries=64, dim=64, device="cuda")
    torch.nn.attention.restore_flash_attention_impl()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        o = aten._scaled_dot_product_flash_attention(q, k, v)[0]
    assert_same_as(o, reference(q, k, v))
    torch.nn.attention.activate_flash_attention_impl("flashcore")
    assert torch.nn.attention.current_flash_attention_impl() == "flashcore"
