"""Clauses and functions where PyTorch sees a call as an operator."""

import contextlib

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import flashcore
from clause_calls import make_calls, near
from torch_inputs import make

CALLS = sorted(make_calls())


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()


def copies(tensors):
    return [tensor.clone() for tensor in tensors]


def flat(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_call_has_the_bits_of_the_eager_one(name, dynamic):
    function, *tensors = make_calls()[name]
    ours, theirs = copies(tensors), copies(tensors)
    expected = flat(function(*ours))
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for _ in range(2):
        results = flat(compiled(*theirs))
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected):
            assert torch.equal(result, wanted) and result.stride() == wanted.stride()
    # Rows that are appended to caches among them.
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs))


def test_inductor_compiles_it():
    function, *tensors = make_calls()["k_new"]

    def more(q, k, v, new, used):
        return function(q * 1, k, v, new + 1, used) * 2, k.sum()

    ours, theirs = copies(tensors), copies(tensors)
    expected = more(*ours)
    results = torch.compile(more, fullgraph=True)(*theirs)
    assert torch.equal(results[0], expected[0]) and torch.equal(results[1], expected[1])
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs))


def test_lengths_are_data():
    """Other lengths, and as many sequences: the same graph."""
    function, *tensors, ends = make_calls()["cu_seqlens"]
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for middle in (15, 3, 30):
        ends = torch.tensor([0, middle, 40], dtype=torch.int32)
        assert torch.equal(compiled(*tensors, ends), function(*tensors, ends))
    assert len(graphs) == 1


def within(width, table):
    def function(b, h, i, j):
        return (i - j < width) & (table[j] > 0)

    return function


def test_functions_are_looked_at_where_they_change():
    q, k, v = make(queries=20, keys=48)
    table = torch.arange(48, dtype=torch.int32) % 3

    def call(q, k, v, mask_mod):
        return flashcore.attention(q, k, v, mask_mod=mask_mod)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    results = []
    for mask_mod in (
        within(3, table), within(4, table), within(4, 2 - table), within(4, table.float()),
        within(4, torch.ones(60, dtype=torch.int32)),
    ):  # fmt: skip
        results.append(compiled(q, k, v, mask_mod))
        assert torch.equal(results[-1], call(q, k, v, mask_mod))
    assert not torch.equal(results[0], results[1]) and not torch.equal(results[1], results[2])


def doubled(s):
    return s * 2


def tripled(s):
    return s * 3


def test_functions_that_they_call_are_looked_at(monkeypatch):
    """Which hold nothing that could be looked at in their place."""
    q, k, v = make(queries=20, keys=48)

    def by(function):
        return lambda s, b, h, i, j: function(s)

    def by_global(s, b, h, i, j):
        return doubled(s)

    def call(q, k, v, score_mod):
        return flashcore.attention(q, k, v, score_mod=score_mod)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for score_mod in (by(doubled), by(tripled), by_global):
        assert torch.equal(compiled(q, k, v, score_mod), call(q, k, v, score_mod))
    monkeypatch.setitem(globals(), "doubled", tripled)
    assert torch.equal(compiled(q, k, v, by_global), call(q, k, v, by_global))


def test_one_tensor_in_two_places():
    q, k, v = make(queries=48, keys=48)
    same = torch.arange(48, dtype=torch.int32) // 8

    def of(first, second):
        return lambda b, h, i, j: first[i] == second[j]

    def call(q, k, v, mask_mod):
        return flashcore.attention(q, k, v, mask_mod=mask_mod)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for mask_mod in (of(same, same), of(same, (same + 1) % 6), of(same, same)):
        assert torch.equal(compiled(q, k, v, mask_mod), call(q, k, v, mask_mod))


def test_handles_of_any_function_are_compiled():
    q, k, v = make(queries=20, keys=48)
    model = Callable()
    table = torch.arange(48, dtype=torch.int32) % 3
    mask = flashcore.mask(model)
    score = flashcore.score(lambda s, b, h, i, j: s + table[j])

    def call(q, k, v):
        return flashcore.attention(q, k, v, mask_mod=mask, score_mod=score)

    expected = call(q, k, v)
    model.width = 1
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), expected) and torch.equal(call(q, k, v), expected)
    table += 1
    assert torch.equal(compiled(q, k, v), call(q, k, v))


