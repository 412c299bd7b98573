// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -allow-unregistered-dialect \
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
      fcgpu.copy %q[%c0, %c0] to %ring_q[%c0] by warp : memref<128x64xf16> to !ring
      fcgpu.copy %q[%c1, %c0] to %ring_q[%c1] by warp : memref<128x64xf16> to !ring
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %k[%i, %c0] to %ring_k[%i] by block : memref<?x64xf16> to !ring
        fcgpu.copy %k[%i, %c0] to %ring_v[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // CHECK:      fcgpu.produce {
    // CHECK-NEXT:   fcgpu.acquire %[[RING_Q]][%[[C0:.+]]] to fill
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %[[RING_Q]][%[[C0]]]
    // CHECK-NEXT:   fcgpu.acquire %[[RING_Q]][%[[C1:.+]]] to fill
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %[[RING_Q]][%[[C1]]]
    // CHECK:        fcgpu.acquire %[[RING_K]][%[[T:.+]]] to fill
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %[[RING_K]][%[[T]]]
    // CHECK-NEXT:   fcgpu.acquire %[[RING_V]][%[[T]]] to fill
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %[[RING_V]][%[[T]]]
    // CHECK:      scf.forall (%[[G:.+]]) in (2) {
    // CHECK:        fcgpu.acquire %[[RING_Q]][%[[G]]] to read
    // CHECK-NEXT:   scf.for %[[I:.+]] = {{.*}} iter_args(%[[P:.+]] = %{{.+}}, %[[ACC:.+]] = %{{.+}})
    // CHECK-NEXT:     %[[Q:.+]] = fcgpu.read %[[RING_Q]][%[[G]]] {fcgpu.home = #fcgpu.shared}
    // CHECK-NEXT:     fcgpu.acquire %[[RING_K]][%[[I]]] to read
    // CHECK-NEXT:     %[[K:.+]] = fcgpu.read %[[RING_K]][%[[I]]] {fcgpu.home = #fcgpu.shared}
    // CHECK-NEXT:     %[[S:.+]] = vector.contract {{.*}} %[[Q]], %[[K]],
    // CHECK-NEXT:     fcgpu.acquire %[[RING_V]][%[[I]]] to read
    // CHECK-NEXT:     %[[V:.+]] = fcgpu.read %[[RING_V]][%[[I]]] {fcgpu.home = #fcgpu.shared}
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
        %a = fcgpu.read %ring_q[%g] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %b = fcgpu.read %ring_k[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %s = vector.contract #product %a, %b, %zero : !half, !half into !tile
        %v = fcgpu.read %ring_v[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
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
        %v = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %o = vector.contract #product %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      }
      %v = fcgpu.read %ring[%last] {fcgpu.home = #fcgpu.shared} : !ring -> !half
      %o = vector.contract #product %p, %v, %r : !half, !half into !tile
      %e = arith.negf %o : !tile
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
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // expected-error @below {{'scf.forall' op hands slots over wrongly: tile 0 of ring 0 is read, but never filled}}
    scf.forall (%g) in (2) {
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) {
        %v = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %o = vector.contract #product %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      }
      %v = fcgpu.read %ring[%n] {fcgpu.home = #fcgpu.shared} : !ring -> !half
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
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // expected-error @below {{'scf.forall' op walks another number of tiles than are copied, as far as the proof can tell}}
    scf.forall (%g) in (2) {
      %r = scf.for %i = %c0 to %m step %c1 iter_args(%acc = %zero) -> (!tile) {
        %v = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
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
!ring = !fcgpu.ring<2x64x64xf16>
!half = vector<64x32xf16>

gpu.module @kernels {
  // The warps that fill the rings read them. Two reads of one tile need it once;
  // what is the same in all iterations is taken in each.

  // CHECK-LABEL: gpu.func @one_role(
  // CHECK-SAME:    %[[N:[^:]+]]: index)
  gpu.func @one_role(%q: memref<512x64xf16>, %k: memref<?x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK: %[[RING_Q:.+]] = fcgpu.alloc_ring
    %ring_q = fcgpu.alloc_ring : !ring
    // CHECK: %[[RING_K:.+]] = fcgpu.alloc_ring
    %ring_k = fcgpu.alloc_ring : !ring
    // CHECK:      scf.forall (%[[WARP:.+]]) in (8) {
    // CHECK-NEXT:   fcgpu.acquire %[[RING_Q]][%[[WARP]]] to fill
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %[[RING_Q]][%[[WARP]]]
    // CHECK-NEXT:   scf.for %[[I:.+]] = %{{.+}} to %[[N]]
    // CHECK-NEXT:     fcgpu.acquire %[[RING_K]][%[[I]]] to fill
    // CHECK-NEXT:     fcgpu.copy %{{.+}} to %[[RING_K]][%[[I]]]
    // CHECK-NEXT:     fcgpu.acquire %[[RING_Q]][%[[WARP]]] to read
    // CHECK-NEXT:     fcgpu.read %[[RING_Q]][%[[WARP]]]
    // CHECK-NEXT:     fcgpu.release %[[RING_Q]][%[[WARP]]]
    // CHECK-NEXT:     fcgpu.acquire %[[RING_K]][%[[I]]] to read
    // CHECK-NEXT:     fcgpu.read %[[RING_K]][%[[I]]]
    // CHECK-NEXT:     "use"
    // CHECK-NEXT:     fcgpu.read %[[RING_K]][%[[I]]] column(32)
    // CHECK-NEXT:     fcgpu.release %[[RING_K]][%[[I]]]
    // CHECK-NEXT:     "use"
    scf.forall (%warp) in (8) {
      fcgpu.copy %q[%c0, %c0] to %ring_q[%warp] by warp
          : memref<512x64xf16> to !ring
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %k[%i, %c0] to %ring_k[%i] by block : memref<?x64xf16> to !ring
        %a = fcgpu.read %ring_q[%warp] : !ring -> vector<64x64xf16>
        %first = fcgpu.read %ring_k[%i] : !ring -> !half
        "use"(%a, %first) : (vector<64x64xf16>, !half) -> ()
        %second = fcgpu.read %ring_k[%i] column(32) : !ring -> !half
        "use"(%second) : (!half) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1>
!ring = !fcgpu.ring<2x64x64xf16>
!tile = vector<64x64xf16>

gpu.module @kernels {
  // A tile number that is copied once more is acquired once more.

  // CHECK-LABEL: gpu.func @copied_again(
  gpu.func @copied_again(%k: memref<64x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    // CHECK:      scf.forall
    // CHECK-NEXT:   fcgpu.acquire {{.+}} to fill
    // CHECK-NEXT:   fcgpu.copy
    // CHECK-NEXT:   fcgpu.acquire {{.+}} to read
    // CHECK-NEXT:   fcgpu.read
    // CHECK-NEXT:   fcgpu.release
    // CHECK-NEXT:   fcgpu.acquire {{.+}} to fill
    // CHECK-NEXT:   fcgpu.copy
    // CHECK-NEXT:   fcgpu.acquire {{.+}} to read
    // CHECK-NEXT:   fcgpu.read
    // CHECK-NEXT:   fcgpu.release
    scf.forall (%warp) in (8) {
      fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block : memref<64x64xf16> to !ring
      %a = fcgpu.read %ring[%c0] : !ring -> !tile
      fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block : memref<64x64xf16> to !ring
      %b = fcgpu.read %ring[%c0] : !ring -> !tile
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

!ring = !fcgpu.ring<2x64x64xf16>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @kernel_without_schedule(
  // CHECK-NOT:     fcgpu.acquire
  // CHECK:         gpu.return
  gpu.func @kernel_without_schedule(%k: memref<64x64xf16>) kernel {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (8) {
      fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block : memref<64x64xf16> to !ring
      %a = fcgpu.read %ring[%c0] : !ring -> vector<64x64xf16>
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
  gpu.func @read_into_registers(%k: memref<64x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block : memref<64x64xf16> to !ring
    }
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
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
      }
    }
    // expected-error @below {{'scf.forall' op hands slots over wrongly: tile 1 of ring 0 is read where tile 0 is the next}}
    scf.forall (%g) in (2) {
      %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (!tile) {
        %next = arith.addi %i, %c1 : index
        %v = fcgpu.read %ring[%next] {fcgpu.home = #fcgpu.shared} : !ring -> !half
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
    scf.forall (%g) in (2) {
      // expected-error @below {{'fcgpu.read' op reads a tile in place, whose ring no fcgpu.produce fills; run flashcore-specialize-warps first}}
      %v = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> !half
      %o = vector.contract #product %p, %v, %zero : !half, !half into !tile
      %e = arith.negf %o : !tile
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
!ring = !fcgpu.ring<2x64x64xf16, panels>

gpu.module @kernels {
  gpu.func @two_producers(%k: memref<64x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block : memref<64x64xf16> to !ring
    }
    fcgpu.produce {
    }
    // expected-error @below {{'scf.forall' op expects one fcgpu.produce beside it, which the proof runs it against; run flashcore-specialize-warps first}}
    scf.forall (%g) in (2) {
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
  // The number of a warpgroup stands for those of all: the second has no tile.

  gpu.func @one_tile_for_two(%q: memref<128x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      fcgpu.copy %q[%c0, %c0] to %ring[%c0] by warp : memref<128x64xf16> to !ring
    }
    // expected-error @below {{'scf.forall' op hands slots over wrongly: tile 1 of ring 0 is read, but never filled}}
    scf.forall (%g) in (2) {
      %a = fcgpu.read %ring[%g] {fcgpu.home = #fcgpu.shared} : !ring -> !half
      %s = vector.contract #product %p, %a, %zero : !half, !half into !tile
      %e = arith.negf %s : !tile
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
  // A walk that begins later takes the tiles before and gives them back: who fills
  // the ring waits for both warpgroups. One lane does that for its warp, when all
  // have seen the tile.

  // CHECK-LABEL: gpu.func @passes_tiles_by(
  // CHECK:       %[[RING:.+]] = fcgpu.alloc_ring
  // CHECK:       scf.forall
  // CHECK:         %[[FIRST:.+]] = affine.min
  // CHECK:         scf.for %[[P:.+]] = %c0{{.*}} to %[[FIRST]] step
  // CHECK-NEXT:      fcgpu.acquire %[[RING]][%[[P]]] to read
  // CHECK-NEXT:      nvvm.bar.warp.sync
  // CHECK-NEXT:      fcgpu.release %[[RING]][%[[P]]]
  // CHECK-NEXT:    }
  // CHECK:         scf.for %[[I:[^ ]+]] = %[[FIRST]] to
  // CHECK-NEXT:      fcgpu.acquire %[[RING]][%[[I]]] to read
  gpu.func @passes_tiles_by(%k: memref<?x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
      }
    }
    scf.forall (%g) in (2) {
      %first = affine.min affine_map<(g)[n] -> (g, n - 1)>(%g)[%n]
      %r = scf.for %i = %first to %n step %c1 iter_args(%acc = %zero) -> (!tile) {
        %v = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %o = vector.contract #product %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      }
      "use"(%r) : (!tile) -> ()
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_80", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = wmma, copies = producer, exchange = padded>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, padded>
!query = !fcgpu.ring<2x16x64xf16, padded>

gpu.module @kernels {
  // Tiles of plain rows change hands like panels: products are done with one as
  // soon as they stand.

  // CHECK-LABEL: gpu.func @plain_rows
  // CHECK:         fcgpu.produce {
  // CHECK:           scf.for %[[I:.+]] =
  // CHECK:             fcgpu.acquire %[[RING:.+]][%[[I]]] to fill
  // CHECK-NEXT:        fcgpu.copy %{{.+}} to %[[RING]][%[[I]]]
  // CHECK:         scf.forall
  // CHECK:           fcgpu.acquire %[[QUERY:.+]][%{{.+}}] to read
  // CHECK:           scf.for %[[I:.+]] =
  // CHECK:             fcgpu.acquire %[[RING]][%[[I]]] to read
  // CHECK:             vector.contract
  // CHECK-NEXT:        fcgpu.release %[[RING]][%[[I]]]
  // CHECK-NOT:         fcgpu.await
  gpu.func @plain_rows(%q: memref<32x64xf16>, %k: memref<512x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : vector<16x64xf32>
    %ring = fcgpu.alloc_ring : !ring
    %query = fcgpu.alloc_ring : !query
    fcgpu.produce {
      fcgpu.copy %q[%c0, %c0] to %query[%c0] by warp : memref<32x64xf16> to !query
      fcgpu.copy %q[%c16, %c0] to %query[%c1] by warp : memref<32x64xf16> to !query
      scf.for %i = %c0 to %n step %c1 {
        %key = affine.apply affine_map<(i) -> (i * 64)>(%i)
        fcgpu.copy %k[%key, %c0] to %ring[%i] by block : memref<512x64xf16> to !ring
      }
    }
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        %a = fcgpu.read %query[%warp] {fcgpu.home = #fcgpu.shared} : !query -> vector<16x64xf16>
        %b = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> vector<64x64xf16>
        %s = vector.contract #product %a, %b, %zero : vector<16x64xf16>, vector<64x64xf16> into vector<16x64xf32>
        gpu.printf "%d\0A", %i : index
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
