"""Calls of flash-attn's functions that run without their checks: those that passed them before."""

import inspect

import pytest

torch = pytest.importorskip("torch")

import flashcore
from flashcore import flash_attn, flash_attn_interface
from flashcore import flash_attn_seen as seen
from flashcore.operands import CLAUSES, LISTS


def ints(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def halves(*shape):
    return torch.randn(shape, dtype=torch.float16)


@pytest.fixture
def slow(monkeypatch):
    """The calls whose arguments are checked one by one."""
    made = []
    for module in (flash_attn, flash_attn_interface):
        check = module.expect_tensors
        monkeypatch.setattr(module, "expect_tensors", lambda **x: made.append(x) or check(**x))
    return made


def packed(heads=2):
    return halves(30, 4, 64), halves(30, heads, 64), halves(30, heads, 64)


@pytest.mark.parametrize("function", [flash_attn.flash_attn_varlen_func, flash_attn_interface.flash_attn_varlen_func])
@pytest.mark.parametrize("options", [{}, {"causal": True, "softcap": 20.0}, {"window_size": (5, 0), "softmax_scale": 0.3}])
def test_sequences(slow, function, options):
    q, k, v = packed()
    ends = ints(0, 11, 30)
    first = function(q, k, v, ends, ends, max_seqlen_q=19, max_seqlen_k=19, **options)
    count = len(slow)
    other = tuple(torch.randn_like(x) for x in (q, k, v))
    again = function(*other, ends, ends, max_seqlen_q=19, max_seqlen_k=19, **options)
    assert len(slow) == count and again.shape == first.shape
    of_each = [
        flash_attn.flash_attn_func(*(x[None, a:b] for x in other), **options)[0] for a, b in ((0, 11), (11, 30))
    ]
    torch.testing.assert_close(again, torch.cat(of_each), atol=2e-3, rtol=2e-3)


def test_results_of_sequences(slow):
    """lse, out, pages and sinks, whose axes are those of the caller."""
    q, _, _ = packed()
    k, v, table = halves(8, 16, 2, 64), halves(8, 16, 2, 64), ints(*range(8)).reshape(2, 4)
    call = dict(
        cu_seqlens_q=ints(0, 11, 30), max_seqlen_q=19, seqused_k=ints(40, 57), page_table=table,
        causal=True, return_softmax_lse=True,
    )  # fmt: skip
    for given in ({}, {"sinks": torch.randn(4)}, {"s_aux": torch.randn(4).bfloat16()}, {"out": halves(30, 4, 64)}):
        first = flash_attn_interface.flash_attn_varlen_func(q, k, v, **call, **given)
        count = len(slow)
        again = flash_attn_interface.flash_attn_varlen_func(q, k, v, **call, **given)
        assert len(slow) == count and again[1].shape == (4, 30)
        for one, other in zip(first, again):
            assert torch.equal(one, other)
        assert "out" not in given or again[0] is given["out"] or again[0].data_ptr() == given["out"].data_ptr()


@pytest.mark.parametrize("function", [flash_attn.flash_attn_with_kvcache, flash_attn_interface.flash_attn_with_kvcache])
@pytest.mark.parametrize("appends", [False, True])
def test_caches(slow, function, appends):
    q, used = halves(2, 1, 4, 64), ints(3, 17)
    new = {"k": halves(2, 1, 2, 64), "v": halves(2, 1, 2, 64)} if appends else {}
    caches = [halves(2, 32, 2, 64) for _ in range(2)]
    results = []
    for _ in range(3):
        held = [x.clone() for x in caches]
        count = len(slow)
        results.append((function(q, *held, **new, cache_seqlens=used, causal=True), *held))
    assert len(slow) == count
    for one, other in zip(results[0], results[2]):
        assert torch.equal(one, other)


def test_what_is_wrong_is_still_refused():
    """After a call of the same sizes, by the words of the checks."""
    q, cache, used = halves(2, 1, 4, 64), halves(2, 32, 2, 64), ints(3, 17)
    new = halves(2, 1, 2, 64)
    call = flash_attn.flash_attn_with_kvcache
    for _ in range(2):
        call(q, cache, cache.clone(), new, new, cache_seqlens=used, causal=True)
    other = cache.clone()
    with pytest.raises(ValueError, match="expects k and v together"):
        call(q, cache, other, new, None, cache_seqlens=used, causal=True)
    with pytest.raises(TypeError, match="cache_seqlens of int32"):
        call(q, cache, other, new, new, cache_seqlens=used.long(), causal=True)
    with pytest.raises(TypeError, match="expects causal to be a bool"):
        call(q, cache, other, new, new, cache_seqlens=used, causal="yes")
    with pytest.raises(ValueError, match="memory of its own"):
        call(q, cache, cache, new, new, cache_seqlens=used, causal=True)
    with pytest.raises(TypeError, match="to be a tensor"):
        call(q, cache, other, new.numpy(), new, cache_seqlens=used, causal=True)
    with pytest.raises(flashcore.GradientError):
        call(q.clone().requires_grad_(), cache, other, new, new, cache_seqlens=used, causal=True)


def test_gradients_of_sequences_after_a_call_without():
    q, k, v = packed(4)
    ends = ints(0, 11, 30)
    for _ in range(2):
        flash_attn.flash_attn_varlen_func(q, k, v, ends, ends, 19, 19)
    q.requires_grad_()
    with pytest.warns(flashcore.torch.FallbackWarning):
        out = flash_attn.flash_attn_varlen_func(q, k, v, ends, ends, 19, 19)
    assert out.requires_grad


def test_empty_sequences_and_unaligned_rows():
    """What a kernel does not take as it is keeps the caller's axes, too."""
    ends = ints(0, 0)
    for rows, dim in ((0, 64), (7, 64)):
        memory = torch.randn(3, rows, 2, dim + 1).half()
        q, k, v = memory[..., :dim].unbind(0)
        ends = ints(0, rows)
        for _ in range(2):
            out = flash_attn.flash_attn_varlen_func(q, k, v, ends, ends, rows, rows)
            assert out.shape == (rows, 2, dim)


def test_the_order_of_clauses():
    assert tuple(inspect.signature(seen._in_order).parameters) == tuple(name for name in CLAUSES if name not in LISTS)
