"""scaled_dot_product_attention: PyTorch's meaning, fallbacks, and the switch."""

import inspect
import math
import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
import torch.nn.functional as F

import flashcore
import flashcore.torch
from flashcore.torch import FallbackWarning, dropin
from torch_inputs import assert_same_as, make, no_host_reads
from torch_taken import NothingSeen, forget

PYTORCHS = F.scaled_dot_product_attention
sdpa = flashcore.torch.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    forget(monkeypatch)
    yield
    flashcore.torch.disable()
    flashcore.torch.set_on_grad("backward")
    assert F.scaled_dot_product_attention is PYTORCHS


@pytest.fixture
def calls(monkeypatch):
    """The calls that reach FlashCore, each checked for itself."""
    made = []

    def attention(*args, **options):
        made.append((args, options))
        return flashcore.attention(*args, **options)

    monkeypatch.setattr(dropin, "attention", attention)
    monkeypatch.setattr(dropin, "_seen", NothingSeen())
    return made


def compare(*args, calls=None, **options):
    """With PyTorch in double precision."""
    doubles = [x.double() if torch.is_tensor(x) and x.is_floating_point() else x for x in args]
    mask = options.get("attn_mask")
    in_double = dict(options)
    if mask is not None and mask.is_floating_point():
        in_double["attn_mask"] = mask.double()
    expected = PYTORCHS(*doubles, **in_double)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        actual = sdpa(*args, **options)
    assert actual.dtype == args[0].dtype
    assert_same_as(actual, expected, 1e-2 if args[0].dtype == torch.bfloat16 else 4e-3)
    assert calls is None or len(calls) == 1


def test_signature_is_that_of_the_installed_pytorch():
    ours = inspect.signature(sdpa).parameters
    schema = torch.ops.aten.scaled_dot_product_attention.default._schema
    assert list(ours) == [argument.name for argument in schema.arguments]
    for argument in schema.arguments:
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        assert ours[argument.name].kind == kinds[argument.kwarg_only]
        default = (
            argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        )
        assert ours[argument.name].default == default
    assert inspect.signature(flashcore.torch.switch._switched) == inspect.signature(sdpa)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "sizes, options",
    [
        ({}, {}),
        ({"keys": 24}, {"scale": 0.3}),
        ({"keys": 24}, {"is_causal": True}),
        ({"queries": 24, "keys": 16}, {"is_causal": True}),
        ({"heads": 4, "heads_kv": 2, "dim_v": 16}, {"enable_gqa": True}),
        ({"heads": 3, "heads_kv": 1}, {}),
    ],
)
def test_same_as_pytorchs(calls, dtype, sizes, options):
    compare(*make(dtype=dtype, **sizes), calls=calls, **options)


@pytest.mark.parametrize("axes", [2, 3, 5, 6])
@pytest.mark.parametrize("masked", [False, True])
def test_any_number_of_axes(calls, axes, masked):
    q, k, v = make(keys=24)
    shape = {2: (0, 0), 3: (0,), 5: (None,), 6: (None, None)}[axes]
    q, k, v = (x[shape] for x in (q, k, v))
    mask = torch.randn(q.shape[:-1] + (24,), dtype=torch.float16) if masked else None
    compare(q, k, v, attn_mask=mask, calls=calls)


def test_batches_broadcast(calls):
    q, k, v = make(keys=24)
    compare(q[:1], k, v, calls=calls)
    compare(q, k[:1], v[:1])
    compare(q[:1, None], k[None], v[None])


def hidden_row(queries=16, keys=24):
    keep = torch.rand(queries, keys) < 0.7
    keep[3] = False
    return keep


@pytest.mark.parametrize(
    "shape", [(16, 24), (2, 1, 16, 24), (1, 2, 16, 24), (1, 1, 1, 24), (16, 1)]
)
def test_boolean_masks_keep_where_true(calls, shape):
    mask = torch.rand(shape) < 0.7
    compare(*make(keys=24), attn_mask=mask, calls=calls)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_float_masks_are_added(calls, dtype):
    compare(*make(keys=24), attn_mask=torch.randn(2, 1, 16, 24, dtype=dtype), calls=calls)


def test_rows_without_keys_are_zero_as_in_pytorch():
    q, k, v = make(keys=24)
    keep = hidden_row()
    compare(q, k, v, attn_mask=keep)
    compare(q, k, v, attn_mask=torch.zeros(16, 24, dtype=q.dtype).masked_fill(~keep, -math.inf))
    assert (sdpa(q, k, v, attn_mask=keep)[:, :, 3] == 0).all()