def test_numbers_and_arrays_of_numpy_where_modes_watch():
    import numpy
    from torch.utils.flop_counter import FlopCounterMode

    q, k, v = make(queries=20, keys=48)
    table = flashcore.capture(numpy.arange(48, dtype="float32") / 48)
    factor = flashcore.number(0.5)

    def call():
        return flashcore.attention(q, k, v, score_mod=lambda s, b, h, i, j: s * factor + table[j])

    expected = call()
    with FlopCounterMode(display=False):
        assert torch.equal(call(), expected)


def test_globals_are_looked_at(monkeypatch):
    import clause_calls

    q, k, v = make(queries=20, keys=48)

    def call(q, k, v):
        return flashcore.attention(q, k, v, mask_mod=near)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    first = compiled(q, k, v)
    monkeypatch.setattr(clause_calls, "WIDTH", -9)
    assert torch.equal(compiled(q, k, v), call(q, k, v)) and not torch.equal(call(q, k, v), first)


class Model(torch.nn.Module):
    width = 5

    def forward(self, q, k, v):
        def mask_mod(b, h, i, j):
            return i - j < self.width

        return flashcore.attention(q * 1, k, v, mask_mod=mask_mod) + 1


class Callable:
    width = 5

    def method(self, b, h, i, j):
        return i - j < self.width

    __call__ = method


def test_what_is_not_in_closures_breaks_the_graph():
    """Of what a function reads there nobody can tell when it changes."""
    q, k, v = make(queries=20, keys=48)
    model, callable_ = Model(), Callable()
    documents = torch.zeros(40)

    def by_size(b, h, i, j):
        return j < documents.shape[0] - 4

    def call(q, k, v, mask_mod):
        return flashcore.attention(q * 1, k, v, mask_mod=mask_mod) + 1

    compiled_model = torch.compile(model, backend="aot_eager")
    compiled = torch.compile(call, backend="aot_eager")
    for width in (5, 2):
        model.width = callable_.width = width
        assert torch.equal(compiled_model(q, k, v), model(q, k, v))
        documents = torch.zeros(10 * width)
        for mask_mod in (callable_, callable_.method, by_size):
            assert torch.equal(compiled(q, k, v, mask_mod), call(q, k, v, mask_mod))
    torch.compiler.reset()
    with pytest.raises(Exception, match="disable"):
        torch.compile(call, backend="aot_eager", fullgraph=True)(q, k, v, callable_)


def test_flex_attention_is_compiled():
    from torch.nn.attention.flex_attention import create_block_mask

    q, k, v = make(queries=40, keys=40)
    table = torch.arange(40, dtype=torch.int32) % 3
    compiled = torch.compile(flashcore.flex_attention, backend="aot_eager", fullgraph=True)

    def bias(score, b, h, i, j):
        return score + (i - j) * 0.1

    for mask_mod in (lambda b, h, i, j: i >= j, lambda b, h, i, j: table[j] > 0):
        mask = create_block_mask(mask_mod, None, None, 40, 40, device="cpu")
        expected = flashcore.flex_attention(q, k, v, score_mod=bias, block_mask=mask)
        assert torch.equal(compiled(q, k, v, score_mod=bias, block_mask=mask), expected)


@pytest.mark.parametrize("name", ["sinks", "k_new", "scores"])
def test_operator_passes_opcheck(name):
    tensors = make_calls()[name][1:]
    beside = [None] * 12
    options = {"lse": True, "regions": [], "captures": []}
    operator = torch.ops.flashcore.attention_with.default
    if name == "sinks":
        beside[2] = tensors[3]
    elif name == "k_new":
        operator = torch.ops.flashcore.attention_append.default
        beside[5], beside[7], beside[8] = tensors[4], tensors[3], tensors[3].clone()
    else:
        options["scores"] = "masked"
    torch.library.opcheck(operator, (*tensors[:3], None, beside), options)


def test_export():
    function, *tensors = make_calls()["sinks"]

    class Module(torch.nn.Module):
        def forward(self, q, k, v, sinks):
            return function(q, k, v, sinks)

    exported = torch.export.export(Module(), tuple(tensors))
    assert torch.equal(exported.module()(*tensors), function(*tensors))


@pytest.mark.parametrize("name", ["sinks", "alibi_slopes", "mask_mod"])
def test_gradients_while_compiling(name):
    """By the formula, as in eager mode."""
    function, *tensors = make_calls()[name]
    results = []
    for call in (function, torch.compile(function, backend="aot_eager")):
        leaves = [x.clone().requires_grad_() for x in tensors]
        with pytest.warns(UserWarning) if call is function else contextlib.nullcontext():
            flat(call(*leaves))[0].float().square().sum().backward()
        results.append([leaf.grad for leaf in leaves])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("bias_axes", [None, 2, 4])
