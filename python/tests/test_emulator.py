"""run_ptx: results, findings as objects, and what it refuses."""

import json
import pickle
import re

import numpy
import pytest

import flashcore
from flashcore import Buffer, Finding, Struct, describe_ptx, run_ptx

ADD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 .ptr p, .param .u32 n, .param .f32 x) {
 .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .pred %p;
 ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [x];
 mov.u32 %r2, %tid.x; setp.ge.u32 %p, %r2, %r1; @%p ret;
 mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
 ld.global.f32 %f2, [%rd3]; add.f32 %f3, %f2, %f1; st.global.f32 [%rd3], %f3; ret;
}
"""


def test_a_clean_run():
    data = numpy.arange(40, dtype=numpy.float32)
    report = run_ptx(ADD, 1, 64, [data, 40, 2.5])
    assert report.clean and report.findings == ()
    assert numpy.array_equal(data, numpy.arange(40) + 2.5)
    assert report.counters["global_write_bytes"] == 160
    assert report.json["kernel"] == "add"


@pytest.mark.parametrize("number", [40, numpy.uint32(40), numpy.int32(40), b"\x28\0\0\0"])
@pytest.mark.parametrize("amount", [2.5, numpy.float32(2.5)])
def test_numbers(number, amount):
    data = numpy.zeros(40, numpy.float32)
    run_ptx(ADD.encode(), (1,), (64, 1), [data, number, amount], kernel="add")
    assert (data == 2.5).all()


def test_findings():
    data = numpy.zeros(40, numpy.float32)
    report = run_ptx(ADD, 1, 64, [data, 64, 1.0])
    assert not report.clean and "out-of-bounds" in str(report)
    finding = report.findings[0]
    assert isinstance(finding, Finding)
    assert (finding.check, finding.kind, finding.bytes) == ("memory", "out-of-bounds", 4)
    assert finding.place.line == 10 and finding.place.cta == (0, 0, 0) and finding.place.warp == 1
    assert finding.place.lanes == 0xFFFFFF00 and finding.count >= 1
    assert "past the end of 'p'" in finding.message and "PTX ISA" in finding.rule


def test_a_race_has_another_party():
    ptx = ADD.replace("mul.wide.u32 %rd2, %r2, 4", "mul.wide.u32 %rd2, %r2, 0")
    report = run_ptx(ptx, 1, 64, [numpy.zeros(40, numpy.float32), 64, 1.0])
    assert any(finding.check == "race" and finding.other for finding in report.findings)
    assert run_ptx(ptx, 1, 64, [numpy.zeros(40, numpy.float32), 64, 1.0], checks="memory").clean


def test_read_only_arrays_are_not_written():
    data = numpy.zeros(40, numpy.float32)
    data.flags.writeable = False
    run_ptx(ADD, 1, 64, [data, 40, 1.0])
    assert (data == 0).all()


def test_options():
    for options in ({"schedule": "skew"}, {"schedule": "random", "seed": 3}, {"threads": 2},
                    {"asynchronous": "eager"}):  # fmt: skip
        data = numpy.zeros(40, numpy.float32)
        assert run_ptx(ADD, 1, 64, [data, 40, 1.0], **options).clean
        assert (data == 1).all()
    data = numpy.zeros(40, numpy.float32)
    report = run_ptx(ADD, 1, 64, [data, 40, 1.0], max_instructions=5)
    assert not report.clean


def test_shared_memory_begins_where_a_driver_puts_it_or_where_the_kernel_says():
    ptx = ADD[: ADD.index(".visible")] + """.extern .shared .align 4 .b8 s[];
