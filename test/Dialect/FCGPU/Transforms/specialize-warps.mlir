// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-specialize-warps)))' | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
!kv = memref<1x1x512x64xf16>
!q = memref<1x1x128x64xf16>

gpu.module @kernels {
  // The tile of each warpgroup is copied for both; those of the loop once. What
  // depends on what the warps compute stays with them.

  // CHECK-LABEL: gpu.func @roles(
  // CHECK-SAME:    %[[Q:[^:]+]]: memref<1x1x128x64xf16>, %[[K:[^:]+]]: memref<1x1x512x64xf16>
  gpu.func @roles(%q: !q, %k: !kv, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK: %[[RING_Q:.+]] = fcgpu.alloc_ring : <2x64x64xf16, panels>
    %ring_q = fcgpu.alloc_ring : <2x64x64xf16, panels>
    // CHECK: %[[RING_K:.+]] = fcgpu.alloc_ring : <2x64x64xf16, panels>
    %ring_k = fcgpu.alloc_ring : <2x64x64xf16, panels>
    // CHECK:      fcgpu.produce {
    // CHECK:        %[[FIRST:.+]] = arith.constant 0 : index
    // CHECK:        %[[ROW0:.+]] = affine.apply {{.*}}(%[[FIRST]])
    // CHECK:        fcgpu.copy %[[Q]][{{.*}}, %[[ROW0]], {{.*}}] to %[[RING_Q]][%[[FIRST]]] by warp
    // CHECK:        %[[SECOND:.+]] = arith.constant 1 : index
    // CHECK:        %[[ROW1:.+]] = affine.apply {{.*}}(%[[SECOND]])
    // CHECK:        fcgpu.copy %[[Q]][{{.*}}, %[[ROW1]], {{.*}}] to %[[RING_Q]][%[[SECOND]]] by warp
    // CHECK:        scf.for %[[I:.+]] = %{{.+}} to %{{.+}} step
    // CHECK:          %[[KEY:.+]] = affine.apply {{.*}}(%[[I]])
    // CHECK:          fcgpu.copy %[[K]][{{.*}}, %[[KEY]], {{.*}}] to %[[RING_K]][%[[I]]] by block
    // CHECK:      scf.forall
    // CHECK-NOT:  fcgpu.copy
    // CHECK:        scf.for
    // CHECK-NOT:  fcgpu.copy
    // CHECK:          gpu.printf
    scf.forall (%g) in (2) {
      %row = affine.apply affine_map<(g) -> (g * 64)>(%g)
      fcgpu.copy %q[%c0, %c0, %row, %c0] to %ring_q[%g] by warp
          : !q to <2x64x64xf16, panels>
      scf.for %i = %c0 to %n step %c1 {
        %key = affine.apply affine_map<(i) -> (i * 64)>(%i)
        fcgpu.copy %k[%c0, %c0, %key, %c0] to %ring_k[%i] by block
            : !kv to <2x64x64xf16, panels>
        gpu.printf "%d\0A", %i : index
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
  // All warps copy: nothing to do.

  // CHECK-LABEL: gpu.func @one_role(
  // CHECK-NOT:     fcgpu.produce
  // CHECK:         scf.forall
  // CHECK:           fcgpu.copy
  gpu.func @one_role(%k: memref<512x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16>
    scf.forall (%g) in (8) {
      fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block
          : memref<512x64xf16> to <2x64x64xf16>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>

gpu.module @kernels {
  gpu.func @reads_an_index(%k: memref<512x64xf16>, %table: memref<8xindex>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16, panels>
    scf.forall (%g) in (2) {
      %row = memref.load %table[%g] : memref<8xindex>
      // expected-error @below {{'fcgpu.copy' op depends on what the warps compute; a warp of its own cannot know it}}
      fcgpu.copy %k[%row, %c0] to %ring[%c0] by block
          : memref<512x64xf16> to <2x64x64xf16, panels>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>

gpu.module @kernels {
  gpu.func @copies_under_a_condition(%k: memref<512x64xf16>, %flag: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16, panels>
    scf.forall (%g) in (2) {
      // expected-error @below {{'scf.if' op copies tiles in a region that is no loop of the warps}}
      scf.if %flag {
        fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block
            : memref<512x64xf16> to <2x64x64xf16, panels>
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, grid = persistent, product = warpgroup>

gpu.module @kernels {
  // The loop over block tiles is one of both roles. What all warps compute alike
  // is computed once, in front of both; what differs between block tiles, twice.

  // CHECK-LABEL: gpu.func @block_tiles(
  // CHECK:         %[[ROUNDS:.+]] = affine.apply
  // CHECK-NEXT:    fcgpu.produce {
  // CHECK:           scf.for %[[T:.+]] = %c0 to %[[ROUNDS]] step
  // CHECK:             %[[TILES:.+]] = affine.min {{.+}}(%[[T]])
  // CHECK-NEXT:        scf.for %[[I:.+]] = %c0 to %[[TILES]] step
  // CHECK:               %[[ROW:.+]] = affine.apply {{.+}}(%[[T]])
  // CHECK-NEXT:          fcgpu.copy %{{.+}}[%[[ROW]], %{{.+}}] to %{{.+}}[%[[I]]] by block
  // CHECK-NEXT:        }
  // CHECK-NEXT:      } {fcgpu.block_tiles}
  // CHECK-NEXT:    }
  // CHECK-NEXT:    scf.forall
  // CHECK-NEXT:      scf.for %[[T:.+]] = %c0 to %[[ROUNDS]] step
  // CHECK:             %[[TILES:.+]] = affine.min {{.+}}(%[[T]])
  // CHECK-NEXT:        scf.for %{{.+}} = %c0 to %[[TILES]] step
  // CHECK-NEXT:          gpu.printf
  gpu.func @block_tiles(%k: memref<512x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16, panels>
    scf.forall (%g) in (2) {
      %rounds = affine.apply affine_map<(n) -> (n ceildiv 64)>(%n)
      scf.for %t = %c0 to %rounds step %c1 {
        %row = affine.apply affine_map<(t) -> (t * 128)>(%t)
        %tiles = affine.min affine_map<(t) -> (t + 1, 8)>(%t)
        scf.for %i = %c0 to %tiles step %c1 {
          fcgpu.copy %k[%row, %c0] to %ring[%i] by block
              : memref<512x64xf16> to <2x64x64xf16, panels>
          gpu.printf "%d\0A", %i : index
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

gpu.module @kernels {
  gpu.func @loop_in_a_loop(%k: memref<512x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16, panels>
    scf.forall (%g) in (2) {
      scf.for %t = %c0 to %n step %c1 {
        // expected-error @below {{'scf.for' op copies tiles in a region that is no loop of the warps}}
        scf.for %i = %c0 to %n step %c1 {
          fcgpu.copy %k[%t, %c0] to %ring[%i] by block
              : memref<512x64xf16> to <2x64x64xf16, panels>
        }
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>

gpu.module @kernels {
  // CHECK-DAG: #[[$END:.+]] = affine_map<(d0, d1) -> (d0, d1)>
  // CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0, d1) -> (d0, d1 - 1)>

  // Copies are of all tiles of the block; a warpgroup begins behind those that its
  // rows see nothing of, at the end at the latest. Another hint is dropped.

  // CHECK-LABEL: gpu.func @begins_later(
  // CHECK-SAME:    %[[N:[^:]+]]: index, %[[FLAG:[^:]+]]: i1)
  // CHECK:         fcgpu.produce {
  // CHECK:           scf.for %{{.+}} = %c0 to %[[N]] step
  // CHECK:             fcgpu.copy
  // CHECK:         scf.forall (%[[G:.+]]) in (2) {
  // CHECK:           %[[FIRST:.+]] = arith.subi %c1{{.*}}, %[[G]]
  // CHECK-NEXT:      %[[POSITIVE:.+]] = arith.maxsi %[[FIRST]], %c0
  // CHECK-NEXT:      %[[BEGIN:.+]] = affine.min #[[$END]](%[[POSITIVE]], %[[N]])
  // CHECK-NEXT:      scf.for %[[I:.+]] = %[[BEGIN]] to %[[N]] step
  // CHECK-NOT:         fcgpu.skip_unless
  // CHECK:             gpu.printf "%d\0A", %[[I]]
  gpu.func @begins_later(%k: memref<512x64xf16>, %n: index, %flag: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16, panels>
    scf.forall (%g) in (2) {
      %first = arith.subi %c1, %g : index
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block
            : memref<512x64xf16> to <2x64x64xf16, panels>
        %sees = arith.cmpi sge, %i, %first : index
        fcgpu.skip_unless %sees
        fcgpu.skip_unless %flag
        gpu.printf "%d\0A", %i : index
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }

  // Where products overlap, a walk has one tile.

  // CHECK-LABEL: gpu.func @begins_with_the_last(
  // CHECK:         scf.forall
  // CHECK:           affine.min #[[$LAST]](
  gpu.func @begins_with_the_last(%k: memref<512x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16, panels>
    scf.forall (%g) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %k[%i, %c0] to %ring[%i] by block
            : memref<512x64xf16> to <2x64x64xf16, panels>
        %sees = arith.cmpi sge, %i, %g : index
        fcgpu.skip_unless %sees
      } {fcgpu.overlap = #fcgpu.overlap<pv>}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_80", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = wmma, copies = producer, exchange = padded>

gpu.module @kernels {
  // Warps that a warp of its own copies for.

  // CHECK-LABEL: gpu.func @warps(
  // CHECK:         fcgpu.produce {
  // CHECK:           scf.for
  // CHECK:             fcgpu.copy
  // CHECK:         scf.forall
  // CHECK-NOT:       fcgpu.copy
  // CHECK:           gpu.printf
  gpu.func @warps(%k: memref<512x64xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x64x64xf16, padded>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        %key = affine.apply affine_map<(i) -> (i * 64)>(%i)
        fcgpu.copy %k[%key, %c0] to %ring[%i] by block
            : memref<512x64xf16> to <2x64x64xf16, padded>
        gpu.printf "%d\0A", %i : index
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
