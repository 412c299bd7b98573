// A schedule for calls of a class, where sizes are known at run time only.

// RUN: flashcore-opt %s -flashcore-configure="expected-grid=half" | FileCheck %s
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90a expected-grid=three" | FileCheck %s --check-prefix=HOPPER
// RUN: flashcore-opt %s -flashcore-configure="expected-grid=any" | FileCheck %s --check-prefix=ANY
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90a expected-grid=three invariance=batch" | FileCheck %s --check-prefix=INVARIANT
// RUN: not flashcore-opt %s -flashcore-configure="expected-grid=small" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// ANY-NOT: expected_grid
// UNKNOWN: expects expected-grid to be any, quarter, half, one, two, three or short, but got 'small'

!q = memref<?x?x?x64xf16>

// CHECK-LABEL:     func.func @open
// CHECK:             fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32,
// CHECK-SAME:          key_warps = 4, expected_grid = half>
// HOPPER-LABEL:    func.func @open
// HOPPER:            block_m = 64, block_n = 64, num_warps = 4,
// HOPPER-SAME:         min_blocks = 3,
// HOPPER-SAME:         product = warpgroup, expected_grid = three>
// INVARIANT-LABEL: func.func @open
// INVARIANT:         block_m = 64
// INVARIANT-NOT:     row_max
// INVARIANT-SAME:    min_blocks = 1, invariance = batch, expected_grid = three>
func.func @open(%q: !q, %k: !q, %v: !q, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !q, !q) outs(%o : !q)
  return
}

!known = memref<64x32x4096x64xf16>

// Known sizes decide for themselves.
// CHECK-LABEL:  func.func @known
// CHECK:          block_m = 128,
// HOPPER-LABEL: func.func @known
// HOPPER:         block_m = 256,
func.func @known(%q: !known, %k: !known, %v: !known, %o: !known) {
  flashcore.attention ins(%q, %k, %v : !known, !known, !known) outs(%o : !known)
  return
}
