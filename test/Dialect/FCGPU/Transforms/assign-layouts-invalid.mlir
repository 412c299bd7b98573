// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts)))'

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

gpu.module @kernels {
  gpu.func @rhs_of_two_orders(%a: !tile, %b: !tile, %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %acc : !tile, !tile into !acc
    // expected-error @below {{'vector.contract' op needs its rhs in order column, but another use of the same tile needs order row}}
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %s : !tile, !tile into !acc
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

// The sum ties both operands to one layout.

gpu.module @kernels {
  gpu.func @lhs_and_rhs_are_connected(%a: !tile, %b: !tile, %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    %sum = arith.addf %a, %b : !tile
    // expected-error @below {{'vector.contract' op needs its rhs in order column, but another use of the same tile needs order row}}
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %acc : !tile, !tile into !acc
    gpu.return
  }
}
