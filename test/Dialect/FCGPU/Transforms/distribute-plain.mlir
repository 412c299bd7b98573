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
// by way of registers is there for the next instruction.

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
// CHECK-NEXT:    gpu.subgroup_mma_store_matrix %[[S]], %[[RESULT:.+]][%{{.+}}] {leadDimension = 24 : index}
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
      fcgpu.copy %q[%c0, %c0] to %ring_q[%c0] by warp via_registers in_bounds : memref<16x16xf16> to !ring
      %a = fcgpu.read %ring_q[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %b = fcgpu.read %ring_k[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %zero {fcgpu.product = #fcgpu.product<wmma>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      %p = arith.truncf %s : vector<16x16xf32> to vector<16x16xf16>
      %v = fcgpu.read %ring_k[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %o = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %p, %v, %s {fcgpu.product = #fcgpu.product<wmma>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
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
// CHECK:         vector.load %{{.+}} {alignment = 16 : i64} : memref<384xf32, {{.+}}>, vector<4xf32>
// CHECK:         vector.store %{{.+}}, %{{.+}} {alignment = 8 : i64} : memref<384xf16, {{.+}}>, vector<4xf16>
gpu.module @kernels {
  gpu.func @wide_fragments(%q: memref<16x16xf16>, %out: memref<16x16xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %ring_q = fcgpu.alloc_ring : !ring
    %ring_k = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      fcgpu.copy %q[%c0, %c0] to %ring_q[%c0] by warp via_registers in_bounds : memref<16x16xf16> to !ring
      %a = fcgpu.read %ring_q[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %b = fcgpu.read %ring_k[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %zero {fcgpu.product = #fcgpu.product<wmma, wide = true>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      %p = arith.truncf %s : vector<16x16xf32> to vector<16x16xf16>
      %v = fcgpu.read %ring_k[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %o = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %p, %v, %s {fcgpu.product = #fcgpu.product<wmma, wide = true>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
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
      fcgpu.copy %q[%c0, %c0] to %ring_q[%c0] by warp via_registers in_bounds : memref<32x16xf16> to !query
      %a = fcgpu.read %ring_q[%c0] {fcgpu.home = #fcgpu.shared} : !query -> vector<32x16xf16>
      %b = fcgpu.read %ring_k[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %zero {fcgpu.product = #fcgpu.product<thread>} : vector<32x16xf16>, vector<16x16xf16> into vector<32x16xf32>
      %p = arith.truncf %s : vector<32x16xf32> to vector<32x16xf16>
      %v = fcgpu.read %ring_k[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %o = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %p, %v, %s {fcgpu.product = #fcgpu.product<thread>} : vector<32x16xf16>, vector<16x16xf16> into vector<32x16xf32>
      vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]} : vector<32x16xf32>, memref<32x16xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#schedule = #fcgpu.schedule<chip = "sm_80", block_m = 32, block_n = 16, num_warps = 1, num_stages = 2, query = shared,
  grid_order = query_fastest, min_blocks = 0, product = wmma, copies = registers, exchange = fragments>
#rows = #fcgpu.layout<register (0, 1) (0, 2), lane (0, 4) (1, 0) (2, 0) (4, 0) (8, 0)>
!ring = !fcgpu.ring<1x16x32xf16, padded>
!fragment = !gpu.mma_matrix<16x16xf32, "COp">

// Sums that stay in fragments: a loop carries them, two of a column block by two of a row block, and V is loaded once for both row blocks. P takes the
// place of what else goes through memory, behind a barrier. Of memory there are 16 columns, so 32 leave in two halves.

// CHECK-LABEL: gpu.func @sums_in_fragments
// CHECK:         %[[ZERO:.+]] = gpu.subgroup_mma_constant_matrix
// CHECK:         %[[SUMS:.+]]:4 = scf.for {{.+}} iter_args(%[[A:.+]] = %[[ZERO]], %[[B:.+]] = %[[ZERO]], %[[C:.+]] = %[[ZERO]], %[[D:.+]] = %[[ZERO]])
// CHECK-SAME:        !gpu.mma_matrix<16x16xf32, "COp">
// CHECK:           nvvm.bar.warp.sync
// CHECK-COUNT-4:   vector.store {{.+}} vector<4xf16>
// CHECK:           nvvm.bar.warp.sync
// CHECK:           %[[LEFT:.+]] = gpu.subgroup_mma_load_matrix {{.+}} "AOp"
// CHECK:           %[[LEFT2:.+]] = gpu.subgroup_mma_load_matrix {{.+}} "AOp"
// CHECK:           %[[RIGHT:.+]] = gpu.subgroup_mma_load_matrix {{.+}} "BOp"
// CHECK:           %[[NEW_A:.+]] = gpu.subgroup_mma_compute %[[LEFT]], %[[RIGHT]], %[[A]]
// CHECK:           %[[NEW_C:.+]] = gpu.subgroup_mma_compute %[[LEFT2]], %[[RIGHT]], %[[C]]
// CHECK:           %[[RIGHT:.+]] = gpu.subgroup_mma_load_matrix {{.+}} "BOp"
// CHECK:           %[[NEW_B:.+]] = gpu.subgroup_mma_compute %[[LEFT]], %[[RIGHT]], %[[B]]
// CHECK:           %[[NEW_D:.+]] = gpu.subgroup_mma_compute %[[LEFT2]], %[[RIGHT]], %[[D]]
// CHECK-NOT:       gpu.subgroup_mma_store_matrix
// CHECK:           scf.yield %[[NEW_A]], %[[NEW_B]], %[[NEW_C]], %[[NEW_D]]
// CHECK:         nvvm.bar.warp.sync
// CHECK:         gpu.subgroup_mma_store_matrix %[[SUMS]]#0
// CHECK:         gpu.subgroup_mma_store_matrix %[[SUMS]]#2
// CHECK:         nvvm.bar.warp.sync
// CHECK-COUNT-4: vector.load {{.+}} vector<4xf32>
// CHECK:         nvvm.bar.warp.sync
// CHECK:         gpu.subgroup_mma_store_matrix %[[SUMS]]#1
// CHECK:         gpu.subgroup_mma_store_matrix %[[SUMS]]#3
// CHECK:         nvvm.bar.warp.sync
// CHECK-COUNT-4: vector.load {{.+}} vector<4xf32>
gpu.module @kernels {
  gpu.func @sums_in_fragments(%p: memref<32x16xf16>, %out: memref<32x32xf32>, %n: index) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant {fcgpu.home = #rows} dense<1.0> : vector<32x16xf16>
    %zero = arith.constant {fcgpu.home = #fcgpu.fragments} dense<0.0> : vector<32x32xf32>
    %ring = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (vector<32x32xf32>) {
        %v = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x32xf16>
        %sum = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %one, %v, %acc {fcgpu.product = #fcgpu.product<wmma, wide = true>, fcgpu.home = #fcgpu.fragments} : vector<32x16xf16>, vector<16x32xf16> into vector<32x32xf32>
        scf.yield %sum : vector<32x32xf32>
      } {fcgpu.home = #fcgpu.fragments}
      %o = fcgpu.convert_layout %sums {fcgpu.home = #rows} : vector<32x32xf32>
      vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]} : vector<32x32xf32>, memref<32x32xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_80", block_m = 16, block_n = 16, num_warps = 1, num_stages = 2, query = shared,
  grid_order = query_fastest, min_blocks = 0, product = wmma, copies = registers, exchange = fragments>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#rows = #fcgpu.layout<register (0, 1) (0, 2), lane (0, 4) (1, 0) (2, 0) (4, 0) (8, 0)>
!ring = !fcgpu.ring<1x16x16xf16, padded>

// And back.

// CHECK-LABEL: gpu.func @to_fragments
// CHECK:         nvvm.bar.warp.sync
// CHECK-COUNT-2: vector.store {{.+}} {alignment = 16 : i64} : memref<384xf32, {{.+}}>, vector<4xf32>
// CHECK:         nvvm.bar.warp.sync
// CHECK:         %[[C:.+]] = gpu.subgroup_mma_load_matrix {{.+}} {leadDimension = 24 : index} {{.+}} "COp"
// CHECK:         gpu.subgroup_mma_compute {{.+}}, %[[C]]
gpu.module @kernels {
  gpu.func @to_fragments(%out: memref<16x16xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %p = arith.constant {fcgpu.home = #rows} dense<1.0> : vector<16x16xf16>
    %known = arith.constant {fcgpu.home = #rows} dense<2.0> : vector<16x16xf32>
    %ring = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      %acc = fcgpu.convert_layout %known {fcgpu.home = #fcgpu.fragments} : vector<16x16xf32>
      %v = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
      %sum = vector.contract {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %p, %v, %acc {fcgpu.product = #fcgpu.product<wmma, wide = true>, fcgpu.home = #fcgpu.fragments} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      %o = fcgpu.convert_layout %sum {fcgpu.home = #rows} : vector<16x16xf32>
      vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xf32>, memref<16x16xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
