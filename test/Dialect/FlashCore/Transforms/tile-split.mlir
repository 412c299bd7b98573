// RUN: flashcore-opt %s -flashcore-decompose -flashcore-tile -split-input-file | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 32,
  num_warps = 6, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, head_group = 3>
!qo = memref<2x12x64x64xf16>
!kv = memref<2x2x64x64xf16>

// A block owns three of the six heads of a kv head: four groups, two query
// tiles. Its six warps are two row tiles for each head.

// CHECK-DAG: #[[$HEAD_KV:.+]] = affine_map<()[s0] -> (s0 floordiv 2)>
// CHECK-DAG: #[[$HEAD:.+]] = affine_map<(d0)[s0] -> (d0 floordiv 2 + s0 * 3)>
// CHECK-DAG: #[[$ROW:.+]] = affine_map<(d0)[s0] -> (d0 * 16 + (d0 floordiv 2) * -32 + s0 * 32)>

// CHECK-LABEL: func.func @a_block_owns_heads_of_one_kv_head
// CHECK:         %[[BLOCKS:.+]] = arith.constant 16 : index
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64
// CHECK-SAME:      blocks in (%[[BLOCKS]],
func.func @a_block_owns_heads_of_one_kv_head(%q: !qo, %k: !kv, %v: !kv,
                                             %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "(seqlen_q ceildiv 32) * (heads_q floordiv 3) * batch"
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    known_block_size = array<i32: 192, 1, 1>
// CHECK:         %[[ID:.+]]:3 = affine.delinearize_index %{{.+}} into (2, 4, 2)
// CHECK:         %[[HEAD_KV:.+]] = affine.apply #[[$HEAD_KV]]()[%[[ID]]#1]
// CHECK:         scf.forall (%[[WARP:.+]]) in (6) {
// CHECK:           %[[HEAD:.+]] = affine.apply #[[$HEAD]](%[[WARP]])[%[[ID]]#1]
// CHECK:           %[[ROW:.+]] = affine.apply #[[$ROW]](%[[WARP]])[%[[ID]]#2]
// CHECK:           memref.subview %{{.+}}[%[[ID]]#0, %[[HEAD]], %[[ROW]], 0] [1, 1, 16, 64]
// CHECK:           memref.subview %{{.+}}[%[[ID]]#0, %[[HEAD_KV]], 0, 0] [1, 1, 64, 64]
// CHECK:           memref.subview %{{.+}}[%[[ID]]#0, %[[HEAD_KV]], 0, 0] [1, 1, 64, 64]
// CHECK:           memref.subview %{{.+}}[%[[ID]]#0, %[[HEAD]], %[[ROW]], 0] [1, 1, 16, 64]
// CHECK:           flashcore.attention_tile
// CHECK-SAME:        at(batch %[[ID]]#0, head %[[HEAD]], query %[[ROW]]

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 4>
!qo = memref<2x3x16x64xf16>
!kv = memref<2x3x300x64xf16>
!lse = memref<2x3x16xf32>

// Ten tiles of 32 keys: three for each split but the last. The workspace has
// room for 4 * 2 * 3 * 16 rows of 64 columns and an LSE, of two numbers: the second
// is what rounding the first one left.

// CHECK-DAG: #[[$BEGIN:.+]] = affine_map<()[s0] -> (s0 * 96)>
// CHECK-DAG: #[[$END:.+]] = affine_map<()[s0] -> (s0 * 96 + 96)>
// CHECK-DAG: #[[$ENTRY:.+]] = affine_map<()[s0, s1] -> (s0 * 2 + s1)>

// CHECK-LABEL: func.func @splits_share_a_query_tile
func.func @splits_share_a_query_tile(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                     %lse: !lse) {
  // CHECK-DAG:  %[[O:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %arg3
  // CHECK-DAG:  %[[LSE:.+]], %{{.+}}, %{{.+}}:3, %{{.+}}:3 = memref.extract_strided_metadata %arg4
  // CHECK:      %[[BYTES:.+]] = arith.constant 101376 : index
  // CHECK:      %[[WORKSPACE:.+]] = gpu.alloc (%[[BYTES]]) : memref<?xi8>
  // CHECK:      %[[FLOATS:.+]] = memref.view %[[WORKSPACE]]{{.+}} to memref<?xf32>
  // CHECK:      %[[BASE:.+]], %{{.+}}, %{{.+}}, %{{.+}} = memref.extract_strided_metadata %[[FLOATS]]
  // CHECK:      %[[BLOCKS:.+]] = arith.constant 24 : index
  // CHECK:      gpu.launch_func @attention_f16_d64::@attention_f16_d64
  // CHECK-SAME:   blocks in (%[[BLOCKS]],
  // CHECK-SAME:   args(%{{.+}} : memref<f16>, %{{.+}} : memref<f16>, %{{.+}} : memref<f16>, %[[BASE]] : memref<f32>)
  // CHECK-DAG:  %[[THREADS:.+]] = arith.constant 64 : index
  // CHECK-DAG:  %[[ROWS:.+]] = arith.constant 96 : index
  // CHECK:      gpu.launch_func @attention_f16_d64::@attention_f16_d64_merge
  // CHECK-SAME:   blocks in (%[[ROWS]],
  // CHECK-SAME:   threads in (%[[THREADS]],
  // CHECK-SAME:   args(%[[O]] : memref<f16>, %[[LSE]] : memref<f32>, %[[BASE]] : memref<f32>)
  // CHECK-NEXT: gpu.dealloc %[[WORKSPACE]]
  // CHECK-NEXT: return
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      lse(%lse : !lse) {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "(seqlen_q ceildiv 16) * heads_q * batch * 4"
// CHECK-SAME:    workspace = [{bytes = "seqlen_q * heads_q * batch * 1024"}, {bytes = "seqlen_q * heads_q * batch * 16"}, {bytes = "seqlen_q * heads_q * batch * 16"}]
// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK-SAME:    %[[BASE:[^:]+]]: memref<f32> {llvm.align = 16 : i32, llvm.noalias}) kernel
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "q"}, {kind = "pointer", tensor = "k"}, {kind = "pointer", tensor = "v"}, {kind = "pointer", tensor = "workspace"}]
// CHECK:         %[[ID:.+]]:4 = affine.delinearize_index %{{.+}} into (2, 3, 1, 4)
// CHECK-DAG:     %[[BEGIN:.+]] = affine.apply #[[$BEGIN]]()[%[[ID]]#3]
// CHECK-DAG:     %[[END:.+]] = affine.apply #[[$END]]()[%[[ID]]#3]
// CHECK-DAG:     %[[ENTRY:.+]] = affine.apply #[[$ENTRY]]()[%[[ID]]#3, %[[ID]]#0]
// CHECK-DAG:     %[[LSE:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [24576], sizes: [8, 3, 16], strides: [48, 16, 1]
// CHECK-DAG:     %[[REST:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [24960], sizes: [8, 3, 16], strides: [48, 16, 1]
// CHECK-DAG:     %[[O:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [0], sizes: [8, 3, 16, 64], strides: [3072, 1024, 64, 1]
// CHECK:         memref.subview %{{.+}}[%[[ID]]#0, %[[ID]]#1, 0, 0] [1, 1, 300, 64]
// CHECK:         %[[O_TILE:.+]] = memref.subview %[[O]][%[[ENTRY]], %[[ID]]#1, %{{.+}}, 0] [1, 1, 16, 64]
// CHECK:         %[[LSE_TILE:.+]] = memref.subview %[[LSE]][%[[ENTRY]], %[[ID]]#1, %{{.+}}] [1, 1, 16]
// CHECK:         %[[REST_TILE:.+]] = memref.subview %[[REST]][%[[ENTRY]], %[[ID]]#1, %{{.+}}] [1, 1, 16]
// CHECK:         %[[SEQLEN_K:.+]] = arith.constant 300 : index
// CHECK:         flashcore.attention_tile
// CHECK-SAME:      outs(%[[O_TILE]] : memref<1x1x16x64xf32,
// CHECK-SAME:      lse(%[[LSE_TILE]] : memref<1x1x16xf32,
// CHECK-SAME:      lse_rest(%[[REST_TILE]] : memref<1x1x16xf32,
// CHECK-SAME:      at(batch %{{.+}}, head %{{.+}}, query %{{.+}} of %{{.+}}, key %[[BEGIN]] to %[[END]] of %[[SEQLEN_K]], block %{{.+}})

// A block merges a row: a group of 16 threads has a part, a thread four columns
// of it. Maximum, what rounding it left, sum and O of each group meet in shared
// memory, where the first group adds them up. Weights are exponentials of
// differences of both numbers, taken before anything is multiplied.

// CHECK-LABEL: gpu.func @attention_f16_d64_merge(
// CHECK-SAME:    %[[O_BASE:[^:]+]]: memref<f16> {llvm.align = 16 : i32, llvm.noalias},
// CHECK-SAME:    %[[LSE_BASE:[^:]+]]: memref<f32> {llvm.align = 4 : i32, llvm.noalias},
// CHECK-SAME:    %[[BASE:[^:]+]]: memref<f32> {llvm.align = 16 : i32, llvm.noalias, llvm.readonly}) kernel
// CHECK-SAME:    fcgpu.kernel = {arguments = [{kind = "pointer", tensor = "o"}, {kind = "pointer", tensor = "lse"}, {kind = "pointer", tensor = "workspace"}], shared_memory = 1088 : i64, threads = 64 : i64}
// CHECK-SAME:    known_block_size = array<i32: 64, 1, 1>
// CHECK-NOT:     fcgpu.schedule
// CHECK-DAG:     %[[O:.+]] = memref.reinterpret_cast %[[O_BASE]] to offset: [0], sizes: [2, 3, 16, 64]
// CHECK-DAG:     %[[LSE:.+]] = memref.reinterpret_cast %[[LSE_BASE]] to offset: [0], sizes: [2, 3, 16]
// CHECK-DAG:     %[[LSES:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [24576], sizes: [4, 2, 3, 16]
// CHECK-DAG:     %[[RESTS:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [24960], sizes: [4, 2, 3, 16]
// CHECK-DAG:     %[[OS:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [0], sizes: [4, 2, 3, 16, 64]
// CHECK:         %[[ID:.+]]:3 = affine.delinearize_index %{{.+}} into (2, 3, 16)
// CHECK:         %[[THREAD:.+]] = gpu.thread_id x
// CHECK:         %[[PLACE:.+]]:2 = affine.delinearize_index %[[THREAD]] into (4, 16)
// CHECK:         %[[COLUMN:.+]] = arith.muli %[[PLACE]]#1,
// CHECK:         %[[PART:.+]] = arith.addi %{{.+}}, %[[PLACE]]#0
// CHECK:         %[[LSE_OF_PART:.+]] = memref.load %[[LSES]][%[[PART]], %[[ID]]#0, %[[ID]]#1, %[[ID]]#2]
// CHECK:         %[[REST_OF_PART:.+]] = memref.load %[[RESTS]][%[[PART]], %[[ID]]#0, %[[ID]]#1, %[[ID]]#2]
// CHECK:         %[[O_OF_PART:.+]] = vector.load %[[OS]][%{{.+}}, %[[ID]]#0, %[[ID]]#1, %[[ID]]#2, %[[COLUMN]]] {alignment = 16 : i64} : {{.*}}, vector<4xf32>
// CHECK-NOT:     %[[OS]]
// A group's only part needs no weight.
// CHECK:         %[[ONE:.+]] = arith.constant 1.0
// CHECK-NOT:     math.exp2
// CHECK:         vector.store %[[O_OF_PART]], %[[SHARED:.+]][%[[PLACE]]#0, %[[COLUMN]]] {alignment = 16 : i64}
// CHECK:         %[[OF_GROUP:.+]] = vector.from_elements %[[LSE_OF_PART]], %[[REST_OF_PART]], %[[ONE]], %{{.+}} : vector<4xf32>
// CHECK:         vector.store %[[OF_GROUP]], %[[NUMBERS:.+]][%[[PLACE]]#0, %{{.+}}] {alignment = 16 : i64}
// CHECK:         gpu.barrier
// CHECK:         %[[IS_FIRST_GROUP:.+]] = arith.cmpi eq, %[[PLACE]]#0,
// CHECK:         scf.if %[[IS_FIRST_GROUP]] {
// CHECK-COUNT-8: vector.load {{.+}} {alignment = 16 : i64}
// CHECK-NOT:     vector.load
// Of the larger LSE both numbers are kept.
// CHECK:         %[[ABOVE_MAX:.+]] = arith.subf %[[LSE_1:.+]], %[[LSE_0:.+]] :
// CHECK-NEXT:    %[[ABOVE_REST:.+]] = arith.subf %[[REST_1:.+]], %[[REST_0:.+]] :
// CHECK-NEXT:    %[[ABOVE:.+]] = arith.addf %[[ABOVE_MAX]], %[[ABOVE_REST]]
// CHECK:         %[[IS_ABOVE:.+]] = arith.cmpf ogt, %[[ABOVE]],
// CHECK:         arith.select %[[IS_ABOVE]], %[[LSE_1]], %[[LSE_0]]
// CHECK-NEXT:    arith.select %[[IS_ABOVE]], %[[REST_1]], %[[REST_0]]
// CHECK:         arith.subf %[[LSE_0]], %[[SAFE:.+]] :
// CHECK-NEXT:    arith.subf %[[REST_0]], %[[REST:.+]] :
// CHECK:         %[[BELOW:.+]] = arith.subf %[[LSE_1]], %[[SAFE]] :
// CHECK-NEXT:    %[[BELOW_REST:.+]] = arith.subf %[[REST_1]], %[[REST]] :
// CHECK-NEXT:    %[[DIFFERENCE:.+]] = arith.addf %[[BELOW]], %[[BELOW_REST]]
// CHECK:         %[[EXPONENT:.+]] = arith.mulf %[[DIFFERENCE]],
// CHECK:         %[[WEIGHT:.+]] = math.exp2 %[[EXPONENT]]
// CHECK:         math.fma %{{.+}}, %[[WEIGHT]],
// CHECK:         math.fma {{.+}} : vector<4xf32>
// CHECK:         arith.truncf %{{.+}} : vector<4xf32> to vector<4xf16>
// CHECK:         vector.store %{{.+}}, %[[O]][%[[ID]]#0, %[[ID]]#1, %[[ID]]#2, %[[COLUMN]]] {alignment = 8 : i64}
// CHECK:         math.log2
// CHECK:         %[[IS_FIRST:.+]] = arith.cmpi eq, %[[COLUMN]],
// CHECK:         scf.if %[[IS_FIRST]] {
// CHECK-NEXT:      memref.store %{{.+}}, %[[LSE]][%[[ID]]#0, %[[ID]]#1, %[[ID]]#2]

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 64,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = head_fastest, min_blocks = 0, key_splits = 67>
!qo = memref<?x4x?x32xbf16, strided<[?, ?, 32, 1], offset: ?>>
!kv = memref<?x4x?x32xbf16>

// What the queries of the block see is shared out: under a window less than all
// keys; of a length known at run time only, at least 256 keys each. Without an
// LSE only O is merged. Of a group's parts the last may not be there: it loads
// the last one again, for nothing.

// CHECK-DAG: #[[$FIRST_TILE:.+]] = affine_map<()[s0] -> (s0 floordiv 64)>
// CHECK-DAG: #[[$SHARE:.+]] = affine_map<()[s0, s1] -> ((-(s1 floordiv 64) + s0 ceildiv 64) ceildiv 67)>
// CHECK-DAG: #[[$BEGIN:.+]] = affine_map<()[s0, s1] -> (s1 * 64 + (s0 floordiv 64) * 64)>

// CHECK-LABEL: func.func @splits_share_what_is_visible
func.func @splits_share_what_is_visible(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      causal(bottom_right) window_left(100) {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_bf16_d32_causal(
// CHECK:         %[[NUM_PARTS:.+]] = arith.index_castui %c67{{.*}} : index to i32
// CHECK:         %[[REST:.+]] = arith.remui %{{.+}}, %[[NUM_PARTS]] : i32
// CHECK:         %[[ID:.+]] = arith.index_castui %[[REST]] : i32 to index
// CHECK-DAG:     %[[VISIBLE_BEGIN:.+]] = affine.max
// CHECK-DAG:     %[[VISIBLE_END:.+]] = affine.min
// CHECK:         %[[SHARE:.+]] = affine.apply #[[$SHARE]]()[%[[VISIBLE_END]], %[[VISIBLE_BEGIN]]]
// CHECK:         %[[FOUR:.+]] = arith.constant 4 : index
// CHECK:         %[[ENOUGH:.+]] = arith.maxsi %[[SHARE]], %[[FOUR]] : index
// CHECK:         %[[SKIPPED:.+]] = arith.muli %[[ID]], %[[ENOUGH]] : index
// CHECK:         %[[BEGIN:.+]] = affine.apply #[[$BEGIN]]()[%[[VISIBLE_BEGIN]], %[[SKIPPED]]]
// CHECK:         flashcore.attention_tile
// CHECK-SAME:      at(batch %{{.+}}, head %{{.+}}, query %{{.+}} of %{{.+}}, key %[[BEGIN]]
// CHECK-LABEL: gpu.func @attention_bf16_d32_causal_merge(
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "o"}, {kind = "pointer", tensor = "workspace"}, {dim = "batch", kind = "size"}, {dim = "seqlen_q", kind = "size"}, {kind = "offset", tensor = "o"}, {axis = 0 : i64, kind = "stride", tensor = "o"}, {axis = 1 : i64, kind = "stride", tensor = "o"}]
// CHECK-NOT:     scf.for
// CHECK:         %[[LAST:.+]] = arith.constant 66 : index
// CHECK:         %[[LOADED:.+]] = arith.minsi %[[PART:.+]], %[[LAST]]
// CHECK:         %[[LSE:.+]] = memref.load
// CHECK:         memref.load
// CHECK:         vector.load
// CHECK:         %[[IS_THERE:.+]] = arith.cmpi sle, %[[PART]], %[[LAST]]
// CHECK:         arith.select %[[IS_THERE]], %[[LSE]], %{{.+}} : f32
// CHECK-COUNT-8: vector.load
// CHECK-NOT:     vector.load
// CHECK:         gpu.barrier
// CHECK:         vector.store
// CHECK-NOT:     memref.store
// CHECK:         gpu.return

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 2>
!t = memref<1x1x64x64xf16>

// Equal attentions share both kernels; each has a workspace of its own.

// CHECK-LABEL: func.func @equal_attentions_share_kernels
// CHECK:         %[[FIRST:.+]] = gpu.alloc
// CHECK:         gpu.launch_func @[[MODULE:.+]]::@attention_f16_d64 blocks
// CHECK:         gpu.launch_func @[[MODULE]]::@attention_f16_d64_merge
// CHECK-NEXT:    gpu.dealloc %[[FIRST]]
// CHECK:         %[[SECOND:.+]] = gpu.alloc
// CHECK:         gpu.launch_func @[[MODULE]]::@attention_f16_d64
// CHECK:         gpu.launch_func @[[MODULE]]::@attention_f16_d64_merge
// CHECK-NEXT:    gpu.dealloc %[[SECOND]]
// CHECK:       gpu.module @[[MODULE]]
// CHECK-NOT:   gpu.module
func.func @equal_attentions_share_kernels(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 64,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 2>
!qo = memref<2x3x16x5xf16>
!kv = memref<2x3x300x5xf16>

// Partial results have the columns of tiles. Of the four of a thread, each that
// exists is stored alone, since rows begin at odd elements; pointers need no
// more.

// CHECK-LABEL: func.func @rows_begin_at_odd_elements
func.func @rows_begin_at_odd_elements(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d5
// CHECK-SAME:    alignment = 2 : i64, axes = ["batch", "heads_q", "seqlen_q", "head_dim"]
// CHECK-SAME:    workspace = [{bytes = "{{.+}} * 128"}, {bytes = "{{.+}} * 8"}, {bytes = "{{.+}} * 8"}]
// CHECK-LABEL: gpu.func @attention_f16_d5(
// CHECK-SAME:    memref<f16> {llvm.align = 2 : i32, llvm.noalias, llvm.readonly},
// CHECK:         outs(%{{.+}} : memref<1x1x16x16xf32,
// CHECK-LABEL: gpu.func @attention_f16_d5_merge(
// CHECK-DAG:     %[[O:.+]] = memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [2, 3, 16, 5]
// CHECK-DAG:     %[[OS:.+]] = memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [2, 2, 3, 16, 16]
// CHECK:         vector.load %[[OS]]
// CHECK:         %[[RESULT:.+]] = arith.truncf %{{.+}} : vector<4xf32> to vector<4xf16>
// CHECK:         %[[FIRST:.+]] = vector.shuffle %[[RESULT]], %[[RESULT]] [0] : vector<4xf16>, vector<4xf16>
// CHECK:         %[[EXISTS:.+]] = arith.cmpi slt, %[[COLUMN:.+]], %c5
// CHECK-NEXT:    scf.if %[[EXISTS]] {
// CHECK-NEXT:      vector.store %[[FIRST]], %[[O]][%{{.+}}, %{{.+}}, %{{.+}}, %[[COLUMN]]] {alignment = 2 : i64}
// CHECK-COUNT-3:   vector.store %{{.+}}, %[[O]]
// CHECK-NOT:       vector.store
