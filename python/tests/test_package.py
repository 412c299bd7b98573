"""The package as it is installed: names, documentation, weight, metadata."""

import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import flashcore


def test_public_names_are_there_and_documented():
    for name in flashcore.__all__:
        value = getattr(flashcore, name)
        assert value.__doc__ and not value.__doc__.startswith(f"{name}("), name
        assert name in dir(flashcore)
    with pytest.raises(AttributeError, match="module 'flashcore' has no attribute 'nothing'"):
        flashcore.nothing


def test_every_option_is_documented():
    text = "\n" + inspect.getdoc(flashcore.attention)
    for name in inspect.signature(flashcore.attention).parameters:
        assert f"\n{name}: " in text, name


def test_import_is_light():
    """Nothing of other packages, and none of what a first call needs."""
    text = "import sys, flashcore; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True
    ).stdout.split()
    assert "flashcore._core" in loaded
    heavy = ("numpy", "torch", "json", "hashlib", "tempfile", "subprocess", "flashcore.resolve")
    assert not set(loaded) & set(heavy)


def test_typed():
    here = Path(flashcore.__file__).parent
    assert (here / "py.typed").exists() and (here / "_core.pyi").exists()


def test_one_file_for_all_versions():
    from flashcore import _core

    assert Path(_core.__file__).name == "_core.abi3.so"


@pytest.fixture
def distribution():
    try:
        return importlib.metadata.distribution("flashcore")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("flashcore is not installed from a wheel")


def test_metadata(distribution):
    assert distribution.version == flashcore.__version__
    assert distribution.metadata["Requires-Python"] == ">=3.10"
    assert distribution.requires is None or all("extra" in one for one in distribution.requires)
    wheel = distribution.read_text("WHEEL")
    tags = [line for line in wheel.splitlines() if line.startswith("Tag:")]
    assert tags and all("cp310-abi3-manylinux_2_" in tag for tag in tags)


def test_files(distribution):
    files = {str(file) for file in distribution.files}
    assert "flashcore/py.typed" in files
    assert any(name.startswith("flashcore/lib/libflashcore.so") for name in files)
    for licence in ("LICENSE", "THIRD_PARTY_NOTICES.md"):
        (found,) = [name for name in files if name.endswith(f"/{licence}")]
        assert distribution.locate_file(found).stat().st_size > 1000
    assert not [name for name in files if "tests" in name or name.endswith((".cpp", ".h"))]
