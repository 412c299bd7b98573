// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))'

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @not_a_tile(%q: !t, %k: !t, %v: !t, %o: !t) kernel {
    // expected-error @below {{'flashcore.attention' op is not a tile; run flashcore-tile first}}
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

!t = memref<1x1x16x16xf16>

gpu.module @kernels {
  gpu.func @no_schedule(%q: !t, %k: !t, %v: !t, %o: !t) kernel {
    %zero = arith.constant 0 : index
    %size = arith.constant 16 : index
    // expected-error @below {{'flashcore.attention_tile' op has no fcgpu.schedule; flashcore-tile leaves it on tiles}}
    flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        at(batch %zero, head %zero, query %zero of %size, key %zero to %size of %size, block %zero)
        scale(1.250000e-01)
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
      // expected-error @below {{'flashcore.attention_tile' op has key_warps 2, but does not stand in an scf.forall over rows and key parts}}
      flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
          at(batch %c0, head %c0, query %c0 of %c16, key %c0 to %c16 of %c16, block %c0) scale(1.250000e-01)
          {fcgpu.schedule = #schedule}
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
      // expected-error @below {{'flashcore.attention_tile' op expects key_warps to divide the 16 x 16 results of a warp into shares of whole 8x8 cores, but got 8; use fewer key_warps or a larger block_m}}
      flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
          at(batch %c0, head %c0, query %c0 of %c16, key %c0 to %c16 of %c16, block %c0) scale(1.250000e-01)
          {fcgpu.schedule = #schedule}
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
    // expected-error @below {{'flashcore.attention_tile' op expects a seqlen_k known at compile time for softmax one_pass; use softmax online}}
    flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        at(batch %c0, head %c0, query %c0 of %n, key %c0 to %n of %n, block %c0) scale(1.250000e-01)
        {fcgpu.schedule = #schedule}
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
    flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        at(batch %c0, head %c0, query %c0 of %c0, key %c0 to %most of %most, block %c0) scale(1.250000e-01)
        {fcgpu.schedule = #schedule}
    // expected-error @below {{expects a tile of at least 0 keys, but got -9223372036854775808}}
    flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        at(batch %c0, head %c0, query %c0 of %c0, key %c0 to %least of %least, block %c0) scale(1.250000e-01)
        {fcgpu.schedule = #schedule}
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
    // expected-error @below {{'flashcore.attention_tile' op expects row_max exact or stale with a score or mask region, which changes the scores, but got folded}}
    flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        at(batch %c0, head %c0, query %c0 of %c16, key %c0 to %c16 of %c16, block %c0) scale(1.250000e-01)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %tanh = math.tanh %score : f32
      flashcore.yield %tanh : f32
    } {fcgpu.schedule = #schedule}
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
    // expected-error @below {{'flashcore.attention_tile' op has row_max checked, but stands in no scf.forall, which its block could walk again}}
    flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
        at(batch %c0, head %c0, query %c0 of %c64, key %c0 to %c64 of %c64, block %c0) scale(1.250000e-01)
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
    // expected-error @below {{'flashcore.values_tile' op has probabilities of 64 keys a tile, but block_n 32}}
    flashcore.values_tile ins(%p, %v : !t, !t) outs(%o : !t)
        at(batch %c0, head %c0, query %c0 of %c16, key %c0 to %c16 of %c16, block %c0)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}