def test_expanded_masks_are_not_copied(calls):
    mask = (torch.rand(2, 1, 1, 24) < 0.7).expand(2, 2, 16, 24)
    compare(*make(keys=24), attn_mask=mask, calls=calls)
    assert calls[0][1]["bias"].shape == (2, 1, 1, 24)


def test_empty_tensors():
    for sizes in ({"batch": 0}, {"queries": 0, "keys": 8}):
        q, k, v = make(**sizes)
        assert sdpa(q, k, v).shape == q.shape
    q, k, v = make(keys=8)
    assert (sdpa(q, k[:, :, :0], v[:, :, :0]) == 0).all()


def test_autocast_casts_as_pytorch_does(calls):
    q, k, v = (x.float() for x in make())
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = sdpa(q, k, v), PYTORCHS(q, k, v)
    assert ours.dtype == theirs.dtype == torch.bfloat16 and len(calls) == 1
    assert_same_as(ours, theirs, 1e-2)


# Fallbacks ------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, options, reason",
    [
        (lambda x: x.float(), {}, "query is of torch.float32, and not of float16 or bfloat16"),
        (
            lambda x: x,
            {"dropout_p": 1.0},
            "its dropout_p 1.0 is not from 2^-17 to below 1 - 2^-17",
        ),
        (lambda x: x, {"scale": -0.5}, "its scale -0.5 is not positive"),
        (lambda x: x.repeat(1, 1, 1, 10), {}, "its head_dim is 320, and not in 1 to 256"),
        (lambda x: x.as_subclass(Subclass), {}, "query is a Subclass"),
    ],
)
def test_pytorch_computes_the_rest_with_one_warning(calls, change, options, reason):
    q, k, v = (change(x) for x in make())
    with pytest.warns(FallbackWarning) as told:
        for _ in range(2):
            assert torch.equal(sdpa(q, k, v, **options), PYTORCHS(q, k, v, **options))
    assert [str(x.message) for x in told] == [
        f"flashcore: PyTorch computes this attention: {reason}"
    ]
    assert told[0].filename == __file__ and not calls


class Subclass(torch.Tensor):
    pass


def test_what_the_compiler_refuses_goes_to_pytorch(monkeypatch):
    def attention(*args, **options):
        raise flashcore.UnsupportedError("has no kernel")

    monkeypatch.setattr(flashcore.torch.dropin, "attention", attention)
    q, k, v = make()
    with pytest.warns(FallbackWarning, match="has no kernel"):
        assert torch.equal(sdpa(q, k, v), PYTORCHS(q, k, v))


@pytest.mark.parametrize(
    "args, options",
    [
        (lambda q, k, v: (q, k, v), {"attn_mask": torch.ones(16, 16) > 0, "is_causal": True}),
        (lambda q, k, v: (q, k[..., :16], v), {}),
        (lambda q, k, v: (q, k.float(), v), {}),
        (lambda q, k, v: (q, k, v), {"attn_mask": torch.ones(16, 16).double()}),
        (lambda q, k, v: (q, k, v), {"attn_mask": torch.ones(16, 15) > 0}),
        (lambda q, k, v: (q.repeat(1, 2, 1, 1), k, v), {}),
        (lambda q, k, v: (q[0, 0, 0], k[0, 0, 0], v[0, 0, 0]), {}),
    ],
)
def test_wrong_calls_have_pytorchs_error(args, options):
    args = args(*make())
    try:
        taken = PYTORCHS(*args, **options)
    except RuntimeError as error:
        theirs = error
    else:  # some versions take what others refuse
        assert torch.equal(sdpa(*args, **options), taken)
        return
    with pytest.raises(RuntimeError) as ours:
        sdpa(*args, **options)
    assert str(ours.value).splitlines()[0] == str(theirs).splitlines()[0]


def test_gradients_are_refused_or_fall_back():
    flashcore.torch.set_on_grad("error")
    q, k, v = (x.requires_grad_() for x in make())
    with pytest.raises(
        flashcore.GradientError, match="scaled_dot_product_attention has no backward"
    ):
        sdpa(q, k, v)
    flashcore.torch.set_on_grad("fallback")
    with pytest.warns(FallbackWarning, match="it needs gradients"):
        sdpa(q, k, v).sum().backward()
    assert q.grad is not None
    mask = torch.zeros(16, 16, dtype=torch.float16, requires_grad=True)
    flashcore.torch.set_on_grad("error")
    with pytest.raises(flashcore.GradientError):
        sdpa(*make(), attn_mask=mask)


# Dropout --------------------------------------------------------------------


