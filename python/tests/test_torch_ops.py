"""The operators of PyTorch: compiled, exported, faked, and with gradients."""

import shutil
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import flashcore
import flashcore.torch
from torch_inputs import assert_same_as, make, reference

ATTENTION = torch.ops.flashcore.attention.default
ATTENTION_LSE = torch.ops.flashcore.attention_lse.default


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    yield
    flashcore.torch.set_on_grad("backward")


def compiled(function, **options):
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


def count_graphs(function, **options):
    """A compiled function, and how often it was."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    return torch.compile(function, fullgraph=True, backend=backend, **options), graphs


def calls_operator(graph):
    return any("flashcore.attention" in str(node.target) for node in graph.graph.nodes)


def test_eager_tensors_do_not_take_the_operator(monkeypatch):
    monkeypatch.setattr(flashcore.operators.custom, "attention", None)
    q, k, v = make()
    assert_same_as(flashcore.attention(q, k, v), reference(q, k, v))


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_compiled_call_has_the_bits_of_the_eager_one(layout, dtype):
    q, k, v = make(heads_kv=1, keys=24, dtype=dtype, layout=layout)

    def call(q, k, v):
        return flashcore.attention(q, k, v, causal=True, layout=layout) * 2

    assert torch.equal(compiled(call)(q, k, v), call(q, k, v))


def test_compiled_call_takes_every_option():
    q, k, v = make(keys=24)
    bias = torch.randn(1, 1, 16, 24, dtype=torch.float16)

    def call(q, k, v, bias):
        return flashcore.attention(
            q, k, v, bias=bias, window=(8, 2), softcap=5.0, scale=0.2, lse=True,
            schedule={"block_n": 16}, device="emulator", static=True,
        )  # fmt: skip

    for ours, eager in zip(compiled(call)(q, k, v, bias), call(q, k, v, bias)):
        assert torch.equal(ours, eager)


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++, which Inductor calls")
def test_inductor_compiles_it():
    q, k, v = make()

    def call(q, k, v):
        return flashcore.attention(q.sin(), k, v, causal="top_left").cos()

    assert_same_as(torch.compile(call, fullgraph=True)(q, k, v), call(q, k, v).double(), 1e-3)


def test_dynamic_sizes_compile_once():
    call, graphs = count_graphs(
        lambda q, k, v: flashcore.attention(q, k, v, causal=True), dynamic=True
    )
    for batch, queries, keys in ((4, 16, 24), (3, 9, 31), (5, 30, 30)):
        q, k, v = make(batch=batch, queries=queries, keys=keys)
        assert_same_as(call(q, k, v), reference(q, k, v, causal="bottom_right"))
        sys.modules[f"imported between calls {batch}"] = sys  # guards must not see this
    assert len(graphs) == 1
    for batch in (3, 4, 5):
        del sys.modules[f"imported between calls {batch}"]


def test_result_is_in_memory_as_q_is():
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in make())
    eager = flashcore.attention(q, k, v)
    assert not eager.is_contiguous() and eager.transpose(1, 2).is_contiguous()
    assert compiled(flashcore.attention)(q, k, v).stride() == eager.stride()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(32, 96).half()

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 2, 16).transpose(1, 3).unbind(2)
        return flashcore.attention(q, k, v, causal=True).transpose(1, 2).reshape(x.shape)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("records", [True, False])
def test_export_with_dynamic_sizes(strict, records):
    model = Model().eval()
    sizes = {
        0: torch.export.Dim("batch", min=1, max=8),
        1: torch.export.Dim("seqlen", min=2, max=512),
    }
    x = torch.randn(2, 16, 32, dtype=torch.float16)
    with torch.set_grad_enabled(records):
        program = torch.export.export(model, (x,), dynamic_shapes={"x": sizes}, strict=strict)
    called = [str(node.target) for node in program.graph.nodes]
    assert called.count("flashcore.attention.default") == 1
    x = torch.randn(3, 11, 32, dtype=torch.float16)
    with torch.no_grad():
        assert_same_as(program.module()(x), model(x).double(), 2e-3)


@pytest.mark.parametrize("operator", [ATTENTION, ATTENTION_LSE])
@pytest.mark.parametrize("layout, memory", [("bhsd", "bhsd"), ("bhsd", "bshd"), ("bshd", "bshd")])
def test_operator_passes_opcheck(operator, layout, memory):
    q, k, v = make(queries=8, keys=16, dim=16, layout=layout)
    bias = torch.randn(8, 16, dtype=torch.float16)
    options = {"layout": layout, "memory": memory, "causal": "bottom_right", "softcap": 3.0}
    torch.library.opcheck(operator, (q, k, v), {"layout": layout})
    torch.library.opcheck(operator, (q, k, v, bias), options)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_fake_tensors_have_shapes_types_and_strides_of_results(layout):
    from torch._subclasses import FakeTensorMode

    q, k, v = make(queries=5, keys=7, dim_v=24, layout=layout)
    o, lse = flashcore.attention(q, k, v, lse=True, layout=layout)
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(tensor) for tensor in (q, k, v)]
    for fake, real in zip(flashcore.attention(*fakes, lse=True, layout=layout), (o, lse)):
        assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())


def test_fake_tensors_of_wrong_sizes_are_refused():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        q = torch.empty(1, 2, 8, 16, dtype=torch.float16)
        k = torch.empty(1, 2, 8, 32, dtype=torch.float16)
        with pytest.raises(RuntimeError, match="expects head_dim of k to be 16, but got 32"):
            flashcore.attention(q, k, k)
        with pytest.raises(RuntimeError, match="expects q of float16 or bfloat16 as q, but got"):
            flashcore.attention(*[q.float()] * 3)
        with pytest.raises(RuntimeError, match="expects v to have 4 axes, but got 3"):
            flashcore.attention(q, q, q[0])


def test_modes_and_transforms_see_the_operator():
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._python_dispatch import TorchDispatchMode

    q, k, v = make()
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    with Watch():
        o = flashcore.attention(q, k, v)
    assert ATTENTION in seen
    call = lambda q, k, v: flashcore.attention(q, k, v)
    assert "flashcore.attention" in make_fx(call)(q, k, v).code
    batched = torch.vmap(call)(*(x[None] for x in (q, k, v)))
    assert torch.equal(batched[0], o)


def test_out_and_stream_are_refused_while_tracing():
    q, k, v = make()
    # PyTorch 2.8 tells the type of an error alone.
    with pytest.raises(Exception, match="expects neither out nor stream|UnsupportedError"):
        compiled(lambda q, k, v: flashcore.attention(q, k, v, out=torch.empty_like(q)))(q, k, v)


# Gradients ------------------------------------------------------------------


def needing(*tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]


def test_gradient_is_refused():
    flashcore.torch.set_on_grad("error")
    q, k, v = make()
    with pytest.raises(flashcore.GradientError, match="has no backward pass") as error:
        flashcore.attention(*needing(q, k, v))
    assert isinstance(error.value, flashcore.UnsupportedError)
    with torch.no_grad():
        flashcore.attention(*needing(q, k, v))


def test_gradient_is_refused_while_compiling():
    flashcore.torch.set_on_grad("error")
    with pytest.raises(Exception, match="GradientError"):
        compiled(flashcore.attention)(*needing(*make()))


def test_transforms_refuse_gradients_and_tangents():
    from torch.autograd import forward_ad

    flashcore.torch.set_on_grad("error")
    q, k, v = make()
    with pytest.raises(flashcore.GradientError):
        torch.func.grad(lambda q: flashcore.attention(q, k, v).float().sum())(q)
    with forward_ad.dual_level(), pytest.raises(flashcore.GradientError):
        flashcore.attention(forward_ad.make_dual(q, q), k, v)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"causal": "top_left"},
        {"window": (5, 3)},
        {"causal": True, "softcap": 4.0, "scale": 0.3},
        {"bias": torch.randn(16, 24)},
        {"bias": torch.randn(16, 24), "window": 4, "lse": True},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_fallback_has_values_and_gradients_of_the_formula(wrap, options):
    flashcore.torch.set_on_grad("fallback")
    q, k, v = needing(*make(heads_kv=1, keys=24))
    call = wrap(lambda q, k, v: flashcore.attention(q, k, v, layout="bhsd", **options))
    result = call(q, k, v)
    doubles = needing(*(x.detach().double() for x in (q, k, v)))
    expected = reference(*doubles, **options)
    for ours, wanted in zip(*((x if isinstance(x, tuple) else (x,)) for x in (result, expected))):
        assert_same_as(ours.detach(), wanted.detach(), 5e-3)
    total = lambda x: sum(y.double().sin().sum() for y in (x if isinstance(x, tuple) else (x,)))
    ours = torch.autograd.grad(total(result), (q, k, v))
    for mine, wanted in zip(ours, torch.autograd.grad(total(expected), doubles)):
        assert_same_as(mine, wanted, 2e-2)


def test_fallback_warns_once_and_names_the_caller(monkeypatch):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    flashcore.torch.set_on_grad("fallback")
    inputs = needing(*make())
    with pytest.warns(flashcore.torch.FallbackWarning, match="it needs gradients") as told:
        flashcore.attention(*inputs)
        flashcore.attention(*inputs)
    assert len(told) == 1 and told[0].filename == __file__


@pytest.mark.parametrize("call", [flashcore.attention, flashcore.torch.scaled_dot_product_attention])
@pytest.mark.parametrize("dynamic", [False, True])
def test_fallback_warns_once_while_compiling(monkeypatch, call, dynamic):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    flashcore.torch.set_on_grad("fallback")
    function, graphs = count_graphs(lambda q, k, v: call(q, k, v), dynamic=dynamic)
    inputs = needing(*make())
    with pytest.warns(flashcore.torch.FallbackWarning, match="it needs gradients") as told:
        function(*inputs)
        function(*inputs)
    assert len(told) == 1
    assert not any(calls_operator(graph) for graph in graphs)
    with torch.no_grad():  # compiled again, for the kernel
        function(*inputs)
    assert calls_operator(graphs[-1])


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("call", [flashcore.attention, flashcore.torch.scaled_dot_product_attention])
def test_what_is_exported_has_no_gradient(call, strict):
    """Whatever parameters need, and set_on_grad says."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.ones(32, dtype=torch.float16))

        def forward(self, q, k, v):
            return call(q * self.factor, k, v)

    flashcore.torch.set_on_grad("fallback")
    inputs = make()
    program = torch.export.export(Model(), inputs, strict=strict)
    assert "flashcore.attention" in str(program.graph)


def test_unknown_action_for_gradients():
    with pytest.raises(
        ValueError, match="expects on_grad to be 'backward', 'fallback' or 'error', but got 'x'"
    ):
        flashcore.torch.set_on_grad("x")


# Others ---------------------------------------------------------------------


def test_threads_get_their_own_results():
    inputs = [make(queries=8 + i, keys=24) for i in range(4)]
    expected = [flashcore.attention(*x) for x in inputs]
    results = [None] * len(inputs)

    def work(i):
        results[i] = [flashcore.attention(*inputs[i]) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each, wanted in zip(results, expected):
        assert all(torch.equal(one, wanted) for one in each)


def test_importing_flashcore_does_not_import_torch():
    import subprocess

    code = "import sys, flashcore; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True)
