// Sequences back to back, of which some may be empty: each as long as it is,
// with a causal mask and a window that count from its own ends, and a region
// that is told which one it is.
//
// RUN: flashcore-run %s --device=emulator --seqlen-q=300 --seqlen-k=300 --cu-seqlens=6 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=150 --seqlen-k=333 --cu-seqlens=5 --seed=3 -- --no-cubin \
// RUN:   --block-m=64 --block-n=16 --num-warps=4 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=90 --seqlen-k=17 --cu-seqlens=9 --seed=5 -- --no-cubin \
// RUN:   --block-m=32 --key-warps=2 --grid-order=query_fastest | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=0 --seqlen-k=5 --cu-seqlens=1 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=300 --seqlen-k=300 --cu-seqlens=6 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=150 --seqlen-k=333 --cu-seqlens=5 --seed=3 -- --no-cubin --chip=sm_90a --product=warpgroup --num-warps=16 --block-n=64 \
// RUN:   --overlap=pv --output=bulk | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=90 --seqlen-k=17 --cu-seqlens=9 --seed=5 -- --no-cubin --chip=sm_90a --product=warpgroup --output=bulk | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=0 --seqlen-k=5 --cu-seqlens=1 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=90 --seqlen-k=333 --cu-seqlens=5 --seed=7 -- --no-cubin --key-splits=3 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=90 --seqlen-k=333 --cu-seqlens=5 --seed=8 -- --no-cubin --chip=sm_90a \
// RUN:   --product=warpgroup --key-splits=2 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=3 --seqlen-k=5 --cu-seqlens=1 --seed=9 -- --no-cubin --key-splits=2 | FileCheck %s
// CHECK: PASS

!q = memref<1x4x?x64xf16>
!kv = memref<1x2x?x64xf16>
!ends = memref<?xi32>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %lse: memref<1x4x?xf32>, %cu_q: !ends, %cu_k: !ends) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) cu_seqlens_q(%cu_q : !ends) cu_seqlens_k(%cu_k : !ends)
      outs(%o : !q) lse(%lse : memref<1x4x?xf32>) causal(bottom_right) window_left(100) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %sequence = arith.index_cast %b : index to i32
    %number = arith.sitofp %sequence : i32 to f32
    %tenth = arith.constant 0.1 : f32
    %shift = arith.mulf %number, %tenth : f32
    %far = arith.cmpi slt, %k, %q : index
    %shifted = arith.addf %score, %shift : f32
    %result = arith.select %far, %shifted, %score : f32
    flashcore.yield %result : f32
  }
  return
}
