// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-distribute)))'

// What mma.sync and the layouts cannot do is refused, not distributed as if it
// were something else.

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

gpu.module @kernels {
  gpu.func @reduction_dimension_of_4(%out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %a = arith.constant dense<1.0> : vector<16x4xf16>
    %b = arith.constant dense<1.0> : vector<16x4xf16>
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    // expected-error @below {{failed to legalize operation 'vector.contract' that was explicitly marked illegal}}
    %r = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<16x4xf16>, vector<16x4xf16> into vector<16x16xf32>
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<16x16xf32>, memref<16x16xf32>
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
  gpu.func @rows_of_24(%out: memref<24x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %a = arith.constant dense<1.0> : vector<24x16xf16>
    %b = arith.constant dense<1.0> : vector<16x16xf16>
    %zero = arith.constant dense<0.0> : vector<24x16xf32>
    // expected-error @below {{failed to legalize operation 'vector.contract' that was explicitly marked illegal}}
    %r = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<24x16xf16>, vector<16x16xf16> into vector<24x16xf32>
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<24x16xf32>, memref<24x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#km = affine_map<(m, n, k) -> (k, m)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

gpu.module @kernels {
  gpu.func @lhs_stored_transposed(%out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %a = arith.constant dense<1.0> : vector<16x16xf16>
    %b = arith.constant dense<1.0> : vector<16x16xf16>
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    // expected-error @below {{failed to legalize operation 'vector.contract' that was explicitly marked illegal}}
    %r = vector.contract {indexing_maps = [#km, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<16x16xf32>, memref<16x16xf32>
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
  gpu.func @maximum_instead_of_sum(%out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %a = arith.constant dense<1.0> : vector<16x16xf16>
    %b = arith.constant dense<1.0> : vector<16x16xf16>
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    // expected-error @below {{failed to legalize operation 'vector.contract' that was explicitly marked illegal}}
    %r = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"],
        kind = #vector.kind<maxnumf>}
        %a, %b, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<16x16xf32>, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @write_of_a_tile_in_column_order(%out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : <2x16x16xf16>
    %tile = fcgpu.read %ring[%c0]
        {fcgpu.home = #fcgpu.layout<register (1, 0), lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4)>}
        : <2x16x16xf16> -> vector<16x16xf16>
    // expected-error @below {{failed to legalize operation 'vector.transfer_write' that was explicitly marked illegal}}
    vector.transfer_write %tile, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<16x16xf16>, memref<16x16xf16>
    gpu.return
  }
}
