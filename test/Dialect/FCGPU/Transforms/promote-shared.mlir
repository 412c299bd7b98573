// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-promote-shared)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// A tile in a loop is numbered by its iteration.

// CHECK-LABEL: gpu.func @tile_in_a_loop_is_copied_by_the_block
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<128x16xf16>, %[[N:[^:]+]]: index, %[[ROW:[^:]+]]: index)
gpu.module @kernels {
  gpu.func @tile_in_a_loop_is_copied_by_the_block(
      %key: memref<128x16xf16>, %n: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring : <3x64x16xf16>
    // CHECK:      scf.forall
    // CHECK:        scf.for %[[I:.+]] = %{{.+}} to %[[N]]
    // CHECK-NEXT:     fcgpu.copy %[[KEY]][%[[ROW]], %{{.+}}] to %[[RING]][%[[I]]] by block : memref<128x16xf16> to <3x64x16xf16>
    // CHECK-NEXT:     %[[TILE:.+]] = fcgpu.read %[[RING]][%[[I]]] : <3x64x16xf16> -> vector<64x16xf16>
    // CHECK-NEXT:     "use"(%[[TILE]])
    // CHECK-NOT:      vector.transfer_read
    // CHECK:      gpu.return
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        %tile = vector.transfer_read %key[%row, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 3, number = turn>,
             in_bounds = [false, true]} : memref<128x16xf16>, vector<64x16xf16>
        "use"(%tile) : (vector<64x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Columns behind those of the rows are of the ring, too.

// CHECK-LABEL: gpu.func @tile_of_rows_without_whole_chunks
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<128x20xf16>, %[[N:[^:]+]]: index, %[[ROW:[^:]+]]: index)
gpu.module @kernels {
  gpu.func @tile_of_rows_without_whole_chunks(
      %key: memref<128x20xf16>, %n: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring : <3x64x24xf16>
    // CHECK:        fcgpu.copy %[[KEY]][%[[ROW]], %{{.+}}] to %[[RING]][%{{.+}}] by block : memref<128x20xf16> to <3x64x24xf16>
    // CHECK-NEXT:   fcgpu.read %[[RING]][%{{.+}}] : <3x64x24xf16> -> vector<64x24xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        %tile = vector.transfer_read %key[%row, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 3, number = turn>}
            : memref<128x20xf16>, vector<64x24xf16>
        "use"(%tile) : (vector<64x24xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// A tile by holder belongs to the warp, which copies it into its own slot.

// CHECK-LABEL: gpu.func @tile_of_a_warp_is_copied_by_the_warp
// CHECK-SAME:    %[[QUERY:[^:]+]]: memref<32x16xbf16>
gpu.module @kernels {
  gpu.func @tile_of_a_warp_is_copied_by_the_warp(
      %query: memref<32x16xbf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.000000e+00 : bf16
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring : <2x16x16xbf16>
    // CHECK:      scf.forall (%[[WARP:.+]]) in (2)
    // CHECK:        fcgpu.copy %[[QUERY]][%{{.+}}] to %[[RING]][%[[WARP]]] by warp : memref<32x16xbf16> to <2x16x16xbf16>
    // CHECK-NEXT:   %[[TILE:.+]] = fcgpu.read %[[RING]][%[[WARP]]] : <2x16x16xbf16> -> vector<16x16xbf16>
    // CHECK-NEXT:   "use"(%[[TILE]])
    scf.forall (%warp) in (2) {
      %row = arith.muli %warp, %c16 : index
      %tile = vector.transfer_read %query[%row, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
           in_bounds = [false, true]} : memref<32x16xbf16>, vector<16x16xbf16>
      "use"(%tile) : (vector<16x16xbf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @query_in_registers_is_read_in_front_of_the_loop
gpu.module @kernels {
  gpu.func @query_in_registers_is_read_in_front_of_the_loop(
      %query: memref<32x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK:      %[[TILE:.+]] = fcgpu.read
    // CHECK-NEXT: scf.for %
    // CHECK-NEXT:   "use"(%[[TILE]])
    scf.forall (%warp) in (2) {
      %row = arith.muli %warp, %c16 : index
      %tile = vector.transfer_read %query[%row, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
           in_bounds = [false, true]} : memref<32x16xf16>, vector<16x16xf16>
      scf.for %i = %c0 to %n step %c1 {
        "use"(%tile) : (vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = shared,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @query_in_shared_memory_is_read_again_by_each_user
gpu.module @kernels {
  gpu.func @query_in_shared_memory_is_read_again_by_each_user(
      %query: memref<32x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK:      scf.forall (%[[WARP:.+]]) in (2)
    // CHECK:        fcgpu.copy %{{.+}} to %[[RING:.+]][%[[WARP]]] by warp
    // CHECK-NEXT:   scf.for %
    // CHECK-NEXT:     %[[FIRST:.+]] = fcgpu.read %[[RING]][%[[WARP]]]
    // CHECK-NEXT:     "first_use"(%[[FIRST]])
    // CHECK-NEXT:     %[[SECOND:.+]] = fcgpu.read %[[RING]][%[[WARP]]]
    // CHECK-NEXT:     "second_use"(%[[SECOND]])
    scf.forall (%warp) in (2) {
      %row = arith.muli %warp, %c16 : index
      %tile = vector.transfer_read %query[%row, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder>,
           in_bounds = [false, true]} : memref<32x16xf16>, vector<16x16xf16>
      scf.for %i = %c0 to %n step %c1 {
        "first_use"(%tile) : (vector<16x16xf16>) -> ()
        "second_use"(%tile) : (vector<16x16xf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Only 16-bit tiles go through rings.

// CHECK-LABEL: gpu.func @f32_tile_is_left_alone
gpu.module @kernels {
  gpu.func @f32_tile_is_left_alone(%bias: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f32
    // CHECK-NOT: fcgpu.alloc_ring
    // CHECK:     %[[TILE:.+]] = vector.transfer_read
    // CHECK:     "use"(%[[TILE]])
    scf.forall (%warp) in (2) {
      %tile = vector.transfer_read %bias[%c0, %c0], %zero
          {in_bounds = [false, true]} : memref<16x16xf32>, vector<16x16xf32>
      "use"(%tile) : (vector<16x16xf32>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @row_vector_is_left_alone
gpu.module @kernels {
  gpu.func @row_vector_is_left_alone(%row: memref<16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK-NOT: fcgpu.alloc_ring
    // CHECK:     %[[VALUES:.+]] = vector.transfer_read
    // CHECK:     "use"(%[[VALUES]])
    scf.forall (%warp) in (2) {
      %values = vector.transfer_read %row[%c0], %zero : memref<16xf16>, vector<16xf16>
      "use"(%values) : (vector<16xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

// Nothing of this would be allowed in a kernel with a schedule.

// CHECK-LABEL: gpu.func @kernel_without_schedule_is_left_alone
gpu.module @kernels {
  gpu.func @kernel_without_schedule_is_left_alone(%key: memref<32x16xf16>)
      kernel {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.000000e+00 : f16
    // CHECK: %[[TILE:.+]] = vector.transfer_read
    // CHECK: "use"(%[[TILE]])
    %tile = vector.transfer_read %key[%c0, %c0], %one : memref<32x16xf16>, vector<16x16xf16>
    "use"(%tile) : (vector<16x16xf16>) -> ()
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// The only key tile of a short sequence has no loop around it; its ring has no
// more slots than there are tiles.

// CHECK-LABEL: gpu.func @tile_of_all_warps_is_copied_by_the_block
gpu.module @kernels {
  gpu.func @tile_of_all_warps_is_copied_by_the_block(%key: memref<64x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring : <1x64x16xf16>
    // CHECK:      scf.forall
    // CHECK-NEXT:   %[[FIRST:.+]] = arith.constant 0 : index
    // CHECK-NEXT:   fcgpu.copy %{{.+}} to %[[RING]][%[[FIRST]]] by block
    // CHECK-NEXT:   fcgpu.read %[[RING]][%[[FIRST]]]
    scf.forall (%warp) in (2) {
      %tile = vector.transfer_read %key[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 3, number = turn>,
           in_bounds = [false, true]} : memref<64x16xf16>, vector<64x16xf16>
      "use"(%tile) : (vector<64x16xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// An odd number of cores in a row is kept: nothing is padded.

// CHECK-LABEL: gpu.func @columns_in_an_odd_number_of_cores
gpu.module @kernels {
  gpu.func @columns_in_an_odd_number_of_cores(
      %key: memref<128x40xbf16>, %n: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : bf16
    // CHECK: %[[RING:.+]] = fcgpu.alloc_ring : <3x64x40xbf16>
    // CHECK: fcgpu.copy %{{.+}} to %[[RING]][%{{.+}}] by block : memref<128x40xbf16> to <3x64x40xbf16>
    // CHECK: fcgpu.read %[[RING]][%{{.+}}] : <3x64x40xbf16> -> vector<64x40xbf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        %tile = vector.transfer_read %key[%row, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 3, number = turn>,
             in_bounds = [false, true]} : memref<128x40xbf16>, vector<64x40xbf16>
        "use"(%tile) : (vector<64x40xbf16>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = split, grid_order = query_fastest,
  min_blocks = 0, query_steps = 1>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The first 16 columns of Q stay in registers, the other 24 are read by each
// product; K is read in the same two parts.

// CHECK-LABEL: gpu.func @query_is_split
gpu.module @kernels {
  gpu.func @query_is_split(%query: memref<32x40xf16>, %key: memref<64x40xf16>,
                           %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.000000e+00 : f16
    %acc = arith.constant dense<0.000000e+00> : vector<16x16xf32>
    // CHECK:      scf.forall (%[[WARP:.+]]) in (2)
    // CHECK:        fcgpu.copy %{{.+}} to %[[RING_Q:.+]][%[[WARP]]] by warp
    // CHECK-NEXT:   %[[Q0:.+]] = fcgpu.read %[[RING_Q]][%[[WARP]]] : <2x16x40xf16> -> vector<16x16xf16>
    // CHECK-NEXT:   scf.for %[[I:.+]] = %
    // CHECK:          fcgpu.copy %{{.+}} to %[[RING_K:.+]][%[[I]]] by block
    // CHECK-NEXT:     %[[K0:.+]] = fcgpu.read %[[RING_K]][%[[I]]] : <2x16x40xf16> -> vector<16x16xf16>
    // CHECK-NEXT:     %[[K1:.+]] = fcgpu.read %[[RING_K]][%[[I]]] column(16) : <2x16x40xf16> -> vector<16x24xf16>
    // CHECK-NEXT:     %[[Q1:.+]] = fcgpu.read %[[RING_Q]][%[[WARP]]] column(16) : <2x16x40xf16> -> vector<16x24xf16>
    // CHECK-NEXT:     %[[S0:.+]] = vector.contract {{.+}} %[[Q0]], %[[K0]], %{{.+}} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    // CHECK-NEXT:     %[[S:.+]] = vector.contract {{.+}} %[[Q1]], %[[K1]], %[[S0]] : vector<16x24xf16>, vector<16x24xf16> into vector<16x16xf32>
    // CHECK-NEXT:     "use"(%[[S]])
    // CHECK-NOT:      fcgpu.read
    // CHECK:      gpu.return
    scf.forall (%warp) in (2) {
      %row = arith.muli %warp, %c16 : index
      %q = vector.transfer_read %query[%row, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
           in_bounds = [false, true]} : memref<32x40xf16>, vector<16x40xf16>
      scf.for %i = %c0 to %n step %c1 {
        %first = arith.muli %i, %c16 : index
        %k = vector.transfer_read %key[%first, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
             in_bounds = [false, true]} : memref<64x40xf16>, vector<16x40xf16>
        %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
            iterator_types = ["parallel", "parallel", "reduction"],
            kind = #vector.kind<add>} %q, %k, %acc
            : vector<16x40xf16>, vector<16x40xf16> into vector<16x16xf32>
        "use"(%s) : (vector<16x16xf32>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// What the staging says counts, whatever the schedule.

// CHECK-LABEL: gpu.func @staging_is_obeyed
gpu.module @kernels {
  gpu.func @staging_is_obeyed(%query: memref<16x64xf16>, %key: memref<128x64xf16>,
                              %p: vector<16x64xf16>, %acc: vector<16x64xf32>,
                              %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK-DAG:  %[[K_RING:.+]] = fcgpu.alloc_ring by warp : <5x64x64xf16, panels>
    // CHECK-DAG:  %[[Q_RING:.+]] = fcgpu.alloc_ring : <7x16x64xf16>
    // CHECK:      scf.forall (%[[WARP:.+]]) in (2)
    // CHECK:        fcgpu.copy %{{.+}} to %[[Q_RING]][%[[WARP]]] by warp
    // CHECK-NEXT:   scf.for %[[I:.+]] =
    // CHECK-NEXT:     fcgpu.copy %{{.+}} to %[[K_RING]][%[[I]]] by warp
    // CHECK-NEXT:     fcgpu.read %[[K_RING]][%[[I]]] {fcgpu.home = #fcgpu.shared}
    // CHECK-NEXT:     fcgpu.read %[[Q_RING]][%[[WARP]]] :
    // CHECK-NEXT:     "use"
    scf.forall (%warp) in (2) {
      %q = vector.transfer_read %query[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 7, number = holder>,
           in_bounds = [true, true]} : memref<16x64xf16>, vector<16x64xf16>
      scf.for %i = %c0 to %n step %c1 {
        %k = vector.transfer_read %key[%i, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = warp, ring = warp, slots = 5, number = turn, home = shared>,
             in_bounds = [false, true]} : memref<128x64xf16>, vector<64x64xf16>
        "use"(%q) : (vector<16x64xf16>) -> ()
        %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
            iterator_types = ["parallel", "parallel", "reduction"]} %p, %k, %acc
            : vector<16x64xf16>, vector<64x64xf16> into vector<16x64xf32>
        "use"(%s) : (vector<16x64xf32>) -> ()
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared,
  grid_order = query_fastest, min_blocks = 1, row_sum = mma, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
#in_place = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, home = shared>
!p = vector<64x64xf16>

// Columns of a constant behind those of a tile in place are filled once, where
// the ring is made.

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @columns_of_ones(
  // CHECK:         %[[RING:.+]] = fcgpu.alloc_ring : <2x64x72xf16, panels>
  // CHECK-NEXT:    fcgpu.fill %[[RING]] column(64) with 1.000000e+00 : f16 of <2x64x72xf16, panels>
  // CHECK:         scf.forall
  // CHECK:           scf.for %[[I:[^ ]+]] =
  // CHECK-NEXT:        fcgpu.copy %{{.+}} to %[[RING]][%[[I]]] by block : memref<128x64xf16> to <2x64x72xf16, panels>
  // CHECK-NEXT:        %[[V:.+]] = fcgpu.read %[[RING]][%[[I]]] {fcgpu.home = #fcgpu.shared} : <2x64x72xf16, panels> -> vector<64x72xf16>
  // CHECK-NOT:         vector.insert_strided_slice
  // CHECK:             vector.contract {{.+}} %{{.+}}, %[[V]], %{{.+}} : vector<64x64xf16>, vector<64x72xf16> into vector<64x72xf32>
  gpu.func @columns_of_ones(%value: memref<128x64xf16>, %p: !p, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    %ones = arith.constant dense<1.0> : vector<64x72xf16>
    %none = arith.constant dense<0.0> : vector<64x72xf32>
    scf.forall (%g) in (1) {
      %o = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %none) -> (vector<64x72xf32>) {
        %v = vector.transfer_read %value[%i, %c0], %zero
            {fcgpu.staging = #in_place, in_bounds = [false, true]} : memref<128x64xf16>, vector<64x64xf16>
        %wide = vector.insert_strided_slice %v, %ones {offsets = [0, 0], strides = [1, 1]}
            : vector<64x64xf16> into vector<64x72xf16>
        %s = vector.contract #product %p, %wide, %acc : !p, vector<64x72xf16> into vector<64x72xf32>
        scf.yield %s : vector<64x72xf32>
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }

  // A tile that is read into registers is widened there.

  // CHECK-LABEL: gpu.func @columns_of_ones_in_registers(
  // CHECK:         %[[RING:.+]] = fcgpu.alloc_ring : <2x64x64xf16>
  // CHECK-NOT:     fcgpu.fill
  // CHECK:           %[[V:.+]] = fcgpu.read %[[RING]][%{{.+}}] : <2x64x64xf16> -> vector<64x64xf16>
  // CHECK-NEXT:      vector.insert_strided_slice %[[V]],
  gpu.func @columns_of_ones_in_registers(%value: memref<128x64xf16>, %p: !p, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    %ones = arith.constant dense<1.0> : vector<64x72xf16>
    scf.forall (%g) in (1) {
      scf.for %i = %c0 to %n step %c1 {
        %v = vector.transfer_read %value[%i, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
             in_bounds = [false, true]} : memref<128x64xf16>, vector<64x64xf16>
        %wide = vector.insert_strided_slice %v, %ones {offsets = [0, 0], strides = [1, 1]}
            : vector<64x64xf16> into vector<64x72xf16>
        "use"(%wide) : (vector<64x72xf16>) -> ()
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// A loop over warps in a branch has rings of its own, where it stands.

// CHECK-LABEL: gpu.func @two_walks
gpu.module @kernels {
  gpu.func @two_walks(%key: memref<128x16xf16>, %again: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring : <1x64x16xf16>
    // CHECK:      scf.forall
    // CHECK:        fcgpu.copy %{{.+}} to %[[RING]]
    // CHECK:      scf.if
    // CHECK-NEXT:   %[[OWN:.+]] = fcgpu.alloc_ring : <1x64x16xf16>
    // CHECK:        scf.forall
    // CHECK:          fcgpu.copy %{{.+}} to %[[OWN]]
    scf.forall (%warp) in (2) {
      %tile = vector.transfer_read %key[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 1, number = turn>,
           in_bounds = [false, true]} : memref<128x16xf16>, vector<64x16xf16>
      "use"(%tile) : (vector<64x16xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    scf.if %again {
      scf.forall (%warp) in (2) {
        %tile = vector.transfer_read %key[%c0, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 1, number = turn>,
             in_bounds = [false, true]} : memref<128x16xf16>, vector<64x16xf16>
        "use"(%tile) : (vector<64x16xf16>) -> ()
      } {mapping = [#gpu.warp<linear_dim_0>]}
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup, output = bulk>

// A result goes by way of a slot of its warpgroup where its staging says so.

// CHECK-LABEL: gpu.func @write_through_a_slot(
// CHECK-SAME:    %[[TILE:[^:]+]]: vector<64x64xf16>, %[[OUT:[^:]+]]: memref<128x64xf16>)
gpu.module @kernels {
  gpu.func @write_through_a_slot(%tile: vector<64x64xf16>, %out: memref<128x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    // CHECK:      %[[RING:.+]] = fcgpu.alloc_ring : <2x64x64xf16, panels>
    // CHECK:      scf.forall (%[[GROUP:.+]]) in (2) {
    // CHECK:        fcgpu.store %[[TILE]] to %[[OUT]][%c0{{.*}}, %c0{{.*}}] through %[[RING]][%[[GROUP]]]
    // CHECK-NEXT:   vector.transfer_write %[[TILE]], %[[OUT]][%c64
    // CHECK-NEXT:   fcgpu.await_stores
    // CHECK-NEXT: }
    scf.forall (%group) in (2) {
      vector.transfer_write %tile, %out[%c0, %c0]
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, home = shared>,
           in_bounds = [true, true]} : vector<64x64xf16>, memref<128x64xf16>
      vector.transfer_write %tile, %out[%c64, %c0]
          {in_bounds = [true, true]} : vector<64x64xf16>, memref<128x64xf16>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared,
  grid_order = query_fastest, min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The staging says how many rows of panels lie together.

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @groups_of_panels(
  // CHECK:         %[[RING:.+]] = fcgpu.alloc_ring : <2x64x128xf16, panels(8)>
  // CHECK:         fcgpu.copy %{{.+}} to %[[RING]][%{{.+}}] by block : memref<1x1x?x128xf16, #fcgpu.pages> to <2x64x128xf16, panels(8)>
  // CHECK-NEXT:    fcgpu.read %[[RING]][%{{.+}}] {fcgpu.home = #fcgpu.shared} : <2x64x128xf16, panels(8)> -> vector<64x128xf16>
  gpu.func @groups_of_panels(%pool: memref<?x1x16x128xf16>, %table: memref<1x?xi32>, %p: vector<64x128xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %keys = fcgpu.view_pages %pool by %table rows(%n) step(64)
        : memref<?x1x16x128xf16>, memref<1x?xi32> -> memref<1x1x?x128xf16, #fcgpu.pages>
    scf.forall (%g) in (1) {
      scf.for %i = %c0 to %n step %c1 {
        %k = vector.transfer_read %keys[%c0, %c0, %i, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, home = shared, group = 8>,
             in_bounds = [false, true]} : memref<1x1x?x128xf16, #fcgpu.pages>, vector<64x128xf16>
        %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
            iterator_types = ["parallel", "parallel", "reduction"]} %p, %k, %none
            : vector<64x128xf16>, vector<64x128xf16> into vector<64x64xf32>
        "use"(%s) : (vector<64x64xf32>) -> ()
      }
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_75", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 0, product = wmma, copies = registers, exchange = padded>
#padded = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn,
  home = shared, layout = padded, via_registers = true>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The staging says how the slots are laid out, how they are filled, and that the
// tile stays there.

// CHECK-LABEL: gpu.func @padded_by_way_of_registers(
// CHECK:         %[[RING:.+]] = fcgpu.alloc_ring : <2x16x16xf16, padded>
// CHECK:           fcgpu.copy %{{.+}} to %[[RING]][%[[I:.+]]] by block via_registers :
// CHECK-NEXT:      fcgpu.read %[[RING]][%[[I]]] {fcgpu.home = #fcgpu.shared} :
gpu.module @kernels {
  gpu.func @padded_by_way_of_registers(%key: memref<128x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    %none = arith.constant dense<0.0> : vector<16x16xf32>
    scf.forall (%warp) in (1) {
      scf.for %i = %c0 to %n step %c1 {
        %k = vector.transfer_read %key[%i, %c0], %zero
            {fcgpu.staging = #padded, in_bounds = [false, true]} : memref<128x16xf16>, vector<16x16xf16>
        %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]} %k, %k, %none {fcgpu.product = #fcgpu.product<wmma>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
