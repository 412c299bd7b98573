"""flash-attn's functions for several lengths and for caches, and sinks of Transformers."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import flashcore
from flashcore import flash_attn
from flashcore.operators.fallback import attention_by_torch
from torch_inputs import (
    assert_same_as, check_dropped, draw_sequences, make, no_host_reads, reference, sequences,
)  # fmt: skip

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
#: Unlike the sizes of tiles, with sequences without queries, without keys, without both.
LENGTHS = [(70, 70), (0, 0), (1, 33), (40, 17), (0, 20), (9, 0), (129, 200)]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


# Sequences ------------------------------------------------------------------


@pytest.mark.parametrize("heads_kv", [1, 2, 4])
@pytest.mark.parametrize(
    "options, same",
    [
        ({}, {}),
        ({"causal": True, "softmax_scale": 0.2}, {"causal": True, "scale": 0.2}),
        ({"window_size": (25, 2)}, {"window": (25, 2)}),
        ({"window_size": (30, 9), "causal": True}, {"window": (30, None), "causal": True}),
        ({"softcap": 3.0}, {"softcap": 3.0}),
    ],
    ids=["plain", "causal", "window", "causal-window", "softcap"],
)
def test_varlen(device, heads_kv, options, same):
    q, k, v, cu_q, cu_k = draw_sequences(LENGTHS, heads_kv=heads_kv, device=device)
    with no_host_reads(device):
        out, lse, mask = flash_attn.flash_attn_varlen_func(
            q, k, v, cu_q, cu_k, 129, 200, return_attn_probs=True, **options
        )
    assert out.shape == q.shape and lse.shape == (4, q.shape[0]) and mask.numel() == 0
    for *parts, rows in sequences(q, k, v, LENGTHS):
        expected, expected_lse = reference(*parts, layout="bshd", lse=True, **same)
        assert_same_as(out[None, rows], expected)
        assert_same_as(lse[None, :, rows], expected_lse)
    # Without an LSE the sums of rows are those of rounded weights.
    again = flash_attn.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 129, 200, **options)
    assert_same_as(again, out)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("of_sequences", [False, True])
def test_varlen_alibi(device, causal, of_sequences):
    q, k, v, cu_q, cu_k = draw_sequences(LENGTHS, device=device)
    slopes = torch.tensor([0.3, 0.1, 0.2, 0.05], device=device)
    if of_sequences:
        slopes = slopes * torch.arange(7, device=device)[:, None]
    out = flash_attn.flash_attn_varlen_func(
        q, k, v, cu_q, cu_k, 129, 200, causal=causal, alibi_slopes=slopes
    )
    for i, (*parts, rows) in enumerate(sequences(q, k, v, LENGTHS)):
        own = slopes[i] if of_sequences else slopes
        bias = flash_attn._alibi(own, parts[0].shape[1], parts[1].shape[1])
        expected = reference(*parts, layout="bshd", causal=causal, bias=bias)
        assert_same_as(out[None, rows], expected)
    with pytest.raises(ValueError, match=r"float32 \(4,\) or \(7, 4\), but got .* \(1, 4\)"):
        flash_attn.flash_attn_varlen_func(
            q, k, v, cu_q, cu_k, 1, 1, alibi_slopes=slopes.new_ones(1, 4)
        )


@pytest.mark.parametrize("with_slopes", [None, "heads", "sequences"])
@pytest.mark.parametrize("options, same", [({}, {}), ({"causal": True}, {"causal": True})])
def test_varlen_says_what_was_dropped(device, options, same, with_slopes):
    q, k, v, cu_q, cu_k = draw_sequences(LENGTHS, device=device)
    slopes = None
    if with_slopes:
        slopes = torch.tensor([0.3, 0.1, 0.2, 0.05], device=device)
        slopes = slopes if with_slopes == "heads" else slopes * torch.ones(7, 1, device=device)
    with no_host_reads(device):
        out, _, mask = flash_attn.flash_attn_varlen_func(
            q, k, v, cu_q, cu_k, 129, 200, 0.2, return_attn_probs=True, alibi_slopes=slopes,
            **options,
        )  # fmt: skip
    assert mask.shape == (7, 4, 256, 256) and mask.dtype == q.dtype
    for i, (*parts, rows) in enumerate(sequences(q, k, v, LENGTHS)):
        queries, keys = parts[0].shape[1], parts[1].shape[1]
        assert (mask[i, :, queries:] == 0).all() and (mask[i, :, :, keys:] == 0).all()
        if slopes is not None:
            same = {**same, "bias": flash_attn._alibi(slopes.reshape(-1, 4)[0], queries, keys)}
        if queries and keys:
            check_dropped(out[rows], mask[i, :, :queries, :keys], *parts, 0.2, **same)


def test_varlen_of_packed_tensors(device):
    pairs = [(n, n) for n in (70, 0, 33)]
    q, k, v, cu, _ = draw_sequences(pairs, heads_kv=4, device=device)
    out = flash_attn.flash_attn_varlen_func(q, k, v, cu, cu, 70, 70, causal=True)
    qkv, kv = torch.stack([q, k, v], 1), torch.stack([k, v], 1)
    of_qkv = flash_attn.flash_attn_varlen_qkvpacked_func(qkv, cu, 70, causal=True)
    of_kv = flash_attn.flash_attn_varlen_kvpacked_func(q, kv, cu, cu, 70, 70, causal=True)
    assert torch.equal(of_qkv, out) and torch.equal(of_kv, out)
    with pytest.raises(ValueError, match=r"expects kv of \(total, 2, heads, head_dim\), but got"):
        flash_attn.flash_attn_varlen_kvpacked_func(q, qkv, cu, cu, 70, 70)


def test_varlen_refuses_what_does_not_fit():
    q, k, v, cu_q, cu_k = draw_sequences(LENGTHS)

    def call(q=q, k=k, cu_q=cu_q, cu_k=cu_k, **options):
        return flash_attn.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 129, 200, **options)

    with pytest.raises(TypeError, match="expects cu_seqlens_q of int32, but got int64"):
        call(cu_q=cu_q.long())
    with pytest.raises(ValueError, match="of as many entries, .* but got 8 and 7"):
        call(cu_k=cu_k[1:])
    with pytest.raises(TypeError, match="cu_seqlens_k to be a tensor, but got None"):
        call(cu_k=None)
    with pytest.raises(ValueError, match=r"expects q of \(total, heads, head_dim\), but got"):
        call(q=q[None])
    flashcore.torch.set_on_grad("error")
    try:
        with pytest.raises(flashcore.GradientError, match="no backward pass"):
            call(k=k.clone().requires_grad_())
    finally:
        flashcore.torch.set_on_grad("backward")


# Caches ---------------------------------------------------------------------


def expected_of_cache(q, k, v, lengths, **options):
    """Of each batch entry, with its own keys alone."""
    entries = [
        reference(
            q[i : i + 1], k[i : i + 1, :n], v[i : i + 1, :n], layout="bshd", lse=True, **options
        )
        for i, n in enumerate(lengths)
    ]
    return tuple(torch.cat(parts) for parts in zip(*entries))


@pytest.mark.parametrize("queries", [1, 4, 40])
@pytest.mark.parametrize("window", [(-1, -1), (20, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_cache(device, queries, window, causal):
    q, k, v = make(4, 4, 2, queries, 1100, dim=64, layout="bshd", device=device)
    lengths = [1100, 0, 517, 30]
    for i, n in enumerate(lengths):
        k[i, n:] = v[i, n:] = torch.nan
    used = torch.tensor(lengths, dtype=torch.int32, device=device)
    with no_host_reads(device):
        out, lse = flash_attn.flash_attn_with_kvcache(
            q, k, v, cache_seqlens=used, causal=causal, window_size=window, return_softmax_lse=True
        )
    expected = expected_of_cache(q, k, v, lengths, causal=causal, window=window)
    assert_same_as(out, expected[0])
    assert_same_as(lse, expected[1])


@pytest.mark.parametrize("as_number", [False, True])
@pytest.mark.parametrize("by_index", [False, True])
def test_new_rows_go_to_the_cache(device, as_number, by_index):
    q, new_k, new_v = make(2, 4, 2, 3, 3, dim=64, layout="bshd", device=device)
    _, k, v = make(4, 4, 2, 1, 50, dim=64, layout="bshd", device=device, seed=1)
    lengths = [20, 20] if as_number else [20, 47]
    entries = [3, 1] if by_index else [0, 1]
    for entry, n in zip(entries, lengths):
        k[entry, n:] = v[entry, n:] = torch.nan
    before = k.clone()
    if not by_index:
        k, v = k[:2], v[:2]
    used = 20 if as_number else torch.tensor(lengths, dtype=torch.int32, device=device)
    index = torch.tensor(entries, dtype=torch.int32, device=device) if by_index else None
    with no_host_reads(device):
        out = flash_attn.flash_attn_with_kvcache(
            q, k, v, new_k, new_v, cache_seqlens=used, cache_batch_idx=index, causal=True
        )
    for i, (entry, n) in enumerate(zip(entries, lengths)):
        assert torch.equal(k[entry, n : n + 3], new_k[i])
        assert torch.equal(v[entry, n : n + 3], new_v[i])
        assert torch.equal(k[entry, :n], before[entry, :n])
    ours = [x[entries] for x in (k, v)]
    expected, _ = expected_of_cache(q, *ours, [n + 3 for n in lengths], causal=True)
    assert_same_as(out, expected)


def test_a_whole_cache_and_alibi(device):
    q, k, v = make(2, 4, 2, 1, 50, dim=64, layout="bshd", device=device)
    slopes = torch.tensor([0.3, 0.1, 0.2, 0.05], device=device)
    bias = flash_attn._alibi(slopes, 1, 50)
    expected = reference(q, k, v, layout="bshd", bias=bias)
    out = flash_attn.flash_attn_with_kvcache(q, k, v, alibi_slopes=slopes, softcap=0.0)
    assert_same_as(out, expected)


def test_caches_refuse_what_does_not_fit():
    q, k, v = make(2, 4, 2, 3, 50, dim=64, layout="bshd")
    used = torch.tensor([20, 47], dtype=torch.int32)

    def call(*new, **options):
        return flash_attn.flash_attn_with_kvcache(q, k, v, *new, **options)

    with pytest.raises(ValueError, match="expects k and v together, but got k alone"):
        call(k[:, :1], cache_seqlens=used)
    with pytest.raises(ValueError, match="expects cache_seqlens with k and v, but got None"):
        call(k[:, :1], v[:, :1])
    with pytest.raises(ValueError, match="from 0 to 50, the rows of the cache, but got 51"):
        call(k[:, :1], v[:, :1], cache_seqlens=50)
    with pytest.raises(TypeError, match="expects cache_seqlens of int32, but got torch.int64"):
        call(k[:, :1], v[:, :1], cache_seqlens=used.long())
    with pytest.raises(ValueError, match=r"expects cache_seqlens of \(2,\), .*, but got \(1,\)"):
        call(k[:, :1], v[:, :1], cache_seqlens=used[:1])
    with pytest.raises(TypeError, match="seqused_k of int32, but got int64"):
        call(cache_seqlens=used.long())
    with pytest.raises(TypeError, match="of the type of their caches, torch.float16, but got"):
        call(k[:, :1].float(), v[:, :1].float(), cache_seqlens=used)


# Sinks ----------------------------------------------------------------------


def with_sinks(q, k, v, sinks, **options):
    """By a softmax over the scores and the sinks, as GPT-OSS's own code has it."""
    o, lse = reference(q, k, v, lse=True, **options)
    whole = torch.logaddexp(lse, sinks.double()[:, None])
    return o * torch.exp(lse - whole)[..., None], whole