def test_dropout_follows_the_generator(calls):
    q, k, v = make(keys=24)
    torch.manual_seed(11)
    rng = torch.randint(-(2**63), 2**63 - 1, (2,))
    expected = flashcore.attention(q, k, v, dropout_p=0.3, rng=rng, causal="top_left")
    drawn = []
    for seed in (11, None, 11):
        if seed is not None:
            torch.manual_seed(seed)
        drawn.append(sdpa(q, k, v, dropout_p=0.3, is_causal=True))
    assert torch.equal(drawn[0], expected) and torch.equal(drawn[2], expected)
    assert not torch.equal(drawn[1], expected) and len(calls) == 3
    assert not torch.equal(expected, sdpa(q, k, v, is_causal=True))


@pytest.mark.parametrize("masked", [False, True])
def test_the_mean_of_many_drops_is_pytorchs(calls, masked):
    """Of a mask that hides keys, too, and of three axes."""
    q, k, v = (x[0] for x in make(heads=1, keys=24, dim=16))
    options = {"attn_mask": torch.rand(16, 24) < 0.7} if masked else {}
    torch.manual_seed(3)
    count = 200
    drawn = torch.stack([sdpa(q, k, v, dropout_p=0.4, **options).double() for _ in range(count)])
    theirs = torch.stack(
        [PYTORCHS(q, k, v, dropout_p=0.4, **options).double() for _ in range(count)]
    )
    expected = PYTORCHS(q.double(), k.double(), v.double(), **options)
    sigma = drawn.std(0) / count**0.5
    assert ((drawn.mean(0) - expected).abs() < 5 * sigma + 2e-3).all()
    # As far apart as PyTorch's draws are.
    assert 0.9 < (drawn.std(0).mean() / theirs.std(0).mean()) < 1.1
    assert len(calls) == count


def test_words_of_a_dropout_stay_on_the_device(calls):
    q, k, v = make()
    sdpa(q, k, v, dropout_p=0.1)
    with no_host_reads("cpu"):
        sdpa(q, k, v, dropout_p=0.1)
    rng = calls[0][1]["rng"]
    assert rng.device == q.device and rng.dtype == torch.int64 and rng.shape == (2,)


def test_dropout_with_gradients_goes_to_pytorch(calls):
    q, k, v = (x.requires_grad_() for x in make())
    with pytest.warns(FallbackWarning, match="it has dropout and needs gradients"):
        sdpa(q, k, v, dropout_p=0.1).sum().backward()
    assert q.grad is not None and not calls
    with torch.no_grad():
        sdpa(q, k, v, dropout_p=0.1)
    assert len(calls) == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_dropout_is_compiled(backend, monkeypatch):
    torch.compiler.reset()
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    q, k, v = make()
    v = torch.ones_like(v)

    def call(q, k, v):
        return sdpa(q, k, v, dropout_p=0.25)

    compiled = torch.compile(call, fullgraph=True, backend=backend)
    torch.manual_seed(5)
    results = [compiled(q, k, v) for _ in range(3)]
    torch.manual_seed(5)
    assert torch.equal(compiled(q, k, v), results[0])
    assert not torch.equal(results[0], results[1]) and not torch.equal(results[1], results[2])
    assert abs(torch.stack(results).float().mean() - 1) < 0.1
    assert not flashcore.torch.fallbacks()


def test_dropout_of_modules(calls):
    """Of a module in training whose parameters need no gradient."""
    module = torch.nn.MultiheadAttention(32, 2, dropout=0.25, batch_first=True).half()
    x = torch.randn(1, 16, 32, dtype=torch.float16)
    with torch.no_grad(), flashcore.torch.sdpa(emulate=True):
        module(x, x, x, need_weights=False)
        module.eval()(x, x, x, need_weights=False)
    assert [options.get("dropout_p") for _, options in calls][0] == 0.25


# The switch -----------------------------------------------------------------


def test_switch_on_and_off(calls):
    q, k, v = make()
    with flashcore.torch.sdpa(emulate=True):
        assert flashcore.torch.is_enabled()
        assert_same_as(F.scaled_dot_product_attention(q, k, v), PYTORCHS(q, k, v).double())
    assert len(calls) == 1 and not flashcore.torch.is_enabled()
    F.scaled_dot_product_attention(q, k, v)
    assert len(calls) == 1
    flashcore.torch.enable(emulate=True)
    F.scaled_dot_product_attention(q, k, v)
    flashcore.torch.disable()
    flashcore.torch.disable()
    assert len(calls) == 2 and F.scaled_dot_product_attention is PYTORCHS


