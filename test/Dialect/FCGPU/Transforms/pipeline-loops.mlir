// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-pipeline-loops)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @two_stages_copy_one_iteration_ahead
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<128x16xf16>, %[[N:[^:]+]]: index)
gpu.module @kernels {
  gpu.func @two_stages_copy_one_iteration_ahead(%key: memref<128x16xf16>,
                                                %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : index
    // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : index
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring
    // CHECK:      %[[HAS_FIRST:.+]] = arith.cmpi sgt, %[[N]], %[[C0]] : index
    // CHECK-NEXT: fcgpu.copy %[[KEY]][%[[C0]], %[[C0]]] to %[[RING]][%[[C0]]] by block if %[[HAS_FIRST]]
    // CHECK-NOT:  fcgpu.copy
    // CHECK:      scf.for %[[I:.+]] = %[[C0]] to %[[N]] step %[[C1]]
    // CHECK-DAG:    %[[LAST:.+]] = arith.subi %[[N]], %[[C1]] : index
    // CHECK-DAG:    %[[HAS_NEXT:.+]] = arith.cmpi slt, %[[I]], %[[LAST]] : index
    // CHECK-DAG:    %[[NEXT:.+]] = arith.addi %[[I]], %[[C1]] : index
    // CHECK-DAG:    %[[NEXT_ROW:.+]] = arith.muli %[[NEXT]], %[[C16]] : index
    // CHECK-NOT:    "before"
    // CHECK:        fcgpu.copy %[[KEY]][%[[NEXT_ROW]], %[[C0]]] to %[[RING]][%{{.+}}] by block if %[[HAS_NEXT]]
    // CHECK:        "before"
    // CHECK-NEXT:   %[[TILE:.+]] = fcgpu.read %[[RING]][%[[I]]]
    // CHECK-NEXT:   "use"(%[[TILE]])
    // CHECK-NEXT: }
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        "before"() : () -> ()
        %row = arith.muli %i, %c16 : index
        fcgpu.copy %key[%row, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> vector<16x16xf16>
        "use"(%tile) : (vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @three_stages_copy_two_iterations_ahead
// CHECK-SAME:    %[[N:[^:]+]]: index)
gpu.module @kernels {
  gpu.func @three_stages_copy_two_iterations_ahead(%key: memref<128x16xf16>,
                                                   %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : index
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK:      %[[HAS_FIRST:.+]] = arith.cmpi sgt, %[[N]], %[[C0]] : index
    // CHECK:      fcgpu.copy %{{.+}} to %[[RING:.+]][%[[C0]]] by block if %[[HAS_FIRST]]
    // CHECK:      %[[HAS_SECOND:.+]] = arith.cmpi sgt, %[[N]], %[[C1]] : index
    // CHECK:      fcgpu.copy %{{.+}} to %[[RING]][%[[C1]]] by block if %[[HAS_SECOND]]
    // CHECK-NOT:  fcgpu.copy
    // CHECK:      scf.for %[[I:.+]] = %[[C0]] to %[[N]]
    // CHECK-DAG:    %[[LAST:.+]] = arith.subi %[[N]], %[[C2]] : index
    // CHECK-DAG:    %[[HAS_NEXT:.+]] = arith.cmpi slt, %[[I]], %[[LAST]] : index
    // CHECK-DAG:    %[[NEXT:.+]] = arith.addi %[[I]], %[[C2]] : index
    // CHECK:        fcgpu.copy %{{.+}} to %[[RING]][%[[NEXT]]] by block if %[[HAS_NEXT]]
    // CHECK:        fcgpu.read %[[RING]][%[[I]]]
    %ring = fcgpu.alloc_ring : <3x16x16xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <3x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <3x16x16xf16> -> vector<16x16xf16>
        "use"(%tile) : (vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Both copies of an iteration go first, also if the second stands behind a use
// of the first.

// CHECK-LABEL: gpu.func @all_copies_come_before_all_uses
gpu.module @kernels {
  gpu.func @all_copies_come_before_all_uses(%key: memref<128x16xf16>,
                                            %value: memref<128x16xf16>,
                                            %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:     %[[K_RING:.+]] = fcgpu.alloc_ring
    // CHECK:     %[[V_RING:.+]] = fcgpu.alloc_ring
    // CHECK:     scf.for %
    // CHECK-NOT:   fcgpu.read
    // CHECK:       fcgpu.copy %{{.+}} to %[[K_RING]]
    // CHECK-NOT:   fcgpu.read
    // CHECK:       fcgpu.copy %{{.+}} to %[[V_RING]]
    // CHECK:       fcgpu.read %[[K_RING]]
    // CHECK:       "use_key"
    // CHECK-NOT:   fcgpu.copy
    // CHECK:       fcgpu.read %[[V_RING]]
    // CHECK:       "use_value"
    %k_ring = fcgpu.alloc_ring : <2x16x16xf16>
    %v_ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %key[%c0, %c0] to %k_ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %k = fcgpu.read %k_ring[%i] : <2x16x16xf16> -> vector<16x16xf16>
        "use_key"(%k) : (vector<16x16xf16>) -> ()
        fcgpu.copy %value[%c0, %c0] to %v_ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %v = fcgpu.read %v_ring[%i] : <2x16x16xf16> -> vector<16x16xf16>
        "use_value"(%v) : (vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @predicate_of_a_copy_is_kept
// CHECK-SAME:    %[[N:[^:]+]]: index, %[[WANTED:[^:]+]]: i1)
gpu.module @kernels {
  gpu.func @predicate_of_a_copy_is_kept(%key: memref<128x16xf16>, %n: index,
                                        %wanted: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK: scf.for %[[I:.+]] =
    // CHECK:   %[[HAS_NEXT:.+]] = arith.cmpi slt, %[[I]],
    // CHECK:   %[[BOTH:.+]] = arith.andi %[[WANTED]], %[[HAS_NEXT]] : i1
    // CHECK:   fcgpu.copy {{.+}} by block if %[[BOTH]]
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block if %wanted
            : memref<128x16xf16> to <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> vector<16x16xf16>
        "use"(%tile) : (vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @values_carried_by_the_loop_are_kept
// CHECK-SAME:    %[[INIT:[^:]+]]: f32)
gpu.module @kernels {
  gpu.func @values_carried_by_the_loop_are_kept(%key: memref<128x16xf16>,
                                                %n: index, %init: f32)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK: %[[RESULT:.+]] = scf.for %{{.+}} iter_args(%[[STATE:.+]] = %[[INIT]])
    // CHECK:   %[[NEXT:.+]] = "step"(%{{.+}}, %[[STATE]])
    // CHECK:   scf.yield %[[NEXT]] : f32
    // CHECK: "use"(%[[RESULT]])
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      %result = scf.for %i = %c0 to %n step %c1 iter_args(%state = %init) -> f32 {
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> vector<16x16xf16>
        %next = "step"(%tile, %state) : (vector<16x16xf16>, f32) -> f32
        scf.yield %next : f32
      }
      "use"(%result) : (f32) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// The read of a tile in front of the loop waits for its copy, so the first
// copies of the loop are started before.

// CHECK-LABEL: gpu.func @read_in_front_of_the_loop_lets_copies_go_first
gpu.module @kernels {
  gpu.func @read_in_front_of_the_loop_lets_copies_go_first(
      %query: memref<16x16xf16>, %key: memref<128x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK:      %[[Q_RING:.+]] = fcgpu.alloc_ring
    // CHECK:      %[[K_RING:.+]] = fcgpu.alloc_ring
    // CHECK:      fcgpu.copy %{{.+}} to %[[Q_RING]]
    // CHECK:      fcgpu.copy %{{.+}} to %[[K_RING]]
    // CHECK:      %[[Q:.+]] = fcgpu.read %[[Q_RING]]
    // CHECK:      scf.for %
    // CHECK:        "use"(%[[Q]],
    %q_ring = fcgpu.alloc_ring : <2x16x16xf16>
    %k_ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.copy %query[%c0, %c0] to %q_ring[%warp] by warp
          : memref<16x16xf16> to <2x16x16xf16>
      %q = fcgpu.read %q_ring[%warp] : <2x16x16xf16> -> vector<16x16xf16>
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %key[%c0, %c0] to %k_ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %k = fcgpu.read %k_ring[%i] : <2x16x16xf16> -> vector<16x16xf16>
        "use"(%q, %k) : (vector<16x16xf16>, vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @loop_without_copies_is_left_alone
gpu.module @kernels {
  gpu.func @loop_without_copies_is_left_alone(%n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      // CHECK:      scf.forall
      // CHECK-NEXT:   scf.for %[[I:.+]] =
      // CHECK-NEXT:     %[[TILE:.+]] = fcgpu.read %{{.+}}[%[[I]]]
      // CHECK-NEXT:     "use"(%[[TILE]])
      // CHECK-NEXT:   }
      scf.for %i = %c0 to %n step %c1 {
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> vector<16x16xf16>
        "use"(%tile) : (vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

// CHECK-LABEL: gpu.func @kernel_without_schedule_is_left_alone
gpu.module @kernels {
  gpu.func @kernel_without_schedule_is_left_alone(%key: memref<128x16xf16>,
                                                  %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    // CHECK:      fcgpu.alloc_ring
    // CHECK-NEXT: scf.for %[[I:.+]] =
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %{{.+}}[%[[I]]] by block :
    // CHECK-NEXT: }
    scf.for %i = %c0 to %n step %c1 {
      fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
          : memref<128x16xf16> to <2x16x16xf16>
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The product that depends on no earlier iteration runs one iteration ahead of
// the rest, and so does its ring: K of tile i + 2 is copied while S of tile i + 1
// and the rest of tile i are computed. Its ring is never left undefined.

// CHECK-LABEL: gpu.func @first_product_runs_ahead
// CHECK-SAME:    (%[[K:[^:]+]]: memref<128x16xf16>, %[[V:[^:]+]]: memref<128x16xf16>, %[[N:[^:]+]]: index
gpu.module @kernels {
  gpu.func @first_product_runs_ahead(%k: memref<128x16xf16>,
                                     %v: memref<128x16xf16>, %n: index,
                                     %q: vector<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    // CHECK:      %[[K_RING:.+]] = fcgpu.alloc_ring
    // CHECK:      %[[V_RING:.+]] = fcgpu.alloc_ring
    %k_ring = fcgpu.alloc_ring : <2x16x16xf16>
    %v_ring = fcgpu.alloc_ring : <2x16x16xf16>
    // CHECK:      fcgpu.copy %[[K]]{{.+}} to %[[K_RING]]{{.+}} zero_fill
    // CHECK:      fcgpu.copy %[[K]]{{.+}} to %[[K_RING]]{{.+}} zero_fill
    // CHECK:      fcgpu.copy %[[V]]{{.+}} to %[[V_RING]]
    // CHECK-NOT:  zero_fill
    // CHECK:      %[[FIRST_K:.+]] = fcgpu.read %[[K_RING]]
    // CHECK:      %[[FIRST_S:.+]] = vector.contract {{.+}} %[[FIRST_K]]
    // CHECK:      scf.for %[[I:.+]] = {{.+}} iter_args(%[[ACC:.+]] = %{{.+}}, %[[S:.+]] = %[[FIRST_S]])
    // CHECK:        fcgpu.copy %[[K]]{{.+}} to %[[K_RING]]{{.+}} zero_fill
    // CHECK:        fcgpu.copy %[[V]]{{.+}} to %[[V_RING]]
    // CHECK:        %[[NEXT_K:.+]] = fcgpu.read %[[K_RING]]
    // CHECK:        %[[NEXT_S:.+]] = vector.contract {{.+}} %[[NEXT_K]]
    // CHECK:        %[[P:.+]] = arith.truncf %[[S]]
    // CHECK:        %[[V_TILE:.+]] = fcgpu.read %[[V_RING]][%[[I]]]
    // CHECK:        %[[O:.+]] = vector.contract {{.+}} %[[P]], %[[V_TILE]], %[[ACC]]
    // CHECK:        scf.yield %[[O]], %[[NEXT_S]]
    // CHECK-NOT:    fcgpu.overlap
    // CHECK:        } {mapping
    scf.forall (%warp) in (2) {
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero)
          -> (vector<16x16xf32>) {
        fcgpu.copy %k[%i, %c0] to %k_ring[%i] by block
            : memref<128x16xf16> to !fcgpu.ring<2x16x16xf16>
        %k_tile = fcgpu.read %k_ring[%i]
            : !fcgpu.ring<2x16x16xf16> -> vector<16x16xf16>
        %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
            iterator_types = ["parallel", "parallel", "reduction"]}
            %q, %k_tile, %zero
            : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
        %p = arith.truncf %s : vector<16x16xf32> to vector<16x16xf16>
        fcgpu.copy %v[%i, %c0] to %v_ring[%i] by block
            : memref<128x16xf16> to !fcgpu.ring<2x16x16xf16>
        %v_tile = fcgpu.read %v_ring[%i]
            : !fcgpu.ring<2x16x16xf16> -> vector<16x16xf16>
        %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
            iterator_types = ["parallel", "parallel", "reduction"]}
            %p, %v_tile, %acc
            : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
        scf.yield %o : vector<16x16xf32>
      } {fcgpu.overlap = #fcgpu.overlap<qk>}
      "use"(%r) : (vector<16x16xf32>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// The row is loaded from an input, which nobody writes: at a place that is there
// for any number of the iteration, also of those behind the last.

// CHECK-LABEL: gpu.func @row_is_in_a_list
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<128x16xf16>, %[[LIST:[^:]+]]: memref<i32>
gpu.module @kernels {
  gpu.func @row_is_in_a_list(%key: memref<128x16xf16>, %list: memref<i32> {llvm.noalias, llvm.readonly},
                             %n: index) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c7 = arith.constant 7 : index
    // CHECK:      %[[ROWS:.+]] = memref.reinterpret_cast %[[LIST]]
    // CHECK:      scf.for %[[I:.+]] = %{{.+}} to %{{.+}} step
    // CHECK:        %[[NEXT:.+]] = arith.addi %[[I]], %{{.+}} : index
    // CHECK:        %[[PLACE:.+]] = arith.minsi %[[NEXT]], %{{.+}} : index
    // CHECK:        %[[ENTRY:.+]] = memref.load %[[ROWS]][%[[PLACE]]]
    // CHECK:        %[[ROW:.+]] = arith.index_cast %[[ENTRY]] : i32 to index
    // CHECK:        fcgpu.copy %[[KEY]][%[[ROW]], %{{.+}}] to %{{.+}}[%{{.+}}] by block if
    %rows = memref.reinterpret_cast %list to offset: [0], sizes: [8], strides: [1] : memref<i32> to memref<8xi32, strided<[1]>>
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        %place = arith.minsi %i, %c7 : index
        %entry = memref.load %rows[%place] : memref<8xi32, strided<[1]>>
        %row = arith.index_cast %entry : i32 to index
        fcgpu.copy %key[%row, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> vector<16x16xf16>
        "use"(%tile) : (vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
