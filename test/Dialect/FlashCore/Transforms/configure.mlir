// RUN: flashcore-opt %s -flashcore-configure | FileCheck %s
// RUN: flashcore-opt %s -flashcore-configure="block-m=96 num-warps=3 block-n=64" \
// RUN:   | FileCheck %s --check-prefix=BLOCK-M
// RUN: flashcore-opt %s -flashcore-configure="block-n=48" \
// RUN:   | FileCheck %s --check-prefix=BLOCK-N
// RUN: flashcore-opt %s -flashcore-configure="num-warps=1" \
// RUN:   | FileCheck %s --check-prefix=NUM-WARPS
// RUN: flashcore-opt %s -flashcore-configure="num-stages=4 block-n=32" \
// RUN:   | FileCheck %s --check-prefix=NUM-STAGES
// RUN: flashcore-opt %s -flashcore-configure="min-blocks=3" \
// RUN:   | FileCheck %s --check-prefix=MIN-BLOCKS
// RUN: flashcore-opt %s -flashcore-configure="query=shared" \
// RUN:   | FileCheck %s --check-prefix=SHARED
// RUN: flashcore-opt %s -flashcore-configure="query=registers" \
// RUN:   | FileCheck %s --check-prefix=REGISTERS
// RUN: flashcore-opt %s -flashcore-configure="grid-order=head_fastest" \
// RUN:   | FileCheck %s --check-prefix=HEAD-FASTEST
// RUN: flashcore-opt %s -flashcore-configure="grid-order=query_fastest" \
// RUN:   | FileCheck %s --check-prefix=QUERY-FASTEST

!t = memref<1x8x512x64xf16>

// Which tiles are best is measured, not promised: the defaults are not pinned
// here beyond what the op's description says.

// CHECK-LABEL: func.func @schedule_is_written
// CHECK:         flashcore.attention
// CHECK-SAME:      fcgpu.schedule = #fcgpu.schedule<chip = "sm_89",
// CHECK-SAME:      grid_order = query_fastest, min_blocks = 1

// BLOCK-M-LABEL: func.func @schedule_is_written
// BLOCK-M:         #fcgpu.schedule<{{.*}}block_m = 96,{{.*}}num_warps = 3,

// BLOCK-N-LABEL: func.func @schedule_is_written
// BLOCK-N:         #fcgpu.schedule<{{.*}}block_n = 48,

// NUM-WARPS-LABEL: func.func @schedule_is_written
// NUM-WARPS:         #fcgpu.schedule<{{.*}}num_warps = 1,

// NUM-STAGES-LABEL: func.func @schedule_is_written
// NUM-STAGES:         #fcgpu.schedule<{{.*}}block_n = 32,{{.*}}num_stages = 4,

// MIN-BLOCKS-LABEL: func.func @schedule_is_written
// MIN-BLOCKS:         #fcgpu.schedule<{{.*}}min_blocks = 3

// SHARED-LABEL: func.func @schedule_is_written
// SHARED:         #fcgpu.schedule<{{.*}}query = shared,

// REGISTERS-LABEL: func.func @schedule_is_written
// REGISTERS:         #fcgpu.schedule<{{.*}}query = registers,

// HEAD-FASTEST-LABEL: func.func @schedule_is_written
// HEAD-FASTEST:         #fcgpu.schedule<{{.*}}grid_order = head_fastest,

func.func @schedule_is_written(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

// The rows of a causal attention differ in length: the longest of all heads go
// first.

// CHECK-LABEL: func.func @causal_runs_longest_rows_first
// CHECK:         #fcgpu.schedule<{{.*}}grid_order = head_fastest,

// QUERY-FASTEST-LABEL: func.func @causal_runs_longest_rows_first
// QUERY-FASTEST:         #fcgpu.schedule<{{.*}}grid_order = query_fastest,

func.func @causal_runs_longest_rows_first(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      causal(bottom_right)
  return
}

// A schedule that is there already wins over every option.

// CHECK-LABEL: func.func @schedule_of_the_user_is_kept
// CHECK:         #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16, num_warps = 1, num_stages = 5, query = shared, grid_order = query_fastest, min_blocks = 7>

// BLOCK-N-LABEL: func.func @schedule_of_the_user_is_kept
// BLOCK-N:         #fcgpu.schedule<{{.*}}block_n = 16,

// REGISTERS-LABEL: func.func @schedule_of_the_user_is_kept
// REGISTERS:         #fcgpu.schedule<{{.*}}query = shared,

func.func @schedule_of_the_user_is_kept(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16,
         block_n = 16, num_warps = 1, num_stages = 5, query = shared,
         grid_order = query_fastest, min_blocks = 7>}
  return
}

!tensor = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @tensors_are_configured_too
// CHECK:         flashcore.attention
// CHECK-SAME:      fcgpu.schedule = #fcgpu.schedule<chip = "sm_89",
func.func @tensors_are_configured_too(%q: !tensor, %k: !tensor, %v: !tensor,
                                      %init: !tensor) -> !tensor {
  %o = flashcore.attention ins(%q, %k, %v : !tensor, !tensor, !tensor)
      outs(%init : !tensor) -> !tensor
  return %o : !tensor
}

!d = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>

// CHECK-LABEL: func.func @dynamic_sizes_are_configured_too
// CHECK:         flashcore.attention
// CHECK-SAME:      fcgpu.schedule = #fcgpu.schedule<chip = "sm_89",
func.func @dynamic_sizes_are_configured_too(%q: !d, %k: !d, %v: !d, %o: !d) {
  flashcore.attention ins(%q, %k, %v : !d, !d, !d) outs(%o : !d)
  return
}
