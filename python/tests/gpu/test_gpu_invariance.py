"""batch_invariant: rows are the same to the bit, on a GPU."""

import dataclasses

import pytest
import torch

from invariance import Inputs, check_static, count_all, list_problems


@pytest.mark.parametrize("split_keys", [0, 1024])
@pytest.mark.parametrize("problem", list_problems("cuda", 0), ids=str)
def test_rows_are_the_same(problem, split_keys):
    counts = count_all(dataclasses.replace(problem, split_keys=split_keys))
    assert not any(counts.values()), counts


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
    reason="needs a GPU of compute capability 9.0",
)
@pytest.mark.parametrize("split_keys", [0, 1024])
@pytest.mark.parametrize("problem", list_problems("cuda", 0, product="warpgroup"), ids=str)
def test_rows_of_warpgroups_are_the_same(problem, split_keys):
    counts = count_all(dataclasses.replace(problem, split_keys=split_keys))
    assert not any(counts.values()), counts


def test_rows_differ_without():
    problems = list_problems("cuda", 0, is_invariant=False)
    assert any(check_static(Inputs(problem)) for problem in problems)


def test_runs_repeat():
    """Kernels have no order of their own, with and without it."""
    for is_invariant in (False, True):
        problem = list_problems("cuda", 0, is_invariant)[0]
        first = Inputs(problem)
        for _ in range(3):
            assert (Inputs(problem).whole == first.whole).all()