.visible .entry wide() { .reg .b32 %r; mov.u32 %r, s; st.shared.v4.u32 [%r], {1, 2, 3, 4}; ret; }"""
    report = run_ptx(ptx, 1, 1, [], shared=16)
    assert report.clean and [note.kind for note in report.notes] == ["undeclared-alignment"]
    report = run_ptx(ptx, 1, 1, [], shared=16, shared_base="declared")
    assert [finding.kind for finding in report.findings] == ["misaligned"]
    with pytest.raises(ValueError, match="shared_base"):
        run_ptx(ptx, 1, 1, [], shared=16, shared_base="anywhere")


@pytest.mark.parametrize(
    "error, message, change",
    [
        (ValueError, "expects 3 arguments of add, but got 1", {"args": [1]}),
        (ValueError, "expects grid to be one to three sizes", {"grid": 0}),
        (ValueError, "expects block to be one to three sizes", {"block": (1, 1, 1, 1)}),
        (ValueError, "expects schedule to be one of 'seq', 'skew', 'random'", {"schedule": "x"}),
        (flashcore.Error, "foo", {"kernel": "foo"}),
        (flashcore.Error, "line 2, column", {"ptx": "\nnot ptx"}),
        (flashcore.Error, "nonsense", {"checks": "nonsense"}),
    ],
)
def test_refused(error, message, change):
    args = [numpy.zeros(40, numpy.float32), 40, 1.0]
    call = {"ptx": ADD, "grid": 1, "block": 64, "args": args, **change}
    with pytest.raises(error, match=message):
        run_ptx(**call)


@pytest.mark.parametrize(
    "error, message, position, value",
    [
        (ValueError, "expects a number of 4 bytes for parameter n, but got 4294967296", 1, 1 << 32),
        (ValueError, "expects 4 bytes for parameter n, but got 8", 1, numpy.int64(3)),
        (ValueError, "expects 8 bytes for parameter p, but got 4", 0, numpy.int32(3)),
        (ValueError, "for parameter n, but got an array: it is no pointer", 1, numpy.zeros(3)),
        (ValueError, "expects arrays that are contiguous", 0, numpy.zeros((4, 4))[:, 1]),
        (ValueError, "expects a buffer of at least 1 byte for parameter p", 0, numpy.zeros(0)),
        (TypeError, "expects arrays, numbers or bytes, but got 'x' for parameter n", 1, "x"),
    ],
)
def test_refused_arguments(error, message, position, value):
    args = [numpy.zeros(40, numpy.float32), 40, 1.0]
    args[position] = value
    with pytest.raises(error, match=message):
        run_ptx(ADD, 1, 64, args)


STRUCTS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .align 8 .b8 params[32]) {
 .reg .b64 %rd<6>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .pred %p;
 ld.param.u64 %rd1, [params]; ld.param.u64 %rd2, [params+8]; ld.param.u32 %r1, [params+16];
 ld.param.f32 %f1, [params+20];
 mov.u32 %r2, %tid.x; setp.ge.u32 %p, %r2, %r1; @%p ret;
 mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
 ld.global.f32 %f2, [%rd4]; mul.f32 %f3, %f2, %f1; st.global.f32 [%rd5], %f3; ret;
}
.visible .entry first(.param .u64 .ptr .global .align 8 rows, .param .u64 out) {
 .reg .b64 %rd<6>; .reg .b32 %r<4>; .reg .f32 %f<4>;
 ld.param.u64 %rd1, [rows]; ld.param.u64 %rd2, [out];
 mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 8; add.s64 %rd3, %rd1, %rd3;
 ld.global.u64 %rd4, [%rd3]; ld.global.f32 %f1, [%rd4];
 mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd2, %rd3; st.global.f32 [%rd3], %f1; ret;
}
.visible .entry packed() { .reg .b64 %rd; add.rn.f32x2 %rd, %rd, %rd; ret; }
"""


def scale(members, size=32):
    return run_ptx(STRUCTS, 1, 32, [Struct(size, members)], kernel="scale")


def test_a_struct_by_value():
    x, y = numpy.arange(8, dtype=numpy.float32), numpy.zeros(8, numpy.float32)
    factor = numpy.float32(1.5)
    assert scale({0: x, 8: y, 16: numpy.int32(8), 20: factor}).clean
    assert numpy.array_equal(y, x * factor)
    # A struct in a struct; one array twice is one buffer.
    inner = Struct(8, {4: numpy.float32(2), 0: b"\x08\0\0\0"})
    assert scale({16: inner, 0: x, 8: x}).clean
    assert numpy.array_equal(x, numpy.arange(8) * 2)


