"""Kernels of a bundle on a CUDA stream, through the driver's own library.

A handful of driver calls by ctypes: they need nothing but the driver, whatever
the PyTorch build beside them, and may be captured in a CUDA graph. The caller
has a current context (PyTorch makes the primary one).
"""

import ctypes

from .errors import UserError

_MAX_DYNAMIC_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_LOCAL_BYTES, _NUM_REGISTERS = 3, 4  # CU_FUNC_ATTRIBUTE_...
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER, ..._SIZE_BYTES


class DriverError(Exception):
    """A call of the driver that failed."""


class Driver:
    """libcuda, with errors as exceptions. Tests hand in a library of their
    own."""

    def __init__(self, library=None):
        if library is None:
            try:
                library = ctypes.CDLL("libcuda.so.1")
            except OSError as error:
                raise UserError(f"no NVIDIA driver on this machine: {error}")
        self._library = library

    def call(self, name, *arguments, note=""):
        result = getattr(self._library, name)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(result, ctypes.byref(text))
            error = (text.value or b"unknown CUresult").decode()
            raise DriverError(
                f"{name} failed: {error} ({result}){note and '; ' + note}"
            )


class Module:
    """PTX or machine code, loaded; it stays until the process ends."""

    def __init__(self, driver, code, origin):
        self._driver = driver
        self._handle = ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        keys = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            driver.call(
                "cuModuleLoadDataEx",
                ctypes.byref(self._handle),
                ctypes.c_char_p(bytes(code) + b"\0"),
                2,
                keys,
                values,
                note=f"loading {origin}",
            )
        except DriverError as error:
            # Only the assembler's log says which line it did not like.
            raise DriverError(
                f"{error}\n{log.value.decode(errors='replace')}".strip()
            )

    def function(self, name):
        handle = ctypes.c_void_p()
        self._driver.call(
            "cuModuleGetFunction",
            ctypes.byref(handle),
            self._handle,
            name.encode(),
            note=f"looking for kernel {name}",
        )
        return handle

    def allow_shared_memory(self, name, size):
        """More than 48 KiB of dynamic shared memory must be asked for."""
        self._driver.call(
            "cuFuncSetAttribute",
            self.function(name),
            _MAX_DYNAMIC_SHARED_BYTES,
            size,
            note=f"{size} bytes of shared memory for kernel {name}",
        )

    def resources(self, name):
        """Registers and bytes of local memory a thread."""
        attributes = {"registers": _NUM_REGISTERS, "local_bytes": _LOCAL_BYTES}
        answer = {}
        for key, attribute in attributes.items():
            value = ctypes.c_int()
            self._driver.call(
                "cuFuncGetAttribute",
                ctypes.byref(value),
                attribute,
                self.function(name),
            )
            answer[key] = value.value
        return answer


class BoundLaunches:
    """Launches with everything but the stream decided, so that one costs a
    call of the driver a kernel. `module` has their kernels."""

    def __init__(self, driver, module, launches):
        self._driver = driver
        self._calls = [self._bind(module, launch) for launch in launches]

    @staticmethod
    def _bind(module, launch):
        values = [ctypes.c_uint64(value) for value in launch.arguments]
        pointers = (ctypes.c_void_p * len(values))(
            *map(ctypes.addressof, values)
        )
        module.allow_shared_memory(launch.name, launch.shared_bytes)
        # `values` is kept: the driver reads it through `pointers`.
        return module.function(launch.name), launch, pointers, values

    def launch(self, stream):
        for function, launch, pointers, _ in self._calls:
            self._driver.call(
                "cuLaunchKernel",
                function,
                *launch.grid,
                *launch.block,
                launch.shared_bytes,
                ctypes.c_void_p(stream),
                pointers,
                None,
                note=f"kernel {launch.name}, grid {launch.grid}",
            )
