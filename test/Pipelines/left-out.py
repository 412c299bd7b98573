"""Leaves one pass out of the pipeline at a time. Without a pass that others build
on, the next of them says in one sentence that it comes first; without one that only
makes kernels faster, the kernel is lowered all the same.

usage: left-out.py FLASHCORE_OPT FILE
"""
import re
import subprocess
import sys

# What others build on, and what they do not.
NEEDED = {
    "flashcore-online-softmax": True,
    "flashcore-promote-shared": True,
    "flashcore-specialize-warps": True,
    "flashcore-pipeline-loops": False,
    "flashcore-start-next-tile": False,
    "flashcore-hand-over-slots": True,
    "flashcore-insert-barriers": True,
    "flashcore-infer-in-bounds": False,
    "flashcore-skip-hidden-tiles": False,
    "flashcore-split-masked-tiles": False,
    "flashcore-assign-layouts": True,
    "flashcore-distribute": True,
}
# A role of its own for copies makes waits of its own; without one there are no roles.
NOT_FOR = {"sm_90a": "flashcore-insert-barriers", "sm_89": "flashcore-specialize-warps", "sm_70": "flashcore-specialize-warps"}


def lower(opt, file, chip, without):
    """The errors of the pipeline without one pass; none if it ends well."""
    passes = [name for name in NEEDED if name != without]
    # The homes of values are attributes, of which a simpler op may have none.
    kernel = ",".join(name if name == "flashcore-assign-layouts" else f"{name},flashcore-simplify-kernel" for name in passes)
    pipeline = (f"builtin.module(flashcore-configure{{chip={chip}}},flashcore-decompose,flashcore-tile,"
                f"gpu.module(gpu.func({kernel}),flashcore-to-nvvm))")
    done = subprocess.run([opt, file, f"-pass-pipeline={pipeline}", "-o", "/dev/null"], text=True, capture_output=True)
    found = re.findall(r"error: (.*)", done.stderr)
    return found if done.returncode else found and [f"exit status 0, but {found}"]


def check(opt, file, chip, without):
    errors = lower(opt, file, chip, without)
    needed = NEEDED.get(without, False) and NOT_FOR[chip] != without
    if needed:
        if len(errors) == 1 and re.search(rf"'[\w.]+' op (?:expects|reads a tile in place).*; run (?:[\w-]+ and )?{without}\b.* first$", errors[0]):
            return True
    elif not errors:
        return True
    expected = f"one error that says to run {without} first" if needed else "no error"
    print(f"{chip} without {without}: expects {expected}, but got {errors}")
    return False


def main():
    opt, file = sys.argv[1:]
    results = [check(opt, file, chip, without) for chip in NOT_FOR for without in [None, *NEEDED]]
    sys.exit(0 if all(results) else 1)


main()
