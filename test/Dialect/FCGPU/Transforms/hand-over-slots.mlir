// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-hand-over-slots)))' | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  // Q is acquired once, in front of the loop, and never released: nothing else
  // comes into its slots. Two products are under way at a time.

  // CHECK-LABEL: gpu.func @two_products(
  gpu.func @two_products(%q: memref<128x64xf16>, %k: memref<?x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    // CHECK: %[[RING_Q:.+]] = fcgpu.alloc_ring
    %ring_q = fcgpu.alloc_ring : !ring
    // CHECK: %[[RING_K:.+]] = fcgpu.alloc_ring
    %ring_k = fcgpu.alloc_ring : !ring
    // CHECK: %[[RING_V:.+]] = fcgpu.alloc_ring
    %ring_v = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      fcgpu.acquire %ring_q[%c0] to fill : !ring
      fcgpu.copy %q[%c0, %c0] to %ring_q[%c0] by warp : memref<128x64xf16> to !ring
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring_k[%i] to fill : !ring
        fcgpu.copy %k[%i, %c0] to %ring_k[%i] by block : memref<?x64xf16> to !ring
        fcgpu.acquire %ring_v[%i] to fill : !ring
        fcgpu.copy %k[%i, %c0] to %ring_v[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // CHECK:      scf.forall (%[[G:.+]]) in (2) {
    // CHECK:        fcgpu.acquire %[[RING_Q]][%[[G]]] to read
    // CHECK-NEXT:   scf.for %[[I:.+]] = {{.*}} iter_args(%[[P:.+]] = %{{.+}}, %[[ACC:.+]] = %{{.+}})
    // CHECK-NEXT:     %[[Q:.+]] = fcgpu.read %[[RING_Q]][%[[G]]] in_place
    // CHECK-NEXT:     fcgpu.acquire %[[RING_K]][%[[I]]] to read
    // CHECK-NEXT:     %[[K:.+]] = fcgpu.read %[[RING_K]][%[[I]]] in_place
    // CHECK-NEXT:     %[[S:.+]] = vector.contract {{.*}} %[[Q]], %[[K]],
    // CHECK-NEXT:     fcgpu.acquire %[[RING_V]][%[[I]]] to read
    // CHECK-NEXT:     %[[V:.+]] = fcgpu.read %[[RING_V]][%[[I]]] in_place
    // CHECK-NEXT:     %[[O:.+]] = vector.contract {{.*}} %[[P]], %[[V]], %[[ACC]]
    // CHECK-NEXT:     %[[SCORES:.+]] = fcgpu.await %[[S]] in_flight(1)
    // CHECK-NEXT:     fcgpu.release %[[RING_K]][%[[I]]]
    // CHECK-NEXT:     %[[NEXT:.+]] = arith.truncf %[[SCORES]]
    // CHECK-NEXT:     %[[SUM:.+]] = fcgpu.await %[[O]] using(%[[P]] : vector<64x64xf16>) in_flight(0)
    // CHECK-NEXT:     fcgpu.release %[[RING_V]][%[[I]]]
    // CHECK-NEXT:     scf.yield %[[NEXT]], %[[SUM]]
    // CHECK-NOT:    fcgpu.release
    scf.forall (%g) in (2) {
      %p0 = arith.constant dense<0.0> : !half
      %r:2 = scf.for %i = %c0 to %n step %c1
          iter_args(%p = %p0, %acc = %zero) -> (!half, !tile) {
        %a = fcgpu.read %ring_q[%g] in_place : !ring -> !half
        %b = fcgpu.read %ring_k[%i] in_place : !ring -> !half
        %s = vector.contract #product %a, %b, %zero : !half, !half into !tile
        %v = fcgpu.read %ring_v[%i] in_place : !ring -> !half
        %o = vector.contract #product %p, %v, %acc : !half, !half into !tile
        %next = arith.truncf %s : !tile to !half
        scf.yield %next, %o : !half, !tile
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  // The last tile is read behind the loop, whose end is its number, whatever
  // that is.

  // CHECK-LABEL: gpu.func @last_behind_the_loop(
  gpu.func @last_behind_the_loop(%k: memref<?x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring[%i] to fill : !ring
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // CHECK: %[[LAST:.+]] = arith.subi
    // CHECK: scf.for %{{.+}} = %{{.+}} to %[[LAST]]
    // CHECK: fcgpu.acquire %{{.+}}[%[[LAST]]] to read
    // CHECK: fcgpu.release %{{.+}}[%[[LAST]]]
    scf.forall (%g) in (2) {
      %last = arith.subi %n, %c1 : index
      %r = scf.for %i = %c0 to %last step %c1 iter_args(%acc = %zero) -> (!tile) {
        %v = fcgpu.read %ring[%i] in_place : !ring -> !half
        %o = vector.contract #product %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      }
      %v = fcgpu.read %ring[%last] in_place : !ring -> !half
      %o = vector.contract #product %p, %v, %r : !half, !half into !tile
      %e = arith.negf %o : !tile
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }

  // One tile too many is read.

  gpu.func @one_too_many(%k: memref<?x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring[%i] to fill : !ring
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // expected-error @below {{'scf.forall' op hands slots over wrongly: tile 0 of ring 0 is read, but never filled}}
    scf.forall (%g) in (2) {
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) {
        %v = fcgpu.read %ring[%i] in_place : !ring -> !half
        %o = vector.contract #product %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      }
      %v = fcgpu.read %ring[%n] in_place : !ring -> !half
      %o = vector.contract #product %p, %v, %r : !half, !half into !tile
      %e = arith.negf %o : !tile
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }

  gpu.func @other_loop(%k: memref<?x64xf16>, %n: index, %m: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring[%i] to fill : !ring
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // expected-error @below {{'scf.forall' op walks another number of tiles than are copied, as far as the proof can tell}}
    scf.forall (%g) in (2) {
      %r = scf.for %i = %c0 to %m step %c1 iter_args(%acc = %zero) -> (!tile) {
        %v = fcgpu.read %ring[%i] in_place : !ring -> !half
        %o = vector.contract #product %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1>

gpu.module @kernels {
  // Slots do not change hands: nothing to do.

  // CHECK-LABEL: gpu.func @one_role(
  // CHECK-NOT:     fcgpu.acquire
  // CHECK:         gpu.return
  gpu.func @one_role() kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16>
    scf.forall (%g) in (8) {
      %a = fcgpu.read %ring[%c0] : <2x64x64xf16> -> vector<64x64xf16>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  gpu.func @read_into_registers() kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    scf.forall (%g) in (2) {
      // expected-error @below {{'fcgpu.read' op reads a ring that is handed over, but not in place}}
      %a = fcgpu.read %ring[%c0] : !ring -> !half
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  // Every other tile is read: who fills the ring would wait for ever.

  gpu.func @leaves_tiles_out(%k: memref<?x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %i = %c0 to %c4 step %c1 {
        fcgpu.acquire %ring[%i] to fill : !ring
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // expected-error @below {{'scf.forall' op hands slots over wrongly: tile 1 of ring 0 is read where tile 0 is the next}}
    scf.forall (%g) in (2) {
      %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (!tile) {
        %next = arith.addi %i, %c1 : index
        %v = fcgpu.read %ring[%next] in_place : !ring -> !half
        %o = vector.contract #product %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  gpu.func @nobody_fills() kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    // expected-error @below {{'scf.forall' op expects one fcgpu.produce beside it, which the proof runs it against; run flashcore-separate-roles first}}
    scf.forall (%g) in (2) {
      %v = fcgpu.read %ring[%c0] in_place : !ring -> !half
      %o = vector.contract #product %p, %v, %zero : !half, !half into !tile
      %e = arith.negf %o : !tile
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}
