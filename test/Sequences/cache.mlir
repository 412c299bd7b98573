// Caches of several lengths, with a causal mask that ends with each of them:
// few queries, whose keys are split over blocks, with sinks.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 -- --no-cubin --key-splits=3 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=3 -- --no-cubin --key-warps=2 --num-warps=2 --block-m=16 --block-n=32 \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=4 -- --no-cubin --grid=persistent | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=5 -- --no-cubin --row-max=stale --block-m=16 --num-warps=1 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=6 -- --no-cubin --chip=sm_90a --product=warpgroup --key-splits=3 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=7 -- --no-cubin --chip=sm_90a --product=warpgroup --grid=persistent | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=6 -- --no-cubin --invariance=batch --split-keys=128 | FileCheck %s
// CHECK: PASS

!q = memref<3x8x5x64xf16>
!kv = memref<3x2x700x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %lse: memref<3x8x5xf32>, %used: memref<3xi32>, %logits: memref<8xf32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) sink(%logits : memref<8xf32>) seqused_k(%used : memref<3xi32>)
      outs(%o : !q) lse(%lse : memref<3x8x5xf32>) causal(bottom_right)
  return
}
