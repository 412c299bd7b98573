"""Which chip a kernel is compiled for, and what stands in for it."""

import json
import types

import pytest

import flashcore
from flashcore import _core, cache, kernels
from flashcore.bundle import _shared_memory
from flashcore.problem import Problem

PROBLEM = Problem.parse("b? h? s? d64 strided")


#: Kernels are known by the id() of their device, which lives as long as the process.
_gpus = []


def gpu(chip, refused="", room=227 * 1024):
    """A GPU that refuses kernels for one chip, and whose blocks have `room` bytes of
    shared memory."""

    def load(bundle):
        if f'"chip": "{refused}"' in bundle.manifest:
            raise flashcore.Error("slow code")
        return bundle

    def runs(bundle):
        variants = json.loads(bundle.manifest)["variants"]
        return any(_shared_memory(variant) <= room for variant in variants)

    _gpus.append(
        types.SimpleNamespace(
            kind="cuda", name="GPU", chip=chip, load=load, runs=runs, shared_memory_per_block=room
        )
    )
    return _gpus[-1]


def loaded_chip(target):
    loaded = kernels.load(target, PROBLEM, ())
    return [chip for chip in _core.chips() if f'"chip": "{chip}"' in loaded.bundle.manifest]


@pytest.mark.parametrize(
    "device, chip",
    [
        ("sm_80", "sm_80"),
        ("sm_87", "sm_86"),
        ("sm_89", "sm_89"),
        ("sm_90", "sm_90a"),
        ("sm_100", "sm_90"),
    ],
)
def test_chip_of_a_gpu(device, chip):
    assert kernels.chip_for(gpu(device)) == chip


@pytest.mark.parametrize(
    "device, room, chip",
    [
        ("sm_86", 99, "sm_86"),
        ("sm_87", 163, "sm_86"),
        ("sm_110", 227, "sm_90"),
        ("sm_120", 99, "sm_120"),
        ("sm_121", 99, "sm_121"),
        # Of a kind that nobody knows yet, and less than such devices have.
        ("sm_130", 99, "sm_121"),
        ("sm_100", 99, "sm_89"),
        ("sm_90", 99, "sm_89"),
    ],
)
def test_kernels_stay_within_the_shared_memory_of_a_gpu(device, room, chip):
    assert kernels.chip_for(gpu(device, room=room * 1024)) == chip


def test_a_gpu_without_room_for_any_chip():
    with pytest.raises(flashcore.UnsupportedError, match=r"sm_70 or newer.*sm_90, 48 KiB of shared"):
        kernels.chip_for(gpu("sm_90", room=48 * 1024))


def test_the_emulator_runs_portable_code():
    assert kernels.chip_for(kernels.device("emulator")) == "sm_90"


def test_chip_of_the_environment(monkeypatch):
    monkeypatch.setenv("FLASHCORE_CHIP", "sm_80")
    assert kernels.chip_for(gpu("sm_90")) == "sm_80"
    monkeypatch.setenv("FLASHCORE_CHIP", "sm_7")
    with pytest.raises(flashcore.Error, match="expects FLASHCORE_CHIP to be one of sm_70, .*'sm_7'"):
        kernels.chip_for(gpu("sm_90"))


def test_one_kernel_is_compiled_for_a_known_device(cache_dir, compiled):
    assert loaded_chip(gpu("sm_90")) == ["sm_90a"]
    assert compiled() == 1


def test_a_kernel_that_cannot_be_loaded_is_replaced(cache_dir, compiled):
    expected = "a kernel for sm_90 runs, which is slower, since that for sm_90a .* slow code"
    with pytest.warns(UserWarning, match=expected):
        assert loaded_chip(gpu("sm_90", refused="sm_90a")) == ["sm_90"]
    assert compiled() == 2


def test_nothing_stands_in_elsewhere(cache_dir, monkeypatch):
    with pytest.raises(flashcore.Error, match="slow code"):
        loaded_chip(gpu("sm_89", refused="sm_89"))
    monkeypatch.setenv("FLASHCORE_CHIP", "sm_90a")  # as asked for, or not at all
    with pytest.raises(flashcore.Error, match="slow code"):
        loaded_chip(gpu("sm_90", refused="sm_90a"))


def test_precompiled_kernels_are_those_of_the_device(cache_dir, monkeypatch, compiled, tmp_path):
    made = cache.precompile([PROBLEM.words()], tmp_path)
    assert sorted({entry.chip for entry in made}) == sorted(_core.chips())
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path))
    before = compiled()
    assert loaded_chip(gpu("sm_90")) == ["sm_90a"]
    assert loaded_chip(gpu("sm_100")) == ["sm_90"]
    with pytest.warns(UserWarning, match="slow code"):
        assert loaded_chip(gpu("sm_90", refused="sm_90a")) == ["sm_90"]
    assert compiled() == before


def test_portable_kernels_serve_where_those_of_the_chip_are_missing(
    cache_dir, monkeypatch, compiled, tmp_path
):
    cache.precompile([PROBLEM.words()], tmp_path, chips=["sm_80"])
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path))
    before = compiled()
    assert loaded_chip(gpu("sm_90")) == ["sm_80"]
    assert compiled() == before


def test_precompiled_kernels_that_a_gpu_has_no_room_for_are_passed_over(
    cache_dir, monkeypatch, compiled, tmp_path
):
    wide = Problem.parse("b? h? s? d256 strided")
    cache.precompile([wide.words()], tmp_path, chips=["sm_86", "sm_90"])
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path))
    before = compiled()
    for device, room, chip in (("sm_100", 227, "sm_90"), ("sm_120", 99, "sm_86")):
        loaded = kernels.load(gpu(device, room=room * 1024), wide, ())
        assert f'"chip": "{chip}"' in loaded.bundle.manifest
    assert compiled() == before


@pytest.mark.parametrize("chip", ["sm_90a", "sm_121"])
def test_kernels_of_other_chips_on_the_emulator(cache_dir, monkeypatch, chip):
    numpy = pytest.importorskip("numpy")
    from formula import assert_close, attention, draw_qkv

    monkeypatch.setenv("FLASHCORE_CHIP", chip)
    q, k, v = draw_qkv(queries=150, keys=70, heads=1)
    o, lse = flashcore.attention(q, k, v, causal="top_left", lse=True)
    expected = attention(q, k, v, causal="top_left")
    assert_close(o, expected[0])
    assert_close(lse, expected[1].astype(numpy.float32))
    (loaded,) = kernels.loaded().values()
    assert loaded.module.code == f"PTX {chip} on the emulator"
