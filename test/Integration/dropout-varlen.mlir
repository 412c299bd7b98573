// Sequences back to back: what is dropped counts from the beginning of each.
//
// RUN: flashcore-run %s --device=emulator --seqlen-q=150 --seqlen-k=333 --cu-seqlens=5 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=150 --seqlen-k=333 --cu-seqlens=5 --seed=2 -- --no-cubin --key-splits=3 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=150 --seqlen-k=333 --cu-seqlens=5 --seed=3 -- --no-cubin --block-n=48 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=150 --seqlen-k=333 --cu-seqlens=5 --seed=4 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// CHECK: {{^}}PASS

!q = memref<1x4x?x64xf16>
!kv = memref<1x2x?x64xf16>
!ends = memref<?xi32>

func.func @attention(%q: !q, %k: !kv, %v: !kv, %o: !q, %lse: memref<1x4x?xf32>, %cu_q: !ends, %cu_k: !ends, %rng: memref<4xi32>) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) cu_seqlens_q(%cu_q : !ends) cu_seqlens_k(%cu_k : !ends) rng(%rng : memref<4xi32>)
      outs(%o : !q) lse(%lse : memref<1x4x?xf32>) causal(bottom_right) dropout(2.0e-01)
  return
}
