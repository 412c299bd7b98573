// RUN: flashcore-opt %s -flashcore-decompose -flashcore-tile -split-input-file -verify-diagnostics \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_90", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 2, grid = persistent>
!t = memref<4x16x512x64xf16>

// 512 tiles on two blocks for each of 132 SMs: each block walks them back and
// forth.

// CHECK-DAG: #[[$ROUNDS:.+]] = affine_map<()[s0, s1] -> ((s0 - s1 - ((512 floordiv s0) mod 2) * (s0 - s1 * 2 - 1) + 511) floordiv s0)>
// CHECK-DAG: #[[$TILE:.+]] = affine_map<(d0)[s0, s1] -> (d0 * s0 + s1 + (d0 mod 2) * (s0 - s1 * 2 - 1))>
// CHECK-DAG: #[[$ROW:.+]] = affine_map<(d0, d1) -> (d0 * 64 + d1 * 16)>

// CHECK-LABEL: func.func @as_many_blocks_as_run_at_once
// CHECK:         %[[BLOCKS:.+]] = arith.constant 264 : index
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64
// CHECK-SAME:      blocks in (%[[BLOCKS]],
func.func @as_many_blocks_as_run_at_once(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "min((seqlen_q ceildiv 64) * heads_q * batch, multiprocessors * 2)"
// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK:         %[[BLOCK:.+]] = gpu.block_id x
// CHECK-NOT:     affine.delinearize_index
// CHECK:         scf.forall (%[[WARP:.+]]) in (4) {
// CHECK:           %[[NUM_BLOCKS:.+]] = gpu.grid_dim x
// CHECK:           %[[ROUNDS:.+]] = affine.apply #[[$ROUNDS]]()[%[[NUM_BLOCKS]], %[[BLOCK]]]
// CHECK:           scf.for %[[ROUND:.+]] = %c0{{.*}} to %[[ROUNDS]] step %c1
// CHECK:             %[[TILE:.+]] = affine.apply #[[$TILE]](%[[ROUND]])[%[[NUM_BLOCKS]], %[[BLOCK]]]
// CHECK:             %[[ID:.+]]:3 = affine.delinearize_index %[[TILE]] into (4, 16, 8)
// CHECK:             %[[ROW:.+]] = affine.apply #[[$ROW]](%[[ID]]#2, %[[WARP]])
// CHECK:             memref.subview %{{.+}}[%[[ID]]#0, %[[ID]]#1, %[[ROW]], 0] [1, 1, 16, 64]
// CHECK:             flashcore.attention
// CHECK:           } {fcgpu.block_tiles}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 3, grid = persistent>
!t = memref<1x2x64x64xf16>

// There are no more blocks than tiles. A split is a tile, and the merge has its
// whole grid.

// CHECK-LABEL: func.func @few_tiles
// CHECK:         %[[BLOCKS:.+]] = arith.constant 6 : index
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64
// CHECK-SAME:      blocks in (%[[BLOCKS]],
// CHECK:         %[[ROWS:.+]] = arith.constant 128 : index
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64_merge
// CHECK-SAME:      blocks in (%[[ROWS]],
func.func @few_tiles(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "min({{.+}}, multiprocessors)"
// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK:         scf.forall
// CHECK:           scf.for
// CHECK:             affine.delinearize_index %{{.+}} into (1, 2, 1, 3)
// CHECK-LABEL: gpu.func @attention_f16_d64_merge(
// CHECK-NOT:     multiprocessors
// CHECK:         gpu.return

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = head_fastest, min_blocks = 1, grid = persistent>
!t = memref<?x2x?x64xf16>

// CHECK: #[[$BLOCKS:.+]] = affine_map<()[s0, s1] -> (((s1 ceildiv 64) * s0) * 2, 128)>

// CHECK-LABEL: func.func @sizes_known_at_run_time
// CHECK:         %[[BLOCKS:.+]] = affine.min #[[$BLOCKS]]()[
// CHECK:         gpu.launch_func
// CHECK-SAME:      blocks in (%[[BLOCKS]],
func.func @sizes_known_at_run_time(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}
