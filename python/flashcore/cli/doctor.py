"""Says what kernels can run on here, what is missing, what for, and how to get it.

The exit code is 0 where kernels can run on something.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from flashcore import _core, cache, codegen, kernels
from flashcore.cli import host
from flashcore.cli.command import print_json
from flashcore.cli.format import size_text
from flashcore.cli.progress import Progress
from flashcore.errors import Error, NoDeviceError

__all__ = ["Finding", "add_arguments", "examine", "run"]

OK, MISSING, BAD = "ok", "missing", "bad"
_MARKS = {OK: "ok", MISSING: "--", BAD: "!!"}


@dataclass(frozen=True)
class Finding:
    """What one look found.

    name: what was looked at.
    state: "ok"; "missing": what can be done without; "bad": what should work.
    text: for people.
    advice: what it is for and how to get it, or how to mend it.
    details: the same for programs.
    """

    name: str
    state: str
    text: str
    advice: str = ""
    details: Dict[str, Any] = dataclasses.field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    with Progress("looking", silent=options.json) as progress:
        findings = examine(progress.say)
    runs_on = [kind for kind in ("gpu", "emulator") if _works(findings, f"self test, {kind}")]
    if options.json:
        print_json(
            {
                "runs_on": runs_on,
                "findings": [dataclasses.asdict(finding) for finding in findings],
            }
        )
    else:
        print(_render(findings, runs_on), end="")
    return 0 if runs_on else 1


def _works(findings: List[Finding], name: str) -> bool:
    return any(finding.name == name and finding.state == OK for finding in findings)


def _render(findings: List[Finding], runs_on: List[str]) -> str:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{_MARKS[finding.state]}  {finding.name:{width}}  {finding.text}")
        if finding.advice:
            lines.append(f"    {'':{width}}  {finding.advice}")
    names = {"gpu": "the GPU", "emulator": "the emulator, which checks every access"}
    where = " and ".join(names[kind] for kind in runs_on)
    lines += ["", f"kernels run on {where}" if where else "kernels run on nothing here"]
    return "\n".join(lines) + "\n"


def examine(say: Callable[[str], None] = lambda text: None) -> List[Finding]:
    """All that there is to find."""
    say("looking at the package")
    findings = [_package(), _compiler(), _tools(), _ptxas(), _driver()]
    say("opening the GPU")
    findings.append(_gpu())
    say("running a kernel on the emulator")
    findings.append(_self_test("emulator"))
    if findings[-2].state == OK:
        say("running a kernel on the GPU")
        findings.append(_self_test("gpu"))
    say("importing PyTorch")
    findings += [_torch(), *map(_optional_package, _PACKAGES), _cache(), _precompiled()]
    return findings + _environment()


# The package ----------------------------------------------------------------


def _package() -> Finding:
    folder = Path(_core.__file__).parent
    library = next(folder.glob("lib/libflashcore.so*"), Path(_core.__file__))
    size = library.stat().st_size
    return Finding(
        "library",
        OK,
        f"{library} ({size_text(size)})",
        details={"path": str(library), "bytes": size},
    )


def _compiler() -> Finding:
    chips = _core.chips()
    text = f"{_core.version()}; compiles for {', '.join(chips)}"
    details = {"version": _core.version(), "chips": list(chips)}
    python = f"; Python {platform.python_version()} on {platform.machine()}"
    return Finding("compiler", OK, text + python, details=details)


def _tools() -> Finding:
    from flashcore.cli.tools import executable

    path = executable()
    if os.access(path, os.X_OK):
        return Finding("tools", OK, str(path), details={"path": str(path)})
    return Finding(
        "tools",
        BAD,
        f"expects an executable at {path}, but got none",
        "flashcore opt, compile, run and emu need it: install the package again",
    )


def _ptxas() -> Finding:
    try:
        found = codegen.assembler()
    except Error as error:
        return Finding("ptxas", BAD, str(error), "unset FLASHCORE_PTXAS to look for one")
    if not found:
        return Finding(
            "ptxas",
            MISSING,
            "none: the driver assembles, which takes about as long",
            "it says what registers a kernel takes where there is no GPU: pip install "
            "nvidia-cuda-nvcc, or set CUDA_HOME or FLASHCORE_PTXAS",
        )
    path = found.rsplit(" ", 2)[0]
    version = _ptxas_version(path)
    state = OK if version else BAD
    return Finding(
        "ptxas",
        state,
        f"{path}, {version or 'which does not run'}",
        "" if version else "the driver assembles; FLASHCORE_PTXAS=none does not try it",
        {"path": path, "version": version},
    )


def _ptxas_version(path: str) -> Optional[str]:
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bV([\d.]+)", said)
    return match[1] if match else None


# The GPU --------------------------------------------------------------------

_DRIVER_VERSION = Path("/proc/driver/nvidia/version")


def _driver() -> Finding:
    try:
        match = re.search(r"\b(\d+\.[\d.]+)\b", _DRIVER_VERSION.read_text())
    except OSError:
        match = None
    if match:
        return Finding("driver", OK, f"NVIDIA {match[1]}", details={"version": match[1]})
    return Finding(
        "driver",
        MISSING,
        "no NVIDIA driver is loaded",
        "a GPU needs it: https://www.nvidia.com/drivers, and in a container the NVIDIA "
        "Container Toolkit",
    )


def _gpu() -> Finding:
    try:
        device = kernels.device("cuda")
    except NoDeviceError as error:
        advice = "kernels run on the emulator, which checks them and takes its time"
        return Finding("GPU", MISSING, str(error).splitlines()[0], advice)
    except Error as error:
        return Finding("GPU", BAD, str(error).splitlines()[0], "see the driver's log")
    details = {
        "name": device.name,
        "chip": device.chip,
        "multiprocessors": device.multiprocessors,
    }
    text = f"{device.name} ({device.chip}, {device.multiprocessors} multiprocessors)"
    try:
        details["compiled_for"] = kernels.chip_for(device)
    except Error as error:
        return Finding("GPU", BAD, f"{text}: {error}", "", details)
    return Finding("GPU", OK, f"{text}; kernels are for {details['compiled_for']}", "", details)


def _self_test(kind: str) -> Finding:
    name = f"self test, {kind}"
    try:
        device = kernels.device("emulator" if kind == "emulator" else "cuda")
        code, o = host.check(device, kernels.chip_for(device))
    except Error as error:
        first, *rest = str(error).splitlines()
        return Finding(name, BAD, first, " ".join(line.strip() for line in rest))
    text = (
        f"{host.SHAPE}: {code}, max error O {o['error']:.2e} of {o['allowed']:.2e} allowed"
    )
    return Finding(name, OK if o["pass"] else BAD, text, details={"code": code, "o": o})


# Other packages -------------------------------------------------------------

#: Name for pip, and what it is for.
_PACKAGES = (
    ("numpy", "arrays on the emulator, flashcore.run_ptx"),
    ("ml_dtypes", "bfloat16 in NumPy arrays"),
    ("transformers", "flashcore.transformers"),
    ("matplotlib", "the plots of flashcore bench and flashcore tune"),
)


def _version(name: str) -> Optional[str]:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _optional_package(package: "tuple[str, str]") -> Finding:
    name, purpose = package
    version = _version(name)
    if version:
        return Finding(name, OK, version, details={"version": version})
    return Finding(name, MISSING, "not installed", f"for {purpose}: pip install {name}")


def _torch() -> Finding:
    version = _version("torch")
    if not version:
        return Finding(
            "torch",
            MISSING,
            "not installed",
            "for tensors on the GPU, and for timings: https://pytorch.org/get-started/locally",
        )
    try:
        import torch
    except Exception as error:  # whatever a broken installation raises
        return Finding("torch", BAD, f"{version} cannot be imported: {error}", "install it again")
    has_api = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
    has_gpu = torch.cuda.is_available()
    text = f"{version}, {f'CUDA {torch.version.cuda}' if torch.version.cuda else 'without CUDA'}"
    text += ", with the DLPack exchange API" if has_api else ", without the DLPack exchange API"
    advice = ""
    if not has_api:
        advice = "a call takes some microseconds more of the host: PyTorch 2.10 has it"
    if torch.version.cuda and not has_gpu:
        text += ", sees no GPU"
    details = {
        "version": version,
        "cuda": torch.version.cuda,
        "sees_gpu": has_gpu,
        "has_dlpack_exchange_api": has_api,
    }
    return Finding("torch", OK, text, advice, details)


# Kernels on disk ------------------------------------------------------------


def _cache() -> Finding:
    folder = cache.path()
    if folder is None:
        return Finding(
            "cache",
            MISSING,
            "turned off by FLASHCORE_CACHE_DIR=",
            "every process compiles its kernels: unset it, or let it name a folder",
        )
    try:
        limit = cache.size_limit()
    except ValueError as error:
        return Finding("cache", BAD, str(error))
    reason = cache.why_unusable(folder)
    if reason:
        return Finding(
            "cache",
            BAD,
            f"{folder} is not used: {reason}",
            "every process compiles its kernels: mend it, or set FLASHCORE_CACHE_DIR",
            {"path": str(folder), "reason": reason},
        )
    entries = cache.entries()
    size = sum(entry.bytes for entry in entries)
    return Finding(
        "cache",
        OK,
        f"{folder}: {len(entries)} kernels, {size_text(size)} of {size_text(limit)}",
        details={"path": str(folder), "kernels": len(entries), "bytes": size, "limit": limit},
    )


def _precompiled() -> Finding:
    folder = os.environ.get("FLASHCORE_KERNELS")
    if not folder:
        return Finding(
            "precompiled",
            MISSING,
            "no FLASHCORE_KERNELS",
            "a folder of 'flashcore cache precompile' saves deployments the compiler",
        )
    count = len(cache.entries(Path(folder)))
    state = OK if count else BAD
    advice = "" if count else "fill it with 'flashcore cache precompile --out'"
    details = {"path": folder, "kernels": count}
    return Finding("precompiled", state, f"{folder}: {count} kernels", advice, details)


#: Those that are read, and by whom.
_VARIABLES = (
    "FLASHCORE_CACHE_DIR",
    "FLASHCORE_CACHE_SIZE",
    "FLASHCORE_KERNELS",
    "FLASHCORE_PTXAS",
)
_OF_OTHERS = ("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "XDG_CACHE_HOME")


def _environment() -> List[Finding]:
    findings = []
    for name in sorted(os.environ):
        if not name.startswith("FLASHCORE_") and name not in _OF_OTHERS:
            continue
        value = os.environ[name]
        is_known = name in _VARIABLES or name in _OF_OTHERS
        advice = "" if is_known else f"nothing reads it: expects one of {', '.join(_VARIABLES)}"
        details = {"value": value}
        findings.append(Finding(f"${name}", OK if is_known else BAD, repr(value), advice, details))
    return findings