def test_switch_leaves_the_host_to_pytorch_unless_told(calls):
    q, k, v = make()
    with flashcore.torch.sdpa(), pytest.warns(FallbackWarning, match="emulate=True"):
        assert torch.equal(F.scaled_dot_product_attention(q, k, v), PYTORCHS(q, k, v))
    assert not calls


def test_switches_nest_and_the_innermost_says_how(calls):
    q, k, v = make()
    with flashcore.torch.sdpa(emulate=True):
        with pytest.raises(ZeroDivisionError), flashcore.torch.sdpa():
            with pytest.warns(FallbackWarning):
                F.scaled_dot_product_attention(q, k, v)
            raise ZeroDivisionError
        F.scaled_dot_product_attention(q, k, v)
        flashcore.torch.enable()
        flashcore.torch.disable()
        assert flashcore.torch.is_enabled()
    assert len(calls) == 1


def test_switches_of_threads_overlap():
    steps = [threading.Event() for _ in range(3)]

    def first():
        with flashcore.torch.sdpa():
            steps[0].set()
            assert steps[1].wait(30)
        steps[2].set()

    thread = threading.Thread(target=first)
    thread.start()
    assert steps[0].wait(30)
    with flashcore.torch.sdpa():
        steps[1].set()
        assert steps[2].wait(30)
        assert flashcore.torch.is_enabled()
        assert F.scaled_dot_product_attention is not PYTORCHS
    thread.join()
    assert not flashcore.torch.is_enabled()


def test_switch_says_what_gradients_do():
    q, k, v = (x.requires_grad_() for x in make())
    with flashcore.torch.sdpa(emulate=True, on_grad="error"):
        with pytest.raises(flashcore.GradientError):
            F.scaled_dot_product_attention(q, k, v)
    with flashcore.torch.sdpa(emulate=True, on_grad="fallback"), pytest.warns(FallbackWarning):
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    with pytest.raises(ValueError, match="expects on_grad to be"):
        flashcore.torch.enable(on_grad="maybe")


def test_switch_keeps_what_others_put_in_its_place():
    before = []

    def other(*args, **options):
        before.append(args)
        return PYTORCHS(*args, **options)

    q, k, v = make()
    try:
        F.scaled_dot_product_attention = other
        with flashcore.torch.sdpa(), pytest.warns(FallbackWarning):
            F.scaled_dot_product_attention(q, k, v)  # on the host: falls back to the other
        assert len(before) == 1 and F.scaled_dot_product_attention is other
        with pytest.warns(UserWarning, match="is left as it is"):
            with flashcore.torch.sdpa():
                F.scaled_dot_product_attention = PYTORCHS
        assert F.scaled_dot_product_attention is PYTORCHS
    finally:
        F.scaled_dot_product_attention = PYTORCHS
        flashcore.torch.switch._replaced = PYTORCHS


def test_modules_of_torch_are_switched(calls):
    module = torch.nn.MultiheadAttention(32, 2, batch_first=True).half().eval()
    x = torch.randn(1, 16, 32, dtype=torch.float16)
    with torch.no_grad():
        module.in_proj_weight.requires_grad_()  # not the fused path of inference
        torch.backends.mha.set_fastpath_enabled(False)
        expected = module(x, x, x, need_weights=False)[0]
        with flashcore.torch.sdpa(emulate=True):
            actual = module(x, x, x, need_weights=False)[0]
        torch.backends.mha.set_fastpath_enabled(True)
    assert len(calls) == 1
    assert_same_as(actual, expected)


def test_compiled_code_follows_the_switch():
    torch.compiler.reset()
    graphs = []

    def backend(module, inputs):
        graphs.append(str(module.graph))
        return module.forward

    def call(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask) + 1

    q, k, v = make(keys=24)
    mask = torch.rand(16, 24) < 0.7
    compiled = torch.compile(call, fullgraph=True, backend=backend)
    expected = compiled(q, k, v, mask)
    with flashcore.torch.sdpa(emulate=True):
        assert_same_as(compiled(q, k, v, mask), expected.double())
    assert torch.equal(compiled(q, k, v, mask), expected)
    assert ["flashcore.attention" in graph for graph in graphs[:2]] == [False, True]


def test_drop_in_compiles_and_exports():
    torch.compiler.reset()
    q, k, v = make(keys=24, heads=4, heads_kv=2)

    def call(q, k, v):
        return sdpa(q, k, v, is_causal=True, enable_gqa=True)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
    assert torch.equal(compiled(q, k, v), call(q, k, v))

    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return call(q, k, v)

    program = torch.export.export(Model(), (q, k, v))
    assert "flashcore.attention" in str(program.graph)
    assert torch.equal(program.module()(q, k, v), call(q, k, v))


# A call like one before -----------------------------------------------------


