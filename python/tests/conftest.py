"""Fixtures, and a cache of their own for all tests."""

import os
import tempfile

# Before flashcore is imported anywhere, so that no user's cache is touched.
_cache = tempfile.TemporaryDirectory(prefix="flashcore-tests-")
os.environ["FLASHCORE_CACHE_DIR"] = _cache.name
os.environ.pop("FLASHCORE_KERNELS", None)
os.environ.pop("FLASHCORE_CACHE_SIZE", None)

import pytest


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """An empty cache, also for kernels that this process has in memory."""
    from flashcore import kernels, resolve
    import sys

    monkeypatch.setenv("FLASHCORE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_modules", {})
    module = sys.modules["flashcore.attention"]
    monkeypatch.setattr(module, "_calls", module._new_calls())
    monkeypatch.setattr(resolve, "_calls_of_options", {})
    return tmp_path / "cache"


@pytest.fixture
def copies(monkeypatch):
    """The arrays of NumPy that were copied since, because no kernel takes them as they are."""
    from flashcore.arrays import library_of
    import numpy

    library = type(library_of(numpy.empty(0)))
    dense, copied = library.dense, []

    def copy(self, array):
        copied.append(array)
        return dense(self, array)

    monkeypatch.setattr(library, "dense", copy)
    return copied


@pytest.fixture
def compiled():
    """Says how many kernels were compiled since."""
    from flashcore import kernels

    before = kernels.statistics.compiled
    return lambda: kernels.statistics.compiled - before
