"""What tests of flashcore-bench share: folders, and a run of two problems."""

import io
import os
import pathlib
import tempfile
import unittest

from support import Direct, FakeDevice

from flashcore_benchmarks import bench, problems, results, rotation
from flashcore_benchmarks.progress import Progress
from flashcore_benchmarks.toolchain import Toolchain

TOOLS = os.environ["FLASHCORE_TOOLS"]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class RunFolder(Folder):
    """The whole flow on two problems."""

    PATTERNS = ["reference-dense", "bert-b1-causal"]

    def setUp(self):
        super().setUp()
        self.selected = problems.select(self.PATTERNS)
        self.out = self.folder / "results.json"

    def kernels(self, variants=()):
        toolchain = Toolchain(TOOLS, self.folder)
        made = bench.Kernels(
            toolchain, self.folder, "sm_89", dict(variants), False
        )
        made.compile(self.selected, Progress(9, io.StringIO()))
        return made

    def run_bench(
        self, device, kernels=None, peers=("fa2", "cudnn"), **options
    ):
        store = results.Results(self.out)
        settings = {"seed": 1, "dtype": "f16", "chip": "sm_89"}
        peaks = {"mma_tflops": 600.0, "dram_gbs": 4000.0, "source": "a test"}
        store.begin(settings, FakeDevice.card() | {"peaks": peaks})
        kernels = kernels or self.kernels()
        timer = Direct(device) if isinstance(device, FakeDevice) else device
        rounds = rotation.Rounds.exactly(5)
        runner = bench.Bench(timer, kernels, store, peers, rounds, 1)
        left = runner.run(
            self.selected, progress=Progress(9, io.StringIO()), **options
        )
        return left, results.read(self.out) if self.out.exists() else None
