"""flashcore.merge on the emulator against its formula."""

import numpy
import pytest

import flashcore

INFINITY = numpy.float32(numpy.inf)


def source(outputs, lses, o, lse, sink=None):
    """IR of a merge of memrefs of these types."""
    clause = f"sink(%sink : {sink})" if sink else ""
    argument = f", %sink: {sink}" if sink else ""
    return f"""
    func.func @merge(%outputs: {outputs}, %lses: {lses}, %o: {o}, %lse: {lse}{argument}) {{
      flashcore.merge ins(%outputs, %lses : {outputs}, {lses}) {clause} outs(%o : {o}) lse(%lse : {lse})
      return
    }}"""


def expected(outputs, lses, sink=None):
    outputs, lses = outputs.astype(numpy.float64), lses.astype(numpy.float64)
    weights = numpy.exp(lses)
    total = weights.sum(0)
    if sink is not None:
        total = total + numpy.exp(sink.astype(numpy.float64))[None, :, None]
    o = (weights[..., None] * outputs).sum(0)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        o = numpy.where(total[..., None] > 0, o / total[..., None], 0)
        return o, numpy.log(total)


def draw(shape, dtype):
    """Outputs and LSEs of parts: some saw nothing, the first row of none saw anything."""
    generator = numpy.random.default_rng(1)
    outputs = generator.standard_normal(shape).astype(dtype)
    lses = (3 * generator.standard_normal(shape[:-1])).astype(numpy.float32)
    lses[generator.random(lses.shape) < 0.3] = -INFINITY
    lses[:, 0, 0, 0] = -INFINITY
    return outputs, lses


def run(made, outputs, lses, sink=None, dtype=numpy.float16, sizes=()):
    o = numpy.full(outputs.shape[1:], numpy.nan, dtype)
    lse = numpy.full(lses.shape[1:], numpy.nan, numpy.float32)
    arguments = [outputs, lses, o, lse] + ([sink] if sink is not None else [])
    rows = lse.size
    ptx = made.ptx()
    shared = made.report["merges"][0]["kernel"]["dynamic_shared_memory"]
    report = flashcore.run_ptx(ptx, rows, None, arguments + list(sizes), shared=shared)
    assert report.clean, report
    right_o, right_lse = expected(outputs, lses, sink)
    numpy.testing.assert_allclose(o, right_o, rtol=2e-3, atol=1e-3)
    numpy.testing.assert_allclose(lse, right_lse, rtol=1e-5, atol=1e-5)
    return o, lse


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("parts", [1, 2, 3, 70])
def test_parts_in_f32(parts, chip):
    outputs, lses = draw((parts, 1, 2, 3, 128), numpy.float32)
    made = flashcore.compile(
        source(
            f"memref<{parts}x1x2x3x128xf32>", f"memref<{parts}x1x2x3xf32>", "memref<1x2x3x128xf16>",
            "memref<1x2x3xf32>",
        ),
        chip=chip,
    )  # fmt: skip
    o, lse = run(made, outputs, lses)
    assert (o[0, 0, 0] == 0).all() and lse[0, 0, 0] == -INFINITY


def test_a_sink():
    sink = numpy.array([0.5, -1], numpy.float32)
    outputs, lses = draw((3, 1, 2, 3, 64), numpy.float32)
    made = flashcore.compile(
        source(
            "memref<3x1x2x3x64xf32>", "memref<3x1x2x3xf32>", "memref<1x2x3x64xf16>",
            "memref<1x2x3xf32>", "memref<2xf32>",
        )
    )  # fmt: skip
    o, lse = run(made, outputs, lses, sink)
    assert (o[0, 0, 0] == 0).all() and lse[0, 0, 0] == 0.5


@pytest.mark.parametrize("dim", [1, 5, 13, 36, 96, 256, 300])
def test_rows_of_any_alignment(dim):
    outputs, lses = draw((9, 1, 2, 3, dim), numpy.float16)
    made = flashcore.compile(
        source(
            f"memref<9x1x2x3x{dim}xf16>", "memref<9x1x2x3xf32>", f"memref<1x2x3x{dim}xf32>",
            "memref<1x2x3xf32>",
        )
    )  # fmt: skip
    run(made, outputs, lses, dtype=numpy.float32)


@pytest.mark.parametrize("parts", [0, 1, 9, 100])
def test_sizes_of_a_call(parts):
    made = flashcore.compile(
        source(
            "memref<?x?x?x?x64xf16>", "memref<?x?x?x?xf32>", "memref<?x?x?x64xf16>",
            "memref<?x?x?xf32>",
        )
    )  # fmt: skip
    outputs, lses = draw((parts, 2, 3, 4, 64), numpy.float16)
    if parts == 0:  # a buffer has an element or more
        outputs = numpy.zeros((1, 2, 3, 4, 64), numpy.float16)
        lses = numpy.full((1, 2, 3, 4), -INFINITY)
    # batch, heads, rows, parts; then strides, in elements
    strides = [24 * 64, 12 * 64, 4 * 64, 24, 12, 4, 12 * 64, 4 * 64, 12, 4]
    run(made, outputs, lses, sizes=(2, 3, 4, parts, *strides))


def test_a_merge_has_a_bundle(tmp_path):
    made = flashcore.compile(
        source(
            "memref<2x1x2x3x64xf16>", "memref<2x1x2x3xf32>", "memref<1x2x3x64xf16>",
            "memref<1x2x3xf32>",
        )
    )  # fmt: skip
    made.write_bundle(tmp_path / "merge.fcb")
    bundle = flashcore.Bundle(tmp_path / "merge.fcb")
    (launch,) = bundle.launches(bundle.sizes())
    assert bundle.op == "merge" and launch.grid == (6, 1, 1)
    assert list(bundle.tensors) == ["outputs", "lses", "o", "lse"]
    plan = flashcore.open_device("emulator").load(bundle).plan(
        {
            "outputs": ((2, 1, 2, 3, 64), (384, 384, 192, 64, 1)),
            "lses": ((2, 1, 2, 3), (6, 6, 3, 1)),
            "o": ((1, 2, 3, 64), (384, 192, 64, 1)),
            "lse": ((1, 2, 3), (6, 3, 1)),
        }
    )
    assert str(plan) == "merge of 2 parts, B1 H2 S3 D64 f16" and plan.workspace_bytes == 0
