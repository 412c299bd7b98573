// A schedule that a user wrote for one chip may not fit another one.

// RUN: not flashcore-compile %s --chip=sm_89 2>&1 | FileCheck %s
// RUN: flashcore-compile %s --chip=sm_90 -o /dev/null

!t = memref<1x8x512x128xf16>

func.func @schedule_for_sm_90(%q: !t, %o: !t) {
  // CHECK: :[[#@LINE+1]]:3: error: 'flashcore.attention' op has a schedule for sm_90, but the target is sm_89
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) {
    fcgpu.schedule = #fcgpu.schedule<
        chip = "sm_90", block_m = 128, block_n = 128, num_warps = 8,
        num_stages = 2, query = registers, grid_order = query_fastest,
        min_blocks = 0>}
  return
}
