"""Compiles a grid of problems and checks what ptxas says about each kernel.

usage: check-resources.py FLASHCORE_COMPILE WORK_DIR GRID

GRID is one of GRIDS. No kernel may spill, and each must fit the shared memory
of its chip.
"""

import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import sys

# Bytes that one block may have.
SHARED_MEMORY_LIMITS = {
    "sm_80": 163 * 1024,
    "sm_86": 99 * 1024,
    "sm_89": 99 * 1024,
    "sm_90": 227 * 1024,
}


@dataclasses.dataclass(frozen=True)
class Problem:
    head_dim: int
    head_dim_v: int = 0  # 0: that of head_dim
    dtype: str = "f16"
    chip: str = "sm_89"
    clauses: str = ""  # what follows the tensors
    bias: bool = False
    dynamic: bool = False

    def name(self):
        features = "".join(c if c.isalnum() else "-" for c in self.clauses)
        return (f"{self.chip}-{self.dtype}-d{self.head_dim}-{self.head_dim_v or self.head_dim}"
                f"-{'dynamic' if self.dynamic else 'static'}{'-bias' if self.bias else ''}-{features}")

    def tensor(self, columns):
        if self.dynamic:
            return f"memref<?x?x?x{columns}x{self.dtype}, strided<[?, ?, ?, 1], offset: ?>>"
        return f"memref<2x8x1024x{columns}x{self.dtype}>"

    def source(self):
        lse = "memref<?x?x?xf32>" if self.dynamic else "memref<2x8x1024xf32>"
        bias_type = ("memref<1x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>" if self.dynamic
                     else "memref<1x8x1024x1024xf32>")
        bias = "bias(%bias : !bias)" if self.bias else ""
        return f"""
!qk = {self.tensor(self.head_dim)}
!vo = {self.tensor(self.head_dim_v or self.head_dim)}
!lse = {lse}
!bias = {bias_type}
func.func @attention(%q: !qk, %k: !qk, %v: !vo, %bias: !bias, %o: !vo, %lse: !lse) {{
  flashcore.attention ins(%q, %k, %v : !qk, !qk, !vo) {bias} outs(%o : !vo)
      lse(%lse : !lse) {self.clauses}
  return
}}
"""


CAUSAL = "causal(bottom_right)"
MASKS = ("", CAUSAL)
WINDOW = "window_left(200) window_right(50)"
SOFTCAP = "softcap(3.000000e+01)"
FEATURES = (
    {"clauses": WINDOW},
    {"clauses": f"{CAUSAL} window_left(200)"},
    {"clauses": SOFTCAP},
    {"bias": True},
    {"bias": True, "clauses": f"{WINDOW} {SOFTCAP}"},
)


def multiples_of_16(dtype):
    return [Problem(d, dtype=dtype, clauses=mask, dynamic=dynamic)
            for d, mask, dynamic in itertools.product(range(16, 129, 16), MASKS, (False, True))]


def shapes():
    dims = (24, 40, 72, 160, 192, 224, 256)
    equal = [Problem(d, clauses=mask, dynamic=dynamic)
             for d, mask, dynamic in itertools.product(dims, MASKS, (False, True))]
    unequal = [Problem(d, d_v) for d, d_v in ((192, 128), (24, 256), (256, 16))]
    return equal + unequal


def features():
    return [Problem(d, dynamic=dynamic, **feature)
            for d, dynamic, feature in itertools.product((40, 64, 128, 256), (False, True), FEATURES)]


def chips():
    kinds = ({"clauses": CAUSAL}, FEATURES[-1])
    return [Problem(d, dtype="bf16", chip=chip, dynamic=True, **kind)
            for chip, d, kind in itertools.product(("sm_80", "sm_86", "sm_90"), (40, 64, 128, 256), kinds)]


GRIDS = {
    "f16": lambda: multiples_of_16("f16"),
    "bf16": lambda: multiples_of_16("bf16"),
    "shapes": shapes,
    "features": features,
    "chips": chips,
}


def check(compiler, work_dir, problem):
    """Returns what is wrong with one kernel, or None."""
    name = problem.name()
    bundle = work_dir / f"{name}.fcb"
    compiled = subprocess.run(
        [compiler, "-", "--emit=bundle", f"--chip={problem.chip}", "-o", bundle],
        input=problem.source(), capture_output=True, text=True)
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
    limit = SHARED_MEMORY_LIMITS[problem.chip]
    if not 0 < shared <= limit:
        return f"{name}: expects at most {limit} bytes of shared memory, but got {shared}"
    return None


def main():
    compiler, work_dir, grid = sys.argv[1:]
    work_dir = pathlib.Path(work_dir)
    work_dir.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = [pool.submit(check, compiler, work_dir, problem) for problem in GRIDS[grid]()]
    problems = [c.result() for c in checks if c.result()]
    print("\n".join(problems))
    print(f"{len(checks)} kernels, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
