"""flash-attn's functions whose rows do not depend on their batch."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from flashcore import flash_attn
from torch_inputs import make

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def invariant():
    flash_attn.set_batch_invariant(True)
    yield
    flash_attn.set_batch_invariant(False)


def i32(values, device):
    return torch.tensor(values, dtype=torch.int32, device=device)


def draw(device, rows=700):
    """A prompt of some hundred tokens, whose scores are large enough to tell sums apart."""
    q, k, v = make(1, 4, 1, rows, rows, dim=64, layout="bshd", device=device)
    return 3 * q[0], 2 * k[0], v[0]


def prefill(parts, others):
    """out and lse of a prompt, (rows, ...), with another one in front."""
    q, k, v = (torch.cat(pair) for pair in zip(others, parts))
    first, count = len(others[0]), len(parts[0])
    ends = i32([0, first, first + count] if first else [0, count], q.device)
    out, lse, _ = flash_attn.flash_attn_varlen_func(
        q, k, v, ends, ends, count, count, causal=True, return_attn_probs=True
    )
    return out[first:], lse[:, first:].T


def decode(parts, row, batch=1, rows_of_cache=None):
    """The last query of the first ``row`` + 1 rows, which are appended to a cache of the others."""
    q, k, v = parts
    rows = rows_of_cache or row + 1
    caches = [x.new_zeros(batch, rows, *x.shape[1:]) for x in (k, v)]
    for cache, x in zip(caches, (k, v)):
        cache[-1, :row] = x[:row]
    used = i32([0] * (batch - 1) + [row], q.device)
    new = [x[None, row : row + 1].expand(batch, -1, -1, -1) for x in (q, k, v)]
    out, lse = flash_attn.flash_attn_with_kvcache(
        new[0], *caches, *new[1:], cache_seqlens=used, causal=True, return_softmax_lse=True
    )
    return out[-1], lse[-1].T


def equal(ours, theirs):
    return all(torch.equal(x, y) for x, y in zip(ours, theirs))


def test_rows_alone_and_in_a_batch(device, invariant):
    assert flash_attn.is_batch_invariant()
    parts = draw(device)
    alone = prefill(parts, [x[:0] for x in parts])
    assert equal(prefill(parts, [x[:333] for x in parts]), alone)
    first = [x[:60] for x in parts]
    assert equal(prefill(first, first), [x[:60] for x in alone])
    for row in (0, 130, 699):
        expected = [x[row : row + 1] for x in alone]
        assert equal(decode(parts, row), expected)
        assert equal(decode(parts, row, 7, 1024), expected)


def test_chunks_and_entries_of_a_cache(device, invariant):
    q, k, v = draw(device)
    whole = prefill((q, k, v), [x[:0] for x in (q, k, v)])
    caches = [x.new_zeros(3, 704, *x.shape[1:]) for x in (k, v)]
    entry, used = i32([2], device), 0
    for count in (1, 16, 200, 483):
        rows = slice(used, used + count)
        out, lse = flash_attn.flash_attn_with_kvcache(
            q[None, rows], *caches, k[None, rows], v[None, rows], cache_seqlens=i32([used], device),
            cache_batch_idx=entry, causal=True, return_softmax_lse=True,
        )  # fmt: skip
        assert equal((out[0], lse[0].T), [x[rows] for x in whole])
        used += count


def test_functions_without_lengths_agree(device, invariant):
    parts = draw(device, 200)
    alone = prefill(parts, [x[:0] for x in parts])
    q, k, v = (x[None].expand(2, -1, -1, -1) for x in parts)
    out = flash_attn.flash_attn_func(q, k, v, causal=True)
    assert torch.equal(out[1], alone[0])
    packed = torch.stack([k, v], 2)
    last = flash_attn.flash_attn_kvpacked_func(q[:, -1:], packed, causal=True)
    assert torch.equal(last[1], alone[0][-1:])


def test_without_it_they_depend_on_it(device):
    assert not flash_attn.is_batch_invariant()
    parts = draw(device)
    whole = prefill(parts, [x[:0] for x in parts])
    assert not equal(decode(parts, 699), [x[699:] for x in whole])


def test_compiled_code_follows_it():
    torch.compiler.reset()
    graphs = []

    def backend(module, inputs):
        graphs.append(str(module.graph))
        return module.forward

    compiled = torch.compile(flash_attn.flash_attn_func, fullgraph=True, backend=backend)
    q, k, v = make(layout="bshd")
    compiled(q, k, v)
    flash_attn.set_batch_invariant(True)
    try:
        assert torch.equal(compiled(q, k, v), flash_attn.flash_attn_func(q, k, v))
    finally:
        flash_attn.set_batch_invariant(False)
    assert ["invariance=batch" in graph for graph in graphs] == [False, True]


def test_others_than_bools_are_refused():
    with pytest.raises(TypeError, match="expects a bool of set_batch_invariant, but got 'batch'"):
        flash_attn.set_batch_invariant("batch")
