// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-split-masked-tiles)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// With step 2 and bound 3 the loop visits 0, 2, 4: a second loop from 3 on would
// visit 3 and 5.

// CHECK-LABEL: gpu.func @step_other_than_one_is_left_alone
gpu.module @kernels {
  gpu.func @step_other_than_one_is_left_alone(%n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:     scf.for %[[I:.+]] =
    // CHECK:       %[[IS_PARTIAL:.+]] = arith.cmpi slt, %[[I]],
    // CHECK-NEXT:  scf.if %[[IS_PARTIAL]]
    // CHECK-NOT: scf.for %
    // CHECK:     gpu.return
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    scf.for %i = %c0 to %n step %c2 {
      %is_partial = arith.cmpi slt, %i, %c3 : index
      scf.if %is_partial {
        "partial"() : () -> ()
      }
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Two conditions with the same bound hold in the same half.

// CHECK-LABEL: gpu.func @no_condition_is_left
gpu.module @kernels {
  gpu.func @no_condition_is_left(%n: index, %bound: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:     scf.for %
    // CHECK-NOT:   scf.if
    // CHECK:       "first"
    // CHECK-NOT:   scf.if
    // CHECK:       "second"
    // CHECK:     scf.for %
    // CHECK-NOT:   scf.if
    // CHECK:     gpu.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %is_partial = arith.cmpi slt, %i, %bound : index
      scf.if %is_partial {
        "first"() : () -> ()
      }
      scf.if %is_partial {
        "second"() : () -> ()
      }
    }
    gpu.return
  }
}
