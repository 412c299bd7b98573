"""FlashAttention-3's interface, and what vLLM and SGLang call beside it."""

import inspect

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import flashcore
from flashcore import flash_attn_interface as fa3
from torch_inputs import assert_same_as, make, reference

HEADS, HEADS_KV, DIM = 4, 2, 32


def i32(*values):
    return torch.tensor(values, dtype=torch.int32)


def with_sinks(q, k, v, sinks, causal):
    """o and lse of (batch, seqlen, heads, head_dim)."""
    return flashcore.attention(q, k, v, sinks=sinks, causal=causal, layout="bshd", lse=True)


def test_func():
    q, k, v = make(heads=HEADS, heads_kv=HEADS_KV, keys=24, layout="bshd")
    expected = reference(q, k, v, causal=True, window=(9, 0), softcap=20.0, layout="bshd", lse=True)
    out, lse = fa3.flash_attn_func(
        q, k, v, causal=True, window_size=(9, 0), softcap=20.0, num_splits=0, pack_gqa=True,
        sm_margin=8, return_attn_probs=True, q_descale=torch.ones(2, 2),
    )  # fmt: skip
    assert_same_as(out, expected[0])
    assert_same_as(lse, expected[1])
    assert_same_as(fa3.flash_attn_func(q, k, v), reference(q, k, v, layout="bshd"))
    target = torch.empty_like(q)
    assert fa3.flash_attn_func(q, k, v, out=target) is target
    sinks = torch.rand(HEADS, dtype=torch.float16)
    wanted = with_sinks(q, k, v, sinks.float(), False)[0]
    for name in ("sinks", "s_aux"):
        assert_same_as(fa3.flash_attn_func(q, k, v, **{name: sinks}), wanted)


def test_packed():
    q, k, v = make(heads=HEADS, layout="bshd")
    wanted = fa3.flash_attn_func(q, k, v, causal=True)
    packed = torch.stack([q, k, v], 2)
    assert torch.equal(fa3.flash_attn_qkvpacked_func(packed, causal=True), wanted)
    q, k, v = make(heads=HEADS, heads_kv=HEADS_KV, layout="bshd")
    beside = torch.cat([q, k, v], 2)
    wanted = fa3.flash_attn_func(q, k, v)
    assert torch.equal(fa3.flash_attn_qkvpacked_func(beside, num_heads_q=HEADS), wanted)
    for wrong in ({}, {"num_heads_q": 3}):
        with pytest.raises(ValueError, match="expects qkv of"):
            fa3.flash_attn_qkvpacked_func(beside, **wrong)


