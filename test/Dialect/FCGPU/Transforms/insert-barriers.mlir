// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-insert-barriers)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// A warp copies its own tile: it waits and meets alone, not with the block.

// CHECK-LABEL: gpu.func @warp_copy_needs_no_block_barrier
gpu.module @kernels {
  gpu.func @warp_copy_needs_no_block_barrier(%query: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring
    // CHECK:      fcgpu.copy %{{.+}} to %[[RING]][%[[WARP:.+]]] by warp
    // CHECK-NEXT: fcgpu.commit_copies
    // CHECK-NOT:  gpu.barrier
    // CHECK:      fcgpu.wait_copies in_flight(0)
    // CHECK:      %[[ALL_LANES:.+]] = arith.constant -1 : i32
    // CHECK-NEXT: nvvm.bar.warp.sync %[[ALL_LANES]] : i32
    // CHECK-NEXT: fcgpu.read %[[RING]][%[[WARP]]]
    // CHECK-NOT:  gpu.barrier
    // CHECK:      gpu.return
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%warp] to fill : <2x16x16xf16>
      fcgpu.copy %query[%c0, %c0] to %ring[%warp] by warp
          : memref<16x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%warp] to read : <2x16x16xf16>
      %tile = fcgpu.read %ring[%warp] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%warp] : <2x16x16xf16>
      "use"(%tile) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// CHECK-LABEL: gpu.func @block_copy_needs_a_block_barrier
