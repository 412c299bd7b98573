"""Compiles a grid of problems and checks what ptxas says about each kernel.

usage: check-resources.py FLASHCORE_COMPILE WORK_DIR GRID

GRID is one of GRIDS. No kernel may spill, and each must fit the shared memory
of its chip.
"""

import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import subprocess
import sys

# The package's reader of bundles, which needs no build of the package.
ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path += [str(ROOT / "python/flashcore"), str(ROOT / "scripts")]

import compiler_lists
from bundle import Bundle, chip_number


@dataclasses.dataclass(frozen=True)
class Problem:
    head_dim: int
    head_dim_v: int = 0  # 0: that of head_dim
    dtype: str = "f16"
    chip: str = "sm_89"
    clauses: str = ""  # what follows the tensors
    bias: bool = False
    dynamic: bool = False
    few_rows: int = 0  # 0: as many as keys; else a short query, many keys

    def name(self):
        features = "".join(c if c.isalnum() else "-" for c in self.clauses)
        return (f"{self.chip}-{self.dtype}-d{self.head_dim}-{self.head_dim_v or self.head_dim}"
                f"-{'dynamic' if self.dynamic else 'static'}{'-bias' if self.bias else ''}-{self.few_rows}-{features}")

    def sizes(self):
        """Rows and keys; few rows share their kv heads by fours."""
        return (f"1x32x{self.few_rows}", "1x8x4096") if self.few_rows else ("2x8x1024",) * 2

    def tensor(self, columns, sizes):
        if self.dynamic:
            return f"memref<?x?x?x{columns}x{self.dtype}, strided<[?, ?, ?, 1], offset: ?>>"
        return f"memref<{sizes}x{columns}x{self.dtype}>"

    def source(self):
        rows, keys = self.sizes()
        lse = "memref<?x?x?xf32>" if self.dynamic else f"memref<{rows}xf32>"
        bias_type = ("memref<1x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>" if self.dynamic
                     else f"memref<1x{rows[2:]}x{keys.split('x')[-1]}xf32>")
        bias = "bias(%bias : !bias)" if self.bias else ""
        return f"""
!q = {self.tensor(self.head_dim, rows)}
!k = {self.tensor(self.head_dim, keys)}
!v = {self.tensor(self.head_dim_v or self.head_dim, keys)}
!o = {self.tensor(self.head_dim_v or self.head_dim, rows)}
!lse = {lse}
!bias = {bias_type}
func.func @attention(%q: !q, %k: !k, %v: !v, %bias: !bias, %o: !o, %lse: !lse) {{
  flashcore.attention ins(%q, %k, %v : !q, !k, !v) {bias} outs(%o : !o)
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


def with_warps(chips):
    """Those that ptxas knows and whose warps multiply both types, with what newer chips run, too."""
    return [chip for chip in chips if chip[-1].isdigit() and chip_number(chip) >= 80]


def chips(known):
    """Those of other limits than sm_89 in full, of those of the same limits the largest."""
    kinds = ({"clauses": CAUSAL}, FEATURES[-1])
    others = [chip for chip in with_warps(known) if chip != "sm_89"]
    full = [chip for chip in others if chip_number(chip) <= 90]
    return ([Problem(d, dtype="bf16", chip=chip, dynamic=True, **kind)
             for chip, d, kind in itertools.product(full, (40, 64, 128, 256), kinds)]
            + [Problem(d, dtype="bf16", chip=chip, dynamic=True, clauses=CAUSAL)
               for chip, d in itertools.product([chip for chip in others if chip not in full], (128, 256))])


def head_dims(known):
    """Every head_dim of whole chunks of 16 bytes on every chip: too many for CI."""
    return [Problem(d, dtype=dtype, chip=chip, clauses=mask, dynamic=True)
            for chip, d, dtype, mask in itertools.product(with_warps(known), range(8, 257, 8), ("f16", "bf16"), MASKS)]


def few_rows():
    # Windows that show enough keys to be split.
    wide = [{**f, "clauses": f.get("clauses", "").replace("(200)", "(2000)")} for f in FEATURES]
    every_dim = [Problem(d, clauses=MASKS[d // 8 % 2], few_rows=1) for d in range(16, 257, 16)]
    return every_dim + [Problem(d, few_rows=rows, **feature)
                        for d, rows, feature in itertools.product((40, 64, 128, 256), (1, 20), wide)]


GRIDS = {
    "f16": lambda known: multiples_of_16("f16"),
    "bf16": lambda known: multiples_of_16("bf16"),
    "shapes": lambda known: shapes(),
    "features": lambda known: features(),
    "chips": chips,
    "few-rows": lambda known: few_rows(),
    "head-dims": head_dims,
}


def check(compiler, work_dir, limit, problem):
    """Returns what is wrong with one kernel, or None."""
    name = problem.name()
    bundle = work_dir / f"{name}.fcb"
    compiled = subprocess.run(
        [compiler, "-", "--emit=bundle", f"--chip={problem.chip}", "-o", bundle],
        input=problem.source(), capture_output=True, text=True)
    if compiled.returncode != 0:
        return f"{name}: {compiled.stderr}"
    for number, kernel in enumerate(Bundle(bundle).kernels):
        resources = kernel.resources
        if resources is None or resources.registers <= 0:
            return f"{name}: expects a report of ptxas, but got {resources}"
        if resources.spills != 0:
            return f"{name}: expects no spills, but got {resources}"
        shared = kernel.shared_memory
        # A merge has none.
        if not (0 if number else 1) <= shared <= limit:
            return f"{name}: expects at most {limit} bytes of shared memory, but got {shared}"
    return None


def main():
    compiler, work_dir, grid = sys.argv[1:]
    work_dir = pathlib.Path(work_dir)
    work_dir.mkdir(parents=True, exist_ok=True)
    limits = compiler_lists.shared_memory_limits(compiler)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = [pool.submit(check, compiler, work_dir, limits[problem.chip], problem) for problem in GRIDS[grid](list(limits))]
    problems = [c.result() for c in checks if c.result()]
    print("\n".join(problems))
    print(f"{len(checks)} kernels, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
