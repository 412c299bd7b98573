"""Reading bundles, and the devices that load them."""

import json
import subprocess
import sys
from pathlib import Path

import flashcore
import numpy
import pytest
from formula import assert_close, attention, draw
from flashcore import bundle as module
from flashcore.bundle import Bundle, BundleError, Resources, TensorMap

ROOT = Path(__file__).resolve().parents[2]
DIMS = {"batch": 2, "heads_q": 4, "seqlen_q": 100, "seqlen_k": None}


def tensor(name, role, axes):
    return {
        "name": name, "role": role, "dtype": "f16", "axes": axes, "strides": [None, 1],
        "offset": None,
    }  # fmt: skip


def kernel(name, grid, arguments, shared=0, **more):
    return {
        "name": name, "block": [128, 1, 1], "grid": grid, "dynamic_shared_memory": shared,
        "arguments": arguments, "resources": None, **more,
    }  # fmt: skip


PART = kernel(
    "part",
    ["(seqlen_q ceildiv 64) * 8", "seqlen_k ceildiv 64", "1"],
    [
        {"kind": "pointer", "tensor": "q"},
        {"kind": "pointer", "tensor": "workspace"},
        {"kind": "size", "dim": "seqlen_k"},
        {"kind": "stride", "tensor": "q", "axis": 0},
        {"kind": "offset", "tensor": "q"},
    ],
    shared=1024,
)
MERGE = kernel("merge", ["batch", "1", "1"], [{"kind": "pointer", "tensor": "o"}])
VARIANT = {
    "chip": "sm_89",
    "assembler": None,
    "ptx": {"file": "kernels.ptx", "bytes": 1, "fnv1a64": "0" * 16},
    "cubins": [{"chip": "sm_90", "file": "kernels.sm_90.cubin"}],
    "values": [],
    "workspace": [{"bytes": "(seqlen_q ceildiv 64) * 4"}, {"bytes": "16 * 8 * batch"}],
    "kernels": [PART, MERGE],
}
MANIFEST = {
    "format": "flashcore-bundle",
    "version": 11,
    "ops": [{"op": "attention", "attributes": {}}],
    "sizes": DIMS,
    "tensors": [
        tensor("q", "input", ["batch", "seqlen_q"]),
        tensor("o", "output", ["1", "seqlen_q"]),
    ],
    "variants": [VARIANT],
}


@pytest.fixture
def make(tmp_path):
    def make(chip=None, manifest={}, **variant):
        changed = {**MANIFEST, "variants": [{**VARIANT, **variant}], **manifest}
        (tmp_path / "manifest.json").write_text(json.dumps(changed))
        return Bundle(tmp_path, chip)

    return make


def test_launches(make):
    bundle = make()
    sizes = bundle.sizes(seqlen_k=130)
    first, second = bundle.launches(sizes, {"q": ((128, 1), 8)})
    assert first.grid == (16, 3, 1) and second.grid == (2, 1, 1)
    assert first.arguments == ("q", "workspace", 130, 128, 8)
    assert second.arguments == ("o",) and second.kernel.name == "merge"
    assert bundle.workspace_bytes(sizes) == 4 * 2 + 16 * 8 * 2
    dense, _ = bundle.launches(sizes)
    assert dense.arguments == ("q", "workspace", 130, 100, 0)


@pytest.mark.parametrize("multiprocessors, blocks", [(3, 6), (132, 16), (None, 16)])
def test_persistent_kernels_follow_the_device(make, multiprocessors, blocks):
    grid = ["min((seqlen_q ceildiv 64) * 8, multiprocessors * 2)", *PART["grid"][1:]]
    bundle = make(kernels=[{**PART, "grid": grid}, MERGE])
    first, second = bundle.launches(bundle.sizes(seqlen_k=130), multiprocessors=multiprocessors)
    assert first.grid == (blocks, 3, 1) and second.grid == (2, 1, 1)


SPLITS = "max(1, min(8, 12 floordiv max(1, (seqlen_q ceildiv 64) * batch), seqlen_k floordiv 100))"
FEW = {"when": "seqlen_q <= 100"}


