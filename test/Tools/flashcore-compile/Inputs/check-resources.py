"""Compiles a grid of problems and checks what ptxas says about each kernel.

usage: check-resources.py FLASHCORE_COMPILE WORK_DIR DTYPE

No kernel may spill, and each must fit the shared memory of sm_89.
"""

import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys

SHARED_MEMORY_LIMIT = 99 * 1024


def source(dtype, head_dim, causal, dynamic):
    if dynamic:
        qkvo = f"memref<?x?x?x{head_dim}x{dtype}, strided<[?, ?, ?, 1], offset: ?>>"
        lse = "memref<?x?x?xf32>"
    else:
        qkvo = f"memref<2x8x1024x{head_dim}x{dtype}>"
        lse = "memref<2x8x1024xf32>"
    mask = f"causal({causal})" if causal else ""
    return f"""
!t = {qkvo}
!lse = {lse}
func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !lse) {{
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      lse(%lse : !lse) {mask}
  return
}}
"""


def check(compiler, work_dir, dtype, head_dim, causal, dynamic):
    """Returns what is wrong with one kernel, or None."""
    name = f"{dtype}-d{head_dim}-{causal or 'full'}-{'dynamic' if dynamic else 'static'}"
    bundle = work_dir / f"{name}.fcb"
    compiled = subprocess.run(
        [compiler, "-", "--emit=bundle", "--chip=sm_89", "-o", bundle],
        input=source(dtype, head_dim, causal, dynamic),
        capture_output=True, text=True)
    if compiled.returncode != 0:
        return f"{name}: {compiled.stderr}"
    kernel, = json.loads((bundle / "manifest.json").read_text())["kernels"]
    resources = kernel["resources"]
    if resources["registers"] <= 0:
        return f"{name}: expects a report of ptxas, but got {resources}"
    spilled = resources["spill_stores"] + resources["spill_loads"]
    if spilled != 0:
        return f"{name}: expects no spills, but got {resources}"
    shared = kernel["dynamic_shared_memory"] + resources["static_shared_memory"]
    if not 0 < shared <= SHARED_MEMORY_LIMIT:
        return f"{name}: expects at most {SHARED_MEMORY_LIMIT} bytes of shared memory, but got {shared}"
    return None


def main():
    compiler, work_dir, dtype = sys.argv[1:]
    work_dir = pathlib.Path(work_dir)
    work_dir.mkdir(parents=True, exist_ok=True)
    grid = itertools.product(range(16, 129, 16), (None, "bottom_right"),
                             (False, True))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = [pool.submit(check, compiler, work_dir, dtype, *point) for point in grid]
    problems = [c.result() for c in checks if c.result()]
    print("\n".join(problems))
    print(f"{len(checks)} kernels, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
