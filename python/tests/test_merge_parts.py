"""``flashcore.merge``: attentions to parts of the keys become that to all of them."""

import sys
import warnings

import numpy as np
import pytest

import flashcore


def draw(keys, dtype="float16", seed=1, queries=9, heads=4, heads_kv=2, dim=64, batch=2):
    rng = np.random.default_rng(seed)
    sizes = (heads, queries), (heads_kv, keys), (heads_kv, keys)
    return tuple(
        rng.standard_normal((batch, h, rows, dim), dtype=np.float32).astype(dtype)
        for h, rows in sizes
    )


def attend_to_parts(q, k, v, ends, **options):
    """o and lse of each part of the keys."""
    parts = [slice(*pair) for pair in zip((0, *ends), (*ends, k.shape[2]))]
    results = [
        flashcore.attention(q, k[:, :, rows], v[:, :, rows], lse=True, **options) for rows in parts
    ]
    return tuple(zip(*results))


def assert_same(actual, expected, tolerance=2e-3):
    for ours, theirs in zip(actual, expected):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(
            ours.astype(np.float64), theirs.astype(np.float64), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("ends", [(30,), (1, 50, 99), ()], ids=["2", "4", "1"])
def test_parts_of_the_keys(ends, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    q, k, v = draw(100, dtype)
    whole = flashcore.attention(q, k, v, lse=True)
    merged = flashcore.merge(*attend_to_parts(q, k, v, ends))
    assert_same(merged, whole, 2e-3 if dtype == "float16" else 2e-2)


def test_the_layout_bshd():
    q, k, v = draw(60)
    outputs, lses = attend_to_parts(q, k, v, (20,))
    o, lse = flashcore.merge(outputs, lses)
    turned, same = flashcore.merge([x.swapaxes(1, 2) for x in outputs], lses, layout="bshd")
    assert (turned.swapaxes(1, 2) == o).all() and (same == lse).all()


def test_one_array_is_not_copied(copies):
    q, k, v = draw(60)
    outputs, lses = (np.stack(parts) for parts in attend_to_parts(q, k, v, (20,)))
    o, lse = flashcore.merge(outputs, lses)
    assert not copies
    # Rows whose elements lie apart are; gaps between rows are a stride.
    apart = np.repeat(outputs, 2, axis=-1)[..., ::2]
    wide = np.concatenate([lses, lses], axis=-1)[..., : lses.shape[-1]]
    again = flashcore.merge(apart, wide)
    assert len(copies) == 1
    assert (again[0] == o).all() and (again[1] == lse).all()


@pytest.mark.parametrize("dim", [1, 5, 36, 200])
def test_rows_of_float32_and_of_any_length(dim):
    rng = np.random.default_rng(3)
    outputs = rng.standard_normal((5, 1, 2, 7, dim), dtype=np.float32)
    lses = 3 * rng.standard_normal((5, 1, 2, 7), dtype=np.float32)
    o, lse = flashcore.merge(outputs, lses)
    weights = np.exp(lses.astype(np.float64))
    np.testing.assert_allclose(lse, np.log(weights.sum(0)), rtol=1e-5, atol=1e-5)
    expected = (weights[..., None] * outputs).sum(0) / weights.sum(0)[..., None]
    assert o.dtype == np.float32
    np.testing.assert_allclose(o, expected, rtol=1e-4, atol=1e-5)


def test_rows_without_keys_and_sinks():
    q, k, v = draw(40)
    used = np.array([0, 40], "int32")
    o, lse = flashcore.attention(q, k, v, seqused_k=used, lse=True)
    merged, of_all = flashcore.merge([o, o], [lse, lse])
    assert (merged[0] == 0).all() and (of_all[0] == -np.inf).all()
    np.testing.assert_allclose(merged[1].astype(float), o[1].astype(float), atol=1e-3)
    np.testing.assert_allclose(of_all[1], lse[1] + np.log(2), rtol=1e-5)
    sinks = np.array([0.5, -1, 2, 0], "float32")
    expected = flashcore.attention(q, k, v, seqused_k=used, sinks=sinks, lse=True)
    assert_same(flashcore.merge([o], [lse], sinks=sinks), expected)
    assert_same(flashcore.merge([o], [lse], sinks=np.repeat(sinks, 2)[::2]), expected)


def test_merges_of_merges():
    q, k, v = draw(90)
    outputs, lses = attend_to_parts(q, k, v, (30, 60))
    first = flashcore.merge(outputs[:2], lses[:2])
    merged = flashcore.merge((first[0], outputs[2]), (first[1], lses[2]))
    assert_same(merged, flashcore.merge(outputs, lses))


def test_equal_calls_give_equal_bits_and_share_a_kernel(compiled):
    q, k, v = draw(90, dim=48)
    parts = attend_to_parts(q, k, v, (30,))
    before = compiled()
    first = flashcore.merge(*parts)
    assert compiled() == before + 1
    again = flashcore.merge(*parts)
    assert all((ours == theirs).all() for ours, theirs in zip(again, first))
    flashcore.merge(*attend_to_parts(*draw(90, dim=48, queries=3), (30, 40)))
    assert compiled() == before + 1


def test_no_rows():
    o, lse = flashcore.merge(np.zeros((2, 1, 3, 0, 64), "float16"), np.zeros((2, 1, 3, 0), "f"))
    assert o.shape == (1, 3, 0, 64) and lse.shape == (1, 3, 0)


OUTPUTS, LSES = np.zeros((2, 1, 3, 4, 8), "float16"), np.zeros((2, 1, 3, 4), "float32")


@pytest.mark.parametrize(
    ("outputs", "lses", "options", "error", "message"),
    [
        (OUTPUTS, LSES[:1], {}, ValueError, r"lses of \(2, 1, 3, 4\), .*, but got \(1, 1, 3, 4\)"),
        (OUTPUTS[0], LSES, {}, ValueError, r"expects outputs to have 5 axes, \(parts, .*got 4"),
        (OUTPUTS, LSES[0], {}, ValueError, "expects lses to have 4 axes, .*got 3"),
        (OUTPUTS.astype(float), LSES, {}, TypeError, "expects outputs of float16 or .*got float64"),
        (OUTPUTS, LSES.astype("float16"), {}, TypeError, "lses of float32, but got float16"),
        (OUTPUTS[:0], LSES[:0], {}, ValueError, "expects outputs of one part and one column"),
        ([], LSES, {}, ValueError, "expects outputs of one part or more, but got none"),
        ([OUTPUTS[0], OUTPUTS[0][:, :2]], LSES, {}, ValueError, "all of one type and one shape"),
        (["none"], LSES, {}, TypeError, "expects outputs to be arrays, but got 'none'"),
        (OUTPUTS, LSES, {"layout": "sbhd"}, ValueError, "expects layout to be one of .*'sbhd'"),
        (OUTPUTS, LSES, {"device": "reference"}, ValueError, "expects device .*'reference'"),
        (OUTPUTS, LSES, {"stream": 1}, ValueError, "expects no stream for arrays in host memory"),
        (OUTPUTS, LSES, {"sinks": LSES[0, 0, 0]}, ValueError, r"sinks of float32 \(3,\).*\(4,\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(outputs, lses, options, error, message):
    with pytest.raises(error, match=message):
        flashcore.merge(outputs, lses, **options)


def test_arrays_of_other_libraries_are_refused():
    class Other:
        def __dlpack__(self, **options):
            raise AssertionError("expects no read")

    for outputs in (Other(), [Other()]):
        with pytest.raises(flashcore.UnsupportedError, match="NumPy or CuPy in a merge"):
            flashcore.merge(outputs, LSES)


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    outputs, lses = attend_to_parts(*(torch.from_numpy(x) for x in draw(90)), (30, 60))
    o, lse = flashcore.merge(outputs, lses)
    expected = flashcore.merge([x.numpy() for x in outputs], [x.numpy() for x in lses])
    assert (o.numpy() == expected[0]).all() and (lse.numpy() == expected[1]).all()
    whole = torch.stack(outputs).requires_grad_()
    with torch.no_grad():
        assert torch.equal(flashcore.merge(whole, torch.stack(lses))[0], o)


def merged_in_pytorch(outputs, lses, sinks):
    torch = sys.modules["torch"]
    every = torch.cat([lses, sinks.view(1, 1, -1, 1).expand(1, *lses.shape[1:])])
    lse = every.logsumexp(0)
    return ((lses - lse).exp()[..., None] * outputs.float()).sum(0), lse


def test_pytorch_has_gradients_of_it():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    outputs, lses = attend_to_parts(*(torch.from_numpy(x) for x in draw(90)), (30, 60))
    lses = [lse.clone() for lse in lses]
    sinks = torch.zeros(lses[0].shape[1])
    lses[0][0, 0, 0] = -torch.inf
    given = [torch.stack(outputs), torch.stack(lses), sinks]
    leaves, others = ([x.clone().requires_grad_() for x in given] for _ in range(2))
    with pytest.warns(UserWarning, match="it needs gradients, and merges"):
        o, lse = flashcore.merge(*leaves[:2], sinks=leaves[2])
    expected = flashcore.merge(*given[:2], sinks=sinks)
    torch.testing.assert_close(o, expected[0], atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(lse, expected[1], atol=1e-5, rtol=1e-5)
    (o.float().square().sum() + lse.sum()).backward()
    wanted, wanted_lse = merged_in_pytorch(*others)
    (wanted.square().sum() + wanted_lse.sum()).backward()
    for leaf, other in zip(leaves, others):
        torch.testing.assert_close(leaf.grad, other.grad, atol=4e-3, rtol=4e-3)


def test_a_row_that_saw_nothing_has_finite_gradients():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    lses = torch.full((2, 1, 1, 4), -torch.inf, requires_grad=True)
    outputs = torch.zeros(2, 1, 1, 4, 32, dtype=torch.float16, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        o, lse = flashcore.merge(outputs, lses)
    assert (o == 0).all() and (lse == -torch.inf).all()
    o.float().sum().backward()
    assert lses.grad.isfinite().all() and outputs.grad.isfinite().all()


def test_pytorch_traces_it():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    outputs, lses = attend_to_parts(*(torch.from_numpy(x) for x in draw(90)), (30, 60))
    sinks = torch.zeros(lses[0].shape[1])

    def call(outputs, lses, sinks):
        return flashcore.merge(outputs, lses, sinks=sinks)

    for given in ((outputs, lses, None), (torch.stack(outputs), torch.stack(lses), sinks)):
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
        for result, expected in zip(compiled(*given), call(*given)):
            assert torch.equal(result, expected)
    stacked = torch.stack(outputs)
    batched = torch.vmap(lambda x: flashcore.merge(x, torch.stack(lses))[0])(stacked[None])
    assert torch.equal(batched[0], flashcore.merge(outputs, lses)[0])
    arguments = [stacked], [torch.stack(lses)], sinks
    options = {"stacked_outputs": True, "stacked_lses": True}
    torch.library.opcheck(torch.ops.flashcore.merge.default, arguments, options)


def test_float32_rows_that_are_aligned_less_are_copied():
    """Of 4 columns, which kernels move at once, after a call whose rows are aligned."""
    from flashcore import merge_kernel

    memory = np.zeros(2 * 1 * 2 * 5 * 4 + 2, "float32")
    rng = np.random.default_rng(0)
    lses = rng.standard_normal((2, 1, 2, 5)).astype("float32")
    start = -(memory.ctypes.data // 4) % 4
    for offset in (start, start + 2):
        parts = memory[offset % 4 :][:80].reshape(2, 1, 2, 5, 4)
        parts[:] = rng.standard_normal(parts.shape)
        assert merge_kernel.run_seen("bhsd", None, parts, lses, None) is NotImplemented
        o, _ = flashcore.merge(parts, lses)
        weights = np.exp(lses - np.log(np.exp(lses).sum(0)))[..., None]
        np.testing.assert_allclose(o, (weights * parts).sum(0), atol=1e-5)
