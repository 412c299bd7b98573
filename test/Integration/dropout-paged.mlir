// Keys in pages, sinks, and a region that hides some of them.
//
// RUN: flashcore-run %s --device=emulator --seqlen-q=90 --cu-seqlens=4 --pages=40 --pages-per-sequence=11 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=90 --cu-seqlens=4 --pages=40 --pages-per-sequence=11 --seed=2 -- --no-cubin \
// RUN:   --chip=sm_90a --product=warpgroup | FileCheck %s
// CHECK: {{^}}PASS

!q = memref<1x4x?x64xbf16>
!kv = memref<?x2x32x64xbf16>

func.func @attention(%q: !q, %k: !kv, %v: !kv, %o: !q, %lse: memref<1x4x?xf32>, %cu_q: memref<?xi32>, %used: memref<?xi32>,
                     %table: memref<?x?xi32>, %sinks: memref<4xf32>, %rng: memref<4xi32>) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) sink(%sinks : memref<4xf32>) cu_seqlens_q(%cu_q : memref<?xi32>)
      seqused_k(%used : memref<?xi32>) page_table(%table : memref<?x?xi32>) rng(%rng : memref<4xi32>)
      outs(%o : !q) lse(%lse : memref<1x4x?xf32>) dropout(5.0e-01) mask {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %far = arith.constant 60 : index
    %visible = arith.cmpi ne, %j, %far : index
    flashcore.yield %visible : i1
  }
  return
}
