// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-promote-shared)))'

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @outside_of_warps(%key: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    // expected-error @below {{'vector.transfer_read' op reads a tile outside of an scf.forall over warps}}
    %tile = vector.transfer_read %key[%c0, %c0], %zero
        {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
         in_bounds = [false, true]} : memref<16x16xf16>, vector<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @padding_is_not_zero(%key: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.000000e+00 : f16
    scf.forall (%warp) in (1) {
      // expected-error @below {{'vector.transfer_read' op expects an unmasked, untransposed tile padded with zeros}}
      %tile = vector.transfer_read %key[%c0, %c0], %one
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<16x16xf16>, vector<16x16xf16>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#transpose = affine_map<(d0, d1) -> (d1, d0)>

gpu.module @kernels {
  gpu.func @transposed(%key: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (1) {
      // expected-error @below {{'vector.transfer_read' op expects an unmasked, untransposed tile padded with zeros}}
      %tile = vector.transfer_read %key[%c0, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [true, true], permutation_map = #transpose}
          : memref<16x16xf16>, vector<16x16xf16>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @masked(%key: memref<16x16xf16>, %mask: vector<16x16xi1>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (1) {
      // expected-error @below {{'vector.transfer_read' op expects an unmasked, untransposed tile padded with zeros}}
      %tile = vector.transfer_read %key[%c0, %c0], %zero, %mask
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>}
          : memref<16x16xf16>, vector<16x16xf16>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @loop_does_not_start_at_zero(%key: memref<64x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (1) {
      scf.for %i = %c1 to %n step %c1 {
        // expected-error @below {{'vector.transfer_read' op expects its loop to start at 0 with step 1}}
        %tile = vector.transfer_read %key[%c0, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
             in_bounds = [false, true]} : memref<64x16xf16>, vector<16x16xf16>
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @loop_has_another_step(%key: memref<64x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (1) {
      scf.for %i = %c0 to %n step %c16 {
        // expected-error @below {{'vector.transfer_read' op expects its loop to start at 0 with step 1}}
        %tile = vector.transfer_read %key[%i, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
             in_bounds = [false, true]} : memref<64x16xf16>, vector<16x16xf16>
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @every_faulty_read_is_reported(%key: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    // expected-error @below {{'vector.transfer_read' op reads a tile outside of an scf.forall over warps}}
    %first = vector.transfer_read %key[%c0, %c0], %zero
        {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
         in_bounds = [false, true]} : memref<16x16xf16>, vector<16x16xf16>
    // expected-error @below {{'vector.transfer_read' op reads a tile outside of an scf.forall over warps}}
    %second = vector.transfer_read %key[%c0, %c0], %zero
        {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
         in_bounds = [false, true]} : memref<16x16xf16>, vector<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @staging_is_missing(%key: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      // expected-error @below {{'vector.transfer_read' op reads a 16-bit tile, but has no fcgpu.staging; run flashcore-online-softmax first}}
      %tile = vector.transfer_read %key[%c0, %c0], %zero
          {in_bounds = [false, true]} : memref<16x16xf16>, vector<16x16xf16>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @tile_of_a_holder_in_a_loop(%query: memref<64x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        // expected-error @below {{'vector.transfer_read' op stands in a loop, but its fcgpu.staging has number = holder; use number = turn}}
        %tile = vector.transfer_read %query[%i, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
             in_bounds = [false, true]} : memref<64x16xf16>, vector<16x16xf16>
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

gpu.module @kernels {
  gpu.func @split_of_no_product(%query: memref<32x32xf16>, %key: memref<64x32xf16>,
      %n: index) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      %row = arith.muli %warp, %c16 : index
      // expected-error @below {{'vector.transfer_read' op expects only products with tiles stored (n, k) to use it with kept = 16; use kept = 0 or 32}}
      %q = vector.transfer_read %query[%row, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
           in_bounds = [false, true]} : memref<32x32xf16>, vector<16x32xf16>
      %twice = arith.addf %q, %q : vector<16x32xf16>
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

gpu.module @kernels {
  gpu.func @split_of_another_product(%query: memref<32x32xf16>, %key: memref<64x32xf16>,
      %n: index) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      %row = arith.muli %warp, %c16 : index
      // expected-error @below {{'vector.transfer_read' op expects only products with tiles stored (n, k) to use it with kept = 16; use kept = 0 or 32}}
      %q = vector.transfer_read %query[%row, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
           in_bounds = [false, true]} : memref<32x32xf16>, vector<16x32xf16>
      %acc = arith.constant dense<0.000000e+00> : vector<16x32xf32>
      %k = vector.transfer_read %key[%n, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<64x32xf16>, vector<32x32xf16>
      %s = vector.contract {indexing_maps = [#mk, #kn, #mn],
          iterator_types = ["parallel", "parallel", "reduction"],
          kind = #vector.kind<add>} %q, %k, %acc
          : vector<16x32xf16>, vector<32x32xf16> into vector<16x32xf32>
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

gpu.module @kernels {
  gpu.func @split_of_a_product_with_itself(%query: memref<32x32xf16>, %key: memref<64x32xf16>,
      %n: index) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      %row = arith.muli %warp, %c16 : index
      // expected-error @below {{'vector.transfer_read' op expects only products with tiles stored (n, k) to use it with kept = 16; use kept = 0 or 32}}
      %q = vector.transfer_read %query[%row, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
           in_bounds = [false, true]} : memref<32x32xf16>, vector<16x32xf16>
      %acc = arith.constant dense<0.000000e+00> : vector<16x16xf32>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
          iterator_types = ["parallel", "parallel", "reduction"],
          kind = #vector.kind<add>} %q, %q, %acc
          : vector<16x32xf16>, vector<16x32xf16> into vector<16x16xf32>
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

gpu.module @kernels {
  gpu.func @split_of_a_maximum(%query: memref<32x32xf16>, %key: memref<64x32xf16>,
      %n: index) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      %row = arith.muli %warp, %c16 : index
      // expected-error @below {{'vector.transfer_read' op expects only products with tiles stored (n, k) to use it with kept = 16; use kept = 0 or 32}}
      %q = vector.transfer_read %query[%row, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
           in_bounds = [false, true]} : memref<32x32xf16>, vector<16x32xf16>
      %acc = arith.constant dense<0.000000e+00> : vector<16x32xf32>
      %k = vector.transfer_read %key[%n, %c0], %zero
          {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<64x32xf16>, vector<32x32xf16>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
          iterator_types = ["parallel", "parallel", "reduction"],
          kind = #vector.kind<maxnumf>} %q, %k, %acc
          : vector<16x32xf16>, vector<32x32xf16> into vector<16x32xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared,
  grid_order = query_fastest, min_blocks = 1, row_sum = mma, product = warpgroup>
#in_place = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, home = shared>

gpu.module @kernels {
  // Columns in front of those of the tile, or that are not all the same, no ring
  // can have: the tile would have to leave its slot.

  gpu.func @constant_columns_in_front(%value: memref<128x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.000000e+00 : f16
    %ones = arith.constant dense<1.0> : vector<64x72xf16>
    scf.forall (%g) in (1) {
      // expected-error @below {{'fcgpu.read' op reads a tile in place, which only products can use, but vector.insert_strided_slice does}}
      %v = vector.transfer_read %value[%c0, %c0], %zero
          {fcgpu.staging = #in_place, in_bounds = [false, true]} : memref<128x64xf16>, vector<64x64xf16>
      %wide = vector.insert_strided_slice %v, %ones {offsets = [0, 8], strides = [1, 1]}
          : vector<64x64xf16> into vector<64x72xf16>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup, output = bulk>

gpu.module @kernels {
  gpu.func @write_outside_of_a_loop(%tile: vector<64x64xf16>, %out: memref<128x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // expected-error @below {{writes a tile outside of an scf.forall over warps}}
    vector.transfer_write %tile, %out[%c0, %c0]
        {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, home = shared>,
         in_bounds = [true, true]} : vector<64x64xf16>, memref<128x64xf16>
    gpu.return
  }
}
