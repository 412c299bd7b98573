#!/usr/bin/env python3
"""Says which kernels a change of the compiler changes: hashes of their PTX.

Of every kernel of the emulator's grid and of the grid for warpgroups
(scripts/kernel_grids.py) it takes the PTX, without comments, and writes or checks
FILE, a line a kernel: the first 16 digits of its SHA-256 and its name. A change that
is meant to leave kernels alone is checked against the list of the commit before it:

  scripts/kernel-hashes.py --write before.txt
  scripts/kernel-hashes.py --check before.txt

--check prints the kernels that differ, or are there on one side alone, and ends with 1.
"""
import argparse
import hashlib
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import kernel_grids

GRIDS = ["emulate", "warpgroups"]
COMMENT = re.compile(r"//.*")


def hashes(compiler, folder):
    """{name of a kernel's bundle: hash}"""
    bundles = kernel_grids.Bundles(folder, compiler, ["--no-cubin"])
    for grid in GRIDS:
        bundles.compile(kernel_grids.GRIDS[grid](bundles))
    found = {}
    for bundle in sorted(bundles.made):
        text = "".join(COMMENT.sub("", path.read_text()) for path in sorted((folder / bundle).glob("*.ptx")))
        found[bundle.removesuffix(".fcb")] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def read(path):
    lines = (line.split(maxsplit=1) for line in path.read_text().splitlines() if not line.startswith("#"))
    return {name: digest for digest, name in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", type=pathlib.Path, default=ROOT / "build/release/bin/flashcore-compile")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="FILE", type=pathlib.Path)
    what.add_argument("--check", metavar="FILE", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = hashes(args.compiler, pathlib.Path(folder))
    if args.write:
        args.write.write_text("".join(f"{digest} {name}\n" for name, digest in sorted(found.items())))
        print(f"kernel-hashes: {len(found)} kernels into {args.write}")
        return 0
    expected = read(args.check)
    differing = [name for name in sorted(expected | found) if expected.get(name) != found.get(name)]
    for name in differing:
        print(f"{name}: {'new' if name not in expected else 'gone' if name not in found else 'changed'}")
    print(f"kernel-hashes: {len(differing)} of {len(expected | found)} kernels differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
