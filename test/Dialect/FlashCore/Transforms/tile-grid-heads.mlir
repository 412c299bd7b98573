// RUN: flashcore-opt %s -flashcore-decompose -flashcore-tile -split-input-file | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = head_fastest, min_blocks = 1, grid_heads = 16>
!t = memref<4x8x512x64xf16>

// 32 heads of 8 query blocks in two turns of 128 tiles: the last rows of the
// first 16 heads, and so on up to their first; then the others.

// CHECK-DAG: #[[$HEAD:.+]] = affine_map<()[s0, s1] -> (s0 * 16 + s1)>
// CHECK-DAG: #[[$LAST_FIRST:.+]] = affine_map<()[s0] -> (-s0 + 7)>

// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK:         %[[TURN:.+]]:2 = affine.delinearize_index %{{.+}} into (128)
// CHECK:         %[[PLACE:.+]]:2 = affine.delinearize_index %[[TURN]]#1 into (16)
// CHECK:         %[[HEAD:.+]] = affine.apply #[[$HEAD]]()[%[[TURN]]#0, %[[PLACE]]#1]
// CHECK:         %[[ID:.+]]:2 = affine.delinearize_index %[[HEAD]] into (4, 8)
// CHECK:         %[[QUERY:.+]] = affine.apply #[[$LAST_FIRST]]()[%[[PLACE]]#0]
// CHECK:         memref.subview %{{.+}}[%[[ID]]#0, %[[ID]]#1,
func.func @turns_of_sixteen_heads(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 32,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = head_fastest, min_blocks = 1, grid_heads = 16>
!t = memref<3x7x512x64xf16>

// The last turn is of the five heads that are left.

// CHECK-DAG: #[[$REST:.+]] = affine_map<()[s0] -> (16, s0 * -16 + 21)>

// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK:         %[[TURN:.+]]:2 = affine.delinearize_index %{{.+}} into (128)
// CHECK:         %[[HEADS:.+]] = affine.min #[[$REST]]()[%[[TURN]]#0]
// CHECK:         affine.delinearize_index %[[TURN]]#1 into (%[[HEADS]])
func.func @a_last_turn_of_fewer_heads(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}
