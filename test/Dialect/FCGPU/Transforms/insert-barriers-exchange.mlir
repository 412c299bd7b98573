// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-insert-barriers)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

// The memory of the warp's rings is used again: its last copy has arrived, and
// its lanes have read all of it. No barrier joins warps before.

// CHECK-LABEL: gpu.func @exchange_waits_for_the_warp
gpu.module @kernels {
  gpu.func @exchange_waits_for_the_warp(%key: memref<32x16xf16>,
                                        %acc: vector<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %ring = fcgpu.alloc_ring by warp : !ring
    // CHECK:      fcgpu.wait_copies in_flight(1)
    // CHECK:      nvvm.bar.warp.sync
    // CHECK-NEXT: fcgpu.read
    // CHECK-NOT:  gpu.barrier
    // CHECK:      fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT: %[[ALL:.+]] = arith.constant -1
    // CHECK-NEXT: nvvm.bar.warp.sync %[[ALL]]
    // CHECK-NEXT: fcgpu.all_to_all
    scf.forall (%rows, %part) in (1, 2) {
      fcgpu.acquire %ring[%c0] to fill : !ring
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp
          : memref<32x16xf16> to !ring
      fcgpu.acquire %ring[%c1] to fill : !ring
      fcgpu.copy %key[%c16, %c0] to %ring[%c1] by warp
          : memref<32x16xf16> to !ring
      fcgpu.acquire %ring[%c0] to read : !ring
      %tile = fcgpu.read %ring[%c0] : !ring -> !tile
      fcgpu.release %ring[%c0] : !ring
      %shares:2 = fcgpu.all_to_all %acc part %part of 2 : vector<16x16xf32>
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>

gpu.module @kernels {
  gpu.func @second_exchange(%acc: vector<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    scf.forall (%rows, %part) in (1, 2) {
      %a:2 = fcgpu.all_to_all %acc part %part of 2 : vector<16x16xf32>
      // expected-error @below {{'fcgpu.all_to_all' op is a second one in the same memory, which the hazard analysis does not follow}}
      %b:2 = fcgpu.all_to_all %acc part %part of 2 : vector<16x16xf32>
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

gpu.module @kernels {
  gpu.func @exchange_in_a_loop(%key: memref<32x16xf16>,
                               %acc: vector<16x16xf32>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring by warp : !ring
    scf.forall (%rows, %part) in (1, 2) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring[%i] to fill : !ring
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by warp
            : memref<32x16xf16> to !ring
        fcgpu.acquire %ring[%i] to read : !ring
        %tile = fcgpu.read %ring[%i] : !ring -> !tile
        fcgpu.release %ring[%i] : !ring
        // expected-error @below {{'fcgpu.all_to_all' op stands in a loop, where the hazard analysis does not follow it}}
        %a:2 = fcgpu.all_to_all %acc part %part of 2 : vector<16x16xf32>
      }
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>

gpu.module @kernels {
  gpu.func @exchange_of_no_warps(%acc: vector<16x16xf32>, %part: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // expected-error @below {{'fcgpu.all_to_all' op accesses a ring outside of an scf.forall over warps}}
    %a:2 = fcgpu.all_to_all %acc part %part of 2 : vector<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
!ring = !fcgpu.ring<2x16x16xf16>

gpu.module @kernels {
  gpu.func @block_fills_the_ring_of_a_warp(%key: memref<32x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring by warp : !ring
    scf.forall (%rows, %part) in (1, 2) {
      fcgpu.acquire %ring[%c0] to fill : !ring
      // expected-error @below {{'fcgpu.copy' op fills a ring that each warp has for itself, which is copied into by warp only}}
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<32x16xf16> to !ring
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

gpu.module @kernels {
  gpu.func @ring_is_reclaimed_before_its_tile_is_released(
      %key: memref<32x16xf16>, %acc: vector<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring by warp : !ring
    scf.forall (%rows, %part) in (1, 2) {
      fcgpu.acquire %ring[%c0] to fill : !ring
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp
          : memref<32x16xf16> to !ring
      fcgpu.acquire %ring[%c0] to read : !ring
      %tile = fcgpu.read %ring[%c0] : !ring -> !tile
      // expected-error @below {{'fcgpu.all_to_all' op reclaims rings of which a tile is acquired to read, and not released}}
      %shares:2 = fcgpu.all_to_all %acc part %part of 2 : vector<16x16xf32>
      fcgpu.release %ring[%c0] : !ring
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
