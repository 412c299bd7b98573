// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts,flashcore-distribute,canonicalize,cse)))' \
// RUN:   | FileCheck %s

// Products that take their tiles from plain rows of shared memory.

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#schedule = #fcgpu.schedule<chip = "sm_75", block_m = 16, block_n = 16, num_warps = 1, num_stages = 2, query = shared,
  grid_order = query_fastest, min_blocks = 0, product = wmma, copies = registers, exchange = padded>
!ring = !fcgpu.ring<1x16x16xf16, padded>

// Q K^T takes both from their slots. S goes to the warp's own memory, with rows of 20, and back in the layout that all
// else has; P is stored behind it, from where P V takes it, and O is what was there and what comes back. A tile that goes
// by way of registers is there for the next instruction: nothing is committed or waited for.

// CHECK-LABEL: gpu.func @fragments
// CHECK-SAME:    fcgpu.ptx_version = 60
// CHECK:         %[[SLOT:.+]] = memref.view {{.+}} to memref<384xf16
// CHECK:         %[[PIECE:.+]] = vector.load %{{.+}} {alignment = 16 : i64} : memref<16x16xf16>, vector<8xf16>
// CHECK-NEXT:    vector.store %[[PIECE]], %[[SLOT]]
// CHECK-NOT:     nvvm.cp.async
// CHECK:         nvvm.bar.warp.sync
// CHECK:         %[[A:.+]] = gpu.subgroup_mma_load_matrix %{{.+}} {leadDimension = 24 : index} {{.+}} "AOp">
// CHECK:         %[[ZERO:.+]] = gpu.subgroup_mma_constant_matrix
// CHECK:         %[[B:.+]] = gpu.subgroup_mma_load_matrix %{{.+}} {leadDimension = 24 : index, transpose} {{.+}} "BOp">
// CHECK:         %[[S:.+]] = gpu.subgroup_mma_compute %[[A]], %[[B]], %[[ZERO]] {b_transpose}
// CHECK-NEXT:    gpu.subgroup_mma_store_matrix %[[S]], %[[RESULT:.+]][%{{.+}}] {leadDimension = 20 : index}
// CHECK-NEXT:    nvvm.bar.warp.sync
// CHECK:         %[[ROW:.+]] = vector.load %[[RESULT]][%[[PLACE:.+]]] {alignment = 8 : i64} {{.+}} vector<2xf32>
// CHECK:         %[[P:.+]] = arith.truncf %[[ROW]]
// CHECK:         vector.store %[[P]], %[[LHS:.+]][%{{.+}}] {alignment = 4 : i64}
// CHECK:         nvvm.bar.warp.sync
// CHECK-NEXT:    gpu.subgroup_mma_load_matrix %[[LHS]][%{{.+}}] {leadDimension = 24 : index} {{.+}} "AOp">
// CHECK-NEXT:    gpu.subgroup_mma_load_matrix %{{.+}} {leadDimension = 24 : index} {{.+}} "BOp">
// CHECK:         gpu.subgroup_mma_store_matrix %{{.+}}, %[[RESULT]]
// CHECK-NEXT:    nvvm.bar.warp.sync
// CHECK:         %[[NEW:.+]] = vector.load %[[RESULT]][%[[PLACE]]]
// CHECK:         arith.addf %[[ROW]], %[[NEW]]
gpu.module @kernels {
  gpu.func @fragments(%q: memref<16x16xf16>, %out: memref<16x16xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %ring_q = fcgpu.alloc_ring : !ring
    %ring_k = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      fcgpu.copy %q[%c0, %c0] to %ring_q[%c0] by warp in_bounds : memref<16x16xf16> to !ring
      fcgpu.commit_copies
      fcgpu.wait_copies in_flight(0)
      %a = fcgpu.read %ring_q[%c0] in_place : !ring -> vector<16x16xf16>
      %b = fcgpu.read %ring_k[%c0] in_place : !ring -> vector<16x16xf16>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %zero : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      %p = arith.truncf %s : vector<16x16xf32> to vector<16x16xf16>
      %v = fcgpu.read %ring_k[%c0] in_place : !ring -> vector<16x16xf16>
      %o = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %p, %v, %s : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xf32>, memref<16x16xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#schedule = #fcgpu.schedule<chip = "sm_75", block_m = 16, block_n = 16, num_warps = 1, num_stages = 2, query = shared,
  grid_order = query_fastest, min_blocks = 0, product = wmma, copies = registers, exchange = wide>
!ring = !fcgpu.ring<1x16x16xf16, padded>

// Four columns at a time, two lanes a row.

// CHECK-LABEL: gpu.func @wide_fragments
// CHECK:         vector.load %{{.+}} {alignment = 16 : i64} : memref<320xf32, {{.+}}>, vector<4xf32>
// CHECK:         vector.store %{{.+}}, %{{.+}} {alignment = 8 : i64} : memref<384xf16, {{.+}}>, vector<4xf16>
gpu.module @kernels {
  gpu.func @wide_fragments(%q: memref<16x16xf16>, %out: memref<16x16xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %ring_q = fcgpu.alloc_ring : !ring
    %ring_k = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      fcgpu.copy %q[%c0, %c0] to %ring_q[%c0] by warp in_bounds : memref<16x16xf16> to !ring
      fcgpu.commit_copies
      fcgpu.wait_copies in_flight(0)
      %a = fcgpu.read %ring_q[%c0] in_place : !ring -> vector<16x16xf16>
      %b = fcgpu.read %ring_k[%c0] in_place : !ring -> vector<16x16xf16>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %zero : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      %p = arith.truncf %s : vector<16x16xf32> to vector<16x16xf16>
      %v = fcgpu.read %ring_k[%c0] in_place : !ring -> vector<16x16xf16>
      %o = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %p, %v, %s : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xf32>, memref<16x16xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#schedule = #fcgpu.schedule<chip = "sm_75", block_m = 32, block_n = 16, num_warps = 1, num_stages = 2, query = shared,
  grid_order = query_fastest, min_blocks = 0, product = thread, copies = registers, exchange = padded>
!query = !fcgpu.ring<1x32x16xf16, padded>
!ring = !fcgpu.ring<1x16x16xf16, padded>

// A lane's row of S: a loop along the columns, in which all lanes load the same of K. Of P V each of its registers meets a row of V.

// CHECK-LABEL: gpu.func @lanes
// CHECK:         %[[SUMS:.+]]:16 = scf.for %{{.+}} = %{{.+}} to %{{.+}} step %{{.+}} iter_args
// CHECK:           vector.load %{{.+}} {alignment = 16 : i64} : memref<768xf16, {{.+}}>, vector<8xf16>
// CHECK:           vector.load %{{.+}} {alignment = 16 : i64} : memref<384xf16, {{.+}}>, vector<8xf16>
// CHECK-COUNT-128: math.fma {{.+}} : f32
// CHECK:           scf.yield
// CHECK:         arith.truncf
// CHECK-COUNT-256: math.fma {{.+}} : f32
// CHECK-NOT:     math.fma
// CHECK:         gpu.return
gpu.module @kernels {
  gpu.func @lanes(%q: memref<32x16xf16>, %out: memref<32x16xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<32x16xf32>
    %ring_q = fcgpu.alloc_ring : !query
    %ring_k = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      fcgpu.copy %q[%c0, %c0] to %ring_q[%c0] by warp in_bounds : memref<32x16xf16> to !query
      fcgpu.commit_copies
      fcgpu.wait_copies in_flight(0)
      %a = fcgpu.read %ring_q[%c0] in_place : !query -> vector<32x16xf16>
      %b = fcgpu.read %ring_k[%c0] in_place : !ring -> vector<16x16xf16>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %zero : vector<32x16xf16>, vector<16x16xf16> into vector<32x16xf32>
      %p = arith.truncf %s : vector<32x16xf32> to vector<32x16xf16>
      %v = fcgpu.read %ring_k[%c0] in_place : !ring -> vector<16x16xf16>
      %o = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %p, %v, %s : vector<32x16xf16>, vector<16x16xf16> into vector<32x16xf32>
      vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]} : vector<32x16xf32>, memref<32x16xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
