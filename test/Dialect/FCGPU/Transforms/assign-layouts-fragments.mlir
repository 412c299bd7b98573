// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_80", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 0, product = wmma, copies = registers, exchange = fragments>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#wide = #fcgpu.product<wmma, wide = true>
!ring = !fcgpu.ring<2x16x16xf16, padded>
!half = vector<16x16xf16>
!tile = vector<16x16xf32>

// S is looked at as soon as it is there. O stays in fragments, which the loop
// and the branch carry; in the branch that rescales it, it leaves them and comes
// back, and behind the loop it leaves them for good.

// CHECK-LABEL: gpu.func @sums_stay_in_fragments
// CHECK:         scf.for
// CHECK-NOT:       fcgpu.convert_layout
// CHECK:           vector.contract {{.+}}fcgpu.home = #x4_row
// CHECK-NOT:       fcgpu.convert_layout
// CHECK:           scf.if
// CHECK:             %[[KNOWN:.+]] = fcgpu.convert_layout %{{.+}} {fcgpu.home = #x4_row}
// CHECK:             %[[SCALED:.+]] = arith.mulf %[[KNOWN]], {{.+}} {fcgpu.home = #x4_row}
// CHECK:             %[[BACK:.+]] = fcgpu.convert_layout %[[SCALED]] {fcgpu.home = #fcgpu.fragments}
// CHECK:             scf.yield %[[BACK]]
// CHECK:           } {fcgpu.home = #fcgpu.fragments}
// CHECK-NOT:       fcgpu.convert_layout
// CHECK:           vector.contract {{.+}}fcgpu.home = #fcgpu.fragments
// CHECK:           scf.yield
// CHECK:         } {fcgpu.home = #fcgpu.fragments}
// CHECK:         fcgpu.convert_layout %{{.+}} {fcgpu.home = #x4_row}
gpu.module @kernels {
  gpu.func @sums_stay_in_fragments(%ring: !ring, %out: memref<16x16xf32>, %n: index, %is_new: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %two = arith.constant dense<2.0> : !tile
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) {
      %q = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> !half
      %k = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
          %q, %k, %zero {fcgpu.product = #wide} : !half, !half into !tile
      %p = arith.truncf %s : !tile to !half
      %scaled = scf.if %is_new -> (!tile) {
        %new = arith.mulf %acc, %two : !tile
        scf.yield %new : !tile
      } else {
        scf.yield %acc : !tile
      }
      %v = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
      %sum = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
          %p, %v, %scaled {fcgpu.product = #wide, fcgpu.home = #fcgpu.fragments} : !half, !half into !tile
      scf.yield %sum : !tile
    }
    vector.transfer_write %sums, %out[%c0, %c0] {in_bounds = [true, true]} : !tile, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_80", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 0, product = wmma, copies = registers, exchange = wide>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#wide = #fcgpu.product<wmma, wide = true>
!ring = !fcgpu.ring<2x16x16xf16, padded>

// Where the product does not ask for it, every sum is in a layout.

// CHECK-LABEL: gpu.func @sums_are_known
// CHECK-NOT:     #fcgpu.fragments
// CHECK-NOT:     fcgpu.convert_layout
// CHECK:         vector.contract {{.+}}fcgpu.home = #x4_row
// CHECK:         gpu.return
gpu.module @kernels {
  gpu.func @sums_are_known(%ring: !ring, %p: vector<16x16xf16>, %out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %two = arith.constant dense<2.0> : vector<16x16xf32>
    %v = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
    %sum = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %two {fcgpu.product = #wide} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    vector.transfer_write %sum, %out[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xf32>, memref<16x16xf32>
    gpu.return
  }
}
