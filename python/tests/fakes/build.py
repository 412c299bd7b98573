"""Builds the fakes with the C++ compiler of the system."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def compiler():
    """Its path, or None."""
    return next(
        filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "clang++-22"))), None
    )


def build(folder):
    """Makes libcuda.so.1 and the module fake_arrays in ``folder``."""
    flags = [compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{ROOT}/runtime/include"]
    driver = [HERE / "FakeLibcuda.cpp", HERE / "FakeLibcudaDefaults.cpp"]
    subprocess.run(
        [*flags, *driver, "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1"], check=True
    )
    source = ROOT / "python/src"
    arrays = [f"-I{source}", f"-I{ROOT}/include", f"-I{sysconfig.get_path('include')}"]
    subprocess.run(
        [
            *flags,
            "-fvisibility=hidden",
            "-DPy_LIMITED_API=0x030A0000",
            *arrays,
            HERE / "FakeArrays.cpp",
            "-o",
            folder / "fake_arrays.abi3.so",
        ],  # fmt: skip
        check=True,
    )
