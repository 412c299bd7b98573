// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

// Q K^T: B is stored (n, k), and so runs along its rows as A does.

// CHECK-LABEL: gpu.func @query_and_key_are_in_row_order
// CHECK-SAME:    %[[Q_RING:[^:]+]]: !fcgpu.ring<2x16x16xf16>, %[[K_RING:[^:]+]]: !fcgpu.ring<2x16x16xf16>
gpu.module @kernels {
  gpu.func @query_and_key_are_in_row_order(%q_ring: !ring, %k_ring: !ring,
                                           %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // CHECK: fcgpu.read %[[Q_RING]][%{{.+}}] {fcgpu.home = #x2_row}
    // CHECK: fcgpu.read %[[K_RING]][%{{.+}}] {fcgpu.home = #x2_row}
    // CHECK: vector.contract {{.+}} {fcgpu.home = #x2_row}
    %q = fcgpu.read %q_ring[%c0] : !ring -> !tile
    %k = fcgpu.read %k_ring[%c0] : !ring -> !tile
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %q, %k, %acc : !tile, !tile into !acc
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

// P V: B is stored (k, n).

// CHECK-LABEL: gpu.func @value_is_in_column_order
gpu.module @kernels {
  gpu.func @value_is_in_column_order(%p: !tile, %v_ring: !ring, %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // CHECK: fcgpu.read {{.+}} {fcgpu.home = #x2_column}
    // CHECK: vector.contract {{.+}} {fcgpu.home = #x2_row}
    %v = fcgpu.read %v_ring[%c0] : !ring -> !tile
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %acc : !tile, !tile into !acc
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

// An elementwise op has the layout of its operands: backward from the
// contraction to the read.

// CHECK-LABEL: gpu.func @layout_spreads_backward_through_elementwise_ops
gpu.module @kernels {
  gpu.func @layout_spreads_backward_through_elementwise_ops(
      %p: !tile, %v_ring: !ring, %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // CHECK: fcgpu.read {{.+}} {fcgpu.home = #x2_column}
    // CHECK: arith.negf {{.+}} {fcgpu.home = #x2_column}
    %v = fcgpu.read %v_ring[%c0] : !ring -> !tile
    %negated = arith.negf %v : !tile
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %negated, %acc : !tile, !tile into !acc
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

// CHECK-LABEL: gpu.func @layout_spreads_through_loops_and_ifs
gpu.module @kernels {
  gpu.func @layout_spreads_through_loops_and_ifs(
      %p: !tile, %v_ring: !ring, %acc: !acc, %n: index, %wanted: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      fcgpu.read {{.+}} {fcgpu.home = #x2_column}
    // CHECK:      scf.if
    // CHECK:        arith.negf {{.+}} {fcgpu.home = #x2_column}
    // CHECK:      } {fcgpu.home = #x2_column}
    // CHECK:      scf.for %
    // CHECK:        vector.contract
    // CHECK:      } {fcgpu.home = [#x2_column, unit]}
    %first = fcgpu.read %v_ring[%c0] : !ring -> !tile
    %chosen = scf.if %wanted -> !tile {
      %negated = arith.negf %first : !tile
      scf.yield %negated : !tile
    } else {
      scf.yield %first : !tile
    }
    %last:2 = scf.for %i = %c0 to %n step %c1
        iter_args(%v = %chosen, %count = %c0) -> (!tile, index) {
      %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
          iterator_types = ["parallel", "parallel", "reduction"]}
          %p, %v, %acc : !tile, !tile into !acc
      scf.yield %v, %i : !tile, index
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

// A splat constant serves a row and a column operand at once.

// CHECK-LABEL: gpu.func @splat_fits_any_layout
gpu.module @kernels {
  gpu.func @splat_fits_any_layout(%a: !tile, %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK: vector.contract {{.+}} {fcgpu.home = #x2_row}
    // CHECK: vector.contract {{.+}} {fcgpu.home = #x2_row}
    %ones = arith.constant dense<1.0> : !tile
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %ones, %acc : !tile, !tile into !acc
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %ones, %s : !tile, !tile into !acc
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Nothing fixes the tile; the row vector and the scalar are none.

// CHECK-LABEL: gpu.func @only_tiles_get_a_layout
gpu.module @kernels {
  gpu.func @only_tiles_get_a_layout(%tile: vector<16x16xf32>,
                                    %rows: vector<16xf32>, %scalar: f32)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK: math.exp2 %{{.+}} {fcgpu.home = #x2_row} : vector<16x16xf32>
    // CHECK: math.exp2 %{{.+}} : vector<16xf32>
    // CHECK: math.exp2 %{{.+}} : f32
    %0 = math.exp2 %tile : vector<16x16xf32>
    %1 = math.exp2 %rows : vector<16xf32>
    %2 = math.exp2 %scalar : f32
    gpu.return
  }
}

// -----

// CHECK-LABEL: gpu.func @kernel_without_schedule_is_left_alone
gpu.module @kernels {
  gpu.func @kernel_without_schedule_is_left_alone(%tile: vector<16x16xf32>)
      kernel {
    // CHECK-NEXT: math.exp2 %{{.+}} : vector<16x16xf32>
    %0 = math.exp2 %tile : vector<16x16xf32>
    gpu.return
  }
}
