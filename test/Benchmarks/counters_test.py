"""Tests of what is read from ncu, which a stand-in plays."""

import pathlib
import stat
import tempfile
import types
import unittest

from bench_support import RunFolder  # noqa: F401  (finds the package)

from flashcore_benchmarks import counters
from flashcore_benchmarks.errors import UserError

NCU = """#!/bin/sh
if [ "$1" = --query-metrics ]; then
  echo "Device NVIDIA"
  echo "---"
  for name in gpu__time_duration l1tex__data_pipe_lsu_wavefronts_mem_shared sm__inst_executed_pipe_tensor; do
    echo "$name  text"
  done
  exit 0
fi
%s
"""
BUSY = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
TENSOR = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed"
TABLE = f"""cat <<END
PASS of the program
"ID","Kernel Name","{counters.TIME}","{counters.WAVEFRONTS}","{counters.CONFLICTS}","{BUSY}","{TENSOR}"
"","","ns","","","%","%"
"0","scores","1,000","100","10","40","70"
"1","values","9,000","2,000","0","85.5","6"
END"""


class CountersTest(unittest.TestCase):
    def make(self, does):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ncu = pathlib.Path(folder.name) / "ncu"
        ncu.write_text(NCU % does)
        ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
        tools = types.SimpleNamespace(command=lambda tool: [f"flashcore-{tool}"])
        return counters.Counters(str(ncu), tools)

    def test_adds_up_kernels(self):
        counted = self.make(TABLE).count("a.fcb")
        self.assertEqual(counted["wavefronts"], 2100)
        self.assertEqual(counted["conflicts"], 10)
        # Of the longest, and of units that the GPU counts.
        busy = {"shared memory": 85.5, "tensor cores": 6.0}
        self.assertEqual(counted["busy"], busy)

    def test_says_what_limits(self):
        self.assertEqual(
            counters.limit({"shared memory": 85.5, "DRAM": 6.0}),
            "shared memory (86 %)",
        )
        self.assertEqual(
            counters.limit({"issue slots": 40.0, "DRAM": 6.0}),
            "waiting (issue slots 40 %)",
        )

    def test_says_why_nothing_is_counted(self):
        with self.assertRaisesRegex(UserError, "counted nothing"):
            self.make("echo none").count("a.fcb")
        with self.assertRaisesRegex(UserError, "ends with 3:\nno such"):
            self.make("echo no such; exit 3").count("a.fcb")
        with self.assertRaisesRegex(UserError, "only the administrator"):
            self.make("echo ERR_NVGPUCTRPERM; exit 1").count("a.fcb")


if __name__ == "__main__":
    unittest.main()