@pytest.mark.parametrize("in_dims", [(0, 0, 0), (1, None, 2)])
def test_vmap_is_one_launch(bias_axes, in_dims, monkeypatch):
    """Of an attention without clauses: the axis is a part of the batch."""
    from flashcore.operators import custom

    runs = []
    run = custom._run
    monkeypatch.setattr(custom, "_run", lambda *given, **more: runs.append(1) or run(*given, **more))
    q, k, v = (
        torch.stack([make(keys=24, seed=seed)[i] for seed in range(3)], axis or 0)
        if axis is not None
        else make(keys=24)[i]
        for i, axis in enumerate(in_dims)
    )
    shape = {2: (16, 24), 4: (2, 1, 16, 24)}.get(bias_axes)
    bias = None if shape is None else torch.randn(3, *shape, dtype=torch.float16)

    def call(q, k, v, bias):
        return flashcore.attention(q, k, v, bias=bias, lse=True, causal=True)

    o, lse = torch.vmap(call, (*in_dims, None if bias is None else 0))(q, k, v, bias)
    assert len(runs) == 1
    for i in range(3):
        tensors = [x if d is None else x.select(d, i) for x, d in zip((q, k, v), in_dims)]
        expected = call(*tensors, None if bias is None else bias[i])
        torch.testing.assert_close(o[i], expected[0], atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(lse[i], expected[1], atol=1e-4, rtol=1e-4)


def test_vmap_over_clauses():
    q, k, v = make(heads=4)
    sinks = torch.rand(3, 4)

    def call(q, sinks):
        return flashcore.attention(q, k, v, sinks=sinks)

    batched = torch.vmap(call, (None, 0))(q, sinks)
    for i in range(3):
        assert torch.equal(batched[i], call(q, sinks[i]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["sinks", "mask_mod", "seqused_k", "flex_attention"])
def test_autocast_casts_float32(name, dtype):
    """As it casts the arguments of PyTorch's attention."""
    function, q, k, v, *others = make_calls()[name]
    wide = [x.float() for x in (q, k, v)]
    for _ in range(2):
        with torch.autocast("cpu", dtype):
            o = flat(function(*wide, *others))[0]
            compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
            assert torch.equal(flat(compiled(*wide, *others))[0], o)
        narrow = [x.to(dtype) for x in wide]
        assert o.dtype is dtype and torch.equal(o, flat(function(*narrow, *others))[0])
        with pytest.raises(TypeError, match="expects q of float16 or bfloat16, but got float32"):
            function(*wide, *others)


def test_autocast_has_gradients_of_float32():
    q, k, v = (x.float().requires_grad_() for x in make())
    with torch.autocast("cpu", torch.bfloat16):
        o = flashcore.attention(q, k, v, causal=True)
    o.float().sum().backward()
    assert o.dtype is torch.bfloat16 and q.grad.dtype is torch.float32


def test_caches_are_not_cast():
    function, one, k, v, new, used = make_calls()["k_new"]
    with torch.autocast("cpu", torch.float16), pytest.raises(TypeError, match="but got float32"):
        function(one.float(), k.float(), v.float(), new.float(), used)


def test_flops_are_those_of_pytorchs_attention():
    from torch.utils.flop_counter import FlopCounterMode

    def count(call):
        with FlopCounterMode(display=False) as counter:
            call()
        return counter.get_total_flops()

    q, k, v = make(queries=20, keys=48)
    expected = 2 * 2 * 2 * 20 * 48 * 64
    # Older versions do not count that of host memory.
    theirs = count(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v))
    assert theirs in (expected, 0)
    assert count(lambda: flashcore.attention(q, k, v, lse=True)) == expected
    rows = [x.transpose(1, 2) for x in (q, k, v)]
    sinks = torch.zeros(2)
    assert count(lambda: flashcore.attention(*rows, sinks=sinks, layout="bshd")) == expected
    function, q, *pools, table, used = make_calls()["page_table"]
    pages, _, size, dim = pools[0].shape
    total = count(lambda: function(q, *pools, table, used))
    assert total == 2 * q.shape[0] * q.shape[1] * q.shape[2] * table.shape[1] * size * 2 * dim
