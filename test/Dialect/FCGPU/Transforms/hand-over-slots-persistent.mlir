// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-hand-over-slots)))' | FileCheck %s

// Kernels whose blocks walk several block tiles.

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, grid = persistent, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  // Slots are filled again and again while blocks walk their tiles, and Q is given
  // back behind the last product that reads it. The tiles of block tile t have
  // the numbers behind those of all before: 2 t of Q, 3 t of K.

  // CHECK-LABEL: gpu.func @as_many_tiles_each_time(
  // CHECK:       %[[RING_Q:.+]] = fcgpu.alloc_ring
  // CHECK-NEXT:  %[[RING_K:.+]] = fcgpu.alloc_ring
  // CHECK:       fcgpu.produce {
  // CHECK-NEXT:    scf.for %[[T:.+]] = %c0 to %[[BLOCKS:.+]] step
  // CHECK:           %[[WALKED:.+]] = arith.muli %[[T]], %c3
  // CHECK:           %[[FIRST_Q:.+]] = arith.muli %[[T]], %c2
  // CHECK:           %[[FIRST_K:.+]] = arith.muli %[[WALKED]], %c1
  // CHECK:           %[[Q0:.+]] = arith.addi %c0, %[[FIRST_Q]]
  // CHECK-NEXT:      fcgpu.acquire %[[RING_Q]][%[[Q0]]] to fill
  // CHECK:           %[[Q1:.+]] = arith.addi %c1, %[[FIRST_Q]]
  // CHECK-NEXT:      fcgpu.acquire %[[RING_Q]][%[[Q1]]] to fill
  // CHECK:           scf.for %[[I:.+]] = %c0 to %c3
  // CHECK-NEXT:        %[[A:.+]] = arith.addi %[[I]], %[[FIRST_K]]
  // CHECK-NEXT:        fcgpu.acquire %[[RING_K]][%[[A]]] to fill
  // CHECK-NEXT:        %[[C:.+]] = arith.addi %[[I]], %[[FIRST_K]]
  // CHECK-NEXT:        fcgpu.copy %{{.+}} to %[[RING_K]][%[[C]]]
  // CHECK:         } {fcgpu.block_tiles}
  // CHECK:       scf.forall (%[[G:.+]]) in (2) {
  // CHECK-NEXT:    scf.for %[[T:.+]] = %c0 to %[[BLOCKS]] step
  // CHECK:           %[[WALKED:.+]] = arith.muli %[[T]], %c3
  // CHECK:           %[[FIRST_Q:.+]] = arith.muli %[[T]], %c2
  // CHECK:           %[[FIRST_K:.+]] = arith.muli %[[WALKED]], %c1
  // CHECK:           %[[Q:.+]] = arith.addi %[[G]], %[[FIRST_Q]]
  // CHECK-NEXT:      fcgpu.acquire %[[RING_Q]][%[[Q]]] to read
  // CHECK-NEXT:      scf.for %[[I:[^ ]+]] =
  // CHECK:             %[[K:.+]] = arith.addi %[[I]], %[[FIRST_K]]
  // CHECK-NEXT:        fcgpu.acquire %[[RING_K]][%[[K]]] to read
  // CHECK:             fcgpu.await
  // CHECK:             fcgpu.release %[[RING_K]]
  // CHECK-NEXT:        scf.yield
  // CHECK-NEXT:      }
  // CHECK-NEXT:      %[[Q:.+]] = arith.addi %[[G]], %[[FIRST_Q]]
  // CHECK-NEXT:      fcgpu.release %[[RING_Q]][%[[Q]]]
  // CHECK-NEXT:      "use"
  // CHECK:         } {fcgpu.block_tiles}
  gpu.func @as_many_tiles_each_time(%q: memref<128x64xf16>, %k: memref<?x64xf16>,
                                    %blocks: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant dense<0.0> : !tile
    %ring_q = fcgpu.alloc_ring : !ring
    %ring_k = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %t = %c0 to %blocks step %c1 {
        fcgpu.copy %q[%t, %c0] to %ring_q[%c0] by warp : memref<128x64xf16> to !ring
        fcgpu.copy %q[%t, %c0] to %ring_q[%c1] by warp : memref<128x64xf16> to !ring
        scf.for %i = %c0 to %c3 step %c1 {
          fcgpu.copy %k[%i, %c0] to %ring_k[%i] by block : memref<?x64xf16> to !ring
        }
      } {fcgpu.block_tiles}
    }
    scf.forall (%g) in (2) {
      scf.for %t = %c0 to %blocks step %c1 {
        %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %zero) -> (!tile) {
          %a = fcgpu.read %ring_q[%g] {fcgpu.home = #fcgpu.shared} : !ring -> !half
          %b = fcgpu.read %ring_k[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
          %s = vector.contract #product %a, %b, %acc : !half, !half into !tile
          scf.yield %s : !tile
        }
        "use"(%r) : (!tile) -> ()
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }

  // Where block tiles have other numbers of key tiles, each role carries how many
  // it has walked: who reads, one more than its loop runs.

  // CHECK-LABEL: gpu.func @other_numbers_of_tiles(
  // CHECK:       %[[RING:.+]] = fcgpu.alloc_ring
  // CHECK:       fcgpu.produce {
  // CHECK:         scf.for {{.+}} iter_args(%[[WALKED:.+]] = %c0{{.*}}) -> (index) {
  // CHECK:           %[[FIRST:.+]] = arith.muli %[[WALKED]], %c1
  // CHECK-NEXT:      %[[N:.+]] = affine.apply
  // CHECK-NEXT:      scf.for %[[I:.+]] = %c0 to %[[N]] step
  // CHECK-NEXT:        %[[K:.+]] = arith.addi %[[I]], %[[FIRST]]
  // CHECK-NEXT:        fcgpu.acquire %[[RING]][%[[K]]] to fill
  // CHECK:           %[[TILES:.+]] = arith.addi %[[N]], %c0
  // CHECK-NEXT:      %[[NEXT:.+]] = arith.addi %[[WALKED]], %[[TILES]]
  // CHECK-NEXT:      scf.yield %[[NEXT]]
  // CHECK-NEXT:    } {fcgpu.block_tiles}
  // CHECK:       scf.forall
  // CHECK:         scf.for {{.+}} iter_args(%[[WALKED:.+]] = %c0{{.*}}) -> (index) {
  // CHECK:           %[[FIRST:.+]] = arith.muli %[[WALKED]], %c1
  // CHECK-NEXT:      %[[N:.+]] = affine.apply
  // CHECK-NEXT:      %[[LAST:.+]] = arith.subi %[[N]], %c1
  // CHECK-NEXT:      scf.for %[[I:[^ ]+]] = %c0 to %[[LAST]] step
  // CHECK-NEXT:        %[[K:.+]] = arith.addi %[[I]], %[[FIRST]]
  // CHECK-NEXT:        fcgpu.acquire %[[RING]][%[[K]]] to read
  // CHECK:             scf.yield
  // CHECK-NEXT:      }
  // CHECK-NEXT:      %[[K:.+]] = arith.addi %[[LAST]], %[[FIRST]]
  // CHECK-NEXT:      fcgpu.acquire %[[RING]][%[[K]]] to read
  // CHECK:           "use"
  // CHECK:           %[[TILES:.+]] = arith.addi %[[LAST]], %c1
  // CHECK-NEXT:      %[[NEXT:.+]] = arith.addi %[[WALKED]], %[[TILES]]
  // CHECK-NEXT:      scf.yield %[[NEXT]]
  // CHECK-NEXT:    } {fcgpu.block_tiles}
  gpu.func @other_numbers_of_tiles(%k: memref<?x64xf16>, %blocks: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring_k = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %t = %c0 to %blocks step %c1 {
        %n = affine.apply affine_map<(t) -> (t * 3 + 1)>(%t)
        scf.for %i = %c0 to %n step %c1 {
          fcgpu.copy %k[%i, %c0] to %ring_k[%i] by block : memref<?x64xf16> to !ring
        }
      } {fcgpu.block_tiles}
    }
    scf.forall (%g) in (2) {
      scf.for %t = %c0 to %blocks step %c1 {
        %n = affine.apply affine_map<(t) -> (t * 3 + 1)>(%t)
        %last = arith.subi %n, %c1 : index
        %r = scf.for %i = %c0 to %last step %c1 iter_args(%acc = %zero) -> (!tile) {
          %b = fcgpu.read %ring_k[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
          %s = vector.contract #product %p, %b, %acc : !half, !half into !tile
          scf.yield %s : !tile
        }
        %b = fcgpu.read %ring_k[%last] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %s = vector.contract #product %p, %b, %r : !half, !half into !tile
        "use"(%s) : (!tile) -> ()
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, grid = persistent, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  // Each side would stop with tiles of its own.

  gpu.func @other_block_tiles(%k: memref<?x64xf16>, %blocks: index, %more: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %t = %c0 to %blocks step %c1 {
        %n = affine.apply affine_map<(t) -> (t * 3 + 1)>(%t)
        scf.for %i = %c0 to %n step %c1 {
          fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
        }
      } {fcgpu.block_tiles}
    }
    // expected-error @below {{'scf.forall' op walks another number of tiles than are copied, as far as the proof can tell}}
    scf.forall (%g) in (2) {
      scf.for %t = %c0 to %more step %c1 {
        %n = affine.apply affine_map<(t) -> (t * 3 + 1)>(%t)
        %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) {
          %b = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
          %s = vector.contract #product %p, %b, %acc : !half, !half into !tile
          scf.yield %s : !tile
        }
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, grid = persistent, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  // As many at first, others later.

  gpu.func @other_key_tiles(%k: memref<?x64xf16>, %blocks: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %t = %c0 to %blocks step %c1 {
        %n = affine.apply affine_map<(t) -> (t * 3 + 1)>(%t)
        scf.for %i = %c0 to %n step %c1 {
          fcgpu.copy %k[%i, %c0] to %ring[%i] by block : memref<?x64xf16> to !ring
        }
      } {fcgpu.block_tiles}
    }
    // expected-error @below {{'scf.forall' op walks another number of tiles than are copied, as far as the proof can tell}}
    scf.forall (%g) in (2) {
      scf.for %t = %c0 to %blocks step %c1 {
        %n = affine.apply affine_map<(t) -> (t * 2 + 1)>(%t)
        %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) {
          %b = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
          %s = vector.contract #product %p, %b, %acc : !half, !half into !tile
          scf.yield %s : !tile
        }
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, grid = persistent, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  // Tiles are filled once that are read for each block tile.

  gpu.func @block_tiles_of_one_role(%k: memref<?x64xf16>, %blocks: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    %p = arith.constant dense<0.0> : !half
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %t = %c0 to %blocks step %c1 {
        fcgpu.copy %k[%t, %c0] to %ring[%t] by block : memref<?x64xf16> to !ring
      }
    }
    // expected-error @below {{'scf.forall' op walks another number of tiles than are copied, as far as the proof can tell}}
    scf.forall (%g) in (2) {
      scf.for %t = %c0 to %blocks step %c1 {
        scf.for %i = %c0 to %blocks step %c1 {
          %b = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
          %s = vector.contract #product %p, %b, %zero : !half, !half into !tile
          "use"(%s) : (!tile) -> ()
        }
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}
