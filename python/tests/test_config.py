"""What the wheel has for programs in C and C++: they build without LLVM and run."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from flashcore.cli.config import FOLDER

import flashcore

EXAMPLES = Path(__file__).resolve().parents[2] / "docs/examples"
WORDS = "b1 h2 s100 d64 causal"
pytestmark = pytest.mark.skipif(
    not (FOLDER / "include").is_dir(), reason="flashcore is not installed from a wheel"
)


def config(*arguments, code=0):
    command = [sys.executable, "-m", "flashcore", "config", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    return (result.stderr if code else result.stdout).strip()


def run(*command, **options):
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def program(name):
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not here")
    return EXAMPLES / name


def compiler(*names):
    found = next(filter(None, map(shutil.which, names)), None)
    return found or pytest.skip(f"expects one of {', '.join(names)}, but got none")


@pytest.mark.parametrize("how", ["config", "pkg-config"])
def test_c_program(how, tmp_path):
    source = program("c/attention.c")
    flags = config("--cflags", "--libs").split()
    if how == "pkg-config":
        environment = {"PKG_CONFIG_PATH": config("--pkgconfigdir")}
        flags = run(compiler("pkg-config"), "--cflags", "--libs", "flashcore", env=environment).split()
    run(compiler("cc", "gcc", "clang-22"), source, *flags, "-o", tmp_path / "program")
    said = run(tmp_path / "program", WORDS, tmp_path / "attention.fcb")
    assert "attention on sm_90: batch 1, heads 2, seqlen 100 x 100" in said
    bundle = flashcore.Bundle(tmp_path / "attention.fcb")
    assert {"q", "k", "v", "o"} <= set(bundle.tensors)


def test_cpp_program(tmp_path):
    """The program of docs/Runtime.md, by the CMake package; LLVM may not be found."""
    source = program("runtime")
    cmake = compiler("cmake")
    if not Path("/usr/include/nlohmann/json.hpp").exists():
        pytest.skip("expects nlohmann-json, but got none")
    without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("LLVM", "MLIR")]
    choices = [f"-DFlashCore_DIR={config('--cmakedir')}", f"-DCMAKE_CXX_COMPILER={compiler('g++', 'clang++-22')}"]
    run(cmake, "-S", source, "-B", tmp_path, *choices, *without)
    run(cmake, "--build", tmp_path)
    flashcore.compile("b1 h2 s16 d16 f16").write_bundle(tmp_path / "attention.fcb")
    assert "O starts with 0x3c00" in run(tmp_path / "attention", tmp_path / "attention.fcb")


def test_folders_are_there():
    assert (Path(config("--cmakedir")) / "FlashCoreConfig.cmake").exists()
    assert (Path(config("--pkgconfigdir")) / "flashcore.pc").exists()


def test_nothing_asked_is_an_error():
    options = "--cflags, --libs, --cmakedir, --pkgconfigdir"
    message = f"flashcore: error: expects one of {options}, but got none; see flashcore config --help"
    assert config(code=2) == message