gpu.module @kernels {
  gpu.func @block_copy_needs_a_block_barrier(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // CHECK:      fcgpu.copy {{.+}} by block
    // CHECK-NEXT: fcgpu.commit_copies
    // CHECK-NEXT: fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: fcgpu.read
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      %tile = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c0] : <2x16x16xf16>
      "use"(%tile) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// Of copies by way of registers no groups are made: a barrier is all.

// CHECK-LABEL: gpu.func @what_is_there_needs_no_wait
gpu.module @kernels {
  gpu.func @what_is_there_needs_no_wait(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // CHECK:      fcgpu.copy {{.+}} by block via_registers
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: fcgpu.read
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block via_registers
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      %tile = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c0] : <2x16x16xf16>
      "use"(%tile) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// The copies of one tile number are one group.

// CHECK-LABEL: gpu.func @copies_of_one_tile_number_share_a_group
gpu.module @kernels {
  gpu.func @copies_of_one_tile_number_share_a_group(%key: memref<128x16xf16>,
                                                    %value: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : index
    // CHECK:      %[[K_RING:.+]] = fcgpu.alloc_ring
    // CHECK:      %[[V_RING:.+]] = fcgpu.alloc_ring
    // CHECK:      fcgpu.copy %{{.+}} to %[[K_RING]][%[[C0]]]
    // CHECK-NEXT: fcgpu.copy %{{.+}} to %[[V_RING]][%[[C0]]]
    // CHECK-NEXT: fcgpu.commit_copies
    // CHECK-NEXT: fcgpu.copy %{{.+}} to %[[K_RING]][%[[C1]]]
    // CHECK-NEXT: fcgpu.copy %{{.+}} to %[[V_RING]][%[[C1]]]
    // CHECK-NEXT: fcgpu.commit_copies
    // CHECK-NEXT: "anything"
    %k_ring = fcgpu.alloc_ring : <2x16x16xf16>
    %v_ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %k_ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %k_ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %v_ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %value[%c0, %c0] to %v_ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %k_ring[%c1] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %k_ring[%c1] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %v_ring[%c1] to fill : <2x16x16xf16>
      fcgpu.copy %value[%c0, %c0] to %v_ring[%c1] by block
          : memref<128x16xf16> to <2x16x16xf16>
      "anything"() : () -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// Only the older of the two groups is waited for.

// CHECK-LABEL: gpu.func @later_groups_stay_in_flight
gpu.module @kernels {
  gpu.func @later_groups_stay_in_flight(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      fcgpu.commit_copies
    // CHECK:      fcgpu.commit_copies
    // CHECK-NEXT: fcgpu.wait_copies in_flight(1)
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: fcgpu.read
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c1] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c1] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      %tile = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c0] : <2x16x16xf16>
      "use"(%tile) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// One wait and one barrier an iteration serve both rings: the barrier says that
// tile i has arrived and that tile i - 1, whose slot tile i + 1 takes, was read.

// CHECK-LABEL: gpu.func @one_wait_and_one_barrier_an_iteration
gpu.module @kernels {
  gpu.func @one_wait_and_one_barrier_an_iteration(%key: memref<128x16xf16>,
                                                  %value: memref<128x16xf16>,
                                                  %n: index, %has_next: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      %[[K_RING:.+]] = fcgpu.alloc_ring
    // CHECK:      %[[V_RING:.+]] = fcgpu.alloc_ring
    // CHECK:      fcgpu.commit_copies
    // CHECK-NOT:  fcgpu.wait_copies
    // CHECK-NOT:  gpu.barrier
    // CHECK:      scf.for %[[I:.+]] =
    // CHECK:        %[[NEXT:.+]] = arith.addi %[[I]],
    // CHECK-NEXT:   fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %[[K_RING]][%[[NEXT]]]
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %[[V_RING]][%[[NEXT]]]
    // CHECK-NEXT:   fcgpu.commit_copies
    // CHECK-NEXT:   fcgpu.read %[[K_RING]][%[[I]]]
    // CHECK-NEXT:   "use_key"
    // CHECK-NEXT:   fcgpu.read %[[V_RING]][%[[I]]]
    // CHECK-NEXT:   "use_value"
    // CHECK-NEXT: }
    // CHECK-NOT:  gpu.barrier
    // CHECK:      gpu.return
    %k_ring = fcgpu.alloc_ring : <2x16x16xf16>
    %v_ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %k_ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %k_ring[%c0] by block if %has_next
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %v_ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %value[%c0, %c0] to %v_ring[%c0] by block if %has_next
          : memref<128x16xf16> to <2x16x16xf16>
      scf.for %i = %c0 to %n step %c1 {
        %next = arith.addi %i, %c1 : index
        fcgpu.acquire %k_ring[%next] to fill : <2x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %k_ring[%next] by block if %has_next
            : memref<128x16xf16> to <2x16x16xf16>
        fcgpu.acquire %v_ring[%next] to fill : <2x16x16xf16>
        fcgpu.copy %value[%c0, %c0] to %v_ring[%next] by block if %has_next
            : memref<128x16xf16> to <2x16x16xf16>
        fcgpu.acquire %k_ring[%i] to read : <2x16x16xf16>
        %k = fcgpu.read %k_ring[%i] : <2x16x16xf16> -> !tile
        fcgpu.release %k_ring[%i] : <2x16x16xf16>
        "use_key"(%k) : (!tile) -> ()
        fcgpu.acquire %v_ring[%i] to read : <2x16x16xf16>
        %v = fcgpu.read %v_ring[%i] : <2x16x16xf16> -> !tile
        fcgpu.release %v_ring[%i] : <2x16x16xf16>
        "use_value"(%v) : (!tile) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// Copies run two iterations ahead, so one group is still under way when tile i
// is needed.

// CHECK-LABEL: gpu.func @three_stages_leave_a_group_in_flight
gpu.module @kernels {
  gpu.func @three_stages_leave_a_group_in_flight(%key: memref<128x16xf16>,
                                                 %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    // CHECK:      fcgpu.commit_copies
    // CHECK:      fcgpu.commit_copies
    // CHECK:      scf.for %
    // CHECK:        fcgpu.wait_copies in_flight(1)
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   fcgpu.copy
    // CHECK-NEXT:   fcgpu.commit_copies
    // CHECK-NEXT:   fcgpu.read
    // CHECK-NEXT:   "use"
    // CHECK-NEXT: }
    %ring = fcgpu.alloc_ring : <3x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <3x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <3x16x16xf16>
      fcgpu.acquire %ring[%c1] to fill : <3x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c1] by block
          : memref<128x16xf16> to <3x16x16xf16>
      scf.for %i = %c0 to %n step %c1 {
        %next = arith.addi %i, %c2 : index
        fcgpu.acquire %ring[%next] to fill : <3x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %ring[%next] by block
            : memref<128x16xf16> to <3x16x16xf16>
        fcgpu.acquire %ring[%i] to read : <3x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <3x16x16xf16> -> !tile
        fcgpu.release %ring[%i] : <3x16x16xf16>
        "use"(%tile) : (!tile) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// Without copies ahead of their use there is a barrier for each direction.

// CHECK-LABEL: gpu.func @slot_is_read_before_it_is_filled_again
gpu.module @kernels {
  gpu.func @slot_is_read_before_it_is_filled_again(%key: memref<128x16xf16>,
                                                   %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      scf.for %
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   fcgpu.copy
    // CHECK-NEXT:   fcgpu.commit_copies
    // CHECK-NEXT:   fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   fcgpu.read
    // CHECK-NEXT:   "use"
    // CHECK-NEXT: }
    %ring = fcgpu.alloc_ring : <1x16x16xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring[%i] to fill : <1x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <1x16x16xf16>
        fcgpu.acquire %ring[%i] to read : <1x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <1x16x16xf16> -> !tile
        fcgpu.release %ring[%i] : <1x16x16xf16>
        "use"(%tile) : (!tile) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// The query is waited for in front of the loop; the keys stay in flight.

// CHECK-LABEL: gpu.func @query_does_not_wait_for_the_first_keys
gpu.module @kernels {
  gpu.func @query_does_not_wait_for_the_first_keys(%query: memref<16x16xf16>,
                                                   %key: memref<128x16xf16>,
                                                   %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      %[[Q_RING:.+]] = fcgpu.alloc_ring
    // CHECK:      fcgpu.commit_copies
    // CHECK:      fcgpu.commit_copies
    // CHECK-NEXT: fcgpu.wait_copies in_flight(1)
    // CHECK:      nvvm.bar.warp.sync
    // CHECK-NEXT: fcgpu.read %[[Q_RING]]
    // CHECK-NEXT: scf.for %
    // CHECK:        fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT:   gpu.barrier
    %q_ring = fcgpu.alloc_ring : <2x16x16xf16>
    %k_ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %q_ring[%warp] to fill : <2x16x16xf16>
      fcgpu.copy %query[%c0, %c0] to %q_ring[%warp] by warp
          : memref<16x16xf16> to <2x16x16xf16>
      fcgpu.acquire %k_ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %k_ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %q_ring[%warp] to read : <2x16x16xf16>
      %q = fcgpu.read %q_ring[%warp] : <2x16x16xf16> -> !tile
      fcgpu.release %q_ring[%warp] : <2x16x16xf16>
      scf.for %i = %c0 to %n step %c1 {
        %next = arith.addi %i, %c1 : index
        fcgpu.acquire %k_ring[%next] to fill : <2x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %k_ring[%next] by block
            : memref<128x16xf16> to <2x16x16xf16>
        fcgpu.acquire %k_ring[%i] to read : <2x16x16xf16>
        %k = fcgpu.read %k_ring[%i] : <2x16x16xf16> -> !tile
        fcgpu.release %k_ring[%i] : <2x16x16xf16>
        "use"(%q, %k) : (!tile, !tile) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// The wait for the keys is also the wait for a query that is read in the loop.

// CHECK-LABEL: gpu.func @query_read_in_the_loop_adds_no_wait
gpu.module @kernels {
  gpu.func @query_read_in_the_loop_adds_no_wait(%query: memref<16x16xf16>,
                                                %key: memref<128x16xf16>,
                                                %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      %[[Q_RING:.+]] = fcgpu.alloc_ring
    // CHECK-NOT:  nvvm.bar.warp.sync
    // CHECK:      scf.for %
    // CHECK:        fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   fcgpu.copy
    // CHECK-NEXT:   fcgpu.commit_copies
    // CHECK-NEXT:   fcgpu.read %[[Q_RING]]
    // CHECK-NEXT:   fcgpu.read
    // CHECK-NEXT:   "use"
    %q_ring = fcgpu.alloc_ring : <2x16x16xf16>
    %k_ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %q_ring[%warp] to fill : <2x16x16xf16>
      fcgpu.copy %query[%c0, %c0] to %q_ring[%warp] by warp
          : memref<16x16xf16> to <2x16x16xf16>
      fcgpu.acquire %k_ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %k_ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      scf.for %i = %c0 to %n step %c1 {
        %next = arith.addi %i, %c1 : index
        fcgpu.acquire %k_ring[%next] to fill : <2x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %k_ring[%next] by block
            : memref<128x16xf16> to <2x16x16xf16>
        fcgpu.acquire %q_ring[%warp] to read : <2x16x16xf16>
        %q = fcgpu.read %q_ring[%warp] : <2x16x16xf16> -> !tile
        fcgpu.release %q_ring[%warp] : <2x16x16xf16>
        fcgpu.acquire %k_ring[%i] to read : <2x16x16xf16>
        %k = fcgpu.read %k_ring[%i] : <2x16x16xf16> -> !tile
        fcgpu.release %k_ring[%i] : <2x16x16xf16>
        "use"(%q, %k) : (!tile, !tile) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// CHECK-LABEL: gpu.func @nothing_to_synchronize
gpu.module @kernels {
  gpu.func @nothing_to_synchronize(%in: !tile)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-NEXT: scf.forall
    // CHECK-NEXT:   "use"
    // CHECK-NEXT: }
    scf.forall (%warp) in (2) {
      "use"(%in) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

!tile = vector<16x16xf16>

// CHECK-LABEL: gpu.func @kernel_without_schedule_is_left_alone
gpu.module @kernels {
  gpu.func @kernel_without_schedule_is_left_alone(%key: memref<128x16xf16>)
      kernel {
    %c0 = arith.constant 0 : index
    // CHECK:      fcgpu.copy
    // CHECK-NEXT: fcgpu.read
    // CHECK-NEXT: "use"
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      %tile = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      "use"(%tile) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
