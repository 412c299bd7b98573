// RUN: flashcore-opt %s -split-input-file -verify-diagnostics -flashcore-decompose -flashcore-tile

!t = memref<1x8x512x64xf16>
func.func @no_schedule(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has no fcgpu.schedule; run flashcore-configure first}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = tensor<1x8x512x64xf16>
func.func @tensors(%q: !t, %k: !t, %v: !t, %init: !t) -> !t {
  // expected-error @below {{'flashcore.attention' op is on tensors; bufferize it first (one-shot-bufferize)}}
  %o = flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%init : !t)
      {fcgpu.schedule = #schedule} -> !t
  return %o : !t
}

// -----

// The program is of a schedule that does not split keys.
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 2>
!t = memref<1x8x512x64xf16>
func.func @of_another_schedule(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has a program of other kernels than its schedule asks for; leave the program out, and run flashcore-decompose}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) {fcgpu.schedule = #schedule} program {
    flashcore.attention_kernel
  }
  return
}

// -----

// There is no schedule for few queries.
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x8x?x64xf16>
func.func @few_without_a_schedule(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has a program of other kernels than its schedule asks for; leave the program out, and run flashcore-decompose}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) {fcgpu.schedule = #schedule} program {
    %is_few = flashcore.few_queries at_most(16)
    scf.if %is_few {
      flashcore.attention_kernel
    } else {
      flashcore.attention_kernel
    }
  }
  return
}

// -----

// The program does not ask.
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, expected_queries = 16>
!t = memref<1x8x?x64xf16>
func.func @schedule_without_few(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has a program of other kernels than its schedule asks for; leave the program out, and run flashcore-decompose}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule, fcgpu.few_queries = #schedule} program {
    flashcore.attention_kernel
  }
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 2>
!t = memref<1x8x512x64xf16>
func.func @of_another_type(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) {fcgpu.schedule = #schedule} program {
    // expected-error @below {{'flashcore.workspace' op expects partial_outputs to be 'memref<2x1x8x512x64xf32>', but got 'memref<4x1x8x512x64xf32>'}}
    %o4 = flashcore.workspace partial_outputs : memref<4x1x8x512x64xf32>
    %l = flashcore.workspace partial_lses : memref<2x1x8x512xf32>
    %r = flashcore.workspace partial_lse_rests : memref<2x1x8x512xf32>
    flashcore.attention_kernel writes(%o4, %l, %r : memref<4x1x8x512x64xf32>, memref<2x1x8x512xf32>, memref<2x1x8x512xf32>)
    flashcore.merge_kernel reads(%o4, %l, %r : memref<4x1x8x512x64xf32>, memref<2x1x8x512xf32>, memref<2x1x8x512xf32>)
  }
  return
}
