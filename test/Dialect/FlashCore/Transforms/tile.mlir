// RUN: flashcore-opt %s -flashcore-decompose -flashcore-tile -split-input-file | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<2x4x128x64xf16>
!kv = memref<2x4x96x64xf16>

// A block for each of 2 batch entries, 4 heads and 128 / 64 query tiles; a ring
// for Q and two of two slots for K and V: 2 * (64 * 64 + 2 * 32 * (64 + 64)).

// CHECK-LABEL: func.func @launch_replaces_attention
// CHECK-SAME:    %[[Q:[^:]+]]: memref<2x4x128x64xf16>, %[[K:[^:]+]]: memref<2x4x96x64xf16>, %[[V:[^:]+]]: memref<2x4x96x64xf16>, %[[O:[^:]+]]: memref<2x4x128x64xf16>)
func.func @launch_replaces_attention(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  // CHECK-DAG:  %[[Q_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[Q]]
  // CHECK-DAG:  %[[K_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[K]]
  // CHECK-DAG:  %[[V_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[V]]
  // CHECK-DAG:  %[[O_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[O]]
  // CHECK-DAG:  %[[ONE:.+]] = arith.constant 1 : index
  // CHECK-DAG:  %[[BLOCKS:.+]] = arith.constant 16 : index
  // CHECK-DAG:  %[[THREADS:.+]] = arith.constant 64 : index
  // CHECK-DAG:  %[[SMEM:.+]] = arith.constant 24576 : i32
  // CHECK-NOT:  flashcore.attention
  // CHECK:      gpu.launch_func @attention_f16_d64::@attention_f16_d64
  // CHECK-SAME:   blocks in (%[[BLOCKS]], %[[ONE]], %[[ONE]])
  // CHECK-SAME:   threads in (%[[THREADS]], %[[ONE]], %[[ONE]])
  // CHECK-SAME:   dynamic_shared_memory_size %[[SMEM]]
  // CHECK-SAME:   args(%[[Q_BASE]] : memref<f16>, %[[K_BASE]] : memref<f16>, %[[V_BASE]] : memref<f16>, %[[O_BASE]] : memref<f16>)
  // CHECK-NEXT: return
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 3>
!qo = memref<2x4x128x64xf16>
!kv = memref<2x4x96x64xf16>

// CHECK-LABEL: func.func @kernel_says_how_to_launch_it
func.func @kernel_says_how_to_launch_it(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      causal(top_left) {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64_causal
// CHECK-SAME:    grid = "(seqlen_q ceildiv 64) * heads_q * batch"
// CHECK-SAME:    attributes = {causal = "top_left", softcap, softmax_scale = 1.250000e-01 : f32, window_left, window_right}
// CHECK-SAME:    op = "attention"
// CHECK-SAME:    sizes = {batch = 2 : i64, head_dim = 64 : i64, head_dim_v = 64 : i64, heads_kv = 4 : i64, heads_q = 4 : i64, seqlen_k = 96 : i64, seqlen_q = 128 : i64}
// CHECK-SAME:    {alignment = 16 : i64, axes = ["batch", "heads_q", "seqlen_q", "head_dim"], dtype = f16, name = "q", offset = 0 : i64, role = "input", strides = [32768, 8192, 64, 1]}
// CHECK-SAME:    {alignment = 16 : i64, axes = ["batch", "heads_q", "seqlen_q", "head_dim_v"], dtype = f16, name = "o", offset = 0 : i64, role = "output", strides = [32768, 8192, 64, 1]}
// CHECK-LABEL: gpu.func @attention_f16_d64_causal(
// CHECK-SAME:    %{{[^:]+}}: memref<f16> {llvm.align = 16 : i32, llvm.noalias, llvm.readonly},
// CHECK-SAME:    %{{[^:]+}}: memref<f16> {llvm.align = 16 : i32, llvm.noalias, llvm.readonly},
// CHECK-SAME:    %{{[^:]+}}: memref<f16> {llvm.align = 16 : i32, llvm.noalias, llvm.readonly},
// CHECK-SAME:    %{{[^:]+}}: memref<f16> {llvm.align = 16 : i32, llvm.noalias}) kernel
// CHECK-SAME:    fcgpu.kernel = {
// CHECK-SAME:      arguments = [{kind = "pointer", tensor = "q"}, {kind = "pointer", tensor = "k"}, {kind = "pointer", tensor = "v"}, {kind = "pointer", tensor = "o"}]
// CHECK-SAME:      shared_memory = 24576 : i64
// CHECK-SAME:      threads = 64 : i64}
// CHECK-SAME:    fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32, num_warps = 2, num_stages = 2, query = registers, grid_order = query_fastest, min_blocks = 3>
// CHECK-SAME:    known_block_size = array<i32: 64, 1, 1>

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!q = memref<2x4x128x64xf16>
!k = memref<2x4x96x64xf16>
!v = memref<2x4x96x32xf16>
!o = memref<2x4x128x32xf16>

// A warp owns 32 of the 64 rows, and reads all keys.

// CHECK-DAG: #[[$ROW:.+]] = affine_map<(d0)[s0] -> (d0 * 32 + s0 * 64)>
// CHECK-DAG: #[[$BLOCK_ROW:.+]] = affine_map<()[s0] -> (s0 * 64)>

// CHECK-LABEL: func.func @warps_own_rows
func.func @warps_own_rows(%q: !q, %k: !k, %v: !v, %o: !o) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !v) outs(%o : !o)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    (%[[Q_BASE:[^:]+]]: memref<f16> {{{.*}}}, %[[K_BASE:[^:]+]]: memref<f16> {{{.*}}}, %[[V_BASE:[^:]+]]: memref<f16> {{{.*}}}, %[[O_BASE:[^:]+]]: memref<f16> {{{.*}}}) kernel
// CHECK-DAG:     %[[Q:.+]] = memref.reinterpret_cast %[[Q_BASE]] to offset: [0], sizes: [2, 4, 128, 64], strides: [32768, 8192, 64, 1]
// CHECK-DAG:     %[[K:.+]] = memref.reinterpret_cast %[[K_BASE]] to offset: [0], sizes: [2, 4, 96, 64], strides: [24576, 6144, 64, 1]
// CHECK-DAG:     %[[V:.+]] = memref.reinterpret_cast %[[V_BASE]] to offset: [0], sizes: [2, 4, 96, 32], strides: [12288, 3072, 32, 1]
// CHECK-DAG:     %[[O:.+]] = memref.reinterpret_cast %[[O_BASE]] to offset: [0], sizes: [2, 4, 128, 32], strides: [16384, 4096, 32, 1]
// CHECK:         %[[BLOCK:.+]] = gpu.block_id x
// CHECK:         %[[ID:.+]]:3 = affine.delinearize_index %[[BLOCK]] into (2, 4, 2)
// CHECK:         scf.forall (%[[WARP:.+]]) in (2) {
// CHECK:           %[[ROW:.+]] = affine.apply #[[$ROW]](%[[WARP]])[%[[ID]]#2]
// CHECK:           %[[Q_TILE:.+]] = memref.subview %[[Q]][%[[ID]]#0, %[[ID]]#1, %[[ROW]], 0] [1, 1, 32, 64]
// CHECK:           %[[K_HEAD:.+]] = memref.subview %[[K]][%[[ID]]#0, %[[ID]]#1, 0, 0] [1, 1, 96, 64]
// CHECK:           %[[V_HEAD:.+]] = memref.subview %[[V]][%[[ID]]#0, %[[ID]]#1, 0, 0] [1, 1, 96, 32]
// CHECK:           %[[O_TILE:.+]] = memref.subview %[[O]][%[[ID]]#0, %[[ID]]#1, %[[ROW]], 0] [1, 1, 32, 32]
// CHECK-DAG:       %[[SEQLEN_Q:.+]] = arith.constant 128 : index
// CHECK-DAG:       %[[FIRST_KEY:.+]] = arith.constant 0 : index
// CHECK-DAG:       %[[SEQLEN_K:.+]] = arith.constant 96 : index
// CHECK-DAG:       %[[BLOCK_ROW:.+]] = affine.apply #[[$BLOCK_ROW]]()[%[[ID]]#2]
// CHECK:           flashcore.attention_tile
// CHECK-SAME:        ins(%[[Q_TILE]], %[[K_HEAD]], %[[V_HEAD]] :
// CHECK-SAME:        outs(%[[O_TILE]] :
// CHECK-SAME:        at(batch %[[ID]]#0, head %[[ID]]#1, query %[[ROW]] of %[[SEQLEN_Q]], key %[[FIRST_KEY]] to %[[SEQLEN_K]] of %[[SEQLEN_K]], block %[[BLOCK_ROW]])
// CHECK-SAME:        {fcgpu.schedule = #fcgpu.schedule<
// CHECK-NEXT:    } {mapping = [#gpu.warp<linear_dim_0>]}
// CHECK-NEXT:    gpu.return

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x6x64x64xf16>
!kv = memref<1x2x64x64xf16>

// Query heads 0, 1, 2 read kv head 0, and 3, 4, 5 read 1.

// CHECK-DAG: #[[$HEAD_KV:.+]] = affine_map<()[s0] -> (s0 floordiv 3)>

// CHECK-LABEL: func.func @grouped_heads_share_kv
func.func @grouped_heads_share_kv(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[ID:.+]]:3 = affine.delinearize_index %{{.+}} into (1, 6, 1)
// CHECK:         %[[HEAD_KV:.+]] = affine.apply #[[$HEAD_KV]]()[%[[ID]]#1]
// CHECK:         memref.subview %{{.+}}[%[[ID]]#0, %[[ID]]#1, %{{.+}}, 0] [1, 1, 32, 64]
// CHECK:         memref.subview %{{.+}}[%[[ID]]#0, %[[HEAD_KV]], 0, 0] [1, 1, 64, 64]
// CHECK:         memref.subview %{{.+}}[%[[ID]]#0, %[[HEAD_KV]], 0, 0] [1, 1, 64, 64]
// CHECK:         memref.subview %{{.+}}[%[[ID]]#0, %[[ID]]#1, %{{.+}}, 0] [1, 1, 32, 64]

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = head_fastest, min_blocks = 0>
!t = memref<2x4x192x64xf16>

// The head varies fastest and the query tile slowest; block 0 has the last one.

// CHECK-DAG: #[[$LAST_FIRST:.+]] = affine_map<(d0)[s0] -> (d0 * 32 - s0 * 64 + 128)>

// CHECK-LABEL: func.func @head_fastest_starts_with_the_last_rows
func.func @head_fastest_starts_with_the_last_rows(%q: !t, %k: !t, %v: !t,
                                                  %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[ID:.+]]:3 = affine.delinearize_index %{{.+}} into (3, 2, 4)
// CHECK:         scf.forall (%[[WARP:.+]]) in (2) {
// CHECK:           %[[ROW:.+]] = affine.apply #[[$LAST_FIRST]](%[[WARP]])[%[[ID]]#0]
// CHECK:           memref.subview %{{.+}}[%[[ID]]#1, %[[ID]]#2, %[[ROW]], 0] [1, 1, 32, 64]
// CHECK:           flashcore.attention_tile
// CHECK-SAME:        at(batch %[[ID]]#1, head %[[ID]]#2, query %[[ROW]]

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x2x100x64xf16>

// 100 = 64 + 32 + 4: one warp has 4 rows, the last one none.

// CHECK-DAG: #[[$ROWS:.+]] = affine_map<(d0)[s0] -> (32, d0 * -32 - s0 * 64 + 100)>

// CHECK-LABEL: func.func @last_query_tile_is_clamped
func.func @last_query_tile_is_clamped(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[ID:.+]]:3 = affine.delinearize_index %{{.+}} into (1, 2, 2)
// CHECK:         scf.forall (%[[WARP:.+]]) in (2) {
// CHECK:           %[[LEFT:.+]] = affine.min #[[$ROWS]](%[[WARP]])[%[[ID]]#2]
// CHECK:           %[[NONE:.+]] = arith.constant 0 : index
// CHECK:           %[[ROWS:.+]] = arith.maxsi %[[LEFT]], %[[NONE]] : index
// CHECK:           memref.subview %{{.+}} [1, 1, %[[ROWS]], 64]
// CHECK:           memref.subview %{{.+}} [1, 1, 100, 64]
// CHECK:           memref.subview %{{.+}} [1, 1, 100, 64]
// CHECK:           memref.subview %{{.+}} [1, 1, %[[ROWS]], 64]

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x2x?x64xbf16>

// CHECK-DAG: #[[$QUERY_TILES:.+]] = affine_map<()[s0] -> (s0 ceildiv 64)>
// CHECK-DAG: #[[$BLOCKS:.+]] = affine_map<()[s0] -> ((s0 ceildiv 64) * 2)>

// CHECK-LABEL: func.func @dynamic_sizes_are_arguments
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x2x?x64xbf16>, %[[K:[^:]+]]: memref<1x2x?x64xbf16>,
func.func @dynamic_sizes_are_arguments(%q: !t, %k: !t, %v: !t, %o: !t) {
  // CHECK-DAG:  %{{.+}}, %{{.+}}, %{{.+}}:4, %[[STRIDES_K:.+]]:4 = memref.extract_strided_metadata %[[K]]
  // CHECK-DAG:  %{{.+}}, %{{.+}}, %{{.+}}:4, %[[STRIDES_Q:.+]]:4 = memref.extract_strided_metadata %[[Q]]
  // CHECK:      %[[BLOCKS:.+]] = affine.apply #[[$BLOCKS]]()[%[[SEQLEN_Q:.+]]]
  // CHECK:      gpu.launch_func @attention_bf16_d64::@attention_bf16_d64
  // CHECK-SAME:   blocks in (%[[BLOCKS]],
  // CHECK-SAME:   %[[SEQLEN_Q]] : index, %{{.+}}#2 : index,
  // CHECK-SAME:   %[[STRIDES_Q]]#0 : index, %[[STRIDES_Q]]#1 : index,
  // CHECK-SAME:   %[[STRIDES_K]]#0 : index, %[[STRIDES_K]]#1 : index,
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_bf16_d64
// CHECK-SAME:    seqlen_k, seqlen_q}, tensors
// CHECK-LABEL: gpu.func @attention_bf16_d64
// CHECK-SAME:    (%[[Q_BASE:[^:]+]]: memref<bf16> {{.*}}, %{{[^:]+}}: memref<bf16> {llvm.align = 16 : i32, llvm.noalias},
// CHECK-SAME:     %[[SEQLEN_Q:[^:]+]]: index, %[[SEQLEN_K:[^:]+]]: index, %[[STRIDE_0:[^:]+]]: index, %[[STRIDE_1:[^:]+]]: index,
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "q"}, {kind = "pointer", tensor = "k"}, {kind = "pointer", tensor = "v"}, {kind = "pointer", tensor = "o"}, {dim = "seqlen_q", kind = "size"}, {dim = "seqlen_k", kind = "size"}, {axis = 0 : i64, kind = "stride", tensor = "q"}, {axis = 1 : i64, kind = "stride", tensor = "q"},
// CHECK:         memref.reinterpret_cast %[[Q_BASE]] to offset: [0], sizes: [1, 2, %[[SEQLEN_Q]], 64], strides: [%[[STRIDE_0]], %[[STRIDE_1]], 64, 1]
// CHECK:         %[[QUERY_TILES:.+]] = affine.apply #[[$QUERY_TILES]]()[%[[SEQLEN_Q]]]
// Sizes known at run time only divide numbers of 32 bits.
// CHECK:         %[[NUMBER:.+]] = arith.index_castui %{{.+}} : index to i32
// CHECK:         %[[TILES:.+]] = arith.index_castui %[[QUERY_TILES]] : index to i32
// CHECK:         arith.divui %[[NUMBER]], %[[TILES]] : i32
// CHECK:         arith.remui %[[NUMBER]], %[[TILES]] : i32
// CHECK-NOT:     affine.delinearize_index
// CHECK:         memref.subview %{{.+}} [1, 1, %[[SEQLEN_K]], 64]
// CHECK:         flashcore.attention_tile
// CHECK-SAME:      at(batch %{{.+}}, head %{{.+}}, query %{{.+}} of %[[SEQLEN_Q]], key %{{.+}} to %[[SEQLEN_K]] of %[[SEQLEN_K]], block %{{.+}})

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<2x4x64x64xf16>
!bshd = memref<2x4x64x64xf16, strided<[16384, 64, 256, 1], offset: ?>>

// CHECK-LABEL: func.func @strides_and_offset_of_the_memref_are_kept
// CHECK-SAME:    %[[Q:[^:]+]]: memref<2x4x64x64xf16, strided<[16384, 64, 256, 1], offset: ?>>,
func.func @strides_and_offset_of_the_memref_are_kept(%q: !bshd, %k: !t, %v: !t,
                                                     %o: !t) {
  // CHECK: %[[Q_BASE:.+]], %[[Q_OFFSET:.+]], %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[Q]]
  // CHECK: gpu.launch_func
  // CHECK-SAME: args(%[[Q_BASE]] : memref<f16>,
  // CHECK-SAME:      %[[Q_OFFSET]] : index)
  flashcore.attention ins(%q, %k, %v : !bshd, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    (%[[Q_BASE:[^:]+]]: memref<f16> {{.*}}, %[[Q_OFFSET:[^:]+]]: index) kernel
// CHECK-SAME:    {kind = "offset", tensor = "q"}]
// CHECK:         memref.reinterpret_cast %[[Q_BASE]] to offset: [%[[Q_OFFSET]]], sizes: [2, 4, 64, 64], strides: [16384, 64, 256, 1]

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x2x64x64xf16>
!lse = memref<1x2x64xf32>

// CHECK-LABEL: func.func @lse_is_tiled_like_the_output
func.func @lse_is_tiled_like_the_output(%q: !t, %k: !t, %v: !t, %o: !t,
                                        %lse: !lse) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      lse(%lse : !lse) {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    {alignment = 4 : i64, axes = ["batch", "heads_q", "seqlen_q"], dtype = f32, name = "lse", offset = 0 : i64, role = "output", strides = [128, 64, 1]}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    %[[LSE_BASE:[^:]+]]: memref<f32> {llvm.align = 4 : i32, llvm.noalias}) kernel
// CHECK:         %[[LSE:.+]] = memref.reinterpret_cast %[[LSE_BASE]] to offset: [0], sizes: [1, 2, 64], strides: [128, 64, 1]
// CHECK:         %[[ID:.+]]:3 = affine.delinearize_index
// CHECK:         %[[O_TILE:.+]] = memref.subview %{{.+}}[%[[ID]]#0, %[[ID]]#1, %[[ROW:.+]], 0] [1, 1, 32, 64] [1, 1, 1, 1]
// CHECK:         %[[LSE_TILE:.+]] = memref.subview %[[LSE]][%[[ID]]#0, %[[ID]]#1, %[[ROW]]] [1, 1, 32] [1, 1, 1]
// CHECK:         flashcore.attention_tile
// CHECK-SAME:      lse(%[[LSE_TILE]] :

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<2x4x128x64xf16>
!kv = memref<2x4x96x64xf16>
!bias = memref<1x4x1x96xf16>

// A bias is read by whole coordinates, so the tile gets all of it. An axis of
// one is no dimension of the problem, and only elements are loaded.

// CHECK-LABEL: func.func @bias_is_passed_whole
// CHECK-SAME:    %[[BIAS:[^:]+]]: memref<1x4x1x96xf16>,
func.func @bias_is_passed_whole(%q: !qo, %k: !kv, %v: !kv, %bias: !bias,
                                %o: !qo) {
  // CHECK:      %[[BIAS_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[BIAS]]
  // CHECK:      gpu.launch_func
  // CHECK-SAME:   %[[BIAS_BASE]] : memref<f16>)
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) bias(%bias : !bias)
      outs(%o : !qo) {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    sizes = {batch = 2 : i64, head_dim = 64 : i64, head_dim_v = 64 : i64, heads_kv = 4 : i64, heads_q = 4 : i64, seqlen_k = 96 : i64, seqlen_q = 128 : i64}
// CHECK-SAME:    {alignment = 2 : i64, axes = ["1", "heads_q", "1", "seqlen_k"], dtype = f16, name = "bias", offset = 0 : i64, role = "input", strides = [384, 96, 96, 1]}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    %[[BIAS_BASE:[^:]+]]: memref<f16> {llvm.align = 2 : i32, llvm.noalias, llvm.readonly}) kernel
// CHECK-SAME:    {kind = "pointer", tensor = "o"}, {kind = "pointer", tensor = "bias"}]
// CHECK:         %[[BIAS:.+]] = memref.reinterpret_cast %[[BIAS_BASE]] to offset: [0], sizes: [1, 4, 1, 96], strides: [384, 96, 96, 1]
// CHECK-NOT:     memref.subview %[[BIAS]]
// CHECK:         flashcore.attention_tile
// CHECK-SAME:      score {
// CHECK-NEXT:    ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %[[HEAD:.+]]: index, %{{.+}}: index, %[[KEY:.+]]: index):
// CHECK:           %[[HALF:.+]] = memref.load %[[BIAS]][%[[FIRST:.+]], %[[HEAD]], %[[FIRST]], %[[KEY]]]
// CHECK:           %[[VALUE:.+]] = arith.extf %[[HALF]] : f16 to f32
// CHECK:           arith.addf %[[SCORE]], %[[VALUE]] : f32

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<?x?x?x64xf16>
!bias = memref<?x1x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>

// Sizes of the bias are those of the other tensors; all of its strides may be
// unknown, the innermost one and that of the broadcast axis too.

// CHECK-LABEL: func.func @dynamic_bias_strides_are_arguments
// CHECK-SAME:    %[[BIAS:[^:]+]]: memref<?x1x?x?xf32,
func.func @dynamic_bias_strides_are_arguments(%q: !t, %k: !t, %v: !t,
                                              %bias: !bias, %o: !t) {
  // CHECK:      %[[BIAS_BASE:.+]], %[[OFFSET:.+]], %{{.+}}:4, %[[STRIDES:.+]]:4 = memref.extract_strided_metadata %[[BIAS]]
  // CHECK:      gpu.launch_func
  // CHECK-SAME:   %[[BIAS_BASE]] : memref<f32>
  // CHECK-SAME:   %[[OFFSET]] : index, %[[STRIDES]]#0 : index, %[[STRIDES]]#1 : index, %[[STRIDES]]#2 : index, %[[STRIDES]]#3 : index)
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) bias(%bias : !bias)
      outs(%o : !t) {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    sizes = {batch, head_dim = 64 : i64, head_dim_v = 64 : i64, heads_kv, heads_q, seqlen_k, seqlen_q}
// CHECK-SAME:    {alignment = 4 : i64, axes = ["batch", "1", "seqlen_q", "seqlen_k"], dtype = f32, name = "bias", offset, role = "input", strides = [unit, unit, unit, unit]}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    %[[BIAS_BASE:[^:]+]]: memref<f32> {llvm.noalias, llvm.readonly},
// CHECK-SAME:    %[[BATCH:[^:]+]]: index, %{{[^:]+}}: index, %{{[^:]+}}: index, %[[SEQLEN_Q:[^:]+]]: index, %[[SEQLEN_K:[^:]+]]: index,
// CHECK-SAME:    %[[OFFSET:[^:]+]]: index, %[[S0:[^:]+]]: index, %[[S1:[^:]+]]: index, %[[S2:[^:]+]]: index, %[[S3:[^:]+]]: index) kernel
// CHECK-SAME:    {kind = "offset", tensor = "bias"}, {axis = 0 : i64, kind = "stride", tensor = "bias"}, {axis = 1 : i64, kind = "stride", tensor = "bias"}, {axis = 2 : i64, kind = "stride", tensor = "bias"}, {axis = 3 : i64, kind = "stride", tensor = "bias"}]
// CHECK:         memref.reinterpret_cast %[[BIAS_BASE]] to offset: [%[[OFFSET]]], sizes: [%[[BATCH]], 1, %[[SEQLEN_Q]], %[[SEQLEN_K]]], strides: [%[[S0]], %[[S1]], %[[S2]], %[[S3]]]

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<?x2x?x64xf16>
!bias = memref<1x1x512x512xf32>

// A size that only the bias knows is known.

// CHECK-LABEL: func.func @static_sizes_of_the_bias_count
func.func @static_sizes_of_the_bias_count(%q: !t, %k: !t, %v: !t, %bias: !bias,
                                          %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) bias(%bias : !bias)
      outs(%o : !t) {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    sizes = {batch, head_dim = 64 : i64, head_dim_v = 64 : i64, heads_kv = 2 : i64, heads_q = 2 : i64, seqlen_k = 512 : i64, seqlen_q = 512 : i64}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    {kind = "pointer", tensor = "bias"}, {dim = "batch", kind = "size"}, {axis = 0

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x64x16xf16>

// CHECK-LABEL: func.func @default_scale_becomes_explicit
func.func @default_scale_becomes_explicit(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d16
// CHECK:         flashcore.attention_tile
// CHECK-SAME:      scale(2.500000e-01)

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x64x16xf16>

// CHECK-LABEL: func.func @mask_and_scale_are_kept
func.func @mask_and_scale_are_kept(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      causal(bottom_right) scale(1.000000e+00) {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d16_causal
// CHECK:         flashcore.attention_tile
// CHECK-SAME:      causal(bottom_right) scale(1.000000e+00)

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x64x16xf16>

// A softcap becomes code of the score region.

// CHECK-LABEL: func.func @windows_are_kept
func.func @windows_are_kept(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      window_left(17) window_right(0) softcap(3.000000e+01)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d16
// CHECK-SAME:    softcap = 3.000000e+01 : f32, softmax_scale = 2.500000e-01 : f32
// CHECK-SAME:    window_left = 17 : i64, window_right = 0 : i64}
// CHECK-LABEL: gpu.func @attention_f16_d16
// CHECK:         flashcore.attention_tile
// CHECK-SAME:      window_left(17) window_right(0) scale(2.500000e-01) score {
// CHECK-NEXT:    ^bb0(%[[SCORE:.+]]: f32,
// CHECK:           %[[RATIO:.+]] = arith.mulf %[[SCORE]], %{{.+}} : f32
// CHECK:           %[[TANH:.+]] = math.tanh %[[RATIO]] : f32
// CHECK:           %[[CAP:.+]] = arith.constant 3.000000e+01 : f32
// CHECK:           arith.mulf %[[TANH]], %[[CAP]] : f32

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x64x16xf16>

// CHECK-LABEL: func.func @different_attentions_get_kernels_of_their_own
func.func @different_attentions_get_kernels_of_their_own(%q: !t, %k: !t,
                                                         %v: !t, %o: !t) {
  // CHECK: gpu.launch_func @[[MODULE:.+]]::@attention_f16_d16 blocks
  // CHECK: gpu.launch_func @[[MODULE]]::@attention_f16_d16_0 blocks
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  flashcore.attention ins(%o, %k, %v : !t, !t, !t) outs(%q : !t)
      window_left(32) {fcgpu.schedule = #schedule}
  return
}

// CHECK: gpu.module @[[MODULE]] [#nvvm.target<
// CHECK: gpu.func @attention_f16_d16(
// CHECK: gpu.func @attention_f16_d16_0(

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x64x16xf16>

// CHECK-LABEL: func.func @equal_attentions_share_a_kernel
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x1x64x16xf16>, %[[K:[^:]+]]: memref<1x1x64x16xf16>, %[[V:[^:]+]]: memref<1x1x64x16xf16>, %[[O:[^:]+]]: memref<1x1x64x16xf16>)
func.func @equal_attentions_share_a_kernel(%q: !t, %k: !t, %v: !t, %o: !t) {
  // CHECK: %[[Q_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[Q]]
  // CHECK: gpu.launch_func @[[KERNEL:.+]]::@attention_f16_d16 blocks
  // CHECK-SAME: args(%[[Q_BASE]] :
  // CHECK: %[[O_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[O]]
  // CHECK: gpu.launch_func @[[KERNEL]]::@attention_f16_d16 blocks
  // CHECK-SAME: args(%[[O_BASE]] :
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  flashcore.attention ins(%o, %k, %v : !t, !t, !t) outs(%q : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:     gpu.module @[[KERNEL]] [#nvvm.target<
// CHECK-NOT: gpu.module

// -----

// Nothing to tile: the module does not even become a container of kernels.

// CHECK-NOT:   gpu.container_module
// CHECK-LABEL: func.func @foreign
func.func @foreign(%m: memref<4xf32>) -> f32 {
  // CHECK: memref.load
  %zero = arith.constant 0 : index
  %value = memref.load %m[%zero] : memref<4xf32>
  return %value : f32
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!t = memref<1x1x16x16xf16>

// CHECK-LABEL: gpu.func @tile_in_a_kernel_is_left_alone
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x1x16x16xf16>)
gpu.module @kernels {
  gpu.func @tile_in_a_kernel_is_left_alone(%q: !t) kernel {
    // CHECK: flashcore.attention_tile ins(%[[Q]], %[[Q]], %[[Q]] :
    %zero = arith.constant 0 : index
    %size = arith.constant 16 : index
    flashcore.attention_tile ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
        at(batch %zero, head %zero, query %zero of %size, key %zero to %size of %size, block %zero)
        scale(2.500000e-01) {fcgpu.schedule = #schedule}
    gpu.return
  }
}
