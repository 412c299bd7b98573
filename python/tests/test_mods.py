"""flashcore.attention with score_mod and mask_mod, on the emulator; flex_attention; show_mask."""

import re
from pathlib import Path

import ml_dtypes
import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw, draw_qkv

I, J = numpy.arange(50)[:, None], numpy.arange(60)[None]


def qkv(**options):
    return draw_qkv(**{"batch": 2, "heads": 4, "heads_kv": 2, "queries": 50, "keys": 60, **options})


def causal(batch, head, q_idx, kv_idx):
    return q_idx >= kv_idx


def hidden(seen):
    """The bias that a mask is."""
    return numpy.where(seen, 0, -numpy.inf)


def test_causal():
    q, k, v = qkv()
    o, lse = flashcore.attention(q, k, v, mask_mod=causal, lse=True)
    expected, expected_lse = attention(q, k, v, "top_left")
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_alibi():
    q, k, v = qkv()
    slopes = numpy.array([0.5, 0.25, 0.125, 0.0625], numpy.float32)
    captured = flashcore.capture(slopes)
    o = flashcore.attention(q, k, v, score_mod=lambda s, b, h, i, j: s - captured[h] * abs(i - j))
    bias = -slopes[None, :, None, None] * abs(I - J)
    assert_close(o, attention(q, k, v, bias=bias)[0])


@pytest.mark.parametrize("dtype", [numpy.float16, ml_dtypes.bfloat16, numpy.float64])
def test_relative_bias(dtype):
    q, k, v = qkv()
    table = draw(10, 4, seed=4).astype(dtype)[::-1]  # backwards: it is copied
    captured = flashcore.capture(table)

    def score_mod(score, batch, head, q_idx, kv_idx):
        return score + captured[flashcore.clamp(q_idx - kv_idx, 0, 9), head]

    bias = table[numpy.clip(I - J, 0, 9)].transpose(2, 0, 1)[None]
    o = flashcore.attention(q, k, v, score_mod=score_mod)
    assert_close(o, attention(q, k, v, bias=bias)[0])


@pytest.mark.parametrize("dtype", [bool, numpy.int8, numpy.uint8])
def test_bytes_are_read_as_they_are(dtype):
    q, k, v = qkv()
    numbers = numpy.random.default_rng(0).integers(-2, 3, (50, 70)).astype(dtype)
    captured = flashcore.capture(numbers[:, 3:63])

    def mask_mod(batch, head, q_idx, kv_idx):
        number = captured[q_idx, kv_idx]
        return number if dtype == bool else (number > 0) & (number < 200)

    assert "xi8, strided<[?, 1]>>" in flashcore.trace(mask_mod=mask_mod)
    wide = numbers[:, 3:63].astype(int)
    seen = (wide > 0) & (wide < 200)
    o = flashcore.attention(q, k, v, mask_mod=mask_mod)
    assert_close(o, attention(q, k, v, bias=hidden(seen)[None, None])[0])


@pytest.mark.parametrize("dtype", [numpy.int32, numpy.int64, numpy.int8, numpy.uint8])
def test_documents(dtype):
    q, k, v = qkv()
    document = numpy.sort(numpy.random.default_rng(0).integers(0, 4, (2, 60))).astype(dtype)
    captured = flashcore.capture(document)

    def mask_mod(batch, head, q_idx, kv_idx):
        return (captured[batch, q_idx] == captured[batch, kv_idx]) & (q_idx >= kv_idx)

    seen = (document[:, :50, None] == document[:, None, :]) & (I >= J)
    o = flashcore.attention(q, k, v, mask_mod=mask_mod)
    assert_close(o, attention(q, k, v, bias=hidden(seen)[:, None])[0])


