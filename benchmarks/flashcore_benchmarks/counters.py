"""What ncu counts of our kernels, and which unit of the SM they keep busy."""

import csv
import io
import shutil
import subprocess

from .errors import UserError

TIME = "gpu__time_duration.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
# Shares of what a unit could do in the time of the kernel, in percent. Not all
# are there on every GPU.
UNITS = {
    "shared memory": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
        ".pct_of_peak_sustained_elapsed",
    ),
    "tensor cores": (
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
    ),
    "f32 arithmetic": (
        "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed",
    ),
    "exponentials": (
        "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",
    ),
    "issue slots": (
        "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    ),
    "DRAM": ("dram__throughput.avg.pct_of_peak_sustained_elapsed",),
}
# A unit that is busy for less does not limit a kernel: its warps wait.
LIMITING = 60
_LONGEST_SECONDS = 120


def find():
    """ncu, or None where there is none."""
    return shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")


class Counters:
    """Runs bundles once under `ncu`."""

    def __init__(self, ncu, toolchain):
        self._ncu, self._toolchain = ncu, toolchain
        self._known = self._list_metrics()

    def count(self, bundle, dims=()):
        """{"wavefronts", "conflicts", "busy": {unit: percent}} of all kernels
        of a bundle; units are those of the one that takes longest. UserError
        with what ncu says where it counts nothing."""
        metrics = [TIME, WAVEFRONTS, CONFLICTS, *self._units().values()]
        text = self._run(
            ["--csv", "--page", "raw", "--print-units", "base"]
            + ["--clock-control", "none", "--metrics", ",".join(metrics)]
            + self._toolchain.command("run")
            + ["--device=cuda", "--no-check", *dims, str(bundle)]
        )
        return self._read(text)

    def _read(self, text):
        # ncu prints the program's own output and its messages before the table.
        if '"ID"' not in text:
            raise UserError(f"ncu counted nothing:\n{text[-1000:]}")
        table = csv.DictReader(io.StringIO(text[text.index('"ID"') :]))
        rows = [row for row in table if row["ID"]]
        longest = max(rows, key=lambda row: _number(row, TIME))
        return {
            "wavefronts": sum(_number(row, WAVEFRONTS) for row in rows),
            "conflicts": sum(_number(row, CONFLICTS) for row in rows),
            "busy": {
                unit: _number(longest, metric)
                for unit, metric in self._units().items()
            },
        }

    def _units(self):
        found = {}
        for unit, names in UNITS.items():
            known = [n for n in names if n.split(".")[0] in self._known]
            if known:
                found[unit] = known[0]
        return found

    def _list_metrics(self):
        text = self._run(["--query-metrics"])
        return {line.split()[0] for line in text.splitlines() if line.split()}

    def _run(self, arguments):
        command = [self._ncu, *arguments]
        try:
            result = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=_LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"ncu gave no answer for {_LONGEST_SECONDS} s")
        text = result.stdout + result.stderr
        if "ERR_NVGPUCTRPERM" in text:
            raise UserError(
                "the driver lets only the administrator read counters "
                "(ERR_NVGPUCTRPERM): run as root, or load nvidia with "
                "NVreg_RestrictProfilingToAdminUsers=0"
            )
        if result.returncode:
            raise UserError(
                f"ncu ends with {result.returncode}:\n{text[-1000:]}"
            )
        return result.stdout


def limit(busy):
    """What the unit that is busiest says of a kernel."""
    unit, percent = max(busy.items(), key=lambda item: item[1])
    if percent >= LIMITING:
        return f"{unit} ({percent:.0f} %)"
    return f"waiting ({unit} {percent:.0f} %)"


def _number(row, metric):
    text = (row.get(metric) or "").replace(",", "")
    try:
        return float(text)
    except ValueError:
        return 0.0
