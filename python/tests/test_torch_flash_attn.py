"""flashcore.flash_attn: the signatures of flash-attn 2.8.3 and their meaning."""

import inspect

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import flashcore
from flashcore import flash_attn
from flashcore.torch import dropped
from philox import kept
from torch_inputs import assert_same_as, check_dropped, make, reference

_ENDS = (
    "dropout_p=0.0 softmax_scale=None causal=False window_size=(-1,-1) softcap=0.0 "
    "alibi_slopes=None deterministic=False return_attn_probs=False"
)
_LENGTHS = "cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k"
#: Of flash_attn/flash_attn_interface.py in flash-attn 2.8.3.
PUBLISHED = {
    "flash_attn_func": f"q k v {_ENDS}",
    "flash_attn_kvpacked_func": f"q kv {_ENDS}",
    "flash_attn_qkvpacked_func": f"qkv {_ENDS}",
    "flash_attn_varlen_func": f"q k v {_LENGTHS} {_ENDS} block_table=None",
    "flash_attn_varlen_kvpacked_func": f"q kv {_LENGTHS} {_ENDS}",
    "flash_attn_varlen_qkvpacked_func": f"qkv cu_seqlens max_seqlen {_ENDS}",
    "flash_attn_with_kvcache": (
        "q k_cache v_cache k=None v=None rotary_cos=None rotary_sin=None cache_seqlens=None "
        "cache_batch_idx=None cache_leftpad=None block_table=None softmax_scale=None causal=False "
        "window_size=(-1,-1) softcap=0.0 rotary_interleaved=True alibi_slopes=None num_splits=0 "
        "return_softmax_lse=False"
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_signature_is_the_published_one(name):
    def describe(parameter):
        assert parameter.kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
        if parameter.default is inspect.Parameter.empty:
            return parameter.name
        return f"{parameter.name}={parameter.default!r}".replace(" ", "")

    parameters = inspect.signature(getattr(flash_attn, name)).parameters.values()
    assert " ".join(map(describe, parameters)) == PUBLISHED[name]
    assert name in flash_attn.__all__


def test_all_functions_are_listed():
    assert set(flash_attn.__all__) == {
        *PUBLISHED, "is_batch_invariant", "register", "set_batch_invariant",
    }  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "options, same",
    [
        ({}, {}),
        ({"causal": True, "softmax_scale": 0.2}, {"causal": True, "scale": 0.2}),
        ({"window_size": (5, 2)}, {"window": (5, 2)}),
        ({"window_size": torch.tensor([5, -1])}, {"window": (5, None)}),
        ({"window_size": (4, 9), "causal": True}, {"window": (4, None), "causal": True}),
        ({"softcap": 3.0, "deterministic": True}, {"softcap": 3.0}),
    ],
    ids=["plain", "causal", "window", "left", "causal-window", "softcap"],
)
def test_same_as_the_formula(options, same, dtype):
    q, k, v = make(keys=24, heads_kv=1, layout="bshd", dtype=dtype)
    tolerance = 1.5e-2 if dtype == torch.bfloat16 else 4e-3
    expected, lse = reference(q, k, v, layout="bshd", lse=True, **same)
    assert_same_as(flash_attn.flash_attn_func(q, k, v, **options), expected, tolerance)
    out, softmax_lse, mask = flash_attn.flash_attn_func(q, k, v, return_attn_probs=True, **options)
    assert_same_as(out, expected, tolerance)
    assert_same_as(softmax_lse, lse, tolerance)
    assert mask.numel() == 0


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("of_batch", [False, True])
def test_alibi(causal, of_batch):
    q, k, v = make(keys=24, layout="bshd")
    slopes = torch.tensor([[0.3, 0.1], [0.2, 0.05]])
    slopes = slopes if of_batch else slopes[0]
    distance = (torch.arange(16)[:, None] + 8 - torch.arange(24)).abs()
    bias = -slopes[..., None, None] * distance
    expected = reference(q, k, v, layout="bshd", causal=causal, bias=bias)
    out = flash_attn.flash_attn_func(q, k, v, causal=causal, alibi_slopes=slopes)
    assert_same_as(out, expected)
    with pytest.raises(
        ValueError, match=r"alibi_slopes of \(heads,\) or \(batch, heads\), but got"
    ):
        flash_attn.flash_attn_func(q, k, v, alibi_slopes=slopes[..., None, None])


def test_alibi_is_no_bias(monkeypatch):
    q, k, v = make(layout="bshd")

    def refuse(*_):
        raise AssertionError("expects no bias")

    monkeypatch.setattr(flash_attn, "_alibi", refuse)
    slopes = torch.tensor([0.3, 0.1])
    for each in (slopes, slopes.expand(q.shape[0], 2)):
        flash_attn.flash_attn_func(q, k, v, alibi_slopes=each)
    with pytest.raises(AssertionError, match="expects no bias"):
        flash_attn.flash_attn_func(q.requires_grad_(), k, v, alibi_slopes=slopes)


def test_packed_tensors_are_views_of_the_same_call():
    q, k, v = make(layout="bshd")
    out = flash_attn.flash_attn_func(q, k, v, causal=True)
    qkv, kv = torch.stack([q, k, v], 2), torch.stack([k, v], 2)
    assert torch.equal(flash_attn.flash_attn_qkvpacked_func(qkv, causal=True), out)
    assert torch.equal(flash_attn.flash_attn_kvpacked_func(q, kv, causal=True), out)
    with pytest.raises(ValueError, match=r"expects kv of \(batch, seqlen, 2, heads, head_dim\)"):
        flash_attn.flash_attn_kvpacked_func(q, qkv)


def test_rows_without_keys():
    q, k, v = make(queries=24, keys=8, layout="bshd")
    out, lse, _ = flash_attn.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    assert (out[:, :16] == 0).all() and (lse[:, :, :16] == -torch.inf).all()


def all_with_dropout(q, k, v, p):
    """O of every function, of one batch entry."""
    kv, qkv = torch.stack([k, v], 2), torch.stack([q, k, v], 2)
    ends, rows = torch.tensor([0, q.shape[1]], dtype=torch.int32), q.shape[1]
    calls = [
        lambda: flash_attn.flash_attn_func(q, k, v, p),
        lambda: flash_attn.flash_attn_kvpacked_func(q, kv, p),
        lambda: flash_attn.flash_attn_qkvpacked_func(qkv, p),
        lambda: flash_attn.flash_attn_varlen_func(q[0], k[0], v[0], ends, ends, rows, rows, p)[None],
        lambda: flash_attn.flash_attn_varlen_kvpacked_func(q[0], kv[0], ends, ends, rows, rows, p)[
            None
        ],
        lambda: flash_attn.flash_attn_varlen_qkvpacked_func(qkv[0], ends, rows, p)[None],
    ]
    results = []
    for call in calls:
        torch.manual_seed(7)
        results.append(call())
    return results


def test_dropout_is_drawn_with_the_generator():
    q, k, v = (x[:1] for x in make(layout="bshd"))
    torch.manual_seed(7)
    rng = torch.randint(-(2**63), 2**63 - 1, (2,))
    expected = flashcore.attention(q, k, v, dropout_p=0.17, rng=rng, layout="bshd")
    assert not torch.equal(expected, flashcore.attention(q, k, v, layout="bshd"))
    for out in all_with_dropout(q, k, v, 0.17):
        assert_same_as(out, expected)
    out, lse, mask = flash_attn.flash_attn_func(q, k, v, 0.17, return_attn_probs=True)
    assert not torch.equal(out, expected)  # the generator went on
    assert torch.equal(lse, flash_attn.flash_attn_func(q, k, v, return_attn_probs=True)[1])
    assert mask.shape == (1, 2, 128, 128) and mask.dtype == q.dtype


@pytest.mark.parametrize(
    "options, same",
    [
        ({}, {}),
        ({"causal": True, "softcap": 5.0}, {"causal": True, "softcap": 5.0}),
        ({"window_size": (20, 3), "softmax_scale": 0.2}, {"window": (20, 3), "scale": 0.2}),
    ],
)
def test_signs_of_the_mask_are_what_was_dropped(options, same):
    q, k, v = make(2, 4, 2, 50, 140, layout="bshd")
    torch.manual_seed(2)
    out, lse, mask = flash_attn.flash_attn_func(q, k, v, 0.3, return_attn_probs=True, **options)
    torch.manual_seed(2)
    # Without an LSE the sums of rows are those of rounded weights.
    assert_same_as(flash_attn.flash_attn_func(q, k, v, 0.3, **options), out)
    assert mask.shape == (2, 4, 128, 256) and mask.dtype == q.dtype
    assert (mask[:, :, 50:] == 0).all() and (mask[..., 140:] == 0).all()
    for i in range(2):
        entry = mask[i, :, :50, :140]
        check_dropped(out[i], entry, q[i : i + 1], k[i : i + 1], v[i : i + 1], 0.3, **same)
    share = torch.signbit(mask[:, :, :50, :140]).double().mean()
    assert abs(share - 0.3) < 5 * (0.3 * 0.7 / (2 * 4 * 50 * 140)) ** 0.5


def test_what_is_kept_is_that_of_the_formula():
    words = [-(2**62) + 12345, 2**40 + 7]
    ours = dropped.kept(0.37, torch.tensor(words), 2, 3, 9, 70)
    for entry in range(2):
        for head in range(3):
            expected = torch.from_numpy(kept(0.37, words, entry, head, 9, 70))
            assert torch.equal(ours[entry, head], expected)


def test_dropout_of_more_than_all_is_refused():
    q, k, v = make(layout="bshd")
    with pytest.raises(ValueError, match="expects dropout_p to be 0, or from .* but got 1.5"):
        flash_attn.flash_attn_func(q, k, v, dropout_p=1.5)


@pytest.fixture
def refusing():
    flashcore.torch.set_on_grad("error")
    yield
    flashcore.torch.set_on_grad("backward")


def test_dropout_has_no_gradients(refusing):
    q, k, v = (x.requires_grad_() for x in make(layout="bshd"))
    with pytest.raises(flashcore.GradientError, match="has no backward pass"):
        flash_attn.flash_attn_func(q, k, v, dropout_p=0.1)


def test_gradients_are_refused(refusing):
    q, k, v = (x.requires_grad_() for x in make(layout="bshd"))
    with pytest.raises(flashcore.GradientError):
        flash_attn.flash_attn_func(q, k, v)


@pytest.fixture
def falling_back():
    flashcore.torch.set_on_grad("fallback")
    yield
    flashcore.torch.set_on_grad("backward")


@pytest.mark.filterwarnings("ignore::flashcore.torch.FallbackWarning")
def test_gradients_of_sequences_go_to_pytorch(falling_back):
    q, k, v = (x[0].requires_grad_() for x in make(1, 4, 2, 24, 30, layout="bshd"))
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 20, 24], [0, 21, 30]))
    options = {"causal": True, "window_size": (7, 0), "softcap": 3.0}
    out = flash_attn.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 20, 21, **options)
    doubles = [x.detach().double().requires_grad_() for x in (q, k, v)]
    wanted = torch.cat([
        reference(
            doubles[0][None, a:b], *(x[None, c:d] for x in doubles[1:]), causal=True,
            window=(7, 0), softcap=3.0, layout="bshd",
        )[0]
        for a, b, c, d in ((0, 20, 0, 21), (20, 24, 21, 30))
    ])  # fmt: skip
    assert_same_as(out.detach(), wanted.detach())
    ours = torch.autograd.grad(out.double().sin().sum(), (q, k, v))
    for mine, theirs in zip(ours, torch.autograd.grad(wanted.sin().sum(), doubles)):
        assert_same_as(mine, theirs, 2e-2)


@pytest.mark.filterwarnings("ignore::flashcore.torch.FallbackWarning")
def test_gradients_with_dropout_go_to_pytorch(falling_back):
    q, k, v = (x.requires_grad_() for x in make(1, 2, 2, 64, 64, layout="bshd"))
    torch.manual_seed(3)
    v = torch.ones_like(v).requires_grad_()
    out = flash_attn.flash_attn_func(q, k, v, dropout_p=0.5)
    assert 0.2 < out.detach().float().std() / out.detach().float().mean() < 1 / 2
    out.sum().backward()
    assert q.grad is not None and v.grad is not None
    with pytest.raises(flashcore.GradientError):  # what PyTorch's operators do not return
        flash_attn.flash_attn_func(q, k, v, dropout_p=0.5, return_attn_probs=True)