def test_findings_name_the_member():
    y = numpy.zeros(8, numpy.float32)
    report = scale({0: y[:7].copy(), 8: y, 16: numpy.int32(8)})
    assert [finding.kind for finding in report.findings] == ["out-of-bounds"]
    assert "past the end of 'params+0' (28 bytes)" in report.findings[0].message
    assert "ld.global.f32 %f2" in report.findings[0].place.text


def test_pointers_inside_a_buffer():
    rows = [numpy.full(3, row, numpy.float32) for row in (5, 7)]
    out = numpy.zeros(2, numpy.float32)
    report = run_ptx(STRUCTS, 1, 2, [Buffer(rows), out], kernel="first")
    assert report.clean and list(out) == [5, 7]


@pytest.mark.parametrize(
    "error, message, members",
    [
        (ValueError, "expects members within the 32 bytes of params, but got 8 bytes at 28",
         {28: numpy.int64(1)}),
        (ValueError, "but got 4 bytes at -4", {-4: numpy.int32(1)}),
        (ValueError, "do not overlap, but got one at 4 and one at 0 that ends with byte 7",
         {0: numpy.int64(1), 4: numpy.int32(1)}),
        (TypeError, "expects arrays, NumPy scalars, bytes, Struct or Buffer at params.16",
         {16: 8}),
        (ValueError, "expects a Buffer of at least 1 byte", {0: Buffer([])}),
    ],
)  # fmt: skip
def test_refused_members(error, message, members):
    with pytest.raises(error, match=message):
        scale(members)


def test_a_struct_has_the_size_of_its_parameter():
    with pytest.raises(ValueError, match="expects 32 bytes for parameter params, but got a Struct"):
        scale({}, size=24)
    with pytest.raises(ValueError, match="expects 32 bytes for parameter params, but got a Buffer"):
        run_ptx(STRUCTS, 1, 32, [Buffer([b"1"])], kernel="scale")


def test_describe():
    module = describe_ptx(STRUCTS)
    assert (module.target, module.version, module.launch) == ("sm_80", (8, 0), None)
    by_name = {kernel.name: kernel for kernel in module.kernels}
    assert list(by_name) == ["scale", "first", "packed"]
    params = by_name["scale"].parameters[0]
    assert (params.kind, params.bytes, params.align, params.offset) == ("struct", 32, 8, 0)
    assert [one.kind for one in by_name["first"].parameters] == ["pointer", "number"]
    assert "line 20" in by_name["packed"].error and "f32x2" in by_name["packed"].error
    with pytest.raises(flashcore.Error, match="f32x2"):
        run_ptx(STRUCTS, 1, 32, [], kernel="packed")
    with pytest.raises(flashcore.Error, match="expects '.version'"):
        describe_ptx("nonsense")


def test_the_launch_that_the_ptx_says():
    from formula import draw_qkv

    ptx = flashcore.compile("b1 h2 s64 d64 f16").ptx()
    q, k, v = draw_qkv(queries=64)
    launch = describe_ptx(ptx).launch
    assert len(launch["kernels"]) == 1 and not launch["workspace"]
    arrays = {"q": q, "k": k, "v": v, "o": numpy.zeros_like(q)}
    for tensor in launch["tensors"]:
        arrays.setdefault(tensor["name"], numpy.zeros(q.shape[:-1], numpy.float32))
    assert run_ptx(ptx, None, None, arrays).clean
    expected = flashcore.attention(q, k, v)
    assert numpy.abs(arrays["o"].astype(float) - expected.astype(float)).max() < 4e-3
    with pytest.raises(ValueError, match="expects arrays q, k, v"):
        run_ptx(ptx, None, None, {"q": q})
    with pytest.raises(TypeError, match="by the names of tensors"):
        run_ptx(ptx, None, None, [q])
    with pytest.raises(ValueError, match="does not say how it is launched"):
        run_ptx(ADD, None, None, {})
    argument = {"kind": "tensor_map", "tensor": "q", "box": [1, 1, 64, 64], "swizzle": 128}
    mapped = {**launch, "kernels": [{**launch["kernels"][0], "arguments": [argument]}]}
    _, _, code = ptx.partition("\n")
    with pytest.raises(ValueError, match="takes some; run flashcore-emu on the file"):
        run_ptx(f"// flashcore-launch: {json.dumps(mapped)}\n{code}", None, None, arrays)
    with pytest.raises(TypeError, match="names are for a grid of None"):
        run_ptx(ADD, 1, 64, {"p": q})


