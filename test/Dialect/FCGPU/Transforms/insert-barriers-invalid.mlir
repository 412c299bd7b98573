// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-insert-barriers)))'

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

gpu.module @kernels {
  gpu.func @ring_is_never_filled()
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      // expected-error @below {{'fcgpu.read' op reads a ring that nothing was copied into}}
      %tile = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

gpu.module @kernels {
  gpu.func @tile_number_is_not_affine(%key: memref<128x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        %twice = arith.addi %i, %i : index
        // expected-error @below {{'fcgpu.copy' op expects a tile number that is a constant, the induction variable plus a constant, or one value from outside the loop}}
        fcgpu.copy %key[%c0, %c0] to %ring[%twice] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> !tile
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

gpu.module @kernels {
  gpu.func @two_unknown_tile_numbers(%key: memref<128x16xf16>, %a: index,
                                     %b: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.copy %key[%c0, %c0] to %ring[%a] by block
          : memref<128x16xf16> to <2x16x16xf16>
      // expected-error @below {{'fcgpu.read' op expects a tile number that is a constant, the induction variable plus a constant, or one value from outside the loop}}
      %tile = fcgpu.read %ring[%b] : <2x16x16xf16> -> !tile
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

gpu.module @kernels {
  gpu.func @access_in_a_nested_region(%key: memref<128x16xf16>, %wanted: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      // expected-error @below {{'scf.if' op accesses a ring in a nested region, which the hazard analysis does not follow}}
      scf.if %wanted {
        fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
            : memref<128x16xf16> to <2x16x16xf16>
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

gpu.module @kernels {
  gpu.func @two_loops(%key: memref<128x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> !tile
      }
      // expected-error @below {{'scf.for' op is a second loop that reads rings, which the hazard analysis does not follow}}
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> !tile
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
