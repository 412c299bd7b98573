// RUN: flashcore-opt %s -split-input-file -flashcore-to-nvvm -verify-diagnostics

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @tile_level_op_is_left()
      kernel attributes {fcgpu.schedule = #schedule} {
    // expected-error @below {{'fcgpu.commit_copies' op expects threads in the place of warps and their tiles; run flashcore-distribute first}}
    fcgpu.commit_copies
    gpu.return
  }
}