def test_score_and_mask_with_clauses():
    q, k, v = qkv()
    shown = draw(2, 60, seed=5) > 0
    captured, half = flashcore.capture(shown), flashcore.capture(numpy.array(0.5))
    o = flashcore.attention(
        q,
        k,
        v,
        causal=True,
        softcap=3.0,
        bias=numpy.full((50, 60), 0.25, numpy.float32),
        score_mod=lambda s, b, h, i, j: s * half + (i // 16 - j % 5) / 8,
        mask_mod=lambda b, h, i, j: captured[b, j] | (i == j),
    )
    score = q.astype("f8") @ numpy.repeat(k, 2, 1).astype("f8").swapaxes(-1, -2) / 8
    score = (3 * numpy.tanh(score / 3) + 0.25) / 2 + (I // 16 - J % 5) / 8
    seen = shown[:, None, None] | (I == J)
    expected = attention(0 * q, k, v, "bottom_right", bias=score + hidden(seen))[0]
    assert_close(o, expected)


def test_remainders_of_negative_numbers():
    q, k, v = qkv()
    o = flashcore.attention(
        q, k, v, mask_mod=lambda b, h, i, j: ((i - j) % 3 == 1) | ((i - j) // -4 == 2)
    )
    seen = ((I - J) % 3 == 1) | ((I - J) // -4 == 2)
    assert_close(o, attention(q, k, v, bias=hidden(seen))[0])


@pytest.mark.parametrize("queries, keys", [(1, 60), (3, 1030)])
def test_few_queries(queries, keys):
    q, k, v = qkv(batch=1, queries=queries, keys=keys, dim=16)
    o, lse = flashcore.attention(
        q, k, v, mask_mod=lambda b, h, i, j: j % 2 == 0, causal=True, lse=True
    )
    seen = hidden(numpy.arange(keys) % 2 == 0)
    expected, expected_lse = attention(q, k, v, "bottom_right", bias=seen)
    assert_close(o, expected)
    assert_close(lse, expected_lse)


def test_other_options():
    """Head dims, layouts, copies, outputs, sizes known, the reference, nothing to do."""
    q, k, v = qkv(dim=20)
    expected = attention(q, k, v, "top_left")[0]
    assert_close(flashcore.attention(q, k, v, mask_mod=causal), expected)
    q, k, v = qkv()
    expected = attention(q, k, v, "top_left")[0]
    turned = [x.swapaxes(1, 2)[:, :, ::-1] for x in (q, k, v)]
    o = flashcore.attention(*turned, mask_mod=causal, layout="bshd", static=True)
    assert_close(o[:, :, ::-1].swapaxes(1, 2), expected)
    out = numpy.empty_like(q)
    assert flashcore.attention(q, k, v, mask_mod=causal, out=out) is out
    assert_close(out, expected)
    o = flashcore.attention(q, k, v, mask_mod=causal, device="reference")
    assert_close(o, expected, 1e-3)
    assert flashcore.attention(q[:0], k[:0], v[:0], mask_mod=causal).shape == (0, 4, 50, 64)


def test_compiled_once_for_each_text(cache_dir, compiled):
    q, k, v = qkv()
    for slope in (0.5, 0.25):  # data
        slopes = flashcore.capture(numpy.full(4, slope, numpy.float32))
        for keys in (60, 40):
            flashcore.attention(
                q, k[:, :, :keys], v[:, :, :keys], score_mod=lambda s, b, h, i, j: s + slopes[h] * j
            )
    assert compiled() == 1
    for slope in (0.5, 0.25):  # a part of the kernel
        flashcore.attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slope * j)
    assert compiled() == 3
    flashcore.attention(q, k, v)
    assert compiled() == 4


def test_kept_on_disk(cache_dir, compiled, monkeypatch):
    q, k, v = qkv()
    for _ in range(2):
        o = flashcore.attention(q, k, v, mask_mod=causal)
        monkeypatch.setattr(flashcore.kernels, "_modules", {})
    assert_close(o, attention(q, k, v, "top_left")[0])
    assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])
    assert compiled() == 2


def test_captured_tensors_that_are_refused():
    q, k, v = qkv()
    large = flashcore.capture(numpy.array([0, 1 << 31]))
    message = "expects captured tensors of int64 whose values fit in int32, but got 0 to 2147483648"
    with pytest.raises(ValueError, match=message):
        flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: large[b] > j)