def chunked(q, k, chunk, causal=True):
    """The bias of chunks, for (batch, seqlen, heads, head_dim)."""
    i = torch.arange(q)[:, None] + (k - q)
    j = torch.arange(k)[None]
    seen = (j >= i // chunk * chunk) & ((j <= i) | (not causal))
    return torch.zeros(q, k).masked_fill(~seen, -torch.inf).half()


@pytest.mark.parametrize("chunk", [4, 7, 16])
def test_chunks(chunk):
    q, k, v = make(heads=HEADS, queries=20, keys=33, layout="bshd")
    bias = chunked(20, 33, chunk)
    out = fa3.flash_attn_func(q, k, v, causal=True, attention_chunk=chunk)
    assert_same_as(out, reference(q, k, v, bias=bias, layout="bshd"))
    ends_q, ends_k = i32(0, 20), i32(0, 33)
    rows = fa3.flash_attn_varlen_func(
        q[0], k[0], v[0], ends_q, ends_k, 20, 33, causal=True, attention_chunk=chunk
    )
    assert_same_as(rows, out[0])
    for used in (33, i32(33, 33)):
        cached = fa3.flash_attn_with_kvcache(
            q, k, v, cache_seqlens=used, causal=True, attention_chunk=chunk
        )
        assert_same_as(cached, out)
    # Without causal=True a query sees its whole chunk.
    i, j = torch.arange(20)[:, None] + 13, torch.arange(33)[None]
    whole = torch.zeros(20, 33).masked_fill(i // chunk != j // chunk, -torch.inf).half()
    both = fa3.flash_attn_func(q, k, v, attention_chunk=chunk)
    assert_same_as(both, reference(q, k, v, bias=whole, layout="bshd"))
    rows = fa3.flash_attn_varlen_func(q[0], k[0], v[0], ends_q, ends_k, attention_chunk=chunk)
    assert_same_as(rows, both[0])
    with pytest.raises(ValueError, match="expects attention_chunk of at least 0, but got -1"):
        fa3.flash_attn_func(q, k, v, attention_chunk=-1)


def test_chunks_have_one_kernel_for_all_lengths():
    q, k, v = make(heads=HEADS, queries=1, keys=48, layout="bshd")
    for count in (30, 31):
        before = flashcore.kernels.statistics.compiled
        fa3.flash_attn_with_kvcache(q, k, v, cache_seqlens=count, attention_chunk=16)
    assert flashcore.kernels.statistics.compiled == before


def draw_sequences(lengths_q, lengths_k, page_size=16):
    """q back to back, a table with pools of its pages, and k and v of each sequence."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator).half()

    q = draw(sum(lengths_q), HEADS, DIM)
    each = -(-max(lengths_k) // page_size)
    pages = torch.randperm(len(lengths_k) * each, generator=generator).int()
    table = pages.reshape(len(lengths_k), each)
    pools = [draw(len(pages), page_size, HEADS_KV, DIM) for _ in "kv"]
    keys = [
        [pool[row.long()].flatten(0, 1)[:count] for row, count in zip(table, lengths_k)]
        for pool in pools
    ]
    ends = i32(0, *torch.tensor(lengths_q).cumsum(0).tolist())
    return q, ends, table, pools, keys


@pytest.mark.parametrize("lengths_q", [[1, 1, 1], [5, 0, 12], [40, 3, 17]])
@pytest.mark.parametrize("of_sinks", [False, True])
def test_as_serving_engines_call_it(lengths_q, of_sinks):
    """vLLM's call for mixed prefill and decode: pages, lengths of keys, and memory for out."""
    lengths_k = [17, 20, 64]
    q, ends, table, pools, (keys, values) = draw_sequences(lengths_q, lengths_k)
    sinks = torch.rand(HEADS) if of_sinks else None
    out = torch.full_like(q, torch.nan)
    result, lse = fa3.flash_attn_varlen_func(
        q=q, k=pools[0], v=pools[1], out=out, cu_seqlens_q=ends, max_seqlen_q=max(lengths_q),
        seqused_k=i32(*lengths_k), max_seqlen_k=max(lengths_k), softmax_scale=0.2, causal=True,
        alibi_slopes=None, window_size=[-1, -1], block_table=table, softcap=0,
        scheduler_metadata=fa3.get_scheduler_metadata(batch_size=3), fa_version=3,
        q_descale=torch.ones(3, 2), k_descale=torch.ones(3, 2), v_descale=torch.ones(3, 2),
        num_splits=0, s_aux=sinks, return_softmax_lse=True,
    )  # fmt: skip
    assert result.data_ptr() == out.data_ptr() and lse.shape == (HEADS, sum(lengths_q))
    for b in range(3):
        rows = slice(ends[b], ends[b + 1])
        if lengths_q[b]:
            wanted = flashcore.attention(
                q[None, rows], keys[b][None], values[b][None], sinks=sinks, causal=True, scale=0.2,
                layout="bshd", lse=True,
            )  # fmt: skip
            assert_same_as(out[rows], wanted[0][0])
            assert_same_as(lse[:, rows], wanted[1][0])
    # And SGLang's, with the cache's function.
    again = fa3.flash_attn_with_kvcache(
        q=q, k_cache=pools[0], v_cache=pools[1], page_table=table, cache_seqlens=i32(*lengths_k),
        cu_seqlens_q=ends, cu_seqlens_k_new=None, max_seqlen_q=max(lengths_q), softmax_scale=0.2,
        causal=True, window_size=(-1, -1), softcap=0.0, k_descale=None, v_descale=None,
        return_softmax_lse=False, num_splits=0, sinks=sinks, ver=3,
    )  # fmt: skip
    assert_same_as(again, out)


def test_sequences_without_pages():
    lengths_q, lengths_k = [5, 12], [17, 30]
    q, ends, _, _, (keys, values) = draw_sequences(lengths_q, lengths_k)
    k, v = torch.cat(keys), torch.cat(values)
    ends_k = i32(0, 17, 47)
    out = fa3.flash_attn_varlen_func(q, k, v, ends, ends_k, 12, 30, causal=True)
    for b in range(2):
        rows = slice(ends[b], ends[b + 1])
        wanted = reference(
            q[None, rows], keys[b][None], values[b][None], causal=True, layout="bshd"
        )
        assert_same_as(out[rows], wanted[0])


def test_caches_in_one_piece_with_sequences_of_queries():
    """The entries of a cache are taken for pages."""
    q, ends, _, _, _ = draw_sequences([5, 12], [40, 40])
    caches = [torch.randn(2, 48, HEADS_KV, DIM).half() for _ in "kv"]
    used = i32(40, 31)
    out = fa3.flash_attn_with_kvcache(
        q, *caches, cache_seqlens=used, cu_seqlens_q=ends, max_seqlen_q=12, causal=True
    )
    for b in range(2):
        rows, count = slice(ends[b], ends[b + 1]), int(used[b])
        wanted = reference(
            q[None, rows], caches[0][b : b + 1, :count], caches[1][b : b + 1, :count], causal=True,
            layout="bshd",
        )  # fmt: skip
        assert_same_as(out[rows], wanted[0])
    with pytest.raises(ValueError, match="expects k_cache and v_cache of 2 entries or more"):
        fa3.flash_attn_with_kvcache(q, *(x[:1] for x in caches), cu_seqlens_q=ends)
    with pytest.raises(ValueError, match="expects cache_batch_idx of .2,.*one a batch entry"):
        fa3.flash_attn_with_kvcache(q, *caches, cu_seqlens_q=ends, cache_batch_idx=i32(0))
    whole = fa3.flash_attn_with_kvcache(q, *caches, cache_seqlens=40, cu_seqlens_q=ends)
    every = fa3.flash_attn_with_kvcache(q, *caches, cache_seqlens=i32(40, 40), cu_seqlens_q=ends)
    assert torch.equal(whole, every)
    with pytest.raises(flashcore.UnsupportedError, match="expects k=None with cu_seqlens_q"):
        fa3.flash_attn_with_kvcache(
            q, *caches, k=q[None, :2, :2], v=q[None, :2, :2], cache_seqlens=used, cu_seqlens_q=ends
        )


def test_new_rows():
    q, k, v = make(heads=HEADS, heads_kv=HEADS_KV, queries=3, keys=48, layout="bshd")
    new = [torch.randn(2, 3, HEADS_KV, 32).half() for _ in "kv"]
    used, sinks = i32(10, 45), torch.rand(HEADS)
    caches = [k.clone(), v.clone()]
    out, lse = fa3.flash_attn_with_kvcache(
        q, *caches, *new, cache_seqlens=used, causal=True, sinks=sinks, return_softmax_lse=True
    )
    for b in range(2):
        first = int(used[b])
        for cache, rows in zip(caches, new):
            assert torch.equal(cache[b, first : first + 3], rows[b])
        wanted = with_sinks(
            q[b : b + 1], *(cache[b : b + 1, : first + 3] for cache in caches), sinks, True
        )
        assert_same_as(out[b], wanted[0][0])
        assert_same_as(lse[b], wanted[1][0])


def test_combine():
    q, k, v = make(heads=HEADS, keys=24, layout="bshd")
    parts = [
        flashcore.attention(q, k[:, rows], v[:, rows], layout="bshd", lse=True)
        for rows in (slice(0, 10), slice(10, 24))
    ]
    outputs = torch.stack([o for o, _ in parts])
    lses = torch.stack([lse.transpose(1, 2) for _, lse in parts])
    out, lse = fa3.flash_attn_combine(outputs, lses)
    expected = reference(q, k, v, layout="bshd", lse=True)
    assert_same_as(out, expected[0])
    assert_same_as(lse, expected[1].transpose(1, 2))
    target = torch.empty(q.shape)
    assert fa3.flash_attn_combine(outputs, lses, target, torch.float32)[0] is target


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("qv", torch.zeros(1), "expects qv=None here, but got one"),
        ("seqused_q", i32(1), "expects seqused_q=None here, but got one"),
        ("dropout_p", 0.1, "expects dropout_p=None here, but got one"),
    ],
)
def test_what_no_kernel_has(name, value, message):
    q, ends, table, pools, _ = draw_sequences([5], [17])
    with pytest.raises(flashcore.UnsupportedError, match=message):
        fa3.flash_attn_varlen_func(q, *pools, ends, None, 5, 17, page_table=table, **{name: value})


