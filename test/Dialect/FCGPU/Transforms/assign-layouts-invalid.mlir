// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts)))'

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

gpu.module @kernels {
  gpu.func @product_of_bytes(%a: vector<16x32xi8>, %b: vector<16x32xi8>,
                             %acc: vector<16x16xi32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // expected-error @below {{'vector.contract' op multiplies 'i8' by 'i8' into 'i32', for which sm_89 has no instruction that is known here}}
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %acc : vector<16x32xi8>, vector<16x32xi8> into vector<16x16xi32>
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
  gpu.func @product_of_8_bit_floats(%a: vector<16x32xf8E4M3FN>,
                                    %b: vector<16x32xf8E4M3FN>,
                                    %acc: vector<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // expected-error @below {{'vector.contract' op multiplies 'f8E4M3FN' by 'f8E4M3FN' into 'f32', for which sm_89 has no instruction that is known here}}
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %acc : vector<16x32xf8E4M3FN>, vector<16x32xf8E4M3FN> into vector<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_100", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  // expected-error-re @below {{'gpu.func' op unknown chip 'sm_100': expects one of sm_70, {{.*}}; sm_100 runs the PTX that is made for sm_90: compile for that}}
  gpu.func @chip_that_is_too_new() kernel attributes {fcgpu.schedule = #schedule} {
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

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 0, product = wmma, exchange = padded>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<2x16x16xf16, padded>

gpu.module @kernels {
  gpu.func @plain_rows_of_no_product(%ring: !ring, %i: index, %acc: vector<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %k = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
    // expected-error @below {{'vector.contract' op takes a tile in place of plain rows, but has no fcgpu.product that says how}}
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %k, %k, %acc : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    gpu.return
  }
}
