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

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

// Rows are written by the quads of lanes that hold them.

gpu.module @kernels {
  gpu.func @value_is_written(%p: !tile, %v_ring: !ring, %acc: !acc,
                             %out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %v = fcgpu.read %v_ring[%c0] : !ring -> !tile
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %acc : !tile, !tile into !acc
    // expected-error @below {{'vector.transfer_write' op needs its tile in order row, but another use of the same tile needs order column}}
    vector.transfer_write %v, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf16>
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
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

gpu.module @kernels {
  gpu.func @value_is_reduced(%p: !tile, %v_ring: !ring, %acc: !acc,
                             %init: vector<16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %v = fcgpu.read %v_ring[%c0] : !ring -> !tile
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %acc : !tile, !tile into !acc
    // expected-error @below {{'vector.multi_reduction' op needs its source in order row, but another use of the same tile needs order column}}
    %sum = vector.multi_reduction <add>, %v, %init [1]
        : !tile to vector<16xf16>
    gpu.return
  }
}
