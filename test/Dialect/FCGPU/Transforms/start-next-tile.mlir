// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-start-next-tile)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

// The copy in front of the key loop goes behind it, for the next tile; that of
// the first tile in front of all. Each asks for its tile as well.

// CHECK:       #[[$ROW:.+]] = affine_map<(d0) -> (d0 * 16)>
// CHECK-LABEL: gpu.func @first_copies_start_in_the_tile_before
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<?x16xf16>, %[[N:[^:]+]]: index, %[[ROUNDS:[^:]+]]: index, %[[HAS_KEYS:[^:]+]]: i1)
gpu.module @kernels {
  gpu.func @first_copies_start_in_the_tile_before(
      %key: memref<?x16xf16>, %n: index, %rounds: index, %has_keys: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring
    // CHECK:      scf.forall
    // CHECK-NEXT:   %[[HAS_TILE:.+]] = arith.cmpi slt, %[[C0:.+]], %[[ROUNDS]]
    // CHECK-NEXT:   %[[FIRST_ROW:.+]] = affine.apply #[[$ROW]](%[[C0]])
    // CHECK-NEXT:   %[[COPIES:.+]] = arith.andi %[[HAS_KEYS]], %[[HAS_TILE]]
    // CHECK-NEXT:   fcgpu.copy %[[KEY]][%[[FIRST_ROW]], %[[C0]]] to %[[RING]][%[[C0]]] by block if %[[COPIES]]
    // CHECK-NEXT:   scf.for %[[ROUND:.+]] = %[[C0]] to %[[ROUNDS]]
    // CHECK-NOT:      fcgpu.copy
    // CHECK:          scf.for
    // CHECK-NEXT:       fcgpu.read
    // CHECK:          }
    // CHECK-NEXT:     %[[NEXT:.+]] = arith.addi %[[ROUND]], %{{.+}}
    // CHECK-NEXT:     %[[HAS_NEXT:.+]] = arith.cmpi slt, %[[NEXT]], %[[ROUNDS]]
    // CHECK-NEXT:     %[[NEXT_ROW:.+]] = affine.apply #[[$ROW]](%[[NEXT]])
    // CHECK-NEXT:     %[[NEXT_COPIES:.+]] = arith.andi %[[HAS_KEYS]], %[[HAS_NEXT]]
    // CHECK-NEXT:     fcgpu.copy %[[KEY]][%[[NEXT_ROW]], %[[C0]]] to %[[RING]][%[[C0]]] by block if %[[NEXT_COPIES]]
    // CHECK-NEXT:     "write"
    %ring = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      scf.for %round = %c0 to %rounds step %c1 {
        %row = affine.apply affine_map<(d0) -> (d0 * 16)>(%round)
        fcgpu.copy %key[%row, %c0] to %ring[%c0] by block if %has_keys
            : memref<?x16xf16> to !ring
        scf.for %i = %c0 to %n step %c1 {
          %tile = fcgpu.read %ring[%i] : !ring -> !tile
          "use"(%tile) : (!tile) -> ()
        }
        "write"(%row) : (index) -> ()
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

// A copy behind a read stays: its slot is not free before. Those of the next
// tile come behind it, and behind the exchange that uses the memory of rings.

// CHECK-LABEL: gpu.func @other_copies_stay
gpu.module @kernels {
  gpu.func @other_copies_stay(%key: memref<48x16xf16>, %acc: vector<16x16xf32>,
                              %rounds: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      scf.forall
    // CHECK:        fcgpu.copy {{.+}}[%[[C0:.+]]] by warp
    // CHECK-NOT:    fcgpu.copy
    // CHECK:        scf.for
    // CHECK-NEXT:     fcgpu.read %{{.+}}[%[[C0]]]
    // CHECK-NEXT:     fcgpu.copy {{.+}}[%[[C1:.+]]] by warp
    // CHECK-NEXT:     fcgpu.read %{{.+}}[%[[C1]]]
    // CHECK-NEXT:     fcgpu.all_to_all
    // CHECK:          fcgpu.copy {{.+}}[%[[C0]]] by warp
    // CHECK-NEXT:     "write"
    %ring = fcgpu.alloc_ring by warp : !ring
    scf.forall (%rows, %part) in (1, 2) {
      scf.for %round = %c0 to %rounds step %c1 {
        fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp
            : memref<48x16xf16> to !ring
        %first = fcgpu.read %ring[%c0] : !ring -> !tile
        fcgpu.copy %key[%c0, %c0] to %ring[%c1] by warp
            : memref<48x16xf16> to !ring
        %second = fcgpu.read %ring[%c1] : !ring -> !tile
        %share:2 = fcgpu.all_to_all %acc part %part of 2 : vector<16x16xf32>
        "write"(%first, %second, %share#0)
            : (!tile, !tile, vector<8x16xf32>) -> ()
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

// A loop that does not say so is none over block tiles.

// CHECK-LABEL: gpu.func @other_loops_stay
gpu.module @kernels {
  gpu.func @other_loops_stay(%key: memref<48x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      scf.forall
    // CHECK-NEXT:   scf.for
    // CHECK-NEXT:     fcgpu.copy
    // CHECK-NEXT:     fcgpu.read
    // CHECK-NOT:      fcgpu.copy
    // CHECK:      gpu.return
    %ring = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
            : memref<48x16xf16> to !ring
        %tile = fcgpu.read %ring[%i] : !ring -> !tile
        "use"(%tile) : (!tile) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

gpu.module @kernels {
  gpu.func @address_from_memory(%key: memref<48x16xf16>,
                                %rows: memref<4xindex>, %rounds: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : !ring
    scf.forall (%warp) in (1) {
      scf.for %round = %c0 to %rounds step %c1 {
        %row = memref.load %rows[%round] : memref<4xindex>
        // expected-error @below {{'fcgpu.copy' op copies from an address that depends on more than the number of the block tile; it cannot be started in the tile before}}
        fcgpu.copy %key[%row, %c0] to %ring[%c0] by block
            : memref<48x16xf16> to !ring
        %tile = fcgpu.read %ring[%c0] : !ring -> !tile
        "use"(%tile) : (!tile) -> ()
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
