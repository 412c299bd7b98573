// Lists of blocks, of caches of several lengths: keys from each length on are
// hidden in full blocks, too, and there may be more blocks than the rows need.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 --input-kind=rising -- --no-cubin --grid=persistent | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=3 --input-kind=falling -- --no-cubin --row-max=stale | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=4 --input-kind=rising -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// CHECK: PASS

!q = memref<3x8x150x64xf16>
!kv = memref<3x2x300x64xf16>
!counts = memref<3x8x2xi32>
!indices = memref<3x8x2x7xi32>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %lse: memref<3x8x150xf32>, %used: memref<3xi32>, %logits: memref<8xf32>,
                     %n: !counts, %blocks: !indices, %full_n: !counts, %full: !indices) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) sink(%logits : memref<8xf32>) seqused_k(%used : memref<3xi32>)
      block_counts(%n : !counts) block_indices(%blocks : !indices)
      full_block_counts(%full_n : !counts) full_block_indices(%full : !indices)
      outs(%o : !q) lse(%lse : memref<3x8x150xf32>) causal(bottom_right) block_size(128, 64)
  return
}
