"""Dropouts of ``flashcore.attention``, on the emulator and against the formula."""

import math

import numpy as np
import pytest

import flashcore
from philox import kept, philox


def draw(seed, batch=1, heads_q=2, heads_kv=1, seqlen_q=33, seqlen_k=150, head_dim=64):
    generator = np.random.default_rng(seed)

    def make(heads, seqlen):
        values = generator.standard_normal((batch, heads, seqlen, head_dim), np.float32)
        return values.astype(np.float16)

    return make(heads_q, seqlen_q), make(heads_kv, seqlen_k), make(heads_kv, seqlen_k)


def formula(q, k, v, p, rng):
    """O and lse in float64, by the formula."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3])
    lse = np.log(np.exp(scores).sum(-1))
    weights = np.exp(scores - lse[..., None])
    sizes = scores.shape
    mask = np.stack(
        [
            np.stack([kept(p, rng, b, h, *sizes[2:]) for h in range(sizes[1])])
            for b in range(sizes[0])
        ]
    )
    dropped = math.floor(65536 * np.float32(p) + 0.5) / 65536
    return (weights * mask / (1 - dropped)) @ v, lse


def test_philox_has_the_known_answers():
    ones = 0xFFFFFFFF
    assert [int(word) for word in philox((0,) * 4, (0, 0))] == [
        0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8,
    ]  # fmt: skip
    assert [int(word) for word in philox((ones,) * 4, (ones, ones))] == [
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD,
    ]  # fmt: skip


@pytest.mark.parametrize("device", ["emulator", "reference"])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.99])
def test_o_is_that_of_the_formula(p, device):
    q, k, v = draw(1, batch=2)
    rng = np.array([-(2**62) + 12345, 2**40 + 7], np.int64)
    o, lse = flashcore.attention(q, k, v, dropout_p=p, rng=rng, lse=True, device=device)
    expected, expected_lse = formula(q, k, v, p, rng)
    np.testing.assert_allclose(o, expected, atol=4e-3 / (1 - p), rtol=4e-3)
    np.testing.assert_allclose(lse, expected_lse, atol=1e-3)


def identity_rows(seqlen_k):
    """v that makes o a row of P: head_dim is seqlen_k."""
    return np.eye(seqlen_k, dtype=np.float16)[None, None]


@pytest.mark.parametrize(
    "schedule",
    [
        {},
        {"block-n": 16, "block-m": 32, "key-warps": 2},
        {"block-n": 48, "row-max": "stale", "row-sum": "mma"},
        {"key-splits": 3, "block-n": 32},
        {"chip": "sm_90a"},
    ],
    ids=str,
)
def test_the_mask_is_the_same_in_every_schedule(schedule):
    seqlen_q, seqlen_k = 40, 128
    generator = np.random.default_rng(3)
    q = generator.standard_normal((1, 2, seqlen_q, 128)).astype(np.float16)
    k = generator.standard_normal((1, 1, seqlen_k, 128)).astype(np.float16)
    rng = np.array([5, 6], np.int64)
    options = {name: value for name, value in schedule.items() if name != "chip"}
    o = flashcore.attention(
        q, k, identity_rows(seqlen_k), dropout_p=0.3, rng=rng, schedule=options or None,
        static=bool(options),
    )  # fmt: skip
    for head in range(2):
        expected = kept(0.3, rng, 0, head, seqlen_q, seqlen_k)
        assert ((o[0, head] != 0) == expected).all()


def test_the_kept_share_is_that_of_the_keys():
    seqlen_q, seqlen_k, heads = 256, 256, 4
    q = np.zeros((1, heads, seqlen_q, 256), np.float16)
    k = np.zeros((1, 1, seqlen_k, 256), np.float16)
    rng = np.array([123, 456], np.int64)
    p = 0.2
    o = flashcore.attention(q, k, identity_rows(seqlen_k), dropout_p=p, rng=rng)
    share = np.count_nonzero(o) / o.size
    assert abs(share - (1 - p)) < 4 * math.sqrt(p * (1 - p) / o.size)
    # What is left is scaled for what is not.
    np.testing.assert_allclose(o[o != 0], 1 / seqlen_k / (1 - p), rtol=2e-3)


def test_the_mean_over_seeds_is_o_without_dropout():
    q, k, v = draw(5, heads_q=1, seqlen_q=16, seqlen_k=64)
    plain = flashcore.attention(q, k, v, device="reference").astype(np.float64)
    count = 200
    drawn = np.stack(
        [
            flashcore.attention(
                q, k, v, dropout_p=0.5, rng=np.array([seed, 0], np.int64), device="reference"
            )
            for seed in range(count)
        ]
    ).astype(np.float64)
    error = drawn.mean(0) - plain
    sigma = drawn.std(0) / math.sqrt(count)
    # Of 1024 means, hardly any is off by more than five deviations.
    assert (np.abs(error) < 5 * sigma + 2e-3).all()
    assert abs((error / sigma).mean()) < 0.5


def test_equal_words_give_equal_bits_and_others_do_not():
    q, k, v = draw(7)
    words = [np.array(pair, np.int64) for pair in ([1, 2], [1, 2], [1, 3], [2, 2])]
    first, same, *others = (
        flashcore.attention(q, k, v, dropout_p=0.2, rng=rng).tobytes() for rng in words
    )
    assert first == same
    assert all(other != first for other in others)


def test_rng_may_lie_apart():
    q, k, v = draw(8)
    apart = np.array([1, 0, 2, 0], np.int64)[::2]
    dense = np.array([1, 2], np.int64)
    results = [flashcore.attention(q, k, v, dropout_p=0.2, rng=x).tobytes() for x in (apart, dense)]
    assert results[0] == results[1]


def test_no_dropout_looks_at_no_rng():
    q, k, v = draw(9)
    plain = flashcore.attention(q, k, v)
    assert (flashcore.attention(q, k, v, dropout_p=0.0, rng="nothing") == plain).all()


def test_sequences_count_from_their_beginning():
    q, k, v = draw(10, heads_q=2, heads_kv=2, seqlen_q=70, seqlen_k=70)
    rng = np.array([3, 4], np.int64)
    ends = np.array([0, 30, 30, 70], np.int32)
    o = flashcore.attention(
        q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends, dropout_p=0.4, rng=rng
    )
    for entry, (begin, end) in enumerate(zip(ends, ends[1:])):
        if begin == end:
            continue
        parts = [x[:, :, begin:end] for x in (q, k, v)]
        weights = [kept(0.4, rng, entry, head, end - begin, end - begin) for head in range(2)]
        scores = parts[0].astype(float) @ parts[1].astype(float).swapaxes(2, 3) / 8
        p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        expected = (p * np.stack(weights) / (1 - 26214 / 65536)) @ parts[2].astype(float)
        np.testing.assert_allclose(o[:, :, begin:end], expected, atol=1e-2, rtol=4e-3)


def test_batch_invariance_holds():
    q, k, v = draw(11, batch=1, seqlen_q=40)
    rng = np.array([1, 1], np.int64)
    one = flashcore.attention(q, k, v, dropout_p=0.2, rng=rng, batch_invariant=True)
    both = flashcore.attention(
        *(np.concatenate([x, x[::-1]]) for x in (q, k, v)), dropout_p=0.2, rng=rng,
        batch_invariant=True,
    )  # fmt: skip
    assert (both[0] == one[0]).all()


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, 1e-9, math.nan])
def test_refuses_other_shares(p):
    q, k, v = draw(12)
    with pytest.raises(ValueError, match=r"expects dropout_p to be 0, or from 2\^-17 to below"):
        flashcore.attention(q, k, v, dropout_p=p, rng=np.array([1, 2], np.int64))


def test_refuses_what_is_no_number():
    q, k, v = draw(12)
    with pytest.raises(TypeError, match="expects dropout_p to be a number, but got 'much'"):
        flashcore.attention(q, k, v, dropout_p="much", rng=np.array([1, 2], np.int64))


@pytest.mark.parametrize(
    ("rng", "expected"),
    [
        (None, r"expects rng, seed and offset of int64 \(2,\), with dropout_p 0.1, but got None"),
        (np.zeros(2, np.int32), r"expects rng of int64 \(2,\), seed and offset, but got int32"),
        (np.zeros(3, np.int64), r"seed and offset, but got int64 \(3,\)"),
    ],
)
def test_refuses_other_words(rng, expected):
    q, k, v = draw(12)
    with pytest.raises(ValueError, match=expected):
        flashcore.attention(q, k, v, dropout_p=0.1, rng=rng)


def test_problems_have_words_for_it():
    words = flashcore.Problem.parse("b1 h2 s64 d64 dropout=0.1").words()
    assert "dropout=0.1" in words
    assert flashcore.Problem.parse(words).dropout == 0.1
    assert flashcore.Problem.parse("b1").dropout is None
