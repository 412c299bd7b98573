// RUN: flashcore-opt %s -flashcore-tile -split-input-file -verify-diagnostics

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
!t = memref<1x1x64x64xf16>

func.func @tile_outside_of_a_kernel(%q: !t, %k: !t, %v: !t, %o: !t, %i: index) {
  // expected-error @below {{'flashcore.attention_tile' op is a tile, but stands outside of a kernel}}
  flashcore.attention_tile ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(1.250000e-01)
      {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x8x512x64xf16>

func.func @feature_not_lowered(%q: !t, %k: !t, %v: !t, %o: !t,
                               %pages: memref<1x4xi32>, %bias: memref<1x1x1x1xf32>) {
  // expected-error @below {{'flashcore.attention' op uses bias with page_table, which this version cannot lower yet}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      bias(%bias : memref<1x1x1x1xf32>) page_table(%pages : memref<1x4xi32>) outs(%o : !t) {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, head_group = 4>
!qo = memref<1x12x512x64xf16>
!kv = memref<1x2x512x64xf16>

func.func @head_group_over_two_kv_heads(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  // expected-error @below {{'flashcore.attention' op expects head_group to divide heads_q / heads_kv = 6, but got 4}}
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_61", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x2x64x64xf16>

func.func @unknown_chip(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error-re @below {{'flashcore.attention' op has a schedule for an unknown chip 'sm_61': expects one of sm_70, {{.*}}; older chips have no tensor cores}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// -----

// 2 * (64 * 64 + 3 * 128 * (64 + 64)) bytes.
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 128,
  num_warps = 4, num_stages = 3, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x2x64x64xf16>

func.func @too_much_shared_memory(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op needs 106496 bytes of shared memory (block_m 64, block_n 128, num_stages 3, head_dim 64), but sm_89 allows 101376; use fewer stages or smaller blocks}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @every_faulty_op_is_reported(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has no fcgpu.schedule; run flashcore-configure first}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  // expected-error @below {{'flashcore.attention' op has no fcgpu.schedule; run flashcore-configure first}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x2x64x64xf16>

func.func @no_program(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has no program; run flashcore-decompose first}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}
