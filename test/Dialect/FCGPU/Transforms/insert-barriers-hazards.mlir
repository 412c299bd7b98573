// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-insert-barriers)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// The loop may run zero times: what stands behind it cannot rely on its waits.

// CHECK-LABEL: gpu.func @loop_of_no_iterations_waits_for_nothing
gpu.module @kernels {
  gpu.func @loop_of_no_iterations_waits_for_nothing(%query: memref<16x16xf16>,
                                                    %key: memref<128x16xf16>,
                                                    %n: index, %has_next: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK: %[[Q_RING:.+]] = fcgpu.alloc_ring
    // CHECK: scf.for %
    // CHECK:   "use_key"
    // CHECK: fcgpu.wait_copies
    // CHECK: nvvm.bar.warp.sync
    // CHECK: fcgpu.read %[[Q_RING]]
    %q_ring = fcgpu.alloc_ring : <2x16x16xf16>
    %k_ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %q_ring[%warp] to fill : <2x16x16xf16>
      fcgpu.copy %query[%c0, %c0] to %q_ring[%warp] by warp
          : memref<16x16xf16> to <2x16x16xf16>
      fcgpu.acquire %k_ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %k_ring[%c0] by block if %has_next
          : memref<128x16xf16> to <2x16x16xf16>
      scf.for %i = %c0 to %n step %c1 {
        %next = arith.addi %i, %c1 : index
        fcgpu.acquire %k_ring[%next] to fill : <2x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %k_ring[%next] by block if %has_next
            : memref<128x16xf16> to <2x16x16xf16>
        fcgpu.acquire %k_ring[%i] to read : <2x16x16xf16>
        %k = fcgpu.read %k_ring[%i] : <2x16x16xf16> -> !tile
        fcgpu.release %k_ring[%i] : <2x16x16xf16>
        "use_key"(%k) : (!tile) -> ()
      }
      fcgpu.acquire %q_ring[%warp] to read : <2x16x16xf16>
      %q = fcgpu.read %q_ring[%warp] : <2x16x16xf16> -> !tile
      fcgpu.release %q_ring[%warp] : <2x16x16xf16>
      "use_query"(%q) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// A tile number that is copied once more has not arrived once more.

// CHECK-LABEL: gpu.func @tile_copied_again_is_waited_for_again
gpu.module @kernels {
  gpu.func @tile_copied_again_is_waited_for_again(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // CHECK:      fcgpu.copy
    // CHECK:      fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: fcgpu.read
    // CHECK:      "use_first"
    // CHECK:      gpu.barrier
    // CHECK-NEXT: fcgpu.copy
    // CHECK-NEXT: fcgpu.commit_copies
    // CHECK-NEXT: fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: fcgpu.read
    // CHECK:      "use_second"
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      %first = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c0] : <2x16x16xf16>
      "use_first"(%first) : (!tile) -> ()
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      %second = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c0] : <2x16x16xf16>
      "use_second"(%second) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
