"""FlashCore in PyTorch's registry of flash attentions, on the dispatch keys of the CPU.

PyTorch has no kernels of its flash operators there: the tests register what stands for
them. gpu/test_gpu_registry.py has those of a GPU.
"""

import contextlib
import math
import warnings

import pytest

torch = pytest.importorskip("torch", "2.11", reason="needs PyTorch 2.11")

import torch.nn.attention as torch_attention

# Before anything is activated, as models do.
from torch.nn.functional import scaled_dot_product_attention

import flashcore.torch
from flashcore.torch import registry
from torch.nn.attention import varlen
from torch_inputs import assert_same_as, make, reference
from torch_taken import count_taken

aten = torch.ops.aten
HAS_PAGES = "block_table" in str(aten._flash_attention_forward.default._schema)


def theirs(name, seen):
    def kernel(*arguments, **options):
        seen.append((name, arguments, options))
        query = arguments[0]
        empty = query.new_empty(0)
        if name.endswith("inplace"):
            return query.new_full((1,), 7.0)
        if name.startswith("_scaled"):
            return query + 1, empty, None, None, 1, 1, empty, empty, empty
        return query + 1, empty, empty, empty, empty

    return kernel


@contextlib.contextmanager
def activated(seen):
    """FlashCore in front of the kernels for the CPU; those of the flash operators add 1."""
    library = torch.library.Library("aten", "IMPL")
    for name in registry._FLASH:
        if hasattr(aten, name):
            library.impl(name, theirs(name, seen), "CPU", allow_override=True)
    handle = registry.install("CPU", emulate=True)
    try:
        yield
    finally:
        handle.remove()
        library._destroy()


@pytest.fixture
def seen(monkeypatch):
    """Calls that reached the kernels of the flash operators that were there before."""
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    seen = []
    with activated(seen):
        yield seen


@pytest.fixture
def taken(seen, monkeypatch):
    """The options of the calls that FlashCore computes."""
    return count_taken(monkeypatch)


# scaled_dot_product_attention ---------------------------------------------------


@pytest.mark.parametrize("call", [scaled_dot_product_attention, aten.scaled_dot_product_attention], ids=["F", "aten"])
@pytest.mark.parametrize("inference", [False, True])
def test_all_who_call_the_operator_reach_it(taken, call, inference):
    q, k, v = make(2, 4, 4, 20, 30)
    mask = torch.rand(20, 30) < 0.8
    with torch.inference_mode(inference):
        assert_same_as(call(q, k, v), reference(q, k, v))
        bias = torch.where(mask, 0.0, -math.inf)
        assert_same_as(call(q, k, v, mask), reference(q, k, v, bias=bias))
        assert_same_as(
            call(q, k[:, :2], v[:, :2], scale=0.3, enable_gqa=True),
            reference(q, k[:, :2], v[:, :2], scale=0.3),
        )
    assert len(taken) == 3 and not any(options.get("lse") for options in taken)


def test_a_layer_reaches_it(taken):
    layer = torch.nn.MultiheadAttention(64, 2, batch_first=True).half().train()
    x = torch.randn(2, 20, 64).half()
    with torch.no_grad():
        ours, _ = layer(x, x, x, need_weights=False)
    assert len(taken) == 1
    expected, _ = layer.double()(x.double(), x.double(), x.double(), need_weights=False)
    assert_same_as(ours, expected.detach(), 1e-2)


def test_gradients_are_those_of_pytorch(taken, recwarn):
    q, k, v = (x.requires_grad_() for x in make(1, 2, 2, 20))
    scaled_dot_product_attention(q, k, v).sum().backward()
    assert q.grad is not None and not taken
    assert not [w for w in recwarn if issubclass(w.category, flashcore.torch.FallbackWarning)]
    with torch.no_grad():
        scaled_dot_product_attention(q, k, v)
    assert len(taken) == 1


def test_what_is_traced_is_an_operator_of_pytorch(taken):
    q, k, v = make(1, 2, 2, 20)
    compiled = torch.compile(lambda *x: scaled_dot_product_attention(*x), backend="aot_eager", fullgraph=True)
    assert_same_as(compiled(q, k, v), reference(q, k, v))
    assert not taken


def test_a_program_may_do_without_the_flash_backend(taken):
    q, k, v = make(1, 2, 2, 20)
    with torch_attention.sdpa_kernel(torch_attention.SDPBackend.MATH):
        assert_same_as(scaled_dot_product_attention(q, k, v), reference(q, k, v))
    assert not taken