def draw(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(1)).half()


@pytest.fixture
def checks(monkeypatch):
    """The calls that are checked one by one."""
    made, check = [], dropin._reason_against
    monkeypatch.setattr(dropin, "_reason_against", lambda *a: made.append(a) or check(*a))
    return made


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.2}])
def test_a_call_like_one_before_is_not_checked_again(checks, options):
    q, k = draw(1, 2, 20, 16), draw(1, 2, 30, 16)
    first = sdpa(q, k, k, **options)
    for _ in range(3):
        torch.testing.assert_close(sdpa(q, k, k, **options), first, rtol=0, atol=0)
    assert len(checks) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda q: {"query": q[:, :, :9]},
        lambda q: {"key": q[:, :1], "value": q[:, :1]},
        lambda q: {"is_causal": True},
        lambda q: {"scale": 0.3},
        lambda q: {"attn_mask": torch.zeros(20, 20, dtype=q.dtype)},
        lambda q: {"query": q.bfloat16(), "key": q.bfloat16(), "value": q.bfloat16()},
        lambda q: {"value": q[..., :8]},
    ],
)
def test_what_differs_is_checked(checks, change):
    q = draw(1, 2, 20, 16)
    same = {"query": q, "key": q, "value": q}
    sdpa(**same)
    sdpa(**same)
    assert len(checks) == 1
    changed = {**same, **change(q)}
    double = {n: x.double() if torch.is_tensor(x) else x for n, x in changed.items()}
    assert_same_as(sdpa(**changed), PYTORCHS(**double), 1e-2)
    assert len(checks) == 2


def is_seen(q, k, v, mask=None):
    """Whether a call runs without its checks."""
    if not dropin._is_usual(q, mask, 0.0):
        return False
    options = (False, None, False, True, *dropin._UNUSED)
    return dropin._seen.run_seen(q, k, v, mask, None, None, None, *options) is not NotImplemented


def test_what_no_size_shows_is_checked():
    """Gradients, autocast, other types of tensors and layouts, after the same sizes."""
    q = draw(1, 2, 20, 16)
    sdpa(q, q, q)
    flashcore.torch.set_on_grad("error")
    with pytest.raises(flashcore.GradientError, match="torch.scaled_dot_product_attention has no"):
        sdpa(q, q.clone().requires_grad_(), q)
    flashcore.torch.set_on_grad("fallback")
    with pytest.warns(FallbackWarning, match="it needs gradients"):
        assert sdpa(q, q.clone().requires_grad_(), q).requires_grad
    with torch.autocast("cpu", torch.bfloat16):
        assert sdpa(q, q, q).dtype == torch.bfloat16
    parameter = torch.nn.Parameter(q, requires_grad=False)
    torch.testing.assert_close(sdpa(parameter, q, q), sdpa(q, q, q), rtol=0, atol=0)
    nested = torch.nested.nested_tensor([q[0]])
    for other in (q.to_sparse(), nested, parameter):
        assert not is_seen(other, q, q)
    assert is_seen(q, q, q)


def test_calls_with_masks_are_kept(checks):
    """By sizes, types and places of the mask, whose values are those of each call."""
    q = draw(2, 2, 20, 16)
    masks = [torch.rand(1, 1, 20, 20) < 0.7, torch.rand(1, 1, 20, 20) < 0.4, torch.rand(1, 20) < 0.5]
    masks += [torch.randn(20, 20), torch.randn(20, 20).half(), (torch.rand(2, 1, 1, 20) < 0.5)]
    masks += [masks[-1].expand(2, 2, 20, 20), torch.rand(2, 2, 20, 20) < 0.5]
    for mask in (*masks, *masks):
        assert_same_as(sdpa(q, q, q, mask), PYTORCHS(*(q.double(),) * 3, mask if mask.dtype == torch.bool else mask.double()), 1e-2)
    assert len(checks) == len(masks) - 2  # two are as others are
    grad = torch.zeros(20, 20).half().requires_grad_()
    for other in (grad, torch._neg_view(masks[4]), torch.nn.Parameter(masks[4])):
        assert not is_seen(q, q, q, other)


def test_masks_are_made_in_graphs_of_other_kinds():
    """What a mask is made of is kept from call to call, whatever mode made it."""
    dropin._numbers.clear()
    q, mask = draw(1, 2, 20, 16), torch.rand(20, 20) < 0.7
    with torch.inference_mode():
        first = sdpa(q, q, q, mask)
    assert torch.equal(sdpa(q, q, q, mask), first) and len(dropin._numbers) == 1
    assert not any(x.is_inference() for x in next(iter(dropin._numbers.values())))
