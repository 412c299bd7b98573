// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))'

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @not_a_tile(%q: !t, %k: !t, %v: !t, %o: !t) kernel {
    // expected-error @below {{'flashcore.attention' op is not a tile on memrefs; run flashcore-tile first}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = tensor<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @tensors(%q: !t, %k: !t, %v: !t, %init: !t) kernel {
    %zero = arith.constant 0 : index
    %size = arith.constant 16 : index
    // expected-error @below {{'flashcore.attention' op is not a tile on memrefs; run flashcore-tile first}}
    %o = flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%init : !t)
        tile(%zero, %zero, %zero, %size, %zero, %size, %size, %zero)
        {fcgpu.schedule = #schedule} -> !t
    gpu.return
  }
}

// -----

!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @no_schedule(%q: !t, %k: !t, %v: !t, %o: !t) kernel {
    %zero = arith.constant 0 : index
    %size = arith.constant 16 : index
    // expected-error @below {{'flashcore.attention' op has no fcgpu.schedule; run flashcore-configure first}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        tile(%zero, %zero, %zero, %size, %zero, %size, %size, %zero)
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @tile_with_a_page_table(%q: !t, %k: !t, %v: !t, %o: !t,
                                %pages: memref<1x4xi32>) kernel {
    %zero = arith.constant 0 : index
    %size = arith.constant 16 : index
    // expected-error @below {{'flashcore.attention' op is a tile with page_table; its keys are those of an fcgpu.view_pages, which flashcore-tile makes}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t)
        page_table(%pages : memref<1x4xi32>) outs(%o : !t)
        tile(%zero, %zero, %zero, %size, %zero, %size, %size, %zero)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @key_parts_without_their_loop(%q: !t, %k: !t, %v: !t, %o: !t) kernel {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    scf.forall (%warp) in (2) {
      // expected-error @below {{'flashcore.attention' op has key_warps 2, but does not stand in an scf.forall over rows and key parts}}
      flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
          tile(%c0, %c0, %c0, %c16, %c0, %c16, %c16, %c0) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 8, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 8>
!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @results_that_cannot_be_shared(%q: !t, %k: !t, %v: !t, %o: !t)
      kernel {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    scf.forall (%rows, %part) in (1, 8) {
      // expected-error @below {{'flashcore.attention' op expects key_warps to divide the 16 x 16 results of a warp into shares of whole 8x8 cores, but got 8; use fewer key_warps or a larger block_m}}
      flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
          tile(%c0, %c0, %c0, %c16, %c0, %c16, %c16, %c0) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, softmax = one_pass>
!t = memref<1x1x?x16xf16>

gpu.module @kernels {
  gpu.func @one_pass_of_any_length(%q: !t, %k: !t, %v: !t, %o: !t, %n: index)
      kernel {
    %c0 = arith.constant 0 : index
    // expected-error @below {{'flashcore.attention' op expects a seqlen_k known at compile time for softmax one_pass; use softmax online}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        tile(%c0, %c0, %c0, %n, %c0, %n, %n, %c0) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

// What a tile says of its keys is not what its memrefs have.

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, softmax = one_pass>
!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @one_pass_of_too_many(%q: !t, %k: !t, %v: !t, %o: !t) kernel {
    %c0 = arith.constant 0 : index
    %most = arith.constant 9223372036854775807 : index
    %least = arith.constant -9223372036854775808 : index
    // expected-error @below {{expects at most 4096 keys a warp with softmax one_pass, but got 9223372036854775808}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        tile(%c0, %c0, %c0, %c0, %c0, %most, %most, %c0) {fcgpu.schedule = #schedule}
    // expected-error @below {{expects a tile of at least 0 keys, but got -9223372036854775808}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        tile(%c0, %c0, %c0, %c0, %c0, %least, %least, %c0) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, row_max = folded, row_sum = mma>
!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @folded_maximum_of_changed_scores(%q: !t, %k: !t, %v: !t, %o: !t)
      kernel {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    // expected-error @below {{'flashcore.attention' op expects row_max exact or stale with a score or mask region, which changes the scores, but got folded}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        tile(%c0, %c0, %c0, %c16, %c0, %c16, %c16, %c0) score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %tanh = math.tanh %score : f32
      flashcore.yield %tanh : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @softcap_clause_of_a_tile(%q: !t, %k: !t, %v: !t, %o: !t) kernel {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    // expected-error @below {{'flashcore.attention' op is a tile with a bias, alibi or softcap clause, which flashcore-tile makes part of the score region}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        tile(%c0, %c0, %c0, %c16, %c0, %c16, %c16, %c0) softcap(3.000000e+01)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, row_max = checked, product = warpgroup>
!t = memref<1x1x64x64xf16>

gpu.module @kernels {
  gpu.func @checked_outside_of_a_loop_over_warps(%q: !t, %k: !t, %v: !t, %o: !t)
      kernel {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    // expected-error @below {{'flashcore.attention' op has row_max checked, but stands in no scf.forall, which its block could walk again}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        tile(%c0, %c0, %c0, %c64, %c0, %c64, %c64, %c0)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 0, softmax = unfused>
!t = memref<1x1x16x64xf16>

gpu.module @kernels {
  gpu.func @probabilities_of_other_tiles(%p: !t, %v: !t, %o: !t) kernel {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    // expected-error @below {{'flashcore.attention' op has probabilities of 64 keys a tile, but block_n 32}}
    flashcore.attention ins(%o, %v, %v : !t, !t, !t) probabilities(%p : !t)
        outs(%o : !t) tile(%c0, %c0, %c0, %c16, %c0, %c16, %c16, %c0)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}
