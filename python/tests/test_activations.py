"""Functions that are made of others: by their names in PyTorch and NumPy, and what they compute."""

import flashcore
import numpy
import pytest
from flashcore import masks, regions
from formula import draw_qkv

VALUES = numpy.concatenate(
    [
        numpy.linspace(-30, 30, 1201), numpy.logspace(-8, 1, 200), -numpy.logspace(-8, 1, 200),
        numpy.array([0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 19.99, 20.01]),
    ]
).astype("float32")  # fmt: skip


def compute(score_mod, values=VALUES):
    """What the region computes, in float32."""
    traced = regions.trace_mods(score_mod, None)
    zeros = numpy.zeros((), "int64")
    with numpy.errstate(all="ignore"):
        arguments = [values, zeros, zeros, zeros, zeros]
        result = masks._evaluate(traced.score, [], arguments)
    return numpy.broadcast_to(result, values.shape)


def check(score_mod, expected, tolerance=3e-6):
    numpy.testing.assert_allclose(
        compute(score_mod), expected, rtol=tolerance, atol=tolerance / 4, equal_nan=True
    )


NAMES = (
    "erf erfc log1p expm1 relu sigmoid reciprocal sign trunc frac round tan square sgn "
    "special.expit special.erf special.log1p special.expm1 nn.functional.relu "
    "nn.functional.relu6 nn.functional.leaky_relu nn.functional.elu nn.functional.softplus "
    "nn.functional.logsigmoid nn.functional.silu nn.functional.mish nn.functional.gelu "
    "nn.functional.hardtanh nn.functional.hardsigmoid nn.functional.softsign "
    "nn.functional.sigmoid isnan isinf"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_as_pytorch(name):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    function = torch
    for part in name.split("."):
        function = getattr(function, part)
    values = torch.from_numpy(VALUES).double()
    expected = function(values).double().numpy()
    check(lambda s, b, h, i, j: function(s) * 1.0, expected, 3e-4 if name == "tan" else 3e-6)


@pytest.mark.parametrize("power", [0, 1, 2, 3, 5, 7, 16, 33, -1, -3, 2.0, 0.5, -0.5, 1.7, -0.3, 65])
def test_powers_by_numbers(power):
    values = numpy.abs(VALUES[:300]) + 0.1
    with numpy.errstate(all="ignore"):
        expected = values.astype("float64") ** power
        result = compute(lambda s, b, h, i, j: s**power, values)
    is_number = numpy.abs(expected) < 1e38
    numpy.testing.assert_allclose(result[is_number], expected[is_number], rtol=3e-5)


def test_powers_by_values():
    values = numpy.linspace(0.1, 9, 100, dtype="float32")
    for score_mod, expected in (
        (lambda s, b, h, i, j: 2**s, 2.0**values),
        (lambda s, b, h, i, j: 0.3**s, 0.3**values),
        (lambda s, b, h, i, j: s**s, values**values),
        (lambda s, b, h, i, j: numpy.power(3, s), 3.0**values),
    ):
        numpy.testing.assert_allclose(compute(score_mod, values), expected, rtol=3e-5)
    text = flashcore.trace(lambda s, b, h, i, j: s * 2**h)
    assert "arith.shli" in text
    # No shift goes backwards: slopes of ALiBi.
    text = flashcore.trace(lambda s, b, h, i, j: s * 2 ** (-(h + 1)))
    assert "math.exp2" in text and "shli" not in text
    for wrong in (lambda s, b, h, i, j: (-2) ** s, lambda s, b, h, i, j: 0**s):
        with pytest.raises(TypeError, match="expects a positive base of a power"):
            flashcore.trace(wrong)
    with pytest.raises(TypeError, match="expects an exponent that is a number or a value"):
        flashcore.trace(lambda s, b, h, i, j: s ** "2")


def test_negative_bases():
    values = numpy.array([-3, -0.5, -1, 2], "float32")
    for power in (2, 3, -1, 2.0, 3.0):
        expected = values**power
        numpy.testing.assert_allclose(
            compute(lambda s, b, h, i, j: s**power, values), expected, rtol=1e-6
        )
    assert numpy.isnan(compute(lambda s, b, h, i, j: s**0.5, values)[:3]).all()


def test_shifts_by_values():
    text = flashcore.trace(mask_mod=lambda b, h, i, j: ((j >> h) & 1) == ((i << b) & 1))
    assert "arith.shrsi" in text and "arith.shli" in text
    drawn = flashcore.show_mask(lambda b, h, i, j: (j >> (i + 1)) == 0, 4, 8, 1, 1)
    assert drawn.splitlines() == ["##......", "####....", "########", "########"]


def test_numbers_in_sets():
    drawn = flashcore.show_mask(lambda b, h, i, j: flashcore.isin(j, [0, 3, 5]), 1, 8, 1, 1)
    assert drawn == "#..#.#.."
    drawn = flashcore.show_mask(lambda b, h, i, j: ~flashcore.isin(j, range(1, 3)), 1, 4, 1, 1)
    assert drawn == "#..#"
    table = flashcore.capture(numpy.array([2, 6], "int32"))
    drawn = flashcore.show_mask(lambda b, h, i, j: flashcore.isin(j, table), 1, 8, 1, 1)
    assert drawn == "..#...#."
    with pytest.raises(TypeError, match="expects at most 64 values in isin, but got 65"):
        flashcore.trace(mask_mod=lambda b, h, i, j: flashcore.isin(j, range(65)))
    wide = flashcore.capture(numpy.zeros((2, 2), "int32"))
    with pytest.raises(TypeError, match="expects values of one axis in isin, but got 2"):
        flashcore.trace(mask_mod=lambda b, h, i, j: flashcore.isin(j, wide))


def test_a_set_in_a_tensor_has_a_kernel_for_its_size():
    q, k, v = draw_qkv(queries=20)

    def call(*keys):
        table = flashcore.capture(numpy.array(keys, "int32"))
        return flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: flashcore.isin(j, table))

    def expected(*keys):
        return flashcore.attention(
            q, k, v, mask_mod=lambda b, h, i, j: flashcore.isin(j, list(keys))
        )

    for keys in ((1, 2), (3, 4), (3, 4, 5), (7,)):
        assert (call(*keys) == expected(*keys)).all()