def test_wrong_arguments():
    q, ends, table, pools, _ = draw_sequences([5], [17])
    with pytest.raises(ValueError, match="expects page_table or block_table, which are one thing"):
        fa3.flash_attn_varlen_func(q, *pools, ends, page_table=table, block_table=table)
    with pytest.raises(ValueError, match="expects seqused_k or cu_seqlens_k with page_table"):
        fa3.flash_attn_varlen_func(q, *pools, ends, page_table=table)
    with pytest.raises(ValueError, match="expects cu_seqlens_q, but got None"):
        fa3.flash_attn_varlen_func(q, *pools, page_table=table)
    with pytest.raises(ValueError, match="expects sinks or s_aux"):
        fa3.flash_attn_func(q[None], *(x[:1] for x in pools), sinks=q, s_aux=q)
    if hasattr(torch, "float8_e4m3fn"):
        with pytest.raises(flashcore.UnsupportedError, match="of float16 or bfloat16, but got"):
            fa3.flash_attn_func(*(x[None].to(torch.float8_e4m3fn) for x in (q, q, q)))


#: The parameters of FlashAttention-3's functions, in their order (hopper/flash_attn_interface.py
#: of its release, as facts).
SIGNATURES = {
    "flash_attn_func": (
        "q k v softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk "
        "softcap num_splits pack_gqa deterministic sm_margin return_attn_probs"
    ),
    "flash_attn_varlen_func": (
        "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k seqused_q seqused_k "
        "softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk "
        "softcap num_splits pack_gqa deterministic sm_margin return_attn_probs"
    ),
    "flash_attn_with_kvcache": (
        "q k_cache v_cache k v qv rotary_cos rotary_sin cache_seqlens cache_batch_idx "
        "cache_leftpad page_table cu_seqlens_q cu_seqlens_k_new max_seqlen_q rotary_seqlens "
        "q_descale k_descale v_descale softmax_scale causal window_size attention_chunk softcap "
        "rotary_interleaved scheduler_metadata num_splits pack_gqa sm_margin return_softmax_lse"
    ),
    "flash_attn_qkvpacked_func": (
        "qkv softmax_scale causal q_descale k_descale v_descale window_size attention_chunk "
        "softcap deterministic num_heads_q sm_margin return_attn_probs"
    ),
    "flash_attn_combine": "out_partial lse_partial out out_dtype",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_are_in_their_order(name):
    parameters = inspect.signature(getattr(fa3, name)).parameters.values()
    by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert by_place == SIGNATURES[name].split()


# import flash_attn ----------------------------------------------------------


@pytest.fixture
def without_flash_attn(monkeypatch):
    import importlib.util
    import sys

    for name in [x for x in sys.modules if x.partition(".")[0] == "flash_attn"]:
        monkeypatch.delitem(sys.modules, name)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "flash_attn" else find(name, *more)
    )
    yield monkeypatch
    for name in [x for x in sys.modules if x.partition(".")[0] == "flash_attn"]:
        del sys.modules[name]


