// Keys that are split at multiples of split_keys, however many there are and
// whichever of them a block sees.

// RUN: flashcore-opt %s -flashcore-decompose -flashcore-tile -flashcore-simplify-kernel -split-input-file | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, invariance = batch, split_keys = 128>
!qo = memref<2x3x16x64xf16>
!kv = memref<2x3x300x64xf16>

// Three parts, the last of 44 keys. The workspace has room for 3 * 2 * 3 * 16 rows
// of 64 columns and the two numbers of an LSE.

// CHECK-DAG: #[[$BEGIN:.+]] = affine_map<()[s0] -> (s0 * 128)>
// CHECK-DAG: #[[$END:.+]] = affine_map<()[s0] -> (s0 * 128 + 128)>

// CHECK-LABEL: func.func @known_keys
// CHECK:         %[[BYTES:.+]] = arith.constant 76032 : index
// CHECK:         gpu.alloc (%[[BYTES]])
// CHECK:         %[[BLOCKS:.+]] = arith.constant 18 : index
// CHECK:         gpu.launch_func {{.+}} blocks in (%[[BLOCKS]],
// CHECK:         gpu.launch_func @{{.+}}::@attention_f16_d64_causal_merge
func.func @known_keys(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo) causal(bottom_right)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64_causal
// CHECK-SAME:    grid = "{{.+}} * 3"
// CHECK-SAME:    workspace = [{bytes = "seqlen_q * heads_q * batch * 768"}, {bytes = "seqlen_q * heads_q * batch * 12"}
// CHECK-LABEL: gpu.func @attention_f16_d64_causal(
// CHECK:         %[[ID:.+]]:4 = affine.delinearize_index %{{.+}} into (2, 3, 1, 3)
// CHECK:         %[[BEGIN:.+]] = affine.apply #[[$BEGIN]]()[%[[ID]]#3]
// CHECK:         %[[END:.+]] = affine.apply #[[$END]]()[%[[ID]]#3]
// CHECK:         key %[[BEGIN]] to %[[END]] of %{{.+}}, block %{{.+}}) causal

// The largest part is multiplied with exactly 1, and no zero has a sign.

// CHECK-LABEL: gpu.func @attention_f16_d64_causal_merge(
// CHECK:         %[[LSE:.+]] = memref.load
// CHECK:         %[[REST:.+]] = memref.load
// CHECK:         %[[OF_PART:.+]] = arith.select %{{.+}}, %[[LSE]],
// CHECK:         %[[IS_EMPTY:.+]] = arith.cmpf oeq, %[[MAX:.+]], %{{.+}} : f32
// CHECK:         %[[SAFE:.+]] = arith.select %[[IS_EMPTY]], %{{.+}}, %[[MAX]] : f32
// CHECK:         %[[BELOW:.+]] = arith.subf %[[OF_PART]], %[[SAFE]] : f32
// CHECK-NEXT:    %[[BELOW_REST:.+]] = arith.subf %[[REST]], %{{.+}} : f32
// CHECK-NEXT:    %[[DIFFERENCE:.+]] = arith.addf %[[BELOW]], %[[BELOW_REST]] : f32
// CHECK:         %[[EXPONENT:.+]] = arith.mulf %[[DIFFERENCE]],
// CHECK-NEXT:    math.exp2 %[[EXPONENT]] : f32
// CHECK:         arith.divf
// CHECK:         %[[O:.+]] = math.fma {{.+}} : vector<4xf32>
// CHECK-NEXT:    arith.truncf %[[O]]

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, invariance = batch, split_keys = 128>
!qo = memref<2x3x16x64xf16>
!kv = memref<2x3x128x64xf16>

// One part is the result: there is nothing to merge.

