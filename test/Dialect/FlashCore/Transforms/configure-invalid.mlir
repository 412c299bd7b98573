// RUN: flashcore-opt %s -flashcore-configure -split-input-file -verify-diagnostics

// What the op can say and no later phase lowers is refused by name.

!t = memref<1x8x512x64xf16>

func.func @cu_seqlens_with_bias(%q: !t, %k: !t, %v: !t, %o: !t, %cu: memref<3xi32>, %bias: memref<1x1x1x512xf32>) {
  // expected-error @below {{'flashcore.attention' op uses bias with cu_seqlens_q, which this version cannot lower yet}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) bias(%bias : memref<1x1x1x512xf32>)
      cu_seqlens_q(%cu : memref<3xi32>) cu_seqlens_k(%cu : memref<3xi32>)
      outs(%o : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>

// What works where tensors say how long sequences are.

func.func @split_keys_of_varlen(%q: !t, %k: !t, %v: !t, %o: !t, %cu: memref<3xi32>) {
  // expected-error @below {{'flashcore.attention' op expects split_keys 0 with cu_seqlens and without page_table, but got 128}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      cu_seqlens_q(%cu : memref<3xi32>) cu_seqlens_k(%cu : memref<3xi32>) outs(%o : !t)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers,
         grid_order = query_fastest, min_blocks = 0, invariance = batch, split_keys = 128>}
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @persistent_varlen(%q: !t, %k: !t, %v: !t, %o: !t, %cu: memref<3xi32>) {
  // expected-error @below {{'flashcore.attention' op expects grid full with cu_seqlens, but got persistent}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      cu_seqlens_q(%cu : memref<3xi32>) cu_seqlens_k(%cu : memref<3xi32>) outs(%o : !t)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers,
         grid_order = query_fastest, min_blocks = 1, grid = persistent>}
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @one_pass_of_lengths(%q: !t, %k: !t, %v: !t, %o: !t, %used: memref<1xi32>) {
  // expected-error @below {{'flashcore.attention' op expects a seqlen_k known at compile time for softmax one_pass; use softmax online}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) seqused_k(%used : memref<1xi32>) outs(%o : !t)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers,
         grid_order = query_fastest, min_blocks = 0, softmax = one_pass>}
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @page_table_with_bias(%q: !t, %k: !t, %v: !t, %o: !t,
                                %pages: memref<1x4xi32>, %bias: memref<1x1x1x1xf32>) {
  // expected-error @below {{'flashcore.attention' op uses bias with page_table, which this version cannot lower yet}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      bias(%bias : memref<1x1x1x1xf32>) page_table(%pages : memref<1x4xi32>) outs(%o : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @unknown_op(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has a score region with 'math.erf', which this version cannot lower there: docs/Op.md lists the ops of regions}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    // expected-note @below {{the region has it here}}
    %result = math.erf %score : f32
    flashcore.yield %result : f32
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @branch(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has a mask region with 'scf.if', but a region computes one value after the other, without branches (arith.select chooses) and without effects}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %true = arith.constant true
    %is_self = arith.cmpi eq, %query, %key : index
    // expected-note @below {{the region has it here}}
    %visible = scf.if %is_self -> i1 {
      scf.yield %true : i1
    } else {
      scf.yield %is_self : i1
    }
    flashcore.yield %visible : i1
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @store(%q: !t, %k: !t, %v: !t, %o: !t, %seen: memref<512xf32>) {
  // expected-error @below {{'flashcore.attention' op has a score region with 'memref.store', but a region computes one value after the other}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    // expected-note @below {{the region has it here}}
    memref.store %score, %seen[%key] : memref<512xf32>
    flashcore.yield %score : f32
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @double(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has a score region with 'arith.extf' of f64, but regions compute with f32, index, i32 and i1 (f16, bf16 and i8 are read and extended, and i8 compared)}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    // expected-note @below {{the region has it here}}
    %double = arith.extf %score : f32 to f64
    %result = arith.truncf %double : f64 to f32
    flashcore.yield %result : f32
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @captured_scalar(%q: !t, %k: !t, %v: !t, %o: !t, %slope: f32) {
  // expected-error @below {{'flashcore.attention' op has a score region that captures a value of f32: put it into a tensor of rank 0, which the region reads}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    // expected-note @below {{the region has it here}}
    %result = arith.mulf %score, %slope : f32
    flashcore.yield %result : f32
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @captured_short_integers(%q: !t, %k: !t, %v: !t, %o: !t, %seen: memref<512xi16>) {
  // expected-error @below {{'flashcore.attention' op has a mask region with 'memref.load' of i16, but regions compute with f32, index, i32 and i1}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    // expected-note @below {{the region has it here}}
    %short = memref.load %seen[%key] : memref<512xi16>
    %visible = arith.trunci %short : i16 to i1
    flashcore.yield %visible : i1
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>

// Bytes are read and compared, but not computed with.

func.func @sum_of_bytes(%q: !t, %k: !t, %v: !t, %o: !t, %seen: memref<512xi8>) {
  // expected-error @below {{'flashcore.attention' op has a mask region with 'arith.addi' of i8, but}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %byte = memref.load %seen[%key] : memref<512xi8>
    // expected-note @below {{the region has it here}}
    %sum = arith.addi %byte, %byte : i8
    %visible = arith.trunci %sum : i8 to i1
    flashcore.yield %visible : i1
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>
!table = memref<2x2x2x2x2xf32>

func.func @captured_rank(%q: !t, %k: !t, %v: !t, %o: !t, %table: !table) {
  // expected-error @below {{'flashcore.attention' op has a score region that captures memref<2x2x2x2x2xf32>: expects at most 4 axes}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %c0 = arith.constant 0 : index
    // expected-note @below {{the region has it here}}
    %bias = memref.load %table[%c0, %c0, %c0, %c0, %c0] : !table
    %result = arith.addf %score, %bias : f32
    flashcore.yield %result : f32
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @regions(%q: !t, %k: !t, %v: !t, %o: !t, %slopes: memref<8xbf16>, %factor: memref<f32>) {
  %limit = arith.constant 7 : index
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %slope = memref.load %slopes[%head] : memref<8xbf16>
    %wide = arith.extf %slope : bf16 to f32
    %by = memref.load %factor[] : memref<f32>
    %result = math.fma %wide, %by, %score : f32
    flashcore.yield %result : f32
  } mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %visible = arith.cmpi sle, %key, %limit : index
    flashcore.yield %visible : i1
  }
  return
}

// -----

!t = memref<1x8x512x264xf16>

func.func @head_dim_too_large(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has head_dim 264, but this version lowers 1 to 256}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!qk = memref<1x8x512x64xf16>
!vo = memref<1x8x512x264xf16>

func.func @head_dim_v_too_large(%q: !qk, %k: !qk, %v: !vo, %o: !vo) {
  // expected-error @below {{'flashcore.attention' op has head_dim_v 264, but this version lowers 1 to 256}}
  flashcore.attention ins(%q, %k, %v : !qk, !qk, !vo) outs(%o : !vo)
  return
}

// -----

!t = memref<1x8x512x64xf16>

// The gate holds for an op with a schedule too.

func.func @schedule_does_not_open_the_gate(%q: !t, %k: !t, %v: !t, %o: !t,
                                           %pages: memref<1x4xi32>, %bias: memref<1x1x1x1xf32>) {
  // expected-error @below {{'flashcore.attention' op uses bias with page_table, which this version cannot lower yet}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      bias(%bias : memref<1x1x1x1xf32>) page_table(%pages : memref<1x4xi32>) outs(%o : !t)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers,
         grid_order = query_fastest, min_blocks = 0>}
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @schedule_for_another_chip(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op has a schedule for sm_86, but the target is sm_89}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_86", block_m = 64,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers,
         grid_order = query_fastest, min_blocks = 0>}
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @every_faulty_op_is_reported(%q: !t, %k: !t, %v: !t, %o: !t,
                                       %pages: memref<1x4xi32>, %bias: memref<1x1x1x1xf32>) {
  // expected-error @below {{'flashcore.attention' op uses bias with page_table, which this version cannot lower yet}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      bias(%bias : memref<1x1x1x1xf32>) page_table(%pages : memref<1x4xi32>) outs(%o : !t)
  // expected-error @below {{'flashcore.attention' op uses bias with page_table, which this version cannot lower yet}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      bias(%bias : memref<1x1x1x1xf32>) page_table(%pages : memref<1x4xi32>) outs(%o : !t)
  return
}

// -----

!q = memref<1x8x0x64xf16>
!k = memref<1x8x512x64xf16>

func.func @no_query_rows(%q: !q, %k: !k, %own: !q) {
  // expected-error @below {{'flashcore.attention' op has a query of seqlen_q 0: there is nothing to compute; sizes that may be 0 must be dynamic}}
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) outs(%own : !q)
  return
}

// -----

!t = memref<1x8x512x64xf16, 3>

func.func @shared_memory(%q: !t, %own: !t) {
  // expected-error @below {{'flashcore.attention' op has query in memory space 3 : i64, but this version lowers global memory only: the default space, #gpu.address_space<global> or 1}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16, #gpu.address_space<workgroup>>

func.func @workgroup_memory(%q: !t, %own: !t) {
  // expected-error @below {{'flashcore.attention' op has query in memory space #gpu.address_space<workgroup>, but this version lowers global memory only: the default space, #gpu.address_space<global> or 1}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!bias = memref<1x1x512x512xf16, 3>

func.func @bias_in_shared_memory(%q: !t, %bias: !bias, %own: !t) {
  // expected-error @below {{'flashcore.attention' op has bias in memory space 3 : i64, but this version lowers global memory only: the default space, #gpu.address_space<global> or 1}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%bias : !bias)
      outs(%own : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @schedule_of_the_user_does_not_fit(%q: !t, %own: !t) {
  // expected-error @below {{'flashcore.attention' op needs 270336 bytes of shared memory (block_m 64, block_n 256, num_stages 4, head_dim 64), but sm_89 allows 101376; use fewer stages or smaller blocks}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 256, num_warps = 4, num_stages = 4, query = registers,
         grid_order = query_fastest, min_blocks = 0>}
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32>

func.func @scores_of_sequences(%q: !t, %s: !s, %cu: memref<3xi32>, %own: !t) {
  // expected-error @below {{'flashcore.attention' op uses scores with cu_seqlens_q, which this version cannot lower yet}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) cu_seqlens_q(%cu : memref<3xi32>) cu_seqlens_k(%cu : memref<3xi32>) outs(%own : !t) scores(%s : !s) stage(masked)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32>

func.func @scores_of_pages(%q: !t, %s: !s, %pages: memref<1x1xi32>, %own: !t) {
  // expected-error @below {{'flashcore.attention' op uses scores with page_table, which this version cannot lower yet}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) page_table(%pages : memref<1x1xi32>) outs(%own : !t) scores(%s : !s) stage(masked)
  return
}

// -----

!t = memref<64x64x1048576x64xf16>
!s = memref<64x64x1048576x1048576xf16>

func.func @more_tiles_of_scores_than_a_grid_has(%q: !t, %s: !s, %own: !t) {
  // expected-error @below {{'flashcore.attention' op needs 1099511627776 blocks for its scores (batch 64, heads_q 64, seqlen_q 1048576, seqlen_k 1048576, tiles of 64 x 64), but CUDA launches at most 2147483647; compute it in several parts}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t) scores(%s : !s) stage(masked)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32, 3>

func.func @scores_in_shared_memory(%q: !t, %s: !s, %own: !t) {
  // expected-error @below {{'flashcore.attention' op has scores in memory space 3 : i64, but this version lowers global memory only: the default space, #gpu.address_space<global> or 1}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t) scores(%s : !s) stage(masked)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!n = memref<1x8x0x64xf16>

func.func @append_of_no_rows(%q: !t, %k: !t, %v: !t, %n: !n, %u: memref<1xi32>, %own: !t) {
  // expected-error @below {{'flashcore.attention' op has a k_new of seqlen_new 0: there is nothing to compute; sizes that may be 0 must be dynamic}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) seqused_k(%u : memref<1xi32>) append(%n, %n : !n, !n) outs(%own : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!c = memref<512x16xf16, 3>

func.func @angles_in_shared_memory(%q: !t, %k: !t, %v: !t, %n: !t, %c: !c, %u: memref<1xi32>, %own: !t) {
  // expected-error @below {{'flashcore.attention' op has rotary_cos in memory space 3 : i64, but this version lowers global memory only: the default space, #gpu.address_space<global> or 1}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) seqused_k(%u : memref<1xi32>) append(%n, %n : !t, !t) rotary(%c, %c : !c, !c) outs(%own : !t) style(half)
  return
}

// -----

// What works with lists of blocks.

!t = memref<1x8x512x64xf16>
!counts = memref<1x8x4xi32>
!indices = memref<1x8x4x8xi32>

func.func @block_m_of_lists(%q: !t, %o: !t, %n: !counts, %blocks: !indices) {
  // expected-error @below {{'flashcore.attention' op expects block_m to divide the 128 queries of a block of the lists (block_size), but got 96}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) block_counts(%n : !counts) block_indices(%blocks : !indices)
      outs(%o : !t) block_size(128, 64)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 96,
         block_n = 64, num_warps = 3, num_stages = 2, query = registers,
         grid_order = query_fastest, min_blocks = 0>}
  return
}

// -----

!t = memref<1x8x512x64xf16>
!counts = memref<1x8x4xi32>
!indices = memref<1x8x4x8xi32>

func.func @block_n_of_lists(%q: !t, %o: !t, %n: !counts, %blocks: !indices) {
  // expected-error @below {{'flashcore.attention' op expects block_n to divide the 64 keys of a block of the lists (block_size), but got 48}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) block_counts(%n : !counts) block_indices(%blocks : !indices)
      outs(%o : !t) block_size(128, 64)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 48, num_warps = 4, num_stages = 2, query = registers,
         grid_order = query_fastest, min_blocks = 0>}
  return
}

// -----

!t = memref<1x8x512x64xf16>
!kv = memref<1x2x512x64xf16>
!counts = memref<1x8x4xi32>
!indices = memref<1x8x4x8xi32>

func.func @heads_of_lists(%q: !t, %k: !kv, %o: !t, %n: !counts, %blocks: !indices) {
  // expected-error @below {{'flashcore.attention' op expects head_group 1 with block lists of each head, since the heads of a block walk the same keys, but got 2}}
  flashcore.attention ins(%q, %k, %k : !t, !kv, !kv) block_counts(%n : !counts) block_indices(%blocks : !indices)
      outs(%o : !t) block_size(128, 64)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers, head_group = 2,
         grid_order = query_fastest, min_blocks = 0>}
  return
}

// -----

!t = memref<1x8x512x64xf16>
!counts = memref<1x8x4xi32>
!indices = memref<1x8x4x8xi32>

func.func @split_keys_of_lists(%q: !t, %o: !t, %n: !counts, %blocks: !indices) {
  // expected-error @below {{'flashcore.attention' op expects key_splits 1 with block lists, which are walked by one block, but got 2}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) block_counts(%n : !counts) block_indices(%blocks : !indices)
      outs(%o : !t) block_size(128, 64)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers, key_splits = 2,
         grid_order = query_fastest, min_blocks = 0>}
  return
}

// -----

!t = memref<1x8x512x64xf16>
!counts = memref<1x8x4xi32>
!indices = memref<1x8x4x8xi32>

func.func @split_keys_of_invariant_lists(%q: !t, %o: !t, %n: !counts, %blocks: !indices) {
  // expected-error @below {{'flashcore.attention' op expects split_keys 0 with block lists, which are walked by one block, but got 128}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) block_counts(%n : !counts) block_indices(%blocks : !indices)
      outs(%o : !t) block_size(128, 64)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers,
         grid_order = query_fastest, min_blocks = 0, invariance = batch, split_keys = 128>}
  return
}

// -----

!t = memref<1x8x512x64xf16>
!counts = memref<1x8x4xi32>
!indices = memref<1x8x4x8xi32>

func.func @one_pass_of_lists(%q: !t, %o: !t, %n: !counts, %blocks: !indices) {
  // expected-error @below {{'flashcore.attention' op expects softmax online with block lists, whose lengths are data, but got one_pass}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) block_counts(%n : !counts) block_indices(%blocks : !indices)
      outs(%o : !t) block_size(128, 64)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64,
         block_n = 64, num_warps = 4, num_stages = 2, query = registers, softmax = one_pass,
         grid_order = query_fastest, min_blocks = 0>}
  return
}
