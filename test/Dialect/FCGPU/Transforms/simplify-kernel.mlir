// RUN: flashcore-opt %s -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-simplify-kernel)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  // Folding makes one use a copy of the argument, CSE the two sums one.

  // CHECK-LABEL: gpu.func @kernel_is_canonicalized_and_cleaned
  // CHECK-SAME:    %[[X:[^:]+]]: index)
  gpu.func @kernel_is_canonicalized_and_cleaned(%x: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-NEXT: %[[SUM:.+]] = arith.addi %[[X]], %[[X]] : index
    // CHECK-NEXT: "use"(%[[X]], %[[SUM]], %[[SUM]])
    // CHECK-NEXT: gpu.return
    %c0 = arith.constant 0 : index
    %same = arith.addi %x, %c0 : index
    %sum = arith.addi %x, %x : index
    %sum_again = arith.addi %x, %x : index
    "use"(%same, %sum, %sum_again) : (index, index, index) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @kernel_without_schedule_is_left_alone
  gpu.func @kernel_without_schedule_is_left_alone(%x: index) kernel {
    // CHECK-NEXT: arith.constant 0 : index
    // CHECK-NEXT: arith.addi
    // CHECK-NEXT: gpu.return
    %c0 = arith.constant 0 : index
    %dead = arith.addi %x, %c0 : index
    gpu.return
  }
}
