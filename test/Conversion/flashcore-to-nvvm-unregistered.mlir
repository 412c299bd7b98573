// RUN: flashcore-opt %s -flashcore-to-nvvm -verify-diagnostics -allow-unregistered-dialect

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @op_of_no_known_dialect()
      kernel attributes {fcgpu.schedule = #schedule} {
    // expected-error @below {{'unknown.op' op cannot be lowered to the LLVM or NVVM dialect}}
    "unknown.op"() : () -> ()
    gpu.return
  }
}