@pytest.mark.parametrize("keys", [40, 25, 60])
def test_sinks(device, keys):
    q, k, v = make(2, 8, 1, 40, keys, dim=64, device=device)
    sinks = torch.randn(8, generator=torch.Generator().manual_seed(1)).to(device)
    for options in ({}, {"causal": True}, {"causal": True, "window": (7, None)}):
        o, lse = flashcore.attention(q, k, v, sinks=sinks, lse=True, **options)
        expected, expected_lse = with_sinks(q, k, v, sinks, **options)
        assert_same_as(o, expected)
        assert_same_as(lse, expected_lse)
        window = options.get("window", (None, None))
        causal = "bottom_right" if "causal" in options else None
        o, lse = attention_by_torch(q, k, v, causal=causal, window=window, sinks=sinks, lse=True)
        assert_same_as(o, expected)
        assert_same_as(lse, expected_lse, 1e-2)


def test_sinks_of_other_devices_are_refused():
    q, k, v = make(device="cpu")
    if torch.cuda.is_available():
        with pytest.raises(ValueError, match="expects sink_logits where q is"):
            flashcore.attention(q, k, v, sinks=torch.zeros(2, device="cuda"))
    flashcore.torch.set_on_grad("error")
    try:
        with pytest.raises(flashcore.GradientError, match="no backward pass"):
            flashcore.attention(q, k, v, sinks=torch.zeros(2, requires_grad=True))
    finally:
        flashcore.torch.set_on_grad("backward")


def test_fake_tensors_have_the_shape_of_the_result():
    q, k, v = make()
    with torch._subclasses.FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in (q, k, v, torch.zeros(2))]
        o = flashcore.attention(*fake[:3], sinks=fake[3])
    assert o.shape == (*q.shape[:3], v.shape[3])
