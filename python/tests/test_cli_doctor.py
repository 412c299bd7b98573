"""flashcore doctor: what it finds, and what it advises."""

import json
import sys
import types
from pathlib import Path

import pytest

from flashcore import NoDeviceError, _core, cache, kernels
from flashcore.cli import doctor, host, main


@pytest.fixture(autouse=True)
def surroundings(cache_dir, monkeypatch):
    """The same on every machine: no GPU, no PyTorch."""
    real = kernels.device

    def device(kind, index=0):
        if kind == "cuda":
            raise NoDeviceError("no CUDA device: none here")
        return real(kind, index)

    monkeypatch.setattr(kernels, "device", device)
    versions = {"numpy": "2.0", "torch": None}
    monkeypatch.setattr(doctor, "_version", versions.get)
    monkeypatch.setenv("FLASHCORE_PTXAS", "none")


def found(name):
    (finding,) = [finding for finding in doctor.examine() if finding.name == name]
    return finding


def test_text(capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "kernels run on the emulator, which checks every access"
    assert any(line.startswith("ok  compiler") and _core.version() in line for line in lines)
    assert any(line.startswith("--  GPU ") and line.endswith("none here") for line in lines)


def test_json(capsys):
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["runs_on"] == ["emulator"]
    by_name = {finding["name"]: finding for finding in said["findings"]}
    library = Path(by_name["library"]["details"]["path"])
    assert library.stat().st_size == by_name["library"]["details"]["bytes"]
    assert by_name["self test, emulator"]["details"]["o"]["elements"] == 256
    assert by_name["numpy"]["details"] == {"version": "2.0"}
    assert all(finding["state"] in ("ok", "missing", "bad") for finding in said["findings"])


def test_what_is_missing_has_advice():
    for finding in doctor.examine():
        assert finding.state != "missing" or finding.advice, finding


def test_nothing_to_run_on(monkeypatch, capsys):
    wrong = {"pass": False, "error": 1.0, "allowed": 0.1}
    monkeypatch.setattr(host, "check", lambda device, chip: ("PTX", wrong))
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.endswith("\n\nkernels run on nothing here\n")


def test_self_test_sees_a_wrong_result(monkeypatch):
    """It compares: a kernel for another attention does not pass."""
    device = kernels.device("emulator")
    assert host.check(device, "sm_90")[1]["pass"]
    words = host.SHAPE.replace("causal", "scale=3.0 causal")
    real = _core.write_shape
    monkeypatch.setattr(_core, "write_shape", lambda _: real(words))
    compiled = host._compile("sm_90")
    monkeypatch.undo()

    class Other:
        """Loads that kernel in place of the right one."""

        load = staticmethod(lambda bundle: device.load(compiled))

    code, o = host.check(Other(), "sm_90")
    assert not o["pass"] and o["error"] > 10 * o["allowed"]


def test_ptxas(tmp_path, monkeypatch):
    assert found("ptxas").text.startswith("none: the driver assembles")
    broken = tmp_path / "ptxas"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("FLASHCORE_PTXAS", str(broken))
    assert found("ptxas").state == "bad"
    broken.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.9, V12.9.86\n")
    assert found("ptxas").text == f"{broken}, 12.9.86"
    monkeypatch.setenv("FLASHCORE_PTXAS", "/nowhere/ptxas")
    assert found("ptxas").text.startswith("expects FLASHCORE_PTXAS to name a ptxas")


def test_driver(tmp_path, monkeypatch):
    said = tmp_path / "version"
    monkeypatch.setattr(doctor, "_DRIVER_VERSION", said)
    assert found("driver").state == "missing"
    said.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n")
    assert found("driver").text == "NVIDIA 580.159.04"
    said.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC\n")
    assert found("driver").text == "NVIDIA 535.54.03"


def test_an_old_gpu(monkeypatch):
    device = types.SimpleNamespace(
        kind="cuda", name="Old", chip="sm_61", multiprocessors=40, shared_memory_per_block=99 * 1024
    )
    monkeypatch.setattr(kernels, "device", lambda kind, index=0: device)
    finding = doctor._gpu()
    assert finding.state == "bad" and "expects a GPU of sm_70 or newer" in finding.text
    device.chip = "sm_120"
    assert doctor._gpu().text == "Old (sm_120, 40 multiprocessors); kernels are for sm_120"
    device.chip, device.shared_memory_per_block = "sm_90", 227 * 1024
    assert doctor._gpu().text == "Old (sm_90, 40 multiprocessors); kernels are for sm_90a"


def test_torch(monkeypatch):
    assert found("torch").state == "missing"
    monkeypatch.setattr(doctor, "_version", {"torch": "2.12"}.get)
    torch = types.ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})
    torch.version = types.SimpleNamespace(cuda="13.0")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    finding = found("torch")
    assert finding.text == "2.12, CUDA 13.0, without the DLPack exchange API, sees no GPU"
    assert finding.advice
    torch.Tensor.__dlpack_c_exchange_api__ = None
    assert found("torch").details["has_dlpack_exchange_api"]


def test_cache(cache_dir, monkeypatch):
    assert found("cache").text == f"{cache_dir}/bundles: 0 kernels, 0 bytes of 512.0 MiB"
    cache_dir.chmod(0o777)
    finding = found("cache")
    assert finding.state == "bad" and f"other users may write to {cache_dir}" in finding.text
    monkeypatch.setenv("FLASHCORE_CACHE_SIZE", "much")
    assert found("cache").text.startswith("expects FLASHCORE_CACHE_SIZE to be a number of bytes")
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", "/proc/nowhere")
    monkeypatch.delenv("FLASHCORE_CACHE_SIZE")
    assert found("cache").text == (
        "/proc/nowhere/bundles is not used: /proc/nowhere: No such file or directory"
    )
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", "")
    assert found("cache").state == "missing"


def test_precompiled(tmp_path, monkeypatch):
    assert found("precompiled").state == "missing"
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path))
    assert found("precompiled").state == "bad"
    cache.precompile(["b1 h1 s? d16"], tmp_path, chips=["sm_80"])
    assert found("precompiled").text == f"{tmp_path}: {len(_core.call_classes('sm_80'))} kernels"


def test_environment(monkeypatch):
    monkeypatch.setenv("FLASHCORE_CASHE_DIR", "/x")
    assert found("$FLASHCORE_PTXAS").text == "'none'"
    finding = found("$FLASHCORE_CASHE_DIR")
    assert finding.state == "bad" and "nothing reads it" in finding.advice
