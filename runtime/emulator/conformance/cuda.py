# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches PTX on an NVIDIA GPU, through FlashCore's Python package.

The only part of these scripts that the emulator alone does not have: it has no
GPU either, and one binding of the CUDA driver is enough.
"""


class CudaError(RuntimeError):
    pass


class Device:
    """Device 0, in its primary context."""

    def __init__(self):
        try:
            import flashcore
        except ImportError as error:
            raise CudaError(f"{error}; a GPU needs FlashCore's Python package: install its wheel, or put the folder "
                            "'python' of a build on PYTHONPATH") from None
        try:
            self.device = flashcore.open_device("cuda")
        except flashcore.Error as error:
            raise CudaError(f"{error}; run this half on a machine with a GPU") from None
        self.error = flashcore.Error

    def name(self):
        return self.device.name

    def chip(self):
        """As `sm_90`."""
        return self.device.chip

    def run(self, ptx, kernel, grid, block, shared, buffers, outputs):
        """One launch of a kernel whose parameters point to `buffers`; gives
        the contents of those whose indices are in `outputs` afterwards."""
        try:
            loaded = self.device.load_ptx(ptx, kernel, block, shared)
            addresses = [self.upload(data) for data in buffers]
            loaded.launch(grid, addresses)
            # Reading waits for the launch.
            results = {i: self.device.read(addresses[i], len(buffers[i])) for i in outputs}
            for address in addresses:
                self.device.free(address)
        except self.error as error:
            raise CudaError(f"{kernel}: {error}") from None
        return results

    def upload(self, data):
        address = self.device.allocate(len(data))
        self.device.write(address, data)
        return address

    def run_launch(self, launch):
        """The output of a launch of the corpus."""
        buffers = [*launch.input_bytes(), bytes(launch.output_bytes())]
        last = len(buffers) - 1
        return self.run(launch.ptx, launch.name, launch.grid, launch.block, 0, buffers, [last])[last]

    def run_kernel(self, launch):
        """The outputs of a whole kernel, by the index of the argument."""
        buffers = [launch.data(i) for i in range(len(launch.arguments))]
        return self.run(launch.ptx, launch.kernel, launch.grid, launch.block, launch.shared, buffers, launch.outputs())
