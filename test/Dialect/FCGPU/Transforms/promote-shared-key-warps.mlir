// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-promote-shared)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>

// Warps that divide the keys fill rings of their own, also when the number of
// their tiles differs.

// CHECK-LABEL: gpu.func @warps_have_their_own_rings
gpu.module @kernels {
  gpu.func @warps_have_their_own_rings(%query: memref<16x16xf16>,
                                       %key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK-DAG:  %[[K_RING:.+]] = fcgpu.alloc_ring by warp : <3x32x16xf16>
    // CHECK-DAG:  %[[Q_RING:.+]] = fcgpu.alloc_ring by warp : <1x16x16xf16>
    // CHECK:      scf.forall (%{{.+}}, %[[PART:.+]]) in (1, 2)
    // CHECK:        fcgpu.copy %{{.+}} to %[[Q_RING]][%[[PART]]] by warp
    // CHECK:        fcgpu.read %[[Q_RING]][%[[PART]]]
    // CHECK:        scf.for %[[I:.+]] =
    // CHECK:          fcgpu.copy %{{.+}} to %[[K_RING]][%[[I]]] by warp
    // CHECK:          fcgpu.read %[[K_RING]][%[[I]]]
    scf.forall (%rows, %part) in (1, 2) {
      %q = vector.transfer_read %query[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = warp, slots = 1, number = holder, kept = 16>,
           in_bounds = [true, true]} : memref<16x16xf16>, vector<16x16xf16>
      "use"(%q) : (vector<16x16xf16>) -> ()
      %n = arith.subi %c5, %part : index
      scf.for %i = %c0 to %n step %c1 {
        %row = arith.muli %i, %c32 : index
        %k = vector.transfer_read %key[%row, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = warp, ring = warp, slots = 3, number = turn>,
             in_bounds = [false, true]} : memref<128x16xf16>, vector<32x16xf16>
        "use"(%k) : (vector<32x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, softmax = one_pass>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#nt = {indexing_maps = [#mk, #nk, #mn],
       iterator_types = ["parallel", "parallel", "reduction"]}
#nn = {indexing_maps = [#mk, #kn, #mn],
       iterator_types = ["parallel", "parallel", "reduction"]}
!half = vector<16x16xf16>
!acc = vector<16x16xf32>

// Tiles by turn outside of loops are numbered in program order; K and V, of one
// shape and staging, share a ring of twice the slots. Q has its own.

// CHECK-LABEL: gpu.func @tiles_outside_of_loops_are_a_stream
gpu.module @kernels {
  gpu.func @tiles_outside_of_loops_are_a_stream(
      %query: memref<16x16xf16>, %key: memref<48x16xf16>,
      %value: memref<48x16xf16>, %acc: !acc)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring : <4x16x16xf16>
    // CHECK:      %[[Q_RING:.+]] = fcgpu.alloc_ring : <1x16x16xf16>
    // CHECK:      fcgpu.copy %{{.+}} to %[[Q_RING]][%{{.+}}] by warp
    // CHECK:      %[[T0:.+]] = arith.constant 0 : index
    // CHECK:      fcgpu.copy %{{.+}} to %[[RING]][%[[T0]]] by warp
    // CHECK-NEXT: fcgpu.read %[[RING]][%[[T0]]]
    // CHECK:      %[[T1:.+]] = arith.constant 1 : index
    // CHECK:      fcgpu.copy %{{.+}} to %[[RING]][%[[T1]]] by warp
    // CHECK:      %[[T2:.+]] = arith.constant 2 : index
    // CHECK:      fcgpu.copy %{{.+}} to %[[RING]][%[[T2]]] by warp
    // CHECK:      %[[T3:.+]] = arith.constant 3 : index
    // CHECK:      fcgpu.copy %{{.+}} to %[[RING]][%[[T3]]] by warp
    // CHECK:      %[[T4:.+]] = arith.constant 4 : index
    // CHECK:      fcgpu.copy %{{.+}} to %[[RING]][%[[T4]]] by warp
    // CHECK-NEXT: fcgpu.read %[[RING]][%[[T4]]]
    scf.forall (%warp) in (1) {
      %q = vector.transfer_read %query[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 1, number = holder, kept = 16>,
           in_bounds = [true, true]} : memref<16x16xf16>, !half
      %k0 = vector.transfer_read %key[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>,
           in_bounds = [true, true]} : memref<48x16xf16>, !half
      %s0 = vector.contract #nt %q, %k0, %acc : !half, !half into !acc
      %k1 = vector.transfer_read %key[%c16, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>,
           in_bounds = [true, true]} : memref<48x16xf16>, !half
      %s1 = vector.contract #nt %q, %k1, %s0 : !half, !half into !acc
      %k2 = vector.transfer_read %key[%c32, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>,
           in_bounds = [true, true]} : memref<48x16xf16>, !half
      %s2 = vector.contract #nt %q, %k2, %s1 : !half, !half into !acc
      %p = arith.truncf %s2 : !acc to !half
      %v0 = vector.transfer_read %value[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>,
           in_bounds = [true, true]} : memref<48x16xf16>, !half
      %o0 = vector.contract #nn %p, %v0, %acc : !half, !half into !acc
      %v1 = vector.transfer_read %value[%c16, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>,
           in_bounds = [true, true]} : memref<48x16xf16>, !half
      %o1 = vector.contract #nn %p, %v1, %o0 : !half, !half into !acc
      "use"(%o1) : (!acc) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
