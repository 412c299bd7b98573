// Each option of the pipeline reaches the schedule.

// RUN: flashcore-opt %s -flashcore-lower-to-nvvm="chip=sm_80 block-m=64 block-n=32 num-warps=2 num-stages=3 min-blocks=2 query=shared grid-order=head_fastest grid=persistent" \
// RUN:   | FileCheck %s
// RUN: not flashcore-opt %s -flashcore-lower-to-nvvm="chip=sm_61" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CHIP

// CHECK: llvm.func @attention_f16_d64
// CHECK-SAME: #fcgpu.schedule<chip = "sm_80", block_m = 64, block_n = 32, num_warps = 2, num_stages = 3, query = shared, grid_order = head_fastest, min_blocks = 2, grid = persistent>
// CHECK-SAME: nvvm.minctasm = 2 : i32
// CHECK-SAME: nvvm.reqntid = array<i32: 64, 1, 1>

// CHIP: error: unknown chip 'sm_61': expects one of sm_70, {{.*}}; older chips have no tensor cores{{$}}

!t = memref<1x8x512x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}
