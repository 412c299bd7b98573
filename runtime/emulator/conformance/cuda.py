# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches PTX on an NVIDIA GPU through the CUDA driver, with ctypes alone."""
import ctypes

LOG_BYTES = 1 << 16
JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6  # CUjit_option
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8                             # CUfunction_attribute
COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76   # CUdevice_attribute


class CudaError(RuntimeError):
    pass


class Device:
    """Device 0 with its primary context current."""

    def __init__(self):
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"no NVIDIA driver here ({error}); run this half on a machine with a GPU") from None
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device.value
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.context = context
        self.make_current()

    def make_current(self):
        """The driver keeps the current context per thread."""
        self._call("cuCtxSetCurrent", self.context)

    def _call(self, name, *arguments, log=None):
        status = getattr(self.driver, name)(*arguments)
        if status == 0:
            return
        text = ctypes.c_char_p()
        self.driver.cuGetErrorString(status, ctypes.byref(text))
        what = text.value.decode() if text.value else "unknown error"
        detail = "\n" + log.value.decode(errors="replace") if log and log.value else ""
        raise CudaError(f"{name} failed: {what} ({status}){detail}")

    def name(self):
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode()

    def chip(self):
        """As `sm_90`."""
        parts = []
        for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
            value = ctypes.c_int()
            self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, self.device)
            parts.append(str(value.value))
        return "sm_" + "".join(parts)

    def load(self, ptx, kernel):
        """The module and the function of a PTX text."""
        self.make_current()
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(LOG_BYTES)
        options = (ctypes.c_int * 2)(JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
        self._call("cuModuleLoadDataEx", ctypes.byref(module), ctypes.c_char_p(ptx.encode()), 2, options, values, log=log)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        return module, function

    def unload(self, module):
        self._call("cuModuleUnload", module)

    def upload(self, data):
        address = self.allocate(len(data))
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_char_p(data), ctypes.c_size_t(len(data)))
        return address

    def allocate(self, size):
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def download(self, address, size):
        data = ctypes.create_string_buffer(size)
        self._call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw

    def free(self, address):
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def launch(self, function, grid, block, shared, arguments):
        """`arguments` are ctypes values. Waits for the end."""
        if shared > 48 << 10:
            self._call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(value) for value in arguments))
        self._call("cuLaunchKernel", function, *grid, *block, shared, None, pointers, None)
        self._call("cuCtxSynchronize")

    def run(self, ptx, kernel, grid, block, shared, buffers, outputs):
        """One launch of a kernel whose parameters point to `buffers`; gives
        the contents of those whose indices are in `outputs` afterwards."""
        module, function = self.load(ptx, kernel)
        addresses = [self.upload(data) for data in buffers]
        self.launch(function, [*grid, 1, 1][:3], [*block, 1, 1][:3], shared,
                    [ctypes.c_uint64(address) for address in addresses])
        results = {i: self.download(addresses[i], len(buffers[i])) for i in outputs}
        for address in addresses:
            self.free(address)
        self.unload(module)
        return results

    def run_launch(self, launch):
        """The output of a launch of the corpus."""
        buffers = [*launch.input_bytes(), bytes(launch.output_bytes())]
        last = len(buffers) - 1
        return self.run(launch.ptx, launch.name, [launch.grid], [launch.block], 0, buffers, [last])[last]

    def run_kernel(self, launch):
        """The outputs of a whole kernel, by the index of the argument."""
        buffers = [launch.data(i) for i in range(len(launch.arguments))]
        return self.run(launch.ptx, launch.kernel, launch.grid, launch.block, launch.shared, buffers, launch.outputs())
