"""What the card can do at most: mma.sync and DRAM, both measured.

Peaks of a table are those of a data sheet, at a clock the card may not hold;
these are of the instructions and the card that the kernels run on.
"""

# Sixteen accumulators a warp keep the tensor cores busy: mma.sync of one warp
# do not wait for each other.
ACCUMULATORS = 16
WARPS = 8
MMA_FLOPS = 2 * 16 * 8 * 16


def mma_ptx():
    """PTX of `mma_peak(out, iterations)`: products of registers alone. Each
    thread stores a sum, so that no product is dead."""
    registers = [
        [f"%f{4 * i + j}" for j in range(4)] for i in range(ACCUMULATORS)
    ]
    flat = [register for group in registers for register in group]
    lines = [f"mov.f32 {register}, 0f00000000;" for register in flat]
    lines += ["$loop:"]
    for group in registers:
        d = ", ".join(group)
        lines.append(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            f"{{{d}}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{{d}}};"
        )
    lines += [
        "sub.u64 %n, %n, 1;",
        "setp.ne.u64 %p, %n, 0;",
        "@%p bra $loop;",
    ]
    lines += [f"add.f32 {flat[0]}, {flat[0]}, {f};" for f in flat[1:]]
    body = "\n  ".join(lines)
    threads = 32 * WARPS
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry mma_peak(.param .u64 out, .param .u64 iterations)
.reqntid {threads}, 1, 1
{{
  .reg .f32 %f<{4 * ACCUMULATORS}>;
  .reg .b32 %a<4>, %b<2>, %t<4>;
  .reg .b64 %n, %o, %i;
  .reg .pred %p;
  ld.param.u64 %o, [out];
  ld.param.u64 %n, [iterations];
  cvta.to.global.u64 %o, %o;
  mov.u32 %t0, %tid.x;
  mov.u32 %t1, %ctaid.x;
  mad.lo.u32 %t2, %t1, {threads}, %t0;
  mul.wide.u32 %i, %t2, 4;
  add.u64 %o, %o, %i;
  and.b32 %t3, %t0, 3;
  mov.b32 %a0, %t3;
  mov.b32 %a1, %t3;
  mov.b32 %a2, %t3;
  mov.b32 %a3, %t3;
  mov.b32 %b0, %t3;
  mov.b32 %b1, %t3;
  {body}
  st.global.f32 [%o], {flat[0]};
  ret;
}}
"""


def mma_flops(blocks, iterations):
    return blocks * WARPS * iterations * ACCUMULATORS * MMA_FLOPS


def bound(problem, peaks):
    """The time in microseconds that no kernel on mma.sync goes below, and
    what sets it: `tensor` or `dram`. None where the peaks are unknown."""
    if not peaks:
        return None
    tensor = problem.flops / peaks["mma_tflops"] * 1e-6
    dram = problem.tensor_bytes / peaks["dram_gbs"] * 1e-3
    return (tensor, "tensor") if tensor >= dram else (dram, "dram")


def rates(problem, us, peaks):
    """What follows from the time of a call and the card's peaks."""
    roof = bound(problem, peaks)
    return {
        "tflops": problem.flops / us * 1e-6,
        "gbs": problem.tensor_bytes / us * 1e-3,
        "roofline": roof and {"fraction": roof[0] / us, "bound": roof[1]},
    }