def test_what_it_does_not_take_goes_to_pytorch(taken):
    q, k, v = (x.float() for x in make(1, 2, 2, 20))
    with pytest.warns(flashcore.torch.FallbackWarning, match="query is of torch.float32"):
        o = scaled_dot_product_attention(q, k, v)
    assert_same_as(o, reference(q, k, v))
    with warnings.catch_warnings():
        warnings.simplefilter("error", flashcore.torch.FallbackWarning)
        scaled_dot_product_attention(q, k, v)
    # The drop-in function falls back to an operator that FlashCore stands in front of.
    assert_same_as(flashcore.torch.scaled_dot_product_attention(q, k, v), reference(q, k, v))
    assert not taken


# The flash operators -----------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.2])
def test_dense(taken, seen, causal, scale):
    q, k, v = make(2, 4, 2, 33, 33)
    o, lse, cu_q, cu_k, rows, keys, seed, offset, mask = aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, causal, scale=scale
    )
    expected, expected_lse = reference(q, k, v, causal=causal, scale=scale, lse=True)
    assert_same_as(o, expected)
    assert_same_as(lse, expected_lse)
    assert (cu_q, cu_k, rows, keys) == (None, None, 33, 33) and mask.numel() == 0
    assert seed.dtype == offset.dtype == torch.uint64 and lse.is_contiguous()
    assert len(taken) == 1 and not seen


def test_dense_keeps_the_order_of_memory(taken):
    q, k, v = (x.transpose(1, 2) for x in make(2, 4, 4, 20, layout="bshd"))
    o = aten._scaled_dot_product_flash_attention(q, k, v)[0]
    assert o.stride() == q.stride()
    assert_same_as(o, reference(q, k, v))


@pytest.mark.parametrize("window", [(None, None), (5, 3), (-1, 0), (7, -1)])
def test_rows_of_a_batch(taken, window):
    q, k, v = make(2, 4, 2, 20, 33, layout="bshd")
    left, right = window
    o, lse, *_ = aten._flash_attention_forward(
        q, k, v, None, None, 20, 33, 0.0, False, False, window_size_left=left, window_size_right=right
    )
    bounds = tuple(None if side == -1 else side for side in window)
    expected, expected_lse = reference(q, k, v, window=bounds, layout="bshd", lse=True)
    assert_same_as(o, expected)
    assert_same_as(lse, expected_lse)


def test_rows_without_keys_have_the_lse_of_flash_attn(taken):
    q, k, v = make(1, 2, 2, 20, 5, layout="bshd")
    o, lse, *_ = aten._flash_attention_forward(q, k, v, None, None, 20, 5, 0.0, True, False)
    assert (lse[..., :15] == math.inf).all() and (o[:, :15] == 0).all()
    assert_same_as(lse[..., 15:], reference(q[:, 15:], k, v, causal=True, lse=True, layout="bshd")[1])


def test_slopes(taken):
    q, k, v = make(1, 2, 2, 20, layout="bshd")
    slopes = torch.tensor([0.5, 0.125])
    o = aten._flash_attention_forward(q, k, v, None, None, 20, 20, 0.0, False, False, alibi_slopes=slopes)[0]
    i, j = torch.arange(20)[:, None], torch.arange(20)
    bias = -slopes[:, None, None] * (i - j).abs()
    assert_same_as(o, reference(q, k, v, bias=bias, layout="bshd"))


LENGTHS = [(7, 9), (1, 20), (12, 12)]


def sequences():
    """q, k and v of sequences back to back, and where they begin."""
    q, k, v = make(1, 4, 2, 20, 41, layout="bshd")
    ends = [[0], [0]]
    for pair in LENGTHS:
        for side, count in zip(ends, pair):
            side.append(side[-1] + count)
    return q[0], k[0], v[0], *(torch.tensor(side, dtype=torch.int32) for side in ends)


def each(q, k, v, cu_q, cu_k):
    for i in range(len(LENGTHS)):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        yield rows, q[None, rows], k[None, keys], v[None, keys]


def grouped():
    return {"enable_gqa": True} if HAS_PAGES else {}


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (5, 0), (4, 2)])
def test_varlen(taken, seen, window):
    q, k, v, cu_q, cu_k = sequences()
    o, lse = varlen.varlen_attn(
        q, k, v, cu_q, cu_k, 12, 20, window_size=window, scale=0.3,
        return_aux=varlen.AuxRequest(lse=True), **grouped(),
    )  # fmt: skip
    bounds = tuple(None if side == -1 else side for side in window)
    for rows, *parts in each(q, k, v, cu_q, cu_k):
        expected, expected_lse = reference(*parts, window=bounds, scale=0.3, layout="bshd", lse=True)
        assert_same_as(o[None, rows], expected)
        assert_same_as(lse[None, :, rows], expected_lse)
    assert len(taken) == 1 and not seen


