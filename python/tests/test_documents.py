"""flashcore.document_bounds, and masks by it, on the emulator."""

import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw_qkv


def bounds(documents):
    """One token at a time."""
    first, last = (numpy.zeros(documents.shape, numpy.int32) for _ in range(2))
    for place in numpy.ndindex(documents.shape):
        row, token = documents[place[:-1]], place[-1]
        begin = end = token
        while begin > 0 and row[begin - 1] == row[token]:
            begin -= 1
        while end + 1 < len(row) and row[end + 1] == row[token]:
            end += 1
        first[place], last[place] = begin, end
    return first, last


@pytest.mark.parametrize("shape", [(1,), (0,), (40,), (3, 25), (2, 2, 9)])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_bounds_are_those_of_runs(shape, library):
    documents = numpy.random.default_rng(3).integers(0, 3, shape)
    given = documents
    if library == "torch":
        torch = pytest.importorskip("torch")
        given = torch.from_numpy(documents)
    for result, expected in zip(flashcore.document_bounds(given), bounds(documents)):
        assert str(result.dtype).endswith("int32") and type(result) is type(given)
        numpy.testing.assert_array_equal(numpy.asarray(result), expected)


def test_a_mask_of_bounds_is_that_of_numbers():
    documents = numpy.repeat([[0, 1, 2, 2, 4], [7, 7, 7, 1, 7]], 30, axis=1)
    q, k, v = draw_qkv(batch=2, heads=2, heads_kv=1, queries=150, keys=150)
    first, last = map(flashcore.capture, flashcore.document_bounds(documents))
    o = flashcore.attention(
        q, k, v, mask_mod=lambda b, h, q, k: (k >= first[b, q]) & (k <= last[b, q])
    )
    # The last document of the second entry is not the first one.
    documents[1, 120:] = 9
    seen = documents[:, None, :, None] == documents[:, None, None, :]
    assert_close(o, attention(q, k, v, bias=numpy.where(seen, 0, -numpy.inf))[0])


def test_what_is_refused():
    with pytest.raises(TypeError, match="expects documents of whole numbers, but got float64"):
        flashcore.document_bounds(numpy.zeros(4))
    with pytest.raises(TypeError, match="NumPy array or a PyTorch tensor, but got <class 'list'>"):
        flashcore.document_bounds([0, 0, 1])
    with pytest.raises(ValueError, match="but got a single number"):
        flashcore.document_bounds(numpy.array(3))
