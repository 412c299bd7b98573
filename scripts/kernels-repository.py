#!/usr/bin/env python3
"""Lays a wheel out as a repository of the Hugging Face `kernels` library.

usage: kernels-repository.py [--out FOLDER] [WHEEL]
  WHEEL: of scripts/wheel.sh (default: the one in build/wheel)
  FOLDER: default build/kernels-repository; what was there is replaced

`kernels.get_local_kernel(FOLDER)` loads it, as does LOCAL_KERNELS=OWNER/flashcore=FOLDER
for whatever asks for that name; upload the folder to publish it. Variants are the same
files, linked: the library is of no version of PyTorch and of CUDA.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "scripts" / "kernels-repository"
# The oldest PyTorch that the package is tested with, as variants of the stable ABI have it.
TORCH = "28"
# A variant of CUDA x.y serves all x.z from it on.
BACKENDS = {"cu120": "cuda", "cu130": "cuda", "cpu": "cpu"}
# What the package has kernels of, and compiles for what is newer.
OLDEST_ARCH = "7.0+PTX"


def find_wheel(given):
    if given:
        return given
    wheels = sorted((ROOT / "build" / "wheel").glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"kernels-repository: expects one wheel in build/wheel, but got {len(wheels)}: run scripts/wheel.sh")
    return wheels[0]


def read_tag(wheel):
    """The version and the machine of a wheel's name."""
    found = re.fullmatch(r"flashcore_attention-([0-9.]+)-cp310-abi3-manylinux_2_28_(\w+)\.whl", wheel.name)
    if not found:
        sys.exit(f"kernels-repository: expects a wheel of scripts/wheel.sh, but got {wheel}")
    return found.groups()


def metadata(version, backend, variant):
    of_backend = {"type": backend}
    if backend == "cuda":
        of_backend["archs"] = [OLDEST_ARCH]
    return {
        "id": f"flashcore_{variant.replace('-', '_')}",
        "name": "flashcore",
        "version": int(version.split(".")[0]),
        "license": "Apache-2.0",
        "python-depends": [],
        "backend": of_backend,
    }


def link_tree(source, target):
    """The same files in another folder."""
    shutil.copytree(source, target, copy_function=os.link)


def lay_out(wheel, out):
    version, machine = read_tag(wheel)
    if out.exists():
        shutil.rmtree(out)
    variants = {f"torch-stable-abi{TORCH}-{name}-{machine}-linux": backend for name, backend in BACKENDS.items()}
    first = None
    for variant, backend in variants.items():
        folder = out / "build" / variant
        folder.mkdir(parents=True)
        if first:
            link_tree(first, folder / "package")
        else:
            first = folder / "package"
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(first)
        shutil.copy(TEMPLATE / "__init__.py", folder)
        (folder / "metadata.json").write_text(json.dumps(metadata(version, backend, variant), indent=2) + "\n")
    shutil.copy(TEMPLATE / "README.md", out)
    for executable in first.glob("flashcore/bin/*"):  # which zipfile forgets
        executable.chmod(0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "kernels-repository")
    options = parser.parse_args()
    lay_out(find_wheel(options.wheel), options.out)
    print(options.out)


if __name__ == "__main__":
    main()