@pytest.mark.parametrize(
    "keys, splits",
    [(50, 1), (250, 2), (400, 3), (5000, 3)],  # 2 * ceil(100 / 64) tiles share 12 blocks
)
def test_parts_follow_the_sizes(make, keys, splits):
    part = kernel(
        "part",
        ["key_splits", "1", "1"],
        [{"kind": "size", "dim": "key_splits"}],
        **FEW,
    )
    others = kernel("others", ["1", "1", "1"], [], when="seqlen_q >= 101")
    workspace = [{"bytes": "4 * key_splits", **FEW}]
    values = [{"name": "key_splits", "is": SPLITS}]
    bundle = make(kernels=[others, part], values=values, workspace=workspace)
    sizes = bundle.sizes(seqlen_k=keys)
    assert sizes["key_splits"] == splits
    (launch,) = bundle.launches(sizes)
    assert launch.kernel.name == "part" and launch.grid == (splits, 1, 1)
    assert launch.arguments == (splits,) and bundle.workspace_bytes(sizes) == 4 * splits
    many = {**sizes, "seqlen_q": 101}
    assert [launch.kernel.name for launch in bundle.launches(many)] == ["others"]
    assert bundle.workspace_bytes(many) == 0


#: What the runtime's reader of expressions and the package's must both answer.
EXPRESSIONS = json.loads((ROOT / "runtime/unittests/Inputs/expressions.json").read_text())


@pytest.mark.parametrize("text, value", EXPRESSIONS["values"].items())
def test_expressions(text, value):
    assert module.evaluate(text, EXPRESSIONS["numbers"]) == value


@pytest.mark.parametrize("text", EXPRESSIONS["refused"])
def test_what_is_no_expression(text):
    with pytest.raises(BundleError, match="cannot evaluate"):
        module.evaluate(text, EXPRESSIONS["numbers"])


def test_sizes(make):
    with pytest.raises(BundleError, match="leaves seqlen_k open"):
        make().sizes()
    with pytest.raises(BundleError, match="for batch 2, but got 3"):
        make().sizes(seqlen_k=1, batch=3)


def test_other_files(make, tmp_path):
    with pytest.raises(BundleError, match="version 11, but got flashcore-bundle of version 10"):
        make(manifest={"version": 10})
    with pytest.raises(BundleError, match="cannot read"):
        Bundle(tmp_path / "none")
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(BundleError, match="is not JSON"):
        Bundle(tmp_path)


def test_an_argument_of_unknown_kind_is_refused_with_its_file_and_kernel(make):
    argument = {"kind": "color", "tensor": "q"}
    bundle = make(kernels=[kernel("merge", ["1", "1", "1"], [argument])])
    with pytest.raises(BundleError) as refusal:
        bundle.launches(bundle.sizes(seqlen_k=1))
    assert str(refusal.value) == (
        f"'{bundle.path / 'manifest.json'}': expects arguments of 'merge' that are a pointer, a "
        "size, a stride, an offset or a tensor map, but got the kind 'color'"
    )


@pytest.mark.parametrize(
    "device, chip",
    [
        (None, "sm_80"),
        ("sm_75", "sm_80"),
        ("sm_86", "sm_80"),
        ("sm_89", "sm_80"),
        ("sm_90", "sm_90"),
        ("sm_120", "sm_90"),
    ],
)
def test_variants(make, device, chip):
    older = {**VARIANT, "chip": "sm_80", "cubins": [{"chip": "sm_86"}]}
    newer = {**VARIANT, "chip": "sm_90", "cubins": []}
    bundle = make(device, {"variants": [older, newer]})
    assert bundle.chip == chip and bundle.chips == ("sm_80", "sm_90")


@pytest.mark.parametrize("room, chip", [(None, "sm_90"), (196608, "sm_90"), (101376, "sm_80")])
def test_variants_that_a_device_has_no_room_for(make, room, chip):
    static = {"static_shared_memory": 16}
    wide = {**PART, "dynamic_shared_memory": 196608 - 16, "resources": static}
    newer = {**VARIANT, "chip": "sm_90", "cubins": [{"chip": "sm_120"}], "kernels": [wide, MERGE]}
    bundle = make(None, {"variants": [{**VARIANT, "chip": "sm_80"}, newer]})
    assert Bundle(bundle.path, "sm_120", room).chip == chip


@pytest.mark.parametrize(
    "device, chip",
    [
        ("sm_80", "sm_89"),
        ("sm_89", "sm_89"),
        ("sm_90", "sm_90a"),
        ("sm_100", "sm_100f"),
        ("sm_103", "sm_100f"),
        ("sm_120", "sm_90"),
    ],
)
@pytest.mark.parametrize("cubin", [None, "sm_90", "sm_90a"])
def test_variants_of_one_chip(make, device, chip, cubin):
    chips = ["sm_90a", "sm_89", "sm_90", "sm_100f"]
    cubins = [] if cubin is None else [{"chip": cubin}]
    variants = [
        {**VARIANT, "chip": each, "cubins": cubins if "90" in each else []} for each in chips
    ]
    assert make(device, {"variants": variants}).chip == chip


