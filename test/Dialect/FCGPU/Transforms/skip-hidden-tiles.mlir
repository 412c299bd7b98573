// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-skip-hidden-tiles)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

// All warps copy and wait; reads and arithmetic are each warp's own. The
// condition is computed in front of the branch.

// CHECK-LABEL: gpu.func @what_follows_the_barrier_is_skipped
// CHECK-SAME:    %[[N:[^:]+]]: index, %[[END:[^:]+]]: index
gpu.module @kernels {
  gpu.func @what_follows_the_barrier_is_skipped(
      %n: index, %end: index, %k: memref<1x1x64x16xf16>, %init: !tile)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      scf.for %[[I:.+]] = {{.+}} iter_args(%[[ACC:.+]] = %{{.+}}) -> (vector<16x16xf16>)
    // CHECK:        fcgpu.wait_copies
    // CHECK-NEXT:   gpu.barrier
    // CHECK:        fcgpu.copy
    // CHECK-NEXT:   fcgpu.commit_copies
    // CHECK-NEXT:   %[[SEES:.+]] = arith.cmpi slt, %[[I]], %[[END]] : index
    // CHECK-NEXT:   %[[NEXT:.+]] = scf.if %[[SEES]]
    // CHECK-NEXT:     %[[K:.+]] = fcgpu.read
    // CHECK-NEXT:     %[[SUM:.+]] = arith.addf %[[ACC]], %[[K]]
    // CHECK-NEXT:     scf.yield %[[SUM]]
    // CHECK-NEXT:   } else {
    // CHECK-NEXT:     scf.yield %[[ACC]]
    // CHECK-NEXT:   }
    // CHECK-NEXT:   scf.yield %[[NEXT]]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : !ring
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %init) -> !tile {
      fcgpu.wait_copies in_flight(0)
      gpu.barrier
      %next = arith.addi %i, %c1 : index
      fcgpu.copy %k[%c0, %c0, %next, %c0] to %ring[%next] by block
          : memref<1x1x64x16xf16> to !ring
      fcgpu.commit_copies
      %tile = fcgpu.read %ring[%i] : !ring -> !tile
      %sees = arith.cmpi slt, %i, %end : index
      fcgpu.skip_unless %sees
      %sum = arith.addf %acc, %tile : !tile
      scf.yield %sum : !tile
    }
    "use"(%r) : (!tile) -> ()
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// The branch of the first of two conditions is around that of the second.

// CHECK-LABEL: gpu.func @two_conditions
// CHECK-SAME:    %[[HAS_BEGUN:[^:]+]]: i1, %[[GOES_ON:[^:]+]]: i1, %[[X:[^:]+]]: f32)
gpu.module @kernels {
  gpu.func @two_conditions(%n: index, %has_begun: i1, %goes_on: i1, %x: f32)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      scf.for {{.+}} iter_args(%[[ACC:.+]] = %[[X]]) -> (f32)
    // CHECK-NEXT:   %[[OUTER:.+]] = scf.if %[[HAS_BEGUN]]
    // CHECK-NEXT:     %[[INNER:.+]] = scf.if %[[GOES_ON]]
    // CHECK-NEXT:       %[[SUM:.+]] = arith.addf
    // CHECK-NEXT:       scf.yield %[[SUM]]
    // CHECK-NEXT:     } else {
    // CHECK-NEXT:       scf.yield %[[ACC]]
    // CHECK-NEXT:     }
    // CHECK-NEXT:     scf.yield %[[INNER]]
    // CHECK-NEXT:   } else {
    // CHECK-NEXT:     scf.yield %[[ACC]]
    // CHECK-NEXT:   }
    // CHECK-NEXT:   scf.yield %[[OUTER]]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %x) -> f32 {
      %sum = arith.addf %acc, %x : f32
      fcgpu.skip_unless %has_begun
      fcgpu.skip_unless %goes_on
      scf.yield %sum : f32
    }
    "use"(%r) : (f32) -> ()
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Where the op does not stand in the loop's body it says nothing, as where
// something else than the loop's results would be left out, or where the
// condition is known too late.

// CHECK-LABEL: gpu.func @nothing_is_skipped
// CHECK-NOT:     fcgpu.skip_unless
// CHECK-NOT:     scf.if {{.+}} -> (f32)
// CHECK:         gpu.return
gpu.module @kernels {
  gpu.func @nothing_is_skipped(%n: index, %sees: i1, %x: f32,
                               %out: memref<f32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    fcgpu.skip_unless %sees
    %a = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %x) -> f32 {
      %sum = arith.addf %acc, %x : f32
      scf.if %sees {
        fcgpu.skip_unless %sees
        "work"() : () -> ()
      }
      scf.yield %sum : f32
    }
    %b = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %a) -> f32 {
      fcgpu.skip_unless %sees
      %sum = arith.addf %acc, %x : f32
      memref.store %sum, %out[] : memref<f32>
      scf.yield %sum : f32
    }
    %c = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %b) -> f32 {
      %sum = arith.addf %acc, %x : f32
      %late = "known_late"(%sum) : (f32) -> i1
      fcgpu.skip_unless %late
      scf.yield %sum : f32
    }
    "use"(%c) : (f32) -> ()
    gpu.return
  }
}

// -----

// A kernel of somebody else.

// CHECK-LABEL: gpu.func @foreign
// CHECK:         fcgpu.skip_unless
gpu.module @kernels {
  gpu.func @foreign(%sees: i1) kernel {
    fcgpu.skip_unless %sees
    gpu.return
  }
}
