// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-split-masked-tiles)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// The split point never leaves the range of the loop, whatever the bound.

// CHECK-LABEL: gpu.func @loop_is_split_at_the_bound
// CHECK-SAME:    %[[N:[^:]+]]: index, %[[NUM_MASKED:[^:]+]]: index)
gpu.module @kernels {
  gpu.func @loop_is_split_at_the_bound(%n: index, %num_masked: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : index
    // CHECK:      %[[AT_MOST:.+]] = arith.minsi %[[NUM_MASKED]], %[[N]] : index
    // CHECK-NEXT: %[[MIDDLE:.+]] = arith.maxsi %[[AT_MOST]], %[[C0]] : index
    // CHECK-NEXT: scf.for %[[I:.+]] = %[[C0]] to %[[MIDDLE]] step %[[C1]]
    // CHECK-NOT:    scf.if
    // CHECK:        "partial"(%[[I]])
    // CHECK-NOT:    "full"
    // CHECK:      scf.for %[[J:.+]] = %[[MIDDLE]] to %[[N]] step %[[C1]]
    // CHECK-NOT:    scf.if
    // CHECK-NOT:    "partial"
    // CHECK:        "full"(%[[J]])
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %is_partial = arith.cmpi slt, %i, %num_masked : index
      scf.if %is_partial {
        "partial"(%i) : (index) -> ()
      } else {
        "full"(%i) : (index) -> ()
      }
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// A pipelined loop asks for its next iteration.

// CHECK-LABEL: gpu.func @condition_is_that_of_the_next
// CHECK-SAME:    %[[N:[^:]+]]: index, %[[NUM_MASKED:[^:]+]]: index)
gpu.module @kernels {
  gpu.func @condition_is_that_of_the_next(%n: index, %num_masked: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[BOUND:.+]] = arith.subi %[[NUM_MASKED]], %{{.+}} : index
    // CHECK-NEXT: %[[AT_MOST:.+]] = arith.minsi %[[BOUND]], %[[N]] : index
    // CHECK:      scf.for
    // CHECK-NOT:    scf.if
    // CHECK:        "partial"
    // CHECK-NOT:    "full"
    // CHECK:      scf.for
    // CHECK-NOT:    "partial"
    // CHECK:        "full"
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %next = arith.addi %i, %c1 : index
      %is_partial = arith.cmpi slt, %next, %num_masked : index
      scf.if %is_partial {
        "partial"(%i) : (index) -> ()
      } else {
        "full"(%i) : (index) -> ()
      }
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// A condition that holds from its bound on, and one in its branch.

// CHECK-LABEL: gpu.func @loop_begins_before_the_condition_holds
// CHECK-SAME:    %[[N:[^:]+]]: index, %[[FIRST:[^:]+]]: index, %[[END:[^:]+]]: index)
gpu.module @kernels {
  gpu.func @loop_begins_before_the_condition_holds(
      %n: index, %first: index, %end: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      arith.minsi %[[FIRST]], %[[N]] : index
    // CHECK:      %[[BEGIN:.+]] = arith.maxsi
    // CHECK:      scf.for %{{.+}} to %[[BEGIN]] step
    // CHECK:        "shared"
    // CHECK-NOT:    "own"
    // CHECK:      arith.minsi %[[END]], %[[N]] : index
    // CHECK:      %[[MIDDLE:.+]] = arith.maxsi {{.+}}, %[[BEGIN]] : index
    // CHECK:      scf.for %{{.+}} = %[[BEGIN]] to %[[MIDDLE]] step
    // CHECK-NEXT:   "shared"
    // CHECK-NOT:    scf.if
    // CHECK:        "own"
    // CHECK:      scf.for %{{.+}} = %[[MIDDLE]] to %[[N]] step
    // CHECK-NEXT:   "shared"
    // CHECK-NOT:    "own"
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      "shared"() : () -> ()
      %has_begun = arith.cmpi sge, %i, %first : index
      scf.if %has_begun {
        %goes_on = arith.cmpi slt, %i, %end : index
        scf.if %goes_on {
          "own"() : () -> ()
        }
      }
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @second_loop_starts_with_what_the_first_yields
// CHECK-SAME:    %[[INIT:[^:]+]]: f32)
gpu.module @kernels {
  gpu.func @second_loop_starts_with_what_the_first_yields(
      %n: index, %num_masked: index, %init: f32)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[FIRST:.+]] = scf.for %{{.+}} iter_args(%{{.+}} = %[[INIT]])
    // CHECK-NEXT:   %[[SCORE:.+]] = "score"
    // CHECK:        %[[MASKED:.+]] = "mask"(%[[SCORE]])
    // CHECK:        "step"(%{{.+}}, %[[MASKED]])
    // CHECK:      %[[SECOND:.+]] = scf.for %{{.+}} iter_args(%{{.+}} = %[[FIRST]])
    // CHECK-NEXT:   %[[FULL_SCORE:.+]] = "score"
    // CHECK:        "step"(%{{.+}}, %[[FULL_SCORE]])
    // CHECK:      "use"(%[[SECOND]])
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %result = scf.for %i = %c0 to %n step %c1 iter_args(%state = %init) -> f32 {
      %score = "score"(%i) : (index) -> f32
      %is_partial = arith.cmpi slt, %i, %num_masked : index
      %visible = scf.if %is_partial -> f32 {
        %masked = "mask"(%score) : (f32) -> f32
        scf.yield %masked : f32
      } else {
        scf.yield %score : f32
      }
      %next = "step"(%state, %visible) : (f32, f32) -> f32
      scf.yield %next : f32
    }
    "use"(%result) : (f32) -> ()
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @if_without_else
gpu.module @kernels {
  gpu.func @if_without_else(%n: index, %num_masked: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      scf.for %
    // CHECK:        "partial"
    // CHECK-NEXT:   "always"
    // CHECK:      scf.for %
    // CHECK-NOT:    "partial"
    // CHECK:        "always"
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %is_partial = arith.cmpi slt, %i, %num_masked : index
      scf.if %is_partial {
        "partial"() : () -> ()
      }
      "always"() : () -> ()
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Both halves inherit the waits and barriers of the loop.

// CHECK-LABEL: gpu.func @both_loops_keep_their_barriers
gpu.module @kernels {
  gpu.func @both_loops_keep_their_barriers(%n: index, %num_masked: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      scf.for %
    // CHECK-NEXT:   fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT:   gpu.barrier
    // CHECK:        "partial"
    // CHECK:      scf.for %
    // CHECK-NEXT:   fcgpu.wait_copies in_flight(0)
    // CHECK-NEXT:   gpu.barrier
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      fcgpu.wait_copies in_flight(0)
      gpu.barrier
      %is_partial = arith.cmpi slt, %i, %num_masked : index
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

// CHECK-LABEL: gpu.func @condition_of_another_kind_is_left_alone
gpu.module @kernels {
  gpu.func @condition_of_another_kind_is_left_alone(%n: index, %bound: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:     scf.for %[[I:.+]] =
    // CHECK:       %[[IS_BOUND:.+]] = arith.cmpi eq, %[[I]],
    // CHECK-NEXT:  scf.if %[[IS_BOUND]]
    // CHECK-NOT: scf.for %
    // CHECK:     gpu.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %is_bound = arith.cmpi eq, %i, %bound : index
      scf.if %is_bound {
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

// CHECK-LABEL: gpu.func @bound_from_inside_the_loop_is_left_alone
gpu.module @kernels {
  gpu.func @bound_from_inside_the_loop_is_left_alone(%n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:     scf.for %[[I:.+]] =
    // CHECK:       %[[BOUND:.+]] = "bound"
    // CHECK-NEXT:  %[[IS_PARTIAL:.+]] = arith.cmpi slt, %[[I]], %[[BOUND]]
    // CHECK-NEXT:  scf.if %[[IS_PARTIAL]]
    // CHECK-NOT: scf.for %
    // CHECK:     gpu.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %bound = "bound"() : () -> index
      %is_partial = arith.cmpi slt, %i, %bound : index
      scf.if %is_partial {
        "partial"() : () -> ()
      }
    }
    gpu.return
  }
}

// -----

// CHECK-LABEL: gpu.func @kernel_without_schedule_is_left_alone
gpu.module @kernels {
  gpu.func @kernel_without_schedule_is_left_alone(%n: index, %bound: index)
      kernel {
    // CHECK:     scf.for %
    // CHECK:       scf.if
    // CHECK-NOT: scf.for %
    // CHECK:     gpu.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %is_partial = arith.cmpi slt, %i, %bound : index
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

// A window has partial tiles at both ends: the loop in front of the tail splits
// again, at a point that does not leave its own range.

// CHECK-LABEL: gpu.func @nested_conditions_make_three_loops
// CHECK-SAME:    %[[N:[^:]+]]: index, %[[HEAD:[^:]+]]: index, %[[TAIL:[^:]+]]: index, %[[INIT:[^:]+]]: f32)
gpu.module @kernels {
  gpu.func @nested_conditions_make_three_loops(
      %n: index, %head: index, %tail: index, %init: f32)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : index
    // CHECK:      %[[TAIL_AT_MOST:.+]] = arith.minsi %[[TAIL]], %[[N]] : index
    // CHECK-NEXT: %[[TAIL_BEGIN:.+]] = arith.maxsi %[[TAIL_AT_MOST]], %[[C0]] : index
    // CHECK-NEXT: %[[HEAD_AT_MOST:.+]] = arith.minsi %[[HEAD]], %[[TAIL_BEGIN]] : index
    // CHECK-NEXT: %[[HEAD_END:.+]] = arith.maxsi %[[HEAD_AT_MOST]], %[[C0]] : index
    // CHECK-NEXT: %[[FIRST:.+]] = scf.for %{{.+}} = %[[C0]] to %[[HEAD_END]] step %[[C1]] iter_args(%{{.+}} = %[[INIT]])
    // CHECK-NEXT:   %[[SCORE:.+]] = "score"
    // CHECK-NOT:    scf.if
    // CHECK:        %[[HEAD_SCORE:.+]] = "head_mask"(%[[SCORE]])
    // CHECK-NEXT:   "step"(%{{.+}}, %[[HEAD_SCORE]])
    // CHECK:      %[[SECOND:.+]] = scf.for %{{.+}} = %[[HEAD_END]] to %[[TAIL_BEGIN]] step %[[C1]] iter_args(%{{.+}} = %[[FIRST]])
    // CHECK-NEXT:   %[[FULL_SCORE:.+]] = "score"
    // CHECK-NOT:    scf.if
    // CHECK-NOT:    mask
    // CHECK:        "step"(%{{.+}}, %[[FULL_SCORE]])
    // CHECK:      %[[THIRD:.+]] = scf.for %{{.+}} = %[[TAIL_BEGIN]] to %[[N]] step %[[C1]] iter_args(%{{.+}} = %[[SECOND]])
    // CHECK-NEXT:   %[[LAST_SCORE:.+]] = "score"
    // CHECK-NOT:    scf.if
    // CHECK:        %[[TAIL_SCORE:.+]] = "tail_mask"(%[[LAST_SCORE]])
    // CHECK-NEXT:   "step"(%{{.+}}, %[[TAIL_SCORE]])
    // CHECK:      "use"(%[[THIRD]])
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %result = scf.for %i = %c0 to %n step %c1 iter_args(%state = %init) -> f32 {
      %score = "score"(%i) : (index) -> f32
      %is_before_tail = arith.cmpi slt, %i, %tail : index
      %visible = scf.if %is_before_tail -> f32 {
        %is_head = arith.cmpi slt, %i, %head : index
        %inner = scf.if %is_head -> f32 {
          %masked = "head_mask"(%score) : (f32) -> f32
          scf.yield %masked : f32
        } else {
          scf.yield %score : f32
        }
        scf.yield %inner : f32
      } else {
        %masked = "tail_mask"(%score) : (f32) -> f32
        scf.yield %masked : f32
      }
      %next = "step"(%state, %visible) : (f32, f32) -> f32
      scf.yield %next : f32
    }
    "use"(%result) : (f32) -> ()
    gpu.return
  }
}
