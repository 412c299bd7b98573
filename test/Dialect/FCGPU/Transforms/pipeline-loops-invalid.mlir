// RUN: flashcore-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-pipeline-loops)))'

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @rings_of_different_depth(%key: memref<128x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %two = fcgpu.alloc_ring : <2x16x16xf16>
    %three = fcgpu.alloc_ring : <3x16x16xf16>
    scf.for %i = %c0 to %n step %c1 {
      fcgpu.copy %key[%c0, %c0] to %two[%i] by block
          : memref<128x16xf16> to <2x16x16xf16>
      // expected-error @below {{'fcgpu.copy' op expects all rings of a loop to have 2 stages, but got 3}}
      fcgpu.copy %key[%c0, %c0] to %three[%i] by block
          : memref<128x16xf16> to <3x16x16xf16>
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @ring_of_one_stage(%key: memref<128x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <1x16x16xf16>
    scf.for %i = %c0 to %n step %c1 {
      // expected-error @below {{'fcgpu.copy' op copies into a ring of one stage, which cannot be filled ahead}}
      fcgpu.copy %key[%c0, %c0] to %ring[%i] by block
          : memref<128x16xf16> to <1x16x16xf16>
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// The row is what the loop carries.

gpu.module @kernels {
  gpu.func @row_is_carried(%key: memref<128x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    %end = scf.for %i = %c0 to %n step %c1 iter_args(%row = %c0) -> index {
      // expected-error @below {{'fcgpu.copy' op copies from an address that depends on what the loop carries; it cannot be started early}}
      fcgpu.copy %key[%row, %c0] to %ring[%i] by block
          : memref<128x16xf16> to <2x16x16xf16>
      %next = arith.addi %row, %c1 : index
      scf.yield %next : index
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @row_is_computed_from_what_is_carried(%key: memref<128x16xf16>,
                                                 %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    %end = scf.for %i = %c0 to %n step %c1 iter_args(%state = %c0) -> index {
      %row = arith.addi %state, %i : index
      // expected-error @below {{'fcgpu.copy' op copies from an address that depends on what the loop carries; it cannot be started early}}
      fcgpu.copy %key[%row, %c0] to %ring[%i] by block
          : memref<128x16xf16> to <2x16x16xf16>
      scf.yield %row : index
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// A page table: the row is loaded from memory, which the loop might write.

gpu.module @kernels {
  gpu.func @row_is_loaded(%key: memref<128x16xf16>, %rows: memref<8xindex>,
                          %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    scf.for %i = %c0 to %n step %c1 {
      %row = memref.load %rows[%i] : memref<8xindex>
      // expected-error @below {{'fcgpu.copy' op copies from an address that depends on what the loop carries; it cannot be started early}}
      fcgpu.copy %key[%row, %c0] to %ring[%i] by block
          : memref<128x16xf16> to <2x16x16xf16>
    }
    gpu.return
  }
}
