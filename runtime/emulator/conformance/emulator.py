# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches PTX in flashcore-emu."""
import json
import pathlib
import subprocess

import npy
from bundles import ELEMENTS

TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


class EmulatorError(RuntimeError):
    pass


class Emulator:
    def __init__(self, tool, mma, folder):
        self.tool, self.mma, self.folder = str(tool), mma, pathlib.Path(folder)

    def run_launch(self, launch):
        """The output of a launch of the corpus. A finding of any check or an
        output element that nobody wrote is an error."""
        prefix = self.folder / launch.name
        ptx, out = prefix.with_suffix(".ptx"), prefix.with_suffix(".out.npy")
        ptx.write_text(launch.ptx)
        arguments = []
        for i, ((_, values), data) in enumerate(zip(launch.inputs, launch.input_bytes())):
            path = prefix.with_suffix(f".{i}.npy")
            path.write_bytes(npy.encode(data, len(data) // len(values)))
            arguments.append(str(path))
        size = launch.element_bytes()
        arguments.append(f"{TYPES[size]}[{launch.output_bytes() // size}]:poison")
        self.run([str(ptx), "--grid", str(launch.grid), "--block", str(launch.block), "--quiet", "--arg", *arguments,
                  "--out", f"{len(arguments) - 1}={out}"], launch.name)
        return npy.decode(out.read_bytes())

    def run_kernel(self, launch):
        """The outputs of a whole kernel, by the index of the argument."""
        arguments, outputs = self.kernel_arguments(launch)
        self.run([*arguments, "--quiet"], launch.name)
        return {i: npy.decode(path.read_bytes()) for i, path in outputs.items()}

    def count_kernel(self, launch):
        """The counters of a whole kernel, as flashcore-emu's JSON has them.
        Traffic kernels read what nobody wrote, so only memory is checked."""
        arguments, _ = self.kernel_arguments(launch)
        return json.loads(self.run([*arguments, "--stats", "json", "--check", "memory"], launch.name))

    def kernel_arguments(self, launch):
        prefix = self.folder / f"kernel-{launch.name}"
        ptx = prefix.with_suffix(".ptx")
        ptx.write_text(launch.ptx)
        command = [str(ptx), "--kernel", launch.kernel, "--grid", ",".join(map(str, launch.grid)), "--block",
                   ",".join(map(str, launch.block)), "--shared", str(launch.shared), "--arg"]
        outputs = {i: prefix.with_suffix(f".out{i}.npy") for i in launch.outputs()}
        for i, argument in enumerate(launch.arguments):
            size = ELEMENTS[argument.type]
            path = prefix.with_suffix(f".{i}.npy")
            if not argument.is_output:
                path.write_bytes(npy.encode(launch.data(i), size))
            command.append(f"{TYPES[size]}[{argument.count}]:zeros" if argument.is_output else str(path))
        for i, path in outputs.items():
            command += ["--out", f"{i}={path}"]
        return command, outputs

    def run(self, arguments, name):
        """Standard output; an error unless the run is clean."""
        result = subprocess.run([self.tool, *arguments, "--mma", self.mma], capture_output=True, text=True)
        if result.returncode or "never written" in result.stdout:
            raise EmulatorError(f"{name}: flashcore-emu exits with {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout
