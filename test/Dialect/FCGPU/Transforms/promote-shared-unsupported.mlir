// RUN: flashcore-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-promote-shared)))'

// A ring holds whole rows of a multiple of 16 columns, and what the block copies
// must be the same for all its warps.

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @part_of_a_row(%key: memref<16x32xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      // expected-error @below {{'vector.transfer_read' op expects a tile of whole rows, but got 16 columns of 32}}
      %tile = vector.transfer_read %key[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<16x32xf16>, vector<16x16xf16>
      "use"(%tile) : (vector<16x16xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @first_column_is_not_zero(%key: memref<16x16xf16>, %col: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      // expected-error @below {{'vector.transfer_read' op expects a tile that starts at column 0}}
      %tile = vector.transfer_read %key[%c0, %col], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>}
          : memref<16x16xf16>, vector<16x16xf16>
      "use"(%tile) : (vector<16x16xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @columns_not_a_multiple_of_8(%key: memref<16x20xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      // expected-error @below {{'vector.transfer_read' op expects rows in multiples of 16 and columns in multiples of 8 from 16 on, but got 16 and 20}}
      %tile = vector.transfer_read %key[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<16x20xf16>, vector<16x20xf16>
      "use"(%tile) : (vector<16x20xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @columns_fewer_than_16(%key: memref<16x8xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      // expected-error @below {{'vector.transfer_read' op expects rows in multiples of 16 and columns in multiples of 8 from 16 on, but got 16 and 8}}
      %tile = vector.transfer_read %key[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<16x8xf16>, vector<16x8xf16>
      "use"(%tile) : (vector<16x8xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @rows_not_a_multiple_of_16(%key: memref<24x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      // expected-error @below {{'vector.transfer_read' op expects rows in multiples of 16 and columns in multiples of 8 from 16 on, but got 24 and 16}}
      %tile = vector.transfer_read %key[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<24x16xf16>, vector<24x16xf16>
      "use"(%tile) : (vector<24x16xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @tile_in_a_loop_differs_between_warps(%key: memref<64x16xf16>,
                                                 %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        %row = arith.addi %i, %warp : index
        // expected-error @below {{'vector.transfer_read' op reads a tile that differs between warps, but its fcgpu.staging has copy = block; use copy = warp}}
        %tile = vector.transfer_read %key[%row, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
             in_bounds = [false, true]} : memref<64x16xf16>, vector<16x16xf16>
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

gpu.module @kernels {
  gpu.func @tile_outside_of_loops_differs_between_warps(%key: memref<64x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      // expected-error @below {{'vector.transfer_read' op reads a tile that differs between warps, but its fcgpu.staging has copy = block; use copy = warp}}
      %tile = vector.transfer_read %key[%warp, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<64x16xf16>, vector<16x16xf16>
      "use"(%tile) : (vector<16x16xf16>) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