// CHECK-LABEL: func.func @one_part
// CHECK-NOT:     gpu.alloc
// CHECK-NOT:     merge
// CHECK:         gpu.func @attention_f16_d64
// CHECK-NOT:     gpu.func
func.func @one_part(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, invariance = batch, split_keys = 128>
!qo = memref<2x3x16x64xf16>
!kv = memref<2x3x128x64xf16>

// But with a sink, which only the merge of several adds.

// CHECK-LABEL: func.func @one_part_with_a_sink
// CHECK:         gpu.func @attention_f16_d64_merge
func.func @one_part_with_a_sink(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %logits: memref<3xf32>) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) sink(%logits : memref<3xf32>) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, invariance = batch, split_keys = 128>
!qo = memref<?x4x1x64xf16>
!kv = memref<?x2x?x64xf16>

// The number of parts is found at run time: by the host, the manifest and both
// kernels. The merge loads many at a time, of which the last may not be there.

// CHECK-DAG: #[[$PARTS:.+]] = affine_map<()[s0] -> (s0 ceildiv 128)>
// CHECK-DAG: #[[$BLOCKS:.+]] = affine_map<()[s0, s1] -> ((s0 * (s1 ceildiv 128)) * 4)>
// CHECK-DAG: #[[$FLOATS:.+]] = affine_map<()[s0, s1] -> ((s0 * (s1 ceildiv 128)) * 264)>
// CHECK-DAG: #[[$ROUNDS:.+]] = affine_map<()[s0] -> ((s0 ceildiv 128) ceildiv 32)>
// CHECK-DAG: #[[$LAST:.+]] = affine_map<()[s0] -> (s0 ceildiv 128 - 1)>

// CHECK-LABEL: func.func @open_keys
// CHECK-DAG:     affine.apply #[[$BLOCKS]]()
// CHECK-DAG:     affine.apply #[[$FLOATS]]()
func.func @open_keys(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "{{.+}} * batch * (seqlen_k ceildiv 128)"
// CHECK-SAME:    workspace = [{bytes = "{{.+}} * (seqlen_k ceildiv 128) * 256"}, {bytes = "{{.+}} * (seqlen_k ceildiv 128) * 4"}
// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK:         %[[PARTS:.+]] = affine.apply #[[$PARTS]]()
// CHECK:         %[[DIVISOR:.+]] = arith.index_castui %[[PARTS]] : index to i32
// CHECK:         arith.divui %{{.+}}, %[[DIVISOR]] : i32

// CHECK-LABEL: gpu.func @attention_f16_d64_merge(
// CHECK:         %[[ROUNDS:.+]] = affine.apply #[[$ROUNDS]]()
// CHECK:         scf.for %{{.+}} = %{{.+}} to %[[ROUNDS]]
// CHECK:           %[[LAST:.+]] = affine.apply #[[$LAST]]()
// CHECK:           arith.minsi %[[PART:.+]], %[[LAST]]
// CHECK:           %[[LSE:.+]] = memref.load
// CHECK:           %[[IS_THERE:.+]] = arith.cmpi sle, %[[PART]], %[[LAST]]
// CHECK:           arith.select %[[IS_THERE]], %[[LSE]],

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, invariance = batch, split_keys = 128>
!qo = memref<2x3x1x64xf16>
!pages = memref<?x3x16x64xf16>

// Of small pages a part has several, of large ones a page has several parts.

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "{{.+}} * batch * (pages_per_sequence ceildiv 8)"
// CHECK-LABEL: gpu.func @attention_f16_d64(
func.func @small_pages(%q: !qo, %k: !pages, %v: !pages, %o: !qo, %table: memref<2x?xi32>) {
  flashcore.attention ins(%q, %k, %v : !qo, !pages, !pages) page_table(%table : memref<2x?xi32>) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, invariance = batch, split_keys = 128>
!qo = memref<2x3x1x64xf16>
!pages = memref<?x3x512x64xf16>

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "{{.+}} * batch * (pages_per_sequence * 4)"
// CHECK-LABEL: gpu.func @attention_f16_d64(
func.func @large_pages(%q: !qo, %k: !pages, %v: !pages, %o: !qo, %table: memref<2x?xi32>) {
  flashcore.attention ins(%q, %k, %v : !qo, !pages, !pages) page_table(%table : memref<2x?xi32>) outs(%o : !qo)
      {fcgpu.schedule = #schedule}
  return
}
