// The chip is written into the schedule, and its limits are those that count:
// these tiles need 104 KiB, more than sm_86 and sm_89 have.

// RUN: flashcore-opt %s -flashcore-configure="chip=sm_80 block-m=64 num-warps=4 block-n=128 num-stages=3" \
// RUN:   | FileCheck %s --check-prefix=SM80
// RUN: not flashcore-opt %s -flashcore-configure="chip=sm_86 block-m=64 num-warps=4 block-n=128 num-stages=3" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SM86
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90 block-m=64 num-warps=4 block-n=128 num-stages=3" \
// RUN:   | FileCheck %s --check-prefix=SM90

!t = memref<1x8x512x64xf16>

// SM80-LABEL: func.func @attention
// SM80:         #fcgpu.schedule<chip = "sm_80", block_m = 64, block_n = 128, num_warps = 4, num_stages = 3,

// SM86: error: 'flashcore.attention' op needs 106496 bytes of shared memory (block-m 64, block-n 128, num-stages 3, head_dim 64), but sm_86 allows 101376; use fewer stages or smaller blocks{{$}}

// SM90-LABEL: func.func @attention
// SM90:         #fcgpu.schedule<chip = "sm_90", block_m = 64, block_n = 128, num_warps = 4, num_stages = 3,

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}
