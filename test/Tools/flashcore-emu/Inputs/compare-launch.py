"""usage: compare-launch.py BUNDLE

The comment of kernels.ptx must say what the manifest says of the launch.
"""
import json
import pathlib
import sys

bundle = pathlib.Path(sys.argv[1])
manifest = json.loads((bundle / "manifest.json").read_text())
first = (bundle / "kernels.ptx").read_text().splitlines()[0]
launch = json.loads(first.removeprefix("// flashcore-launch: "))
variant, = manifest["variants"]
for kernel in variant["kernels"]:
    del kernel["resources"]
manifest |= variant
assert launch == {key: manifest[key] for key in launch}, launch
assert set(launch) == {"version", "ops", "sizes", "tensors", "values", "workspace",
                       "kernels"}, launch
