// Schedules that have a name, and products without mma.sync.

// RUN: flashcore-opt %s -flashcore-configure="schedule=+swizzle" | FileCheck %s --check-prefix=SWIZZLE
// RUN: flashcore-opt %s -flashcore-configure="schedule=+swizzle block-n=16" | FileCheck %s --check-prefix=ASKED
// RUN: flashcore-opt %s -flashcore-configure="schedule=default" | FileCheck %s --check-prefix=DEFAULT
// RUN: flashcore-opt %s -flashcore-configure="schedule=scalar" | FileCheck %s --check-prefix=SCALAR
// RUN: flashcore-opt %s -flashcore-configure="schedule=unfused-wmma" | FileCheck %s --check-prefix=UNFUSED
// RUN: flashcore-opt %s -flashcore-configure="softmax=unfused product=warp" | FileCheck %s --check-prefix=WARP
// RUN: not flashcore-opt %s -flashcore-configure="schedule=unfused-wmma row-max=stale" 2>&1 | FileCheck %s --check-prefix=STALE
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_70" | FileCheck %s --check-prefix=VOLTA
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_75" | FileCheck %s --check-prefix=TURING
// RUN: not flashcore-opt %s -flashcore-configure="schedule=fast" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not flashcore-opt %s -flashcore-configure="schedule=wgmma" 2>&1 | FileCheck %s --check-prefix=CHIP

// SWIZZLE: block_m = 64, block_n = 64, num_warps = 4, {{.+}} query = shared, {{.+}} product = wmma, exchange = padded>
// ASKED:   block_m = 64, block_n = 16, num_warps = 4, {{.+}} product = wmma, exchange = padded>
// DEFAULT-NOT: product
// DEFAULT-NOT: exchange
// SCALAR:  product = thread, exchange = padded>
// UNFUSED: block_m = 128, block_n = 64, num_warps = 4, {{.+}} query = shared, {{.+}} softmax = unfused, product = wmma, copies = registers, exchange = plain>
// WARP:    query = shared, {{.+}}, softmax = unfused>
// STALE:   error: {{.+}}expects row-max exact with softmax unfused, but got stale; use softmax online
// VOLTA:   chip = "sm_70", {{.+}} product = wmma, copies = registers, exchange = fragments>
// TURING:  chip = "sm_75"
// TURING-NOT: product
// TURING:  copies = registers>
// UNKNOWN: error: expects schedule to be scalar, unfused-wmma, fused-wmma-32x32, +64x64, {{.+}} or wgmma, but got 'fast'
// CHIP:    error: {{.+}}expects product warp for sm_89, which has no wgmma of f16, but got warpgroup

!qkv = memref<1x8x512x64xf16>
func.func @attention(%q: !qkv, %k: !qkv, %v: !qkv, %o: !qkv) {
  flashcore.attention ins(%q, %k, %v : !qkv, !qkv, !qkv) outs(%o : !qkv)
  return
}