def test_code_that_imports_flash_attn(without_flash_attn):
    assert flashcore.flash_attn.register() and flashcore.flash_attn.register()
    import flash_attn
    from flash_attn.bert_padding import pad_input, unpad_input
    from flash_attn.flash_attn_interface import flash_attn_varlen_func

    assert flash_attn.__version__.startswith("2.8")
    q, k, v = make(heads=2, layout="bshd")
    wanted = flashcore.flash_attn.flash_attn_func(q, k, v, causal=True)
    assert torch.equal(flash_attn.flash_attn_func(q, k, v, causal=True), wanted)
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[0, 10:] = 0
    rows, indices, ends, most, used = unpad_input(q, mask)
    assert ends.tolist() == [0, 10, 26] and most == 16 and used.tolist() == [10, 16]
    keys = [unpad_input(x, mask)[0] for x in (k, v)]
    out = flash_attn_varlen_func(rows, *keys, ends, ends, most, most, causal=True)
    padded = pad_input(out, indices, 2, 16)
    assert (padded[0, 10:] == 0).all()
    for b, count in enumerate((10, 16)):
        one = (x[b : b + 1, :count] for x in (q, k, v))
        assert_same_as(padded[b : b + 1, :count], reference(*one, causal=True, layout="bshd"))


def test_flash_attn_that_is_installed_stays(without_flash_attn):
    import importlib.machinery
    import importlib.util
    import sys

    find = importlib.util.find_spec
    spec = importlib.machinery.ModuleSpec("flash_attn", None)
    without_flash_attn.setattr(
        importlib.util, "find_spec", lambda name, *more: spec if name == "flash_attn" else find(name, *more)
    )
    assert not flashcore.flash_attn.register() and "flash_attn" not in sys.modules
