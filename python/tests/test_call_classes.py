"""Kernels by the sizes of a call: right at and around every border, whichever kernel runs."""

import random

import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw, draw_qkv
from flashcore import _core, kernels

CLASSES = _core.call_classes("sm_90")
FEATURES = (
    {},
    {"causal": True},
    {"window": (30, 5)},
    {"softcap": 5.0},
    {"causal": "top_left"},
    {"bias": True},
)


def options_of(features, heads, queries, keys):
    options = dict(features)
    if options.pop("bias", False):
        options["bias"] = draw(1, heads, queries, keys, seed=4)
    return options


def formula(q, k, v, options):
    left, right = options.get("window", (None, None))
    rest = {name: value for name, value in options.items() if name != "window"}
    return attention(q, k, v, left=left, right=right, **rest)[0]


@pytest.mark.parametrize("grid", CLASSES)
@pytest.mark.parametrize("chip", ["sm_89", "sm_90a"])
def test_every_class_is_right_for_any_call(monkeypatch, grid, chip):
    monkeypatch.setenv("FLASHCORE_CHIP", chip)
    monkeypatch.setattr(kernels, "_modules", {})
    rng = random.Random(f"{grid} {chip}")
    for features in rng.sample(FEATURES, 2):
        for queries, keys in ((rng.randint(17, 130), rng.randint(1, 200)), (33, 1)):
            dim = rng.choice([64, 80, 128])
            q, k, v = draw_qkv(heads=4, heads_kv=2, queries=queries, keys=keys, dim=dim)
            options = options_of(features, 4, queries, keys)
            result = flashcore.attention(q, k, v, schedule={"expected_grid": grid}, **options)
            assert_close(result, formula(q, k, v, options))


def around_borders():
    """Blocks of 64 rows of the emulator's multiprocessors at the first borders, and keys at that of short ones."""
    numbers = flashcore.open_device("emulator").multiprocessors
    for border in (numbers // 4, numbers // 2):
        yield from ((border, 64, 20), (border + 1, 17, 20), (1, 64 * border, 9))
    yield (1, 70, 1024)
    yield (1, 70, 1025)


@pytest.mark.parametrize("heads, queries, keys", list(around_borders()))
def test_calls_around_borders(heads, queries, keys):
    rng = random.Random(f"{heads} {queries} {keys}")
    q, k, v = draw_qkv(heads=heads, queries=queries, keys=keys, dim=16)
    options = options_of(rng.choice(FEATURES), heads, queries, keys)
    expected = formula(q, k, v, options)
    result = flashcore.attention(q, k, v, **options)
    assert_close(result, expected)
    assert numpy.array_equal(result, flashcore.attention(q, k, v, **options))  # it repeats
    assert_close(flashcore.attention(q, k, v, schedule={"expected_grid": "any"}, **options), expected)


def test_an_unknown_class_is_named():
    q, k, v = draw_qkv()
    with pytest.raises(flashcore.Error, match="expects expected-grid to be any, .* but got 'small'"):
        flashcore.attention(q, k, v, schedule={"expected_grid": "small"})


def test_a_schedule_has_one_kernel_for_all_sizes(cache_dir):
    before = kernels.statistics.compiled
    for heads, queries in ((2, 20), (80, 33)):
        q, k, v = draw_qkv(heads=heads, queries=queries, dim=16)
        flashcore.attention(q, k, v, schedule={"num_stages": 3})
    assert kernels.statistics.compiled == before + 1
