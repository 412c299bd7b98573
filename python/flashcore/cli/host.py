"""A kernel run on tensors in host memory, with nothing but the standard library."""

from __future__ import annotations

import array
import random
import struct
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

from flashcore import _core

__all__ = ["SHAPE", "check"]

#: Of the self test.
SHAPE = "b1 h1 s16 d16 f16 causal bhsd"
_SIZES = (1, 1, 16, 16)
_STRIDES = (256, 256, 16, 1)


def check(device: _core.Device, chip: str) -> Tuple[str, Dict[str, Any]]:
    """Compiles a small attention, runs it, and compares it with the reference.

    Returns which code ran, and how o compares (``_core.Bundle.check_outputs``).
    """
    bundle = _compile(chip)
    module = device.load(bundle)
    generator = random.Random(0)
    specs: List[Tuple[str, int, bool, Tuple[int, ...], Tuple[int, ...]]] = []
    tensors = []
    for name in ("q", "k", "v", "o"):
        specs.append((name, 2, name == "o", _SIZES, _STRIDES))
        values = (generator.gauss(0, 1) for _ in range(_STRIDES[0]))
        tensors.append(array.array("H", (_half(value) for value in values)))
    pointers = [tensor.buffer_info()[0] for tensor in tensors]
    module.plan(specs).run_on_host(pointers)
    o, *_ = bundle.check_outputs(specs, pointers, 1)
    return module.code, o


def _compile(chip: str) -> _core.Bundle:
    """PTX alone, which the driver assembles and the emulator runs."""
    text = _core.write_shape(SHAPE).encode()
    compilation = _core.compile(text, SHAPE, chip, [], None, False)
    with tempfile.TemporaryDirectory(prefix="flashcore-") as folder:
        path = Path(folder, "kernel.fcb")
        compilation.write_bundle(0, path)
        return _core.load_bundle(path)


def _half(value: float) -> int:
    return int(struct.unpack("<H", struct.pack("<e", value))[0])
