"""Training: FlashCore's forward pass, and PyTorch's backward pass on what it leaves."""

import math
import warnings

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

import flashcore
import flashcore.torch
from flashcore.torch import FallbackWarning
from torch_inputs import reference

sdpa = flashcore.torch.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield
    flashcore.torch.set_on_grad("backward")


def draw(*sizes, dtype=torch.float16, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def formula(**options):
    """In the precision of its arguments."""
    return lambda q, k, v: reference(q, k, v, dtype=q.dtype, **options)


def needing(*tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]


def compiled(function, **options):
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


def gradients(call, inputs, weight):
    return torch.autograd.grad((call(*inputs).double() * weight).sum(), inputs)


def assert_gradients(call, theirs, inputs):
    """FlashAttention's criterion: at most twice the error of the formula in the input's precision."""
    weight = draw(*theirs(*inputs).shape, dtype=torch.float64, seed=3)
    exact = gradients(theirs, needing(*(x.double() for x in inputs)), weight)
    plain = gradients(theirs, needing(*inputs), weight)
    ours = gradients(call, needing(*inputs), weight)
    for mine, usual, wanted in zip(ours, plain, exact):
        assert mine.dtype == inputs[0].dtype and mine.shape == wanted.shape
        allowed = 2 * (usual.double() - wanted).abs().max() + 1e-3
        assert (mine.double() - wanted).abs().max() <= allowed


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"causal": "top_left"},
        {"window": (5, 3)},
        {"causal": True, "window": 4, "scale": 0.3},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
@pytest.mark.parametrize("keys", [16, 24, 11])
def test_gradients_are_those_of_the_formula(wrap, dtype, options, keys):
    inputs = draw(2, 4, 16, 32, dtype=dtype), *(draw(2, 2, keys, 32, dtype=dtype, seed=s) for s in (1, 2))
    call = wrap(lambda q, k, v: flashcore.attention(q, k, v, **options))
    assert_gradients(call, formula(**options), inputs)


@pytest.mark.parametrize("head_dim", [8, 40, 128, 256])
def test_head_dims(head_dim):
    inputs = tuple(draw(1, 2, 16, head_dim, seed=s) for s in range(3))
    assert_gradients(flashcore.attention, formula(), inputs)


def test_layout_of_flash_attn():
    inputs = tuple(draw(1, 2, 16, 32, seed=s) for s in range(3))
    bshd = lambda *tensors: flashcore.attention(
        *(x.transpose(1, 2) for x in tensors), causal=True, layout="bshd"
    ).transpose(1, 2)
    assert_gradients(bshd, formula(causal=True), inputs)


def test_rows_that_see_no_key_have_finite_gradients():
    q, k, v = needing(*(draw(1, 1, size, 32, seed=s) for s, size in enumerate((20, 6, 6))))
    o = flashcore.attention(q, k, v, causal=True)
    o.float().sin().sum().backward()
    assert (o[:, :, :14] == 0).all() and (q.grad[:, :, :14] == 0).all()
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all() and tensor.grad.any()


def test_flash_attn_trains():
    from flashcore.flash_attn import flash_attn_func

    q, k, v = needing(*(draw(1, 16, 2, 32, seed=s) for s in range(3)))
    flash_attn_func(q, k, v, causal=True).sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_sdpa(wrap, is_causal):
    inputs = tuple(draw(2, 2, 16, 32, seed=s) for s in range(3))
    call = wrap(lambda q, k, v: sdpa(q, k, v, is_causal=is_causal))
    theirs = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    assert_gradients(call, theirs, inputs)


