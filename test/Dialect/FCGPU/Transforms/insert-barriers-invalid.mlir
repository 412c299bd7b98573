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
      // expected-error @below {{'fcgpu.acquire' op is about a ring that nothing is copied into}}
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      %tile = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c0] : <2x16x16xf16>
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
        // expected-error @below {{'fcgpu.acquire' op expects a tile number that is a constant, the induction variable plus a constant, or one value from outside the loop}}
        fcgpu.acquire %ring[%twice] to fill : <2x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %ring[%twice] by block
            : memref<128x16xf16> to <2x16x16xf16>
        fcgpu.acquire %ring[%i] to read : <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> !tile
        fcgpu.release %ring[%i] : <2x16x16xf16>
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
      fcgpu.acquire %ring[%a] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%a] by block
          : memref<128x16xf16> to <2x16x16xf16>
      // expected-error @below {{'fcgpu.acquire' op expects a tile number that is a constant, the induction variable plus a constant, or one value from outside the loop}}
      fcgpu.acquire %ring[%b] to read : <2x16x16xf16>
      %tile = fcgpu.read %ring[%b] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%b] : <2x16x16xf16>
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
        fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
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
        fcgpu.acquire %ring[%i] to fill : <2x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        fcgpu.acquire %ring[%i] to read : <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> !tile
        fcgpu.release %ring[%i] : <2x16x16xf16>
      }
      // expected-error @below {{'scf.for' op is a second loop that reads rings, which the hazard analysis does not follow}}
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring[%i] to fill : <2x16x16xf16>
        fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
            : memref<128x16xf16> to <2x16x16xf16>
        fcgpu.acquire %ring[%i] to read : <2x16x16xf16>
        %tile = fcgpu.read %ring[%i] : <2x16x16xf16> -> !tile
        fcgpu.release %ring[%i] : <2x16x16xf16>
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
  gpu.func @slot_is_not_acquired_to_fill(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c1] to fill : <2x16x16xf16>
      // expected-error @below {{'fcgpu.copy' op copies into a slot that is not acquired to fill}}
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
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
  gpu.func @tile_is_not_acquired_to_read(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      // expected-error @below {{'fcgpu.read' op reads a tile that is not acquired to read}}
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
  gpu.func @tile_is_released_before_its_read(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      fcgpu.release %ring[%c0] : <2x16x16xf16>
      // expected-error @below {{'fcgpu.read' op reads a tile that is not acquired to read}}
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
  gpu.func @tile_is_released_twice(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      %tile = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c0] : <2x16x16xf16>
      // expected-error @below {{'fcgpu.release' op releases a tile that is not acquired to read}}
      fcgpu.release %ring[%c0] : <2x16x16xf16>
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
  gpu.func @slot_holds_another_tile(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      // expected-error @below {{'fcgpu.acquire' op acquires a tile to read that is not the last one copied into its slot}}
      fcgpu.acquire %ring[%c2] to read : <2x16x16xf16>
      %tile = fcgpu.read %ring[%c2] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c2] : <2x16x16xf16>
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
  gpu.func @slot_is_filled_before_its_tile_is_released(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c0] to read : <2x16x16xf16>
      // expected-error @below {{'fcgpu.acquire' op acquires a slot to fill of which the tile is acquired to read, and not released}}
      fcgpu.acquire %ring[%c2] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c2] by block
          : memref<128x16xf16> to <2x16x16xf16>
      %tile = fcgpu.read %ring[%c0] : <2x16x16xf16> -> !tile
      fcgpu.release %ring[%c0] : <2x16x16xf16>
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
  gpu.func @copies_into_one_ring_by_warp_and_by_block(%key: memref<128x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.forall (%warp) in (2) {
      fcgpu.acquire %ring[%c0] to fill : <2x16x16xf16>
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp
          : memref<128x16xf16> to <2x16x16xf16>
      fcgpu.acquire %ring[%c1] to fill : <2x16x16xf16>
      // expected-error @below {{'fcgpu.copy' op expects to be by warp like the other copies into its ring, but is by block}}
      fcgpu.copy %key[%c0, %c0] to %ring[%c1] by block
          : memref<128x16xf16> to <2x16x16xf16>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
