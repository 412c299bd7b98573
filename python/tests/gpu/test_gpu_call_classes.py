"""Kernels by the sizes of a call, at and around the borders of this GPU's multiprocessors."""

import random

import pytest
import torch

import flashcore
from criterion import assert_exact_enough
from flashcore import _core, kernels
from torch_inputs import make

FEATURES = (
    {},
    {"causal": True},
    {"window": (100, 0)},
    {"softcap": 20.0},
    {"causal": "top_left"},
    {"window": (64, 64), "causal": True},
)
#: Blocks of 64 query rows for each four multiprocessors.
BORDERS = (1, 2, 4, 8, 12)


def draw_sizes(rng, border):
    """Batch, heads, queries and keys with as many blocks as the border has, or a few more."""
    blocks = border * torch.cuda.get_device_properties(0).multi_processor_count // 4
    of_head = rng.choice([x for x in range(1, 17) if blocks % x == 0 or x == 1])
    queries = 64 * of_head - rng.choice([0, 0, 1, 31, 46])
    heads = blocks // of_head + rng.choice([0, 0, 1])
    return 1, heads, max(queries, 17), rng.choice([1, 63, 64, 200, 1000, 1024, 1025, 2000])


@pytest.mark.parametrize("seed", range(40))
def test_random_calls_at_borders(seed):
    rng = random.Random(seed)
    batch, heads, queries, keys = draw_sizes(rng, BORDERS[seed % len(BORDERS)])
    features, dim = rng.choice(FEATURES), rng.choice([64, 64, 80, 128, 256])
    dtype = rng.choice([torch.float16, torch.bfloat16])
    q, k, v = make(
        batch=batch, heads=heads, queries=queries, keys=keys, dim=dim, dtype=dtype, device="cuda"
    )
    # Its own kernel, and another class's, which runs any call.
    others = [None, {"expected_grid": rng.choice(_core.call_classes("sm_90a"))}]
    for schedule in others:
        result = flashcore.attention(q, k, v, lse=True, schedule=schedule, **features)
        assert_exact_enough(result, q, k, v, lse=True, **features)


def test_a_new_length_of_a_class_compiles_nothing():
    lengths = (300, 301, 500, 333)
    for queries in lengths:
        before = kernels.statistics.compiled + kernels.statistics.loaded
        q, k, v = make(batch=1, heads=8, queries=queries, dim=64, device="cuda")
        flashcore.attention(q, k, v)
        if queries != lengths[0]:
            assert kernels.statistics.compiled + kernels.statistics.loaded == before