@pytest.mark.skipif(not HAS_PAGES, reason="needs a varlen_attn with block_table")
@pytest.mark.parametrize("into", [False, True])
def test_varlen_reads_pages(taken, seen, into):
    q, k, v, cu_q, cu_k = sequences()
    size, table = 8, torch.tensor([[3, 1, 7], [2, 8, 5], [6, 0, 4]], dtype=torch.int32)
    pages = [torch.zeros(9, size, 2, q.shape[-1], dtype=q.dtype) for _ in "kv"]
    for i, (_, keys) in enumerate(LENGTHS):
        for j in range(keys):
            for pool, packed in zip(pages, (k, v)):
                pool[table[i, j // size], j % size] = packed[cu_k[i] + j]
    used = torch.tensor([keys for _, keys in LENGTHS], dtype=torch.int32)
    options = {"seqused_k": used, "block_table": table, "window_size": (-1, 0), "num_splits": 1, **grouped()}
    if into:
        o = torch.full_like(q, math.nan)
        assert varlen.varlen_attn_out(o, q, *pages, cu_q, None, 12, 20, **options) is o
    else:
        o = varlen.varlen_attn(q, *pages, cu_q, None, 12, 20, **options)
    for rows, *parts in each(q, k, v, cu_q, cu_k):
        assert_same_as(o[None, rows], reference(*parts, causal=True, layout="bshd"))
    assert len(taken) == 1 and taken[0]["batch_invariant"] and not seen


REFUSED = [
    ({"dropout_p": 0.5}, {}, "it has dropout"),
    ({"return_debug_mask": True}, {}, "the mask of a dropout"),
    ({}, {"alibi_slopes": torch.zeros(1, 2)}, "those of batch entries"),
    ({}, {"scale": -1.0}, "expects scale to be a positive number"),
    ({"k": torch.zeros(1, 20, 2, 16).half()}, {}, "head_dim"),
    ({"q": torch.zeros(1, 20, 2, 32)}, {}, "query is of torch.float32"),
]


@pytest.mark.parametrize("arguments, options, reason", REFUSED)
def test_the_rest_goes_to_the_kernel_that_was_there(seen, arguments, options, reason):
    q, k, v = make(1, 2, 2, 20, layout="bshd")
    given = {
        "q": q, "k": k, "v": v, "cu_q": None, "cu_k": None, "max_q": 20, "max_k": 20,
        "dropout_p": 0.0, "is_causal": False, "return_debug_mask": False, **arguments,
    }  # fmt: skip
    with pytest.warns(flashcore.torch.FallbackWarning, match=reason):
        o = aten._flash_attention_forward(*given.values(), **options)[0]
    ((name, passed, named),) = seen
    assert name == "_flash_attention_forward" and torch.equal(o, given["q"] + 1)
    assert list(passed[3:]) == list(given.values())[3:] and named.keys() == options.keys()
    for one, other in zip((*passed[:3], *named.values()), (*list(given.values())[:3], *options.values())):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def test_the_dense_operator_falls_back_too(seen):
    q, k, v = make(1, 2, 2, 20)
    with pytest.warns(flashcore.torch.FallbackWarning, match="it has dropout"):
        o = aten._scaled_dot_product_flash_attention(q, k, v, 0.5, True, scale=0.5)[0]
    ((name, arguments, options),) = seen
    assert torch.equal(o, q + 1) and arguments[3:5] == (0.5, True) and options == {"scale": 0.5}


# The registry -------------------------------------------------------------------


def test_pytorch_activates_and_restores_it():
    assert "flashcore" in torch_attention.list_flash_attention_impls()
    try:
        torch_attention.activate_flash_attention_impl("flashcore")
    except flashcore.Error as error:
        pytest.skip(str(error))  # a PyTorch that was built without CUDA
    try:
        assert torch_attention.current_flash_attention_impl() == "flashcore"
        torch_attention.activate_flash_attention_impl("flashcore")  # in the place of itself
    finally:
        torch_attention.restore_flash_attention_impl()
    assert torch_attention.current_flash_attention_impl() is None


def test_what_is_removed_is_gone():
    q, k, v = make(1, 2, 2, 20)
    calls = []
    with activated(calls):
        aten._scaled_dot_product_flash_attention(q, k, v)
        assert not calls
        inner = []
        with activated(inner):
            aten._scaled_dot_product_flash_attention(q, k, v)
        aten._scaled_dot_product_flash_attention(q, k, v)
    assert not calls
    with pytest.raises(NotImplementedError):
        aten._scaled_dot_product_flash_attention(q, k, v)


def test_a_pytorch_without_kernels_is_refused():
    with pytest.raises(flashcore.Error, match="expects a PyTorch with a kernel of aten::_"):
        registry.install("XPU")
