// Documents, as in documents.mlir, and lists of the blocks that hold keys of a
// query's document: no others are visited, and in full ones the mask is not asked.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 --input-kind=rising -- --no-cubin --row-max=stale | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=3 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// CHECK: PASS

!q = memref<2x2x190x64xf16>
!kv = memref<2x1x190x64xf16>
!counts = memref<2x1x2xi32>
!indices = memref<2x1x2x6xi32>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %document: memref<2x190xi32>, %n: !counts, %blocks: !indices,
                     %full_n: !counts, %full: !indices) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv)
      block_counts(%n : !counts) block_indices(%blocks : !indices)
      full_block_counts(%full_n : !counts) full_block_indices(%full : !indices)
      outs(%o : !q) causal(bottom_right) block_size(128, 32) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %ofQuery = memref.load %document[%b, %q] : memref<2x190xi32>
    %ofKey = memref.load %document[%b, %k] : memref<2x190xi32>
    %visible = arith.cmpi eq, %ofQuery, %ofKey : i32
    flashcore.yield %visible : i1
  }
  return
}