def test_a_read_outside_is_a_finding():
    q, k, v = qkv()
    short = flashcore.capture(numpy.zeros(10, numpy.float32))
    with pytest.raises(flashcore.KernelFault, match="out of bounds|outside|capture0"):
        flashcore.attention(q, k, v, score_mod=lambda s, b, h, i, j: s + short[j])


def test_the_masks_of_the_page(capsys):
    """Those of docs/Masks.md, on the emulator against the reference."""
    page = Path(__file__).parents[2] / "docs" / "Masks.md"
    if not page.exists():
        pytest.skip("needs the source tree")
    text = page.read_text()
    ((snippet, output),) = re.findall(
        r"^```python\n(.*?)^```$.*?^```\n(.*?)^```$", text, re.M | re.S
    )
    names = {}
    exec(compile(snippet, str(page), "exec"), names)
    assert capsys.readouterr().out == output
    q, k, v = qkv(queries=12, keys=140, dim=16)
    mods = [{"mask_mod": mod} for mod in names["mask_mods"].values()]
    mods += [{"score_mod": mod} for mod in names["score_mods"].values()]
    assert len(mods) == 17
    for mod in mods:
        o = flashcore.attention(q, k, v, **mod)
        assert_close(o, flashcore.attention(q, k, v, device="reference", **mod).astype("f8"))


# flex_attention -------------------------------------------------------------


class BlockMask:
    """Of PyTorch, as far as it is used."""

    def __init__(self, mask_mod):
        self.mask_mod = mask_mod


def test_flex_attention():
    q, k, v = qkv()
    o, lse = flashcore.flex_attention(
        q,
        k[:1],
        v[:1],
        lambda s, b, h, i, j: s * 0.5,
        BlockMask(causal),
        scale=0.25,
        enable_gqa=True,
        return_lse=True,
    )
    k, v = (numpy.broadcast_to(x[:1], x.shape) for x in (k, v))
    expected, expected_lse = attention(q, k, v, "top_left", scale=0.125)
    assert_close(o, expected)
    assert_close(lse, expected_lse)
    o = flashcore.flex_attention(q, k, v, enable_gqa=True)
    assert_close(o, attention(q, k, v)[0])


def test_flex_attention_refuses():
    q, k, v = qkv()
    message = "expects as many heads of key as of query, or enable_gqa=True, but got 2 and 4"
    with pytest.raises(ValueError, match=message):
        flashcore.flex_attention(q, k, v)
    message = "expects block_mask to be a BlockMask with a mask_mod, or None, but got 3"
    with pytest.raises(TypeError, match=message):
        flashcore.flex_attention(q, q, q, block_mask=3)

    def noop_mask(batch, head, q_idx, kv_idx):
        return True

    # Of such a mask the lists are all that there is.
    with pytest.raises(TypeError, match="or a BlockMask with kv_num_blocks and kv_indices, but got"):
        flashcore.flex_attention(q, q, q, block_mask=BlockMask(noop_mask))


# show_mask ------------------------------------------------------------------


def test_show_mask():
    assert flashcore.show_mask(causal, 256, 320).splitlines() == ["++...", "##++."]
    window = flashcore.show_mask(lambda b, h, q, k: (q >= k) & (q - k < 64), 200, 200, 64, 64)
    assert window.splitlines() == ["+...", "++..", ".++.", "..++"]
    document = flashcore.capture(numpy.repeat([[0, 1], [0, 0]], 4, axis=1))
    text = [
        flashcore.show_mask(lambda b, h, q, k: document[b, q] == document[b, k], 8, 8, 2, 2, batch)
        for batch in (0, 1)
    ]
    assert text == ["##..\n##..\n..##\n..##", "####\n####\n####\n####"]


