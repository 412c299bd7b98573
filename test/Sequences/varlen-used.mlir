// Sequences back to back of which only the first keys count, with sinks, or no
// sequence at all.
//
// RUN: flashcore-run %s --device=emulator --seqlen-q=210 --seqlen-k=260 --cu-seqlens=5 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --seqlen-k=90 --cu-seqlens=8 --seed=2 -- --no-cubin \
// RUN:   --block-m=16 --num-warps=1 --row-max=stale | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --seqlen-k=90 --cu-seqlens=1 --seed=3 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=210 --seqlen-k=260 --cu-seqlens=5 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --seqlen-k=90 --cu-seqlens=1 --seed=3 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --seqlen-k=260 --cu-seqlens=5 --seed=4 -- --no-cubin --key-splits=4 | FileCheck %s
// CHECK: PASS

!q = memref<1x4x?x40xbf16>
!kv = memref<1x4x?x40xbf16>
!ends = memref<?xi32>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %cu_q: !ends, %cu_k: !ends, %used: !ends, %logits: memref<4xf32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) sink(%logits : memref<4xf32>)
      cu_seqlens_q(%cu_q : !ends) cu_seqlens_k(%cu_k : !ends) seqused_k(%used : !ends) outs(%o : !q) window_right(20)
  return
}
