// The lists of blocks are arguments like others, and whole in each tile: which row
// of theirs is the tile's, the next phase says.

// RUN: flashcore-opt %s -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s

!t = memref<2x8x1000x64xf16>
!counts = memref<1x8x8xi32>
!indices = memref<1x8x8x16xi32>

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    block_size = [128, 64]
// CHECK-SAME:    key_blocks = 16 : i64, query_blocks = 8 : i64
// CHECK-SAME:    {alignment = 4 : i64, axes = ["1", "heads_q", "query_blocks"], dtype = i32, name = "block_counts", offset = 0 : i64, role = "input", strides = [64, 8, 1]}
// CHECK-SAME:    {alignment = 4 : i64, axes = ["1", "heads_q", "query_blocks", "key_blocks"], dtype = i32, name = "block_indices"
// CHECK-SAME:    name = "full_block_counts"
// CHECK-SAME:    name = "full_block_indices"
// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK:         %[[COUNTS:.+]] = memref.reinterpret_cast %{{.+}} : memref<i32> to memref<1x8x8xi32,
// CHECK:         %[[INDICES:.+]] = memref.reinterpret_cast %{{.+}} : memref<i32> to memref<1x8x8x16xi32,
// CHECK:         %[[FULL_COUNTS:.+]] = memref.reinterpret_cast %{{.+}} : memref<i32> to memref<1x8x8xi32,
// CHECK:         %[[FULL:.+]] = memref.reinterpret_cast %{{.+}} : memref<i32> to memref<1x8x8x16xi32,
// CHECK:         scf.forall
// CHECK:           flashcore.attention_tile {{.*}} block_counts(%[[COUNTS]] : {{.*}} block_indices(%[[INDICES]] : {{.*}} full_block_counts(%[[FULL_COUNTS]] : {{.*}} full_block_indices(%[[FULL]] : {{.*}} block_size [128, 64]
func.func @blocks(%q: !t, %o: !t, %n: !counts, %blocks: !indices, %full_n: !counts, %full: !indices) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%n : !counts) block_indices(%blocks : !indices)
      full_block_counts(%full_n : !counts) full_block_indices(%full : !indices)
      outs(%o : !t) block_size(128, 64)
  return
}
