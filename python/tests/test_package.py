"""The package as it is installed: names, documentation, weight, metadata."""

import importlib.metadata
import inspect
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from elf import read_needs

import flashcore
from flashcore.distribution import NAME


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
        assert f"\n{name}: " in text or name == "unknown", name


def test_options_of_type_checkers_are_those_of_attention():
    from flashcore.attention import AttentionOptions

    parameters = list(inspect.signature(flashcore.attention).parameters.values())
    ours = {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}
    named = {name: hint.__forward_arg__ for name, hint in AttentionOptions.__annotations__.items()}
    assert named == {name: hint for name, hint in ours.items() if name not in ("lse", "scores")}


def test_names_of_other_attentions_get_a_hint():
    from flashcore import foreign_names

    known = inspect.signature(flashcore.attention).parameters
    for name, hint in {**foreign_names._HINTS, "sofcap": "write softcap", "nothing": "help"}.items():
        assert name not in known
        with pytest.raises(TypeError, match=f"of flashcore.attention, but got {name}: ") as caught:
            flashcore.attention(None, None, None, **{name: 1})
        assert hint in str(caught.value)


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
        return importlib.metadata.distribution(NAME)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("flashcore is not installed from a wheel")


def test_distribution_is_the_only_one(distribution):
    """Of those installed here, no other has files in the package."""
    names = {
        each.metadata["Name"]
        for each in importlib.metadata.distributions()
        if any(file.parts[0] == "flashcore" for file in each.files or ())
    }
    assert names == {NAME} and distribution.metadata["Name"] == NAME


@pytest.fixture
def site(tmp_path):
    """A folder with the package in it, each file a link."""
    package = tmp_path / "site" / "flashcore"
    package.mkdir(parents=True)
    for file in Path(flashcore.__file__).parent.iterdir():
        if file.name != "__pycache__":
            (package / file.name).symlink_to(file.resolve())
    return package.parent


def run_beside(site, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=site, capture_output=True, text=True
    )


IMPORT = "import flashcore; print(flashcore.__file__)"


def test_one_distribution_imports(site):
    for name in (f"{NAME.replace('-', '_')}-0.1.0.dist-info", "flashcore_x-1.dist-info", "flashcore"):
        (site / name).mkdir(exist_ok=True)
    result = run_beside(site, "-c", IMPORT)
    assert (result.returncode, Path(result.stdout.strip()).parent.parent) == (0, site), result.stderr


@pytest.mark.parametrize("other", ["flashcore-0.1.5.dist-info", "FlashCore-0.1.5-py3.11.egg-info"])
def test_distribution_of_another_project_is_an_error(site, other):
    (site / other).mkdir()
    result = run_beside(site, "-c", IMPORT)
    message = (
        "ImportError: expects flashcore-attention to be the only distribution with a package "
        f"flashcore, but got {other[:9]} 0.1.5, which is another project: each replaces files of "
        "the other; run pip uninstall flashcore flashcore-attention, then install "
        "flashcore-attention again"
    )
    assert result.returncode == 1 and result.stderr.splitlines()[-1] == message


@pytest.mark.parametrize(
    "arguments", [("-c", "from flashcore import attention"), ("-m", "flashcore", "--version")]
)
def test_distribution_that_replaced_init_is_an_error(site, arguments):
    """It was installed last: ``import flashcore`` is the other project's."""
    (site / "flashcore-0.1.5.dist-info").mkdir()
    (site / "flashcore" / "__init__.py").unlink()
    (site / "flashcore" / "__init__.py").write_text("")
    result = run_beside(site, *arguments)
    assert result.returncode == 1 and "but got flashcore 0.1.5" in result.stderr.splitlines()[-1]


def test_metadata(distribution):
    assert distribution.version == flashcore.__version__
    assert distribution.metadata["Requires-Python"] == ">=3.10"
    assert distribution.requires is None or all("extra" in one for one in distribution.requires)
    wheel = distribution.read_text("WHEEL")
    tags = [line for line in wheel.splitlines() if line.startswith("Tag:")]
    assert tags == [f"Tag: cp310-abi3-manylinux_2_28_{platform.machine()}"]


def test_runs_with_glibc_2_28(distribution):
    """The tag is a promise: checkers of it look at versions, but not at DT_RELR (glibc 2.36)."""
    needs = {str(file): read_needs(Path(distribution.locate_file(file))) for file in distribution.files}
    needs = {name: each for name, each in needs.items() if each}
    assert {Path(name).name for name in needs} == {"_core.abi3.so", "flashcore", "libflashcore.so.0"}
    for name, each in needs.items():
        versions = {tuple(map(int, v[6:].split("."))) for v in each.versions if v.startswith("GLIBC_")}
        assert versions and max(versions) <= (2, 28), name
        assert not each.has_relr, name
        assert not [one for one in each.versions if one.startswith(("GLIBCXX", "CXXABI"))], name
        assert "libc.so.6" in each.libraries and "libstdc++.so.6" not in each.libraries, name


def test_files(distribution):
    files = {str(file) for file in distribution.files}
    assert "flashcore/py.typed" in files
    assert any(name.startswith("flashcore/lib/libflashcore.so") for name in files)
    for licence in ("LICENSE", "THIRD_PARTY_NOTICES.md"):
        (found,) = [name for name in files if name.endswith(f"/{licence}")]
        assert distribution.locate_file(found).stat().st_size > 1000
    assert not [name for name in files if "tests" in name or name.endswith(".cpp")]
    headers = {str(Path(name).parent) for name in files if name.endswith((".h", ".def"))}
    assert headers == {f"flashcore/include/{name}" for name in ("flashcore-c", "flashcore", "flashcore/Runtime", "flashcore/Emulator")}