@pytest.mark.parametrize(
    "mask_mod",
    [
        lambda b, h, q, k: flashcore.exp(k - q) > 1.5,
        lambda b, h, q, k: flashcore.where(q % 3 == 0, k % 2, 1.0 * k - 5).to("bool"),
        lambda b, h, q, k: flashcore.sigmoid(abs(q - k) / 4) * flashcore.rsqrt(q + 1) < 0.3,
        lambda b, h, q, k: ~((q - k) // 3 == -2) ^ (flashcore.minimum(q, k) > 4),
        lambda b, h, q, k: flashcore.floor((q - k) / 2.0).int() == k - 7,
        lambda b, h, q, k: True,
    ],
)
def test_show_mask_is_what_the_kernel_hides(mask_mod):
    """Whatever the scores are, the mean of one-hot values tells which keys are seen."""
    queries, keys = 16, 16
    q = numpy.zeros((1, 1, queries, 16), numpy.float16)
    v = numpy.eye(keys, dtype=numpy.float16)[None, None]
    o = flashcore.attention(q, numpy.zeros_like(v), v, mask_mod=mask_mod)
    drawn = "\n".join("".join("#" if x else "." for x in row) for row in o[0, 0] > 0)
    assert flashcore.show_mask(mask_mod, queries, keys, 1, 1) == drawn


def test_show_mask_refuses():
    short = flashcore.capture(numpy.zeros(10, numpy.int32))
    message = "expects indices of axis 0 of a captured tensor from 0 to 9, but got 0 to 19"
    with pytest.raises(IndexError, match=message):
        flashcore.show_mask(lambda b, h, q, k: short[k] == 0, 20, 20)
    with pytest.raises(ValueError, match="expects block_m to be at least 1, but got 0"):
        flashcore.show_mask(causal, 20, 20, 0)


@pytest.mark.parametrize("bits", [0, 1, 3])
def test_shifts_are_products_and_quotients_of_powers(bits):
    q, k, v = qkv()

    def score(s, b, h, i, j):
        return s + 0.25 * ((j >> bits) - (i - j >> bits)) - 0.125 * (i - j << bits)

    bias = 0.25 * ((J >> bits) - (I - J >> bits)) - 0.125 * (I - J << bits)
    assert_close(flashcore.attention(q, k, v, score_mod=score), attention(q, k, v, bias=bias)[0])


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda s, b, h, i, j: s + (j >> 31), "a value or by a number from 0 to 30 in >>"),
        (lambda s, b, h, i, j: s + (j << s), "expects a whole number in <<, but got a float32"),
        (lambda s, b, h, i, j: s + (j >> -1), "in >>, but got -1"),
        (lambda s, b, h, i, j: s >> 1, "expects a whole number in >>, but got a float32"),
        (lambda s, b, h, i, j: s @ s, "expects an op that score_mod and mask_mod have, but got 'mat"),
        (lambda s, b, h, i, j: divmod(j, 2)[0], "that score_mod and mask_mod have, but got 'divmod'"),
        (lambda s, b, h, i, j: s + j[0], "expects no index of values of the function"),
        (lambda s, b, h, i, j: s + len(j), "expects no length of values of the function"),
        (lambda s, b, h, i, j: round(s), "expects no round of values of the function"),
    ],
)
def test_operators_that_are_refused_say_where(function, message):
    with pytest.raises(TypeError, match=rf"test_mods\.py:\d+: .*{re.escape(message)}"):
        flashcore.attention(*qkv(), score_mod=function)


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1])
def test_captured_numbers_of_64_bits_are_not_cut(value):
    numbers = numpy.zeros(60, "int64")
    numbers[7] = value
    for array in (numbers, numbers[::-1], numbers[7:8].reshape(())):
        shown = flashcore.capture(array)
        with pytest.raises(ValueError, match="int64 whose values fit in int32, but got"):
            flashcore.attention(
                *qkv(),
                score_mod=lambda s, b, h, i, j: s + (shown[j] if array.ndim else shown),
            )
