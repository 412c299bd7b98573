// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts)))' \
// RUN:   | FileCheck %s

// A tile that is used in two layouts is converted, or read once more.

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

// CHECK-LABEL: gpu.func @rhs_of_two_orders
// CHECK-SAME:    %[[A:[^:]+]]: vector<16x16xf16>, %[[B:[^:]+]]: vector<16x16xf16>
// CHECK:         %[[TURNED:.+]] = fcgpu.convert_layout %[[B]] {fcgpu.home = #x2_column}
// CHECK:         vector.contract {{.+}} %[[A]], %[[B]], %
// CHECK:         vector.contract {{.+}} %[[A]], %[[TURNED]], %
gpu.module @kernels {
  gpu.func @rhs_of_two_orders(%a: !tile, %b: !tile, %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %acc : !tile, !tile into !acc
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

// CHECK-LABEL: gpu.func @lhs_and_rhs_are_connected
// CHECK-SAME:    %[[A:[^:]+]]: vector<16x16xf16>, %[[B:[^:]+]]: vector<16x16xf16>
// CHECK:         %[[TURNED:.+]] = fcgpu.convert_layout %[[B]] {fcgpu.home = #x2_column}
// CHECK:         arith.addf %[[A]], %[[B]] {fcgpu.home = #x2_row}
// CHECK:         vector.contract {{.+}} %[[A]], %[[TURNED]], %
gpu.module @kernels {
  gpu.func @lhs_and_rhs_are_connected(%a: !tile, %b: !tile, %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    %sum = arith.addf %a, %b : !tile
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

// CHECK-LABEL: gpu.func @value_is_written
// CHECK:         %[[V:.+]] = fcgpu.read {{.+}} {fcgpu.home = #x2_column}
// CHECK:         %[[ROWS:.+]] = fcgpu.read {{.+}} {fcgpu.home = #x2_row}
// CHECK:         vector.contract {{.+}} %{{.+}}, %[[V]], %
// CHECK:         vector.transfer_write %[[ROWS]]
gpu.module @kernels {
  gpu.func @value_is_written(%p: !tile, %v_ring: !ring, %acc: !acc,
                             %out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %v = fcgpu.read %v_ring[%c0] : !ring -> !tile
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %acc : !tile, !tile into !acc
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

// The lanes of a row differ by the other layout, those that combine their values
// too: nothing is converted.

// CHECK-LABEL: gpu.func @value_is_reduced
// CHECK:         %[[V:.+]] = fcgpu.read {{.+}} {fcgpu.home = #x2_column}
// CHECK-NOT:     fcgpu.read
// CHECK:         vector.multi_reduction <add>, %[[V]], %{{.+}} {fcgpu.home = #vector_layout
gpu.module @kernels {
  gpu.func @value_is_reduced(%p: !tile, %v_ring: !ring, %acc: !acc,
                             %init: vector<16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %v = fcgpu.read %v_ring[%c0] : !ring -> !tile
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %acc : !tile, !tile into !acc
    %sum = vector.multi_reduction <add>, %v, %init [1]
        : !tile to vector<16xf16>
    gpu.return
  }
}
