"""flashcore.attention(..., scores=STAGE), on the emulator, against the formula."""

import ml_dtypes
import numpy
import pytest

import flashcore
from flashcore.options import STAGES
from formula import assert_close, attention, draw, draw_qkv


def stages(q, k, causal=None, softcap=None, bias=None, seqused=None):
    """The formula of each stage in double precision."""
    q, k = (array.astype(numpy.float64) for array in (q, k))
    k = numpy.repeat(k, q.shape[1] // k.shape[1], 1)
    queries, keys = q.shape[2], k.shape[2]
    used = numpy.full(len(q), keys) if seqused is None else seqused
    i, j = numpy.arange(queries)[:, None], numpy.arange(keys)
    exists = (j < used[:, None, None, None]) & (i >= 0)
    own = i + used[:, None, None, None] - queries
    scaled = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    capped = scaled if softcap is None else softcap * numpy.tanh(scaled / softcap)
    changed = capped if bias is None else capped + bias.astype(numpy.float64)
    masked = numpy.where(exists & ((j <= own) | (causal is None)), changed, -numpy.inf)
    highest = masked.max(-1, keepdims=True)
    power = numpy.exp(masked - numpy.where(numpy.isinf(highest), 0, highest))
    total = power.sum(-1, keepdims=True)
    early = [numpy.where(exists, array, 0) for array in (scaled, capped, changed)]
    return dict(zip(STAGES, [*early, masked, power / numpy.where(total == 0, 1, total)]))


@pytest.mark.parametrize("device", ["emulator", "reference"])
@pytest.mark.parametrize("stage", STAGES)
def test_every_stage(stage, device):
    q, k, v = draw_qkv(batch=2, heads=4, heads_kv=2, queries=70, keys=40, dim_v=24)
    bias = draw(1, 4, 1, 40, seed=5, dtype=numpy.float32)
    options = {"causal": True, "softcap": 3.0, "bias": bias}
    o, lse, scores = flashcore.attention(q, k, v, **options, lse=True, scores=stage, device=device)
    assert scores.shape == (2, 4, 70, 40) and scores.dtype == numpy.float32
    assert_close(scores, stages(q, k, "bottom_right", 3.0, bias)[stage], 1e-3)
    expected, expected_lse = attention(q, k, v, "bottom_right", softcap=3.0, bias=bias)
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_the_attention_is_as_without():
    q, k, v = draw_qkv(queries=50)
    o, lse = flashcore.attention(q, k, v, causal=True, lse=True)
    plain = flashcore.attention(q, k, v, causal=True)
    for stage in STAGES:
        result = flashcore.attention(q, k, v, causal=True, scores=stage)
        # Sums of an LSE, which probabilities need, are of weights that are not rounded.
        expected = o if stage == "probabilities" else plain
        assert len(result) == 2 and numpy.array_equal(result[0], expected)
        with_lse = flashcore.attention(q, k, v, causal=True, lse=True, scores=stage)
        assert len(with_lse) == 3 and numpy.array_equal(with_lse[1], lse)
        assert numpy.array_equal(with_lse[2], result[1])


def test_rows_that_see_nothing_have_no_weights():
    q, k, v = draw_qkv(queries=40, keys=10)
    _, weights = flashcore.attention(q, k, v, causal=True, scores="probabilities")
    assert (weights[:, :, :30] == 0).all()
    assert numpy.allclose(weights[:, :, 30:].sum(-1), 1, atol=1e-3)


@pytest.mark.parametrize("stage", ["changed", "masked", "probabilities"])
@pytest.mark.parametrize("static", [False, True])
def test_lengths(stage, static):
    q, k, v = draw_qkv(batch=3, queries=20, keys=50)
    used = numpy.array([50, 7, 0], numpy.int32)
    k[1, :, 7:] = k[2] = numpy.nan
    bias = draw(3, 1, 1, 50, seed=4)
    options = {"causal": True, "seqused_k": used, "bias": bias, "static": static}
    _, scores = flashcore.attention(q, k, v, **options, scores=stage)
    k = numpy.nan_to_num(k)
    assert_close(scores, stages(q, k, "bottom_right", bias=bias, seqused=used)[stage], 1e-3)


@pytest.mark.parametrize("queries", [1, 3, 33])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_layouts_types_and_few_queries(queries, layout):
    q, k, v = draw_qkv(heads=4, queries=queries, keys=1100, dtype=ml_dtypes.bfloat16)
    expected = stages(q, k)["masked"]
    if layout == "bshd":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    _, scores = flashcore.attention(q, k, v, layout=layout, scores="masked")
    assert_close(scores, expected, 1e-3)


def test_functions_and_sinks():
    q, k, v = draw_qkv(queries=30, keys=30)
    sinks = numpy.array([0.5, 2], numpy.float32)

    def score_mod(score, batch, head, query, key):
        return score + head

    def mask_mod(batch, head, query, key):
        return (key <= query) & (key != 3)

    options = {"score_mod": score_mod, "mask_mod": mask_mod, "sinks": sinks}
    _, changed = flashcore.attention(q, k, v, **options, scores="changed")
    _, masked = flashcore.attention(q, k, v, **options, scores="masked")
    _, weights = flashcore.attention(q, k, v, **options, scores="probabilities")
    expected = stages(q, k)["scaled"] + numpy.arange(2)[:, None, None]
    assert_close(changed, expected, 1e-3)
    i, j = numpy.arange(30)[:, None], numpy.arange(30)
    expected = numpy.where((j <= i) & (j != 3), expected, -numpy.inf)
    assert_close(masked, expected, 1e-3)
    power = numpy.exp(expected)
    total = power.sum(-1, keepdims=True) + numpy.exp(sinks)[:, None, None]
    assert_close(weights, power / total, 1e-3)


def test_without_queries_or_keys():
    q, k, v = draw_qkv(queries=20, keys=30)
    o, lse, scores = flashcore.attention(q[:, :, :0], k, v, lse=True, scores="masked")
    assert o.shape == (1, 2, 0, 64) and lse.shape == (1, 2, 0) and scores.shape == (1, 2, 0, 30)
    o, scores = flashcore.attention(q, k[:, :, :0], v[:, :, :0], scores="probabilities")
    assert (o == 0).all() and scores.shape == (1, 2, 20, 0)


def test_keys_that_are_copied_first():
    q, k, v = draw_qkv(queries=20, keys=30)
    o, scores = flashcore.attention(q, k[:, :, ::-1], v, scores="scaled")
    assert_close(scores, stages(q, k[:, :, ::-1])["scaled"], 1e-3)


@pytest.mark.parametrize("stage", ["weights", True, 1])
def test_stages_that_are_none(stage):
    q, k, v = draw_qkv()
    wrong = ValueError if isinstance(stage, str) else TypeError
    with pytest.raises(wrong, match="expects scores to be one of None, 'scaled', 'capped'"):
        flashcore.attention(q, k, v, scores=stage)


def test_no_out():
    q, k, v = draw_qkv()
    with pytest.raises(ValueError, match="expects out=None with scores, but got an array"):
        flashcore.attention(q, k, v, scores="masked", out=numpy.empty_like(q))


def test_no_sequences_and_no_pages():
    q, k, v = draw_qkv()
    ends = numpy.array([0, 40], numpy.int32)
    with pytest.raises(flashcore.UnsupportedError, match="expects no scores with cu_seqlens_q"):
        flashcore.attention(q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends, scores="masked")
    table = numpy.zeros((1, 1), numpy.int32)
    pages = draw(1, 2, 64, 64)
    with pytest.raises(flashcore.UnsupportedError, match="expects no scores with page_table"):
        flashcore.attention(q, pages, pages, page_table=table, scores="masked")