def test_variant_of_a_name(make):
    bundle = make("sm_90", {"variants": [{**VARIANT, "chip": chip} for chip in ("sm_90", "sm_90a")]})
    assert bundle.chip == "sm_90a" and bundle.variant("sm_90").chip == "sm_90"
    assert bundle.chip == "sm_90a"


def test_tensor_maps(make):
    box = {"tensor": "q", "box": [1, 64], "swizzle": 128}
    arguments = [
        {"kind": "tensor_map", **box},
        {"kind": "size", "dim": "seqlen_k"},
        {"kind": "pointer", "tensor": "q"},
        {"kind": "pointer", "tensor": "o"},
        {"kind": "tensor_map", "tensor": "o", "box": [1, 8], "swizzle": 0},
        {"kind": "tensor_map", "tensor": "o", "box": [1, 1, 8], "swizzle": 0, "ragged": 0},
        {"kind": "tensor_map", "tensor": "o", "box": [1, 2, 2, 8, 64], "swizzle": 128, "group": 8},
    ]
    bundle = make(kernels=[kernel("copy", ["1", "1", "1"], arguments)])
    (launch,) = bundle.launches(bundle.sizes(seqlen_k=130))
    assert launch.arguments == (
        TensorMap("q", (1, 64), 128), 130, "q", "o", TensorMap("o", (1, 8), 0),
        TensorMap("o", (1, 1, 8), 0, 0), TensorMap("o", (1, 2, 2, 8, 64), 128, None, 8),
    )  # fmt: skip
    options = launch.emulator_options({"q": "f16[2,100]:iota", "o": "f16[1,100]:poison"})
    assert options[8:] == [
        "--arg", "tensormap128[1,64]:f16[2,100]:iota", "--arg", "i64:130", "--arg", "@0",
        "--arg", "f16[1,100]:poison", "--arg", "tensormap[1,8]:@3",
        "--arg", "tensormap[1,1,8;0]:@3", "--arg", "tensormap128[1,2,2,8,64/8]:@3",
    ]  # fmt: skip


def test_resources(make):
    said = {"registers": 90, "spill_stores": 4, "spill_loads": 8, "static_shared_memory": 16}
    first, second = make(kernels=[{**PART, "resources": said}, MERGE]).kernels
    assert first.resources == Resources(90, 4, 8, 16) and first.resources.spills == 12
    assert first.shared_memory == 1024 + 16
    assert second.resources is None and second.shared_memory == 0


def test_options_of_the_emulator(make):
    bundle = make()
    sizes = bundle.sizes(seqlen_k=130)
    q, o = bundle.tensors.values()
    assert q.emulator_argument(sizes, "randn:1") == "f16[2,100]:randn:1"
    assert q.emulator_argument(sizes, "zeros", ((128, 1), 8)) == "f16[2,100:128,1+8]:zeros"
    pointers = {"q": "Q", "o": o.emulator_argument(sizes, "poison"), "workspace": "W"}
    first, second = (launch.emulator_options(pointers) for launch in bundle.launches(sizes))
    assert first == [
        "--kernel", "part", "--grid", "16,3,1", "--block", "128,1,1", "--shared", "1024",
        "--arg", "Q", "--arg", "W", "--arg", "i64:130", "--arg", "i64:100", "--arg", "i64:0",
    ]  # fmt: skip
    assert second[-1] == "f16[1,100]:poison"


def test_it_needs_no_package():
    """Tools of a tree without a build read it as it lies there."""
    folder = Path(module.__file__).resolve().parent
    code = "import sys, bundle; assert 'flashcore' not in sys.modules and '_core' not in sys.modules"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=folder, check=True)


# Devices --------------------------------------------------------------------

