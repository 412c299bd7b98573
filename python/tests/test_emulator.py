"""run_ptx: results, findings as objects, and what it refuses."""

import numpy
import pytest

import flashcore
from flashcore import Finding, run_ptx

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


@pytest.mark.parametrize(
    "error, message, change",
    [
        (ValueError, "expects 3 arguments of add, but got 1", {"args": [1]}),
        (ValueError, "expects grid to be one to three sizes", {"grid": 0}),
        (ValueError, "expects block to be one to three sizes", {"block": (1, 1, 1, 1)}),
        (ValueError, "expects schedule to be one of seq, skew, random", {"schedule": "x"}),
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


def test_a_fault_of_attention_is_an_error(monkeypatch, cache_dir):
    """A kernel that reads past its keys, which the emulator sees."""
    from conftest import draw_qkv
    from flashcore import kernels

    write = kernels.writer

    def broken(kernel):
        def run(path):
            write(kernel)(path)
            spoil(path)

        return run

    monkeypatch.setattr(kernels, "writer", broken)
    with pytest.raises(flashcore.KernelFault, match="async"):
        flashcore.attention(*draw_qkv(queries=20))


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