def test_arrays_have_their_shapes_in_the_layout_check():
    """Two registers of the first ldmatrix change places."""
    from formula import draw_qkv

    ptx = flashcore.compile("b1 h2 s64 d64 f16").ptx()
    swapped = re.sub(r"(ldmatrix.*?)\{(%r\d+), (%r\d+),", r"\1{\3, \2,", ptx, count=1)
    q, k, v = draw_qkv(queries=64)
    arrays = {"q": q, "k": k, "v": v, "o": numpy.zeros_like(q)}
    assert run_ptx(ptx, None, None, arrays).clean
    finding = run_ptx(swapped, None, None, arrays).findings[0]
    assert finding.kind == "layout-mismatch" and "row 0 of A at k = 0" in finding.message


def test_notes_are_no_findings():
    """All threads store one and the same value to one place."""
    ptx = ADD.replace("mul.wide.u32 %rd2, %r2, 4", "mul.wide.u32 %rd2, %r2, 0")
    ptx = ptx.replace("ld.global.f32 %f2, [%rd3]; add.f32 %f3, %f2, %f1", "mov.f32 %f3, %f1")
    report = run_ptx(ptx, 1, 64, [numpy.zeros(40, numpy.float32), 64, 1.0], checks="race")
    assert [note.kind for note in report.notes] == ["same-value"] and report.clean


WMMA = """
.version 7.8
.target sm_80
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d) {
 .reg .b64 %rd<4>; .reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>;
 ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [d];
 wmma.load.a.sync.aligned.row.m16n16k16.f16 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%rd0], 16;
 wmma.load.b.sync.aligned.row.m16n16k16.f16 {%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, [%rd1], 16;
 mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
 mov.f32 %c4, %c0; mov.f32 %c5, %c0; mov.f32 %c6, %c0; mov.f32 %c7, %c0;
 wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7},
  {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, {%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7},
  {%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7};
 wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd2], {%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7}, 16; ret;
}
"""


def test_wmma():
    rng = numpy.random.default_rng(1)
    a, b = (rng.integers(-8, 8, (16, 16)).astype(numpy.float16) for _ in range(2))
    d = numpy.zeros((16, 16), numpy.float32)
    assert run_ptx(WMMA, 1, 32, [a, b, d]).clean
    assert numpy.array_equal(d, a.astype(numpy.float32) @ b.astype(numpy.float32))
    assert not run_ptx(WMMA, 1, 32, [a[:15].copy(), b, d]).clean


def test_a_fault_of_attention_is_an_error(monkeypatch, cache_dir):
    """A kernel that reads past its keys, which the emulator sees."""
    from formula import draw_qkv
    from flashcore import kernels

    write = kernels.writer

    def broken(kernel):
        def run(path):
            write(kernel)(path)
            spoil(path)

        return run

    monkeypatch.setattr(kernels, "writer", broken)
    with pytest.raises(flashcore.KernelFault, match="async") as caught:
        flashcore.attention(*draw_qkv(queries=20))
    findings = caught.value.findings
    assert findings and findings[0].check == "async" and findings[0].place.line > 0
    assert pickle.loads(pickle.dumps(caught.value)).findings == findings
    assert flashcore.KernelFault("of a GPU").findings == ()


def spoil(bundle):
    """Takes a wait out of the PTX, and makes the manifest agree."""
    import json

    path = bundle / "kernels.ptx"
    text = path.read_text()
    assert "cp.async.wait_group" in text
    broken = text.replace("cp.async.wait_group", "//.async.wait_group")
    path.write_text(broken)
    manifest = json.loads((bundle / "manifest.json").read_text())
    value = 0xCBF29CE484222325
    for byte in broken.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    manifest["variants"][0]["ptx"]["fnv1a64"] = f"{value:016x}"
    (bundle / "manifest.json").write_text(json.dumps(manifest))