def test_pytorchs_isin():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    table = torch.tensor([2, 6], dtype=torch.int32)
    drawn = flashcore.show_mask(lambda b, h, i, j: torch.isin(j, table, invert=True), 1, 8, 1, 1)
    assert drawn == "##.###.#"


@pytest.mark.parametrize(
    "score_mod",
    [
        lambda s, b, h, i, j: flashcore.erf(s) * 2,
        lambda s, b, h, i, j: numpy.log1p(abs(s)) + s**3 * 0.1,
        lambda s, b, h, i, j: numpy.expm1(-abs(s)) + numpy.round(s),
        lambda s, b, h, i, j: s * (2 << h) * 0.25,
    ],
)
def test_kernels_compute_them(score_mod):
    q, k, v = draw_qkv(queries=20)
    results = [
        flashcore.attention(q, k, v, score_mod=score_mod, device=device)
        for device in ("emulator", "reference")
    ]
    numpy.testing.assert_allclose(
        *(x.astype("float64") for x in results), rtol=4e-3, atol=4e-3
    )


@pytest.mark.parametrize(
    "score_mod, hint",
    [
        (lambda s, b, h, i, j: s.sum(), "a function sees one score of one query and one key"),
        (lambda s, b, h, i, j: s.item(), "values are numbers of the kernel as they are"),
        (lambda s, b, h, i, j: s.masked_fill(i < j, 0), "write where.condition, value, score."),
        (lambda s, b, h, i, j: s.lgamma(), "read a table of it"),
        (lambda s, b, h, i, j: s.frexp(), "docs/Python.md lists them"),
    ],
)
def test_what_to_write_instead(score_mod, hint):
    with pytest.raises(TypeError, match=f"an op that score_mod and mask_mod have, but.*: {hint}"):
        flashcore.trace(score_mod)
