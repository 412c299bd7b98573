// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-distribute)))'

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 128,
  num_warps = 1, num_stages = 4, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  // expected-error @below {{'gpu.func' op needs 131072 bytes of shared memory, but sm_89 allows 101376; use fewer stages or smaller blocks}}
  gpu.func @too_much_shared_memory()
      kernel attributes {fcgpu.schedule = #schedule} {
    %ring = fcgpu.alloc_ring : <4x128x128xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_61", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  // expected-error-re @below {{'gpu.func' op unknown chip 'sm_61': expects one of sm_70, {{.*}}; older chips have no tensor cores}}
  gpu.func @unknown_chip() kernel attributes {fcgpu.schedule = #schedule} {
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @loop_over_too_few_warps()
      kernel attributes {fcgpu.schedule = #schedule} {
    // expected-error @below {{'scf.forall' op expects a loop of one or two dimensions over the 4 warps of the launch, but got 2}}
    scf.forall (%warp) in (2) {
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @loop_over_three_dimensions()
      kernel attributes {fcgpu.schedule = #schedule} {
    // expected-error @below {{'scf.forall' op expects a loop of one or two dimensions over the 4 warps of the launch, but got 4 x 1 x 1}}
    scf.forall (%x, %y, %z) in (4, 1, 1) {
    } {mapping = [#gpu.warp<linear_dim_0>, #gpu.warp<linear_dim_1>,
                  #gpu.warp<linear_dim_2>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @loops_over_warps_and_warpgroups()
      kernel attributes {fcgpu.schedule = #schedule} {
    scf.forall (%group) in (1) {
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    // expected-error @below {{'scf.forall' op expects a loop of one or two dimensions over the 1 warpgroups of the launch, but got 4}}
    scf.forall (%warp) in (4) {
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @reduction_of_another_kind(%out: memref<16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %s = arith.constant dense<1.0> : vector<16x16xf32>
    %init = arith.constant dense<1.0> : vector<16xf32>
    // expected-error @below {{failed to legalize operation 'vector.multi_reduction' that was explicitly marked illegal}}
    %r = vector.multi_reduction <mul>, %s, %init [1]
        : vector<16x16xf32> to vector<16xf32>
    vector.transfer_write %r, %out[%c0] {in_bounds = [true]}
        : vector<16xf32>, memref<16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @reduction_along_rows(%out: memref<16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %s = arith.constant dense<1.0> : vector<16x16xf32>
    %init = arith.constant dense<1.0> : vector<16xf32>
    // expected-error @below {{failed to legalize operation 'vector.multi_reduction' that was explicitly marked illegal}}
    %r = vector.multi_reduction <add>, %s, %init [0]
        : vector<16x16xf32> to vector<16xf32>
    vector.transfer_write %r, %out[%c0] {in_bounds = [true]}
        : vector<16xf32>, memref<16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @read_that_ldmatrix_cannot_do(%out: memref<16x32xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x16x32xf16>
    // expected-error @below {{failed to legalize operation 'fcgpu.read' that was explicitly marked illegal}}
    %tile = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.layout<register (0, 1) (0, 2) (0, 4), lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0)>}
        : <2x16x32xf16> -> vector<16x32xf16>
    vector.transfer_write %tile, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<16x32xf16>, memref<16x32xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#transpose = affine_map<(d0, d1) -> (d1, d0)>

gpu.module @kernels {
  gpu.func @transposed_write(%out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %tile = arith.constant dense<1.0> : vector<16x16xf16>
    // expected-error @below {{failed to legalize operation 'vector.transfer_write' that was explicitly marked illegal}}
    vector.transfer_write %tile, %out[%c0, %c0]
        {in_bounds = [true, true], permutation_map = #transpose}
        : vector<16x16xf16>, memref<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @constant_is_no_splat(%out: memref<16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    // expected-error @below {{failed to legalize operation 'arith.constant' that was explicitly marked illegal}}
    %ramp = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0,
        9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]> : vector<16xf32>
    vector.transfer_write %ramp, %out[%c0] {in_bounds = [true]}
        : vector<16xf32>, memref<16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

gpu.module @kernels {
  gpu.func @contraction_into_f16(%out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %a = arith.constant dense<1.0> : vector<16x16xf16>
    // expected-error @below {{failed to legalize operation 'vector.contract' that was explicitly marked illegal}}
    %r = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %a, %a {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf16>
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<16x16xf16>, memref<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>

gpu.module @kernels {
  gpu.func @loop_over_unknown_key_parts(%parts: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // expected-error @below {{'scf.forall' op expects a loop of one or two dimensions over the 4 warps of the launch, but got 1 x ?}}
    scf.forall (%rows, %part) in (1, %parts) {
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x64x128xf16, panels>

gpu.module @kernels {
  gpu.func @chip_without_bulk_copies(%k: memref<1x1x512x128xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    // expected-error @below {{'fcgpu.copy' op fills '!fcgpu.ring<2x64x128xf16, panels>', for which sm_89 has no instruction that is known here}}
    fcgpu.copy %k[%c0, %c0, %c0, %c0] to %ring[%c0] by block : memref<1x1x512x128xf16> to !ring
    gpu.return
  }
}
