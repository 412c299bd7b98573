// A lane asks Philox once for the eight elements that it holds of a row's 32
// keys: ten rounds of two products, whose round keys are constants.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts,flashcore-distribute,cse)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @a_call_for_eight_elements
// CHECK-SAME:    %[[D0:[^:]+]]: i32, %[[D1:[^:]+]]: i32, %[[D2:[^:]+]]: i32, %[[D3:[^:]+]]: i32)
gpu.module @kernels {
  gpu.func @a_call_for_eight_elements(%p: memref<16x32xf32>, %query: index, %key: index, %d0: i32, %d1: i32,
                                      %d2: i32, %d3: i32)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[LIMIT:.+]] = arith.constant 429522944 : i32
    // The query and the number of the call, then the first round.
    // CHECK:      %[[I:.+]] = arith.xori %{{.+}}, %[[D0]] : i32
    // CHECK:      %[[NUMBER:.+]] = arith.xori %{{.+}}, %[[D1]] : i32
    // CHECK:      %[[LOW0:.+]], %[[HIGH0:.+]] = arith.mului_extended %[[I]], %{{.+}} : i32
    // CHECK:      %[[LOW1:.+]], %[[HIGH1:.+]] = arith.mului_extended %[[D2]], %{{.+}} : i32
    // CHECK:      arith.xori %[[HIGH1]], %[[NUMBER]] : i32
    // CHECK:      arith.xori %[[HIGH0]], %[[D3]] : i32
    // CHECK-COUNT-18: arith.mului_extended
    // CHECK-NOT:  arith.mului_extended
    // The first of a pair is the lower half of a word.
    // CHECK:      %[[FIRST:.+]] = arith.shli %[[WORD:.+]], %c16_i32 : i32
    // CHECK:      %[[KEPT:.+]] = arith.cmpi uge, %[[FIRST]], %[[LIMIT]] : i32
    // CHECK:      arith.select %[[KEPT]], %{{.+}}, %{{.+}} : f32
    // CHECK:      arith.cmpi uge, %[[WORD]], %[[LIMIT]] : i32
    // CHECK-COUNT-6: arith.select
    // The next row of cores (the products of D2 and of the number are the same).
    // CHECK:      arith.xori %{{.+}}, %[[D0]] : i32
    // CHECK-COUNT-18: arith.mului_extended
    // CHECK-NOT:  arith.mului_extended
    // CHECK-COUNT-8: arith.select
    // CHECK-NOT:  arith.select
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %one = arith.constant dense<1.0> : vector<16x32xf32>
    %r = fcgpu.dropout %one[%query, %key] below 6554 of(%d0, %d1, %d2, %d3) : vector<16x32xf32>
    vector.transfer_write %r, %p[%c0, %c0] {in_bounds = [true, true]} : vector<16x32xf32>, memref<16x32xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Sixteen columns are either half of 32, as the key says.

// CHECK-LABEL: gpu.func @half_of_the_numbers_of_a_call
gpu.module @kernels {
  gpu.func @half_of_the_numbers_of_a_call(%p: memref<16x16xf32>, %query: index, %key: index, %d: i32)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[BIT:.+]] = arith.andi %{{.+}}, %{{.+}} : i32
    // CHECK:      %[[IS_UPPER:.+]] = arith.cmpi ne, %[[BIT]], %{{.+}} : i32
    // CHECK:      arith.select %[[IS_UPPER]], %{{.+}}, %{{.+}} : i32
    // CHECK:      arith.select %{{.+}}, %{{.+}}, %{{.+}} : f32
    %c0 = arith.constant 0 : index
    %one = arith.constant dense<1.0> : vector<16x16xf32>
    %r = fcgpu.dropout %one[%query, %key] below 1 of(%d, %d, %d, %d) : vector<16x16xf32>
    vector.transfer_write %r, %p[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xf32>, memref<16x16xf32>
    gpu.return
  }
}