ADD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 out, .param .u64 number) {
  .reg .b32 %t;
  .reg .b64 %o, %n, %i;
  ld.param.u64 %o, [out];
  ld.param.u64 %n, [number];
  mov.u32 %t, %tid.x;
  cvt.u64.u32 %i, %t;
  add.u64 %n, %n, %i;
  shl.b64 %i, %i, 3;
  add.u64 %o, %o, %i;
  st.global.u64 [%o], %n;
  ret;
}
"""


@pytest.fixture(scope="module")
def emulator():
    return flashcore.open_device("emulator")


def test_plain_ptx(emulator):
    kernel = emulator.load_ptx(ADD, "add", block=4)
    pointer = emulator.allocate(32)
    kernel.launch(1, [pointer, 7])
    emulator.synchronize()
    assert numpy.frombuffer(emulator.read(pointer, 32), numpy.int64).tolist() == [7, 8, 9, 10]
    emulator.write(pointer, bytes(32))
    assert emulator.read(pointer, 32) == bytes(32)
    emulator.free(pointer)
    assert kernel.resources.name == "add" and kernel.resources.shared_bytes == 0
    with pytest.raises(flashcore.KernelFault, match="memory:15: invalid-address"):
        kernel.launch(1, [0, 7])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"ptx": "no ptx"}, "expects PTX with a kernel 'add', but got none"),
        ({"kernel": "sub"}, "expects PTX with a kernel 'sub', but got none"),
        ({"block": 0}, "expects a block of at least 1 thread in direction x, but got 0"),
        ({"block": 2048}, "2048 threads per block"),
        ({"shared": -1}, "expects at least 0 bytes of shared memory, but got -1"),
        ({"ptx": ADD.replace(".u64 number", ".u32 number")}, "expects parameters of 8 bytes"),
    ],
)
def test_ptx_that_cannot_be_loaded(emulator, changes, message):
    with pytest.raises(flashcore.Error, match=message):
        emulator.load_ptx(**{"ptx": ADD, "kernel": "add", "block": 4, **changes})


def test_arguments_are_counted(emulator):
    with pytest.raises(flashcore.Error, match="'add' expects 2 arguments, but got 1"):
        emulator.load_ptx(ADD, "add", 4).launch(1, [0])


def test_bundle_on_a_device(emulator, tmp_path):
    """As flashcore.attention computes it, and as the reader says."""
    path = tmp_path / "attention.fcb"
    flashcore.compile("b1 h2 s40x70 d64").write_bundle(path)
    loaded = emulator.load(path)
    assert loaded.code == "PTX sm_89 on the emulator"
    bundle = loaded.bundle
    assert [k.name for k in loaded.kernels] == [k.name for k in bundle.kernels]
    sizes = bundle.sizes()
    plan = loaded.plan(
        {name: (each.shape(sizes), each.layout(sizes)[0]) for name, each in bundle.tensors.items()}
    )
    assert plan.workspace_bytes == bundle.workspace_bytes(sizes) == 0
    assert str(plan) == "B1 H2/2 S40x70 D64 f16"
    arrays = [draw(*each.shape(sizes), seed=1) for each in bundle.tensors.values()]
    pointers = [emulator.allocate(array.nbytes) for array in arrays]
    for pointer, array in zip(pointers, arrays):
        emulator.write(pointer, array.tobytes())
    plan.launch(pointers)
    q, k, v, o = arrays
    got = numpy.frombuffer(emulator.read(pointers[3], o.nbytes), o.dtype).reshape(o.shape)
    assert_close(got, attention(q, k, v)[0])
    for pointer in pointers:
        emulator.free(pointer)
    with pytest.raises(flashcore.Error, match="expects"):
        loaded.plan({"q": ((1, 2, 40, 64), (1, 1, 1, 1))})


PROGRAM = """
!q = memref<1x2x3x64xf16>
!k = memref<1x2x64x64xf16>
!new = memref<1x2x3x64xf16>
!half0 = memref<1x2x32x64xf16, strided<[8192, 4096, 64, 1]>>
!half1 = memref<1x2x32x64xf16, strided<[8192, 4096, 64, 1], offset: 2048>>
!os = memref<2x1x2x3x64xf16>
!o0 = memref<1x2x3x64xf16, strided<[384, 192, 64, 1]>>
!o1 = memref<1x2x3x64xf16, strided<[384, 192, 64, 1], offset: 384>>
!ls = memref<2x1x2x3xf32>
!l0 = memref<1x2x3xf32, strided<[6, 3, 1]>>
!l1 = memref<1x2x3xf32, strided<[6, 3, 1], offset: 6>>
!n = memref<1xi32>
func.func @step(%q: !q, %k: !k, %v: !k, %k_new: !new, %v_new: !new, %used: !n, %upper: !n, %o: !q,
                %do: !q, %delta: memref<1x2x3xf32>) {
  %os = memref.alloc() : !os
  %ls = memref.alloc() : !ls
  %k0 = memref.subview %k[0, 0, 0, 0] [1, 2, 32, 64] [1, 1, 1, 1] : !k to !half0
  %v0 = memref.subview %v[0, 0, 0, 0] [1, 2, 32, 64] [1, 1, 1, 1] : !k to !half0
  %k1 = memref.subview %k[0, 0, 32, 0] [1, 2, 32, 64] [1, 1, 1, 1] : !k to !half1
  %v1 = memref.subview %v[0, 0, 32, 0] [1, 2, 32, 64] [1, 1, 1, 1] : !k to !half1
  %o0 = memref.subview %os[0, 0, 0, 0, 0] [1, 1, 2, 3, 64] [1, 1, 1, 1, 1] : !os to !o0
  %o1 = memref.subview %os[1, 0, 0, 0, 0] [1, 1, 2, 3, 64] [1, 1, 1, 1, 1] : !os to !o1
  %l0 = memref.subview %ls[0, 0, 0, 0] [1, 1, 2, 3] [1, 1, 1, 1] : !ls to !l0
  %l1 = memref.subview %ls[1, 0, 0, 0] [1, 1, 2, 3] [1, 1, 1, 1] : !ls to !l1
  flashcore.append ins(%k_new, %v_new : !new, !new) seqused_k(%used : !n) outs(%k, %v : !k, !k)
  flashcore.attention ins(%q, %k0, %v0 : !q, !half0, !half0) outs(%o0 : !o0) lse(%l0 : !l0)
  flashcore.attention ins(%q, %k1, %v1 : !q, !half1, !half1) seqused_k(%upper : !n)
      outs(%o1 : !o1) lse(%l1 : !l1)
  flashcore.merge ins(%os, %ls : !os, !ls) outs(%o : !q)
  flashcore.delta ins(%do, %o : !q, !q) outs(%delta : memref<1x2x3xf32>)
  return
}
"""


def test_a_program_of_several_ops_is_one_call(emulator, tmp_path):
    path = tmp_path / "step.fcb"
    made = flashcore.compile(PROGRAM)
    assert made.names == ("step",) and "attention step.1 on sm_89" in made.explain()
    with pytest.raises(ValueError, match="'step' is another op, or a program of several"):
        made.inspect()
    made.write_bundle(path)
    loaded = emulator.load(path)
    bundle = loaded.bundle
    assert bundle.op == "program"
    assert bundle.ops == ("append", "attention", "attention", "merge", "delta")
    with pytest.raises(BundleError, match="is a program of append, attention"):
        bundle.launches(bundle.sizes())
    sizes = bundle.sizes()
    arrays = {name: draw(*each.shape(sizes), seed=len(name)) for name, each in bundle.tensors.items()}
    arrays["do"] = draw(1, 2, 3, 64, seed=9)
    # 50 keys are there and 3 new ones behind them: 32 and 21 of the halves.
    arrays["seqused_k"] = numpy.array([50], numpy.int32)
    arrays["seqused_k_1"] = numpy.array([21], numpy.int32)
    arrays["delta"] = numpy.zeros((1, 2, 3), numpy.float32)
    plan = loaded.plan(
        {name: (each.shape(sizes), each.layout(sizes)[0]) for name, each in bundle.tensors.items()}
    )
    assert plan.workspace_bytes >= 2 * (6 * 64 * 2 + 6 * 4)
    pointers = {name: emulator.allocate(array.nbytes) for name, array in arrays.items()}
    for name, array in arrays.items():
        emulator.write(pointers[name], array.tobytes())
    space = emulator.allocate(plan.workspace_bytes)
    plan.launch(list(pointers.values()), space)

    def read(name):
        array = arrays[name]
        data = emulator.read(pointers[name], array.nbytes)
        return numpy.frombuffer(data, array.dtype).reshape(array.shape)

    keys, values = arrays["k"].copy(), arrays["v"].copy()
    keys[:, :, 50:53], values[:, :, 50:53] = arrays["k_new"], arrays["v_new"]
    assert (read("k") == keys).all() and (read("v") == values).all()
    assert_close(read("o"), attention(arrays["q"], keys[:, :, :53], values[:, :, :53])[0])
    products = arrays["do"].astype(numpy.float64) * read("o").astype(numpy.float64)
    assert numpy.abs(read("delta") - products.sum(-1)).max() < 1e-5
    for pointer in [*pointers.values(), space]:
        emulator.free(pointer)


def test_kinds_of_devices():
    with pytest.raises(ValueError, match="expects a device of kind 'cuda' or 'emulator'"):
        flashcore.open_device("tpu")