def test_autocast():
    q, k, v = (draw(1, 2, 16, 32, seed=s).float().requires_grad_() for s in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        o = sdpa(q, k, v)
    assert o.dtype == torch.bfloat16
    o.float().sum().backward()
    assert q.grad.dtype == torch.float32 and q.grad.isfinite().all()


def test_compiled_gradients_are_those_of_eager():
    inputs = tuple(draw(1, 2, 16, 32, seed=s) for s in range(3))
    call = lambda q, k, v: flashcore.attention(q * 2, k, v, causal=True).float().sin().sum()
    found = []
    for function in (call, compiled(call), compiled(call, dynamic=True)):
        tensors = needing(*inputs)
        found.append(torch.autograd.grad(function(*tensors), tensors))
    for other in found[1:]:
        for mine, wanted in zip(other, found[0]):
            assert torch.equal(mine, wanted)


@pytest.mark.parametrize(
    "reason, options",
    [
        ("has a softcap", {"softcap": 4.0}),
        ("has a bias", {"bias": torch.zeros(16, 16)}),
        ("returns its log-sum-exp", {"lse": True}),
        ("causal at the upper left with a window", {"causal": "top_left", "window": 3}),
    ],
)
def test_what_it_does_not_take_goes_to_pytorch_as_a_whole(reason, options):
    tensors = needing(*(draw(1, 2, 16, 32, seed=s) for s in range(3)))
    with pytest.warns(FallbackWarning, match=f"it needs gradients, and .*{reason}") as told:
        for _ in range(2):
            result = flashcore.attention(*tensors, **options)
    assert len(told) == 1
    o = result[0] if isinstance(result, tuple) else result
    assert all(x.isfinite().all() for x in torch.autograd.grad(o.float().sum(), tensors))


@pytest.mark.parametrize("options", [{"window": 4}, {"window": (None, 9)}, {"causal": "top_left"}])
def test_bounds_that_its_kernels_leave_out(options):
    """With more queries than keys."""
    q, k, v = (draw(1, 2, n, 32, seed=s).requires_grad_() for s, n in enumerate((20, 9, 9)))
    with pytest.warns(FallbackWarning, match="has 20 queries of 9 keys with a mask"):
        flashcore.attention(q, k, v, **options).sum().backward()
    assert q.grad.isfinite().all()


def table(size):
    return draw(size, dtype=torch.float32, seed=9)


@pytest.mark.parametrize(
    "name, options",
    [
        ("alibi_slopes", {"alibi_slopes": table(4).abs(), "causal": True}),
        ("head_scales", {"head_scales": table(4)}),
        ("sinks", {"sinks": table(4)}),
        ("seqused_k", {"seqused_k": torch.tensor([5, 16], dtype=torch.int32), "causal": True}),
        ("score_mod", {"score_mod": lambda s, b, h, i, j: s * 0.5 - 0.1 * j + b}),
        ("mask_mod", {"mask_mod": lambda b, h, i, j: (j <= i) | (h == 1)}),
        ("score_mod and mask_mod", {"score_mod": lambda s, b, h, i, j: torch.tanh(s), "mask_mod": lambda b, h, i, j: j != i, "lse": True}),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_clauses_and_functions_go_to_pytorch_as_a_whole(name, options):
    """Values are the kernel's, and gradients those of differences."""
    inputs = draw(2, 4, 16, 32), draw(2, 2, 16, 32, seed=1), draw(2, 2, 16, 32, seed=2)
    with torch.no_grad():
        wanted = flashcore.attention(*inputs, **options)
    tensors = needing(*inputs)
    with pytest.warns(FallbackWarning, match=f"it needs gradients, and has {name}") as told:
        result = flashcore.attention(*tensors, **options)
        flashcore.attention(*tensors, **options)
    assert len(told) == 1
    for mine, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (result, wanted))):
        torch.testing.assert_close(mine, theirs, atol=4e-3, rtol=1e-2)
    o = result[0] if isinstance(result, tuple) else result
    assert all(x.isfinite().all() and x.any() for x in torch.autograd.grad(o.float().sin().sum(), tensors))


def test_clauses_have_gradients_of_their_own():
    warnings.simplefilter("ignore", FallbackWarning)
    q, k, v = (draw(2, 4, 16, 32, seed=s) for s in range(3))
    for name in ("alibi_slopes", "head_scales", "sinks"):
        numbers = table(4).abs().requires_grad_()
        flashcore.attention(q, k, v, **{name: numbers}).float().sin().sum().backward()
        assert numbers.grad.isfinite().all() and numbers.grad.any()


def test_sequences_back_to_back_have_gradients():
    q, k, v = needing(*(draw(1, 2, 20, 32, seed=s) for s in range(3)))
    ends = torch.tensor([0, 7, 20], dtype=torch.int32)
    call = lambda *x: flashcore.attention(*x, cu_seqlens_q=ends, cu_seqlens_k=ends, causal=True)
    with pytest.warns(FallbackWarning, match="has cu_seqlens_q and cu_seqlens_k"):
        o = call(q, k, v)
    with torch.no_grad():
        torch.testing.assert_close(o, call(q, k, v), atol=4e-3, rtol=1e-2)
    o.float().sin().sum().backward()
    assert all(x.grad.isfinite().all() and x.grad.any() for x in (q, k, v))


def test_which_sequences_have_a_backward_pass():
    """As on a GPU, where scripts/training-check.py runs them."""
    from flashcore.operators import training

    def takes(device="cuda", **options):
        row = type("Row", (), {"device": torch.device(device), "dtype": torch.float16, "shape": (8, 2, 64)})
        options = {"causal": None, "window": (None, None), "softcap": None, **options}
        return training.takes_sequences(row, row, row, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
        assert takes() and takes(causal="bottom_right", window=(5, None)) and takes(window=(5, 3))
        for options in ({"device": "cpu"}, {"softcap": 2.0}, {"dropout_p": 0.1}, {"causal": "top_left"}, {"window": (5, None)}):
            assert not takes(**options), options
        patch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
        assert not takes()


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_what_the_backward_pass_of_sequences_is_given(monkeypatch, layout):
    """Its kernel is a GPU's; the formula stands for it."""
    from flashcore.operators import training
    from flashcore.operators.fallback import sequences_by_torch

    ends = torch.tensor([0, 7, 7, 20], dtype=torch.int32)

    def backward(gradient, q, k, v, o, lse, of_q, of_k, most_q, most_k, dropout_p, is_causal, *state, **options):
        assert o.shape == gradient.shape == q.shape == (20, 4, 32) and k.shape == v.shape == (20, 2, 32)
        assert lse.shape == (4, 20) and lse.isfinite().all()
        assert torch.equal(of_q, ends) and torch.equal(of_k, ends) and (most_q, most_k, dropout_p, is_causal) == (20, 20, 0.0, True)
        assert options == {"scale": None, "window_size_left": 5, "window_size_right": None}
        with torch.enable_grad():
            tensors = needing(q, k, v)
            found = sequences_by_torch(*tensors, ends, ends, causal="bottom_right", window=(5, None))
            return torch.autograd.grad(found, tensors, gradient)

    sizes = [(1, heads, 20, 32) if layout == "bhsd" else (1, 20, heads, 32) for heads in (4, 2, 2)]
    inputs = [draw(*size, seed=seed) for seed, size in enumerate(sizes)]
    call = lambda *x, **options: flashcore.attention(
        *x, cu_seqlens_q=ends, cu_seqlens_k=ends, causal=True, window=5, layout=layout, **options
    )
    with torch.no_grad():
        wanted, _ = call(*inputs, lse=True)
    monkeypatch.setattr(training, "takes_sequences", lambda *tensors, **options: True)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_backward", backward)
    tensors = needing(*inputs)
    o = call(*tensors)
    assert torch.equal(o, wanted)
    ours = torch.autograd.grad(o.float().sin().sum(), tensors)
    flashcore.torch.set_on_grad("fallback")
    warnings.simplefilter("ignore", FallbackWarning)
    theirs = torch.autograd.grad(call(*tensors).float().sin().sum(), tensors)
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other, atol=4e-3, rtol=1e-2)


def test_what_has_no_gradient_is_refused():
    q, k, v = needing(*(draw(1, 2, 16, 32, seed=s) for s in range(3)))
    with pytest.raises(flashcore.GradientError):
        flashcore.attention(q, k, v, scores="masked")

    def f(s, b, h, i, j):
        return s + "no number" if torch.is_tensor(s) else s

    warnings.simplefilter("ignore", FallbackWarning)
    with pytest.raises(flashcore.GradientError, match="expects f to take tensors"):
        flashcore.attention(q, k, v, score_mod=f)


def test_functions_of_flashcore_take_tensors():
    warnings.simplefilter("ignore", FallbackWarning)
    inputs = [draw(1, 2, 16, 32, seed=s) for s in range(3)]

    table_of_keys = flashcore.capture(table(16).numpy())

    def score_mod(score, b, h, i, j):
        near = flashcore.where(i - j < 4, flashcore.exp2(score * 0.1), flashcore.maximum(score, -1.0))
        return near + flashcore.clamp(score, -0.5, 0.5) + table_of_keys[j]

    o = flashcore.attention(*needing(*inputs), score_mod=score_mod)
    with torch.no_grad():
        torch.testing.assert_close(o, flashcore.attention(*inputs, score_mod=score_mod), atol=4e-3, rtol=1e-2)
    assert o.requires_grad


def test_head_dims_that_it_does_not_take():
    for head_dim, head_dim_v in ((12, 12), (32, 16)):
        q, k = (draw(1, 2, 16, head_dim, seed=s).requires_grad_() for s in range(2))
        v = draw(1, 2, 16, head_dim_v, seed=2)
        with pytest.warns(FallbackWarning, match="it needs gradients, and its head_dim"):
            flashcore.attention(q, k, v).sum().backward()
        assert q.grad.isfinite().all()


def test_operators_have_gradients():
    for operator in (torch.ops.flashcore.attention, torch.ops.flashcore.attention_lse):
        q, k, v = needing(*(draw(1, 2, 16, 32, seed=s) for s in range(3)))
        result = operator(q, k, v, causal="bottom_right")
        o = result[0] if isinstance(result, tuple) else result
        o.float().sin().sum().backward()
        assert q.grad.isfinite().all() and k.grad.any() and v.grad.any()


def test_operators_refuse_what_has_no_backward_pass():
    q, k, v = needing(*(draw(1, 2, 16, 32, seed=s) for s in range(3)))
    _, lse = torch.ops.flashcore.attention_lse(q, k, v)
    with pytest.raises(flashcore.GradientError, match="returns its log-sum-exp"):
        lse.sum().backward()
    o = torch.ops.flashcore.attention(q, k, v, softcap=3.0)
    with pytest.raises(flashcore.GradientError, match="has a softcap"):
        o.sum().backward()


def test_a_second_derivative_is_refused():
    q, k, v = needing(*(draw(1, 2, 16, 32, seed=s) for s in range(3)))
    (first,) = torch.autograd.grad(
        flashcore.attention(q, k, v).float().sin().sum(), q, create_graph=True
    )
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.float().sum().backward()


def test_checkpointing_computes_the_same():
    from torch.utils.checkpoint import checkpoint

    found = []
    for run in (lambda f, *x: f(*x), lambda f, *x: checkpoint(f, *x, use_reentrant=False)):
        tensors = needing(*(draw(1, 2, 16, 32, seed=s) for s in range(3)))
        found.append(torch.autograd.grad(run(flashcore.attention, *tensors).float().sin().sum(), tensors))
    for mine, wanted in zip(*found):
        assert torch.equal(mine, wanted)


def test_a_model_learns():
    """A few steps of a layer, beside the same with PyTorch's attention."""
    losses = []
    for attend in (lambda *x: flashcore.attention(*x, causal=True), lambda *x: F.scaled_dot_product_attention(*x, is_causal=True)):
        torch.manual_seed(0)
        project = torch.nn.Linear(32, 96, dtype=torch.bfloat16)
        out = torch.nn.Linear(32, 32, dtype=torch.bfloat16)
        optimizer = torch.optim.SGD([*project.parameters(), *out.parameters()], lr=0.5)
        x, wanted = draw(2, 16, 32, dtype=torch.bfloat16), draw(2, 16, 32, dtype=torch.bfloat16, seed=1)
        for _ in range(8):
            q, k, v = project(x).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
            loss = (out(attend(q, k, v).transpose(1, 2).flatten(2)) - wanted).float().square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert math.isfinite(losses[0]) and abs(losses[0] - losses[1]) < 0.02 * losses[1]
