// Kernels of their own for calls of few queries, of which the sizes of a call say
// into how many parts their keys are split.

// RUN: flashcore-opt %s -flashcore-decompose -flashcore-tile -flashcore-simplify-kernel -split-input-file | FileCheck %s

#many = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#few = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers, head_group = 2,
  grid_order = query_fastest, min_blocks = 0, key_splits = 32, split_count = call, expected_queries = 16>
!qo = memref<?x4x?x64xf16>
!kv = memref<?x2x?x64xf16>

// The formula of docs/Bundle.md: two blocks an SM of 128, over the tiles that there
// are; 1 to 32 parts, of 256 keys or more.

// CHECK-DAG: #[[$TILES:.+]] = affine_map<(d0)[s0] -> (1, ((d0 ceildiv 16) * s0) * 2)>
// CHECK-DAG: #[[$WANTED:.+]] = affine_map<(d0)[s0] -> (32, 256 floordiv s0, d0 floordiv 256)>
// CHECK-DAG: #[[$ONE:.+]] = affine_map<(d0) -> (1, d0)>
// CHECK-DAG: #[[$SHARE:.+]] = affine_map<()[s0, s1] -> ((s1 ceildiv 32) ceildiv s0)>

// CHECK-LABEL: func.func @both
// CHECK:         %[[IS_FEW:.+]] = arith.cmpi sle, %{{.+}}, %c16
// CHECK:         scf.if %[[IS_FEW]] {
// CHECK:           %[[TILES:.+]] = affine.max #[[$TILES]]
// CHECK:           %[[WANTED:.+]] = affine.min #[[$WANTED]](%{{.+}})[%[[TILES]]]
// CHECK:           %[[PARTS:.+]] = affine.max #[[$ONE]](%[[WANTED]])
// CHECK:           gpu.alloc
// CHECK:           gpu.launch_func @attention_f16_d64::@attention_f16_d64_few_queries
// CHECK-SAME:        %[[PARTS]] : index
// CHECK:           gpu.launch_func @attention_f16_d64::@attention_f16_d64_few_queries_merge
// CHECK-SAME:        %[[PARTS]] : index
// CHECK:         } else {
// CHECK-NOT:       gpu.alloc
// CHECK:           gpu.launch_func @attention_f16_d64::@attention_f16_d64 blocks
// CHECK:         }
// CHECK-NOT:     gpu.launch_func
func.func @both(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      {fcgpu.schedule = #many, fcgpu.few_queries = #few}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    when = "seqlen_q >= 17"
// CHECK-SAME:    grid = "{{.+}} * key_splits_few_queries", kernel = "attention_f16_d64_few_queries", op = 0 : i64, when = "seqlen_q <= 16"}
// CHECK-SAME:    kernel = "attention_f16_d64_few_queries_merge"
// CHECK-SAME:    when = "seqlen_q <= 16"
// CHECK-SAME:    values = [{is = "max(1, min(32, 256 floordiv max(1, (seqlen_q ceildiv 16) * batch * (heads_q floordiv 2)), seqlen_k floordiv 256))", name = "key_splits_few_queries"}]
// CHECK:         gpu.func @attention_f16_d64(
// CHECK:         gpu.func @attention_f16_d64_few_queries(
// CHECK:         affine.apply #[[$SHARE]]
// CHECK:         gpu.func @attention_f16_d64_few_queries_merge(
// CHECK-NOT:     gpu.func

// -----

// Of sequences back to back the mean counts, of which there is one at least.

#many = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#few = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 2, split_count = call, expected_queries = 4>
!t = memref<1x2x?x64xf16>

// CHECK-DAG: #[[$SEQUENCES:.+]] = affine_map<()[s0] -> (1, s0 - 1)>
// CHECK-DAG: #[[$MEAN:.+]] = affine_map<()[s0, s1] -> (s1 ceildiv s0)>

// CHECK-LABEL: func.func @back_to_back
// CHECK:         %[[SEQUENCES:.+]] = affine.max #[[$SEQUENCES]]
// CHECK:         %[[MEAN:.+]] = affine.apply #[[$MEAN]]()[%[[SEQUENCES]], %{{.+}}]
// CHECK:         %[[IS_FEW:.+]] = arith.cmpi sle, %[[MEAN]], %c4{{.*}}
// CHECK:         scf.if %[[IS_FEW]]
func.func @back_to_back(%q: !t, %k: !t, %v: !t, %o: !t, %ends: memref<?xi32>) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) cu_seqlens_q(%ends : memref<?xi32>) cu_seqlens_k(%ends : memref<?xi32>) outs(%o : !t)
      {fcgpu.schedule = #many, fcgpu.few_queries = #few}
  return
}

// -----

// Without the second schedule there is one set of kernels, for all calls.

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 8, split_count = call>
!qo = memref<?x4x?x64xf16>

// CHECK-LABEL: func.func @one_set
// CHECK-NOT:     scf.if
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64 blocks
// CHECK:       gpu.func @attention_f16_d64(
// CHECK:       gpu.func @attention_f16_d64_merge(
func.func @one_set(%q: !qo, %k: !qo, %v: !qo, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !qo, !qo) outs(%o : !qo) {fcgpu.schedule = #schedule}
  return
}
