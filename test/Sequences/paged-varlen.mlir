// Prompts back to back over caches in pages: queries by cu_seqlens_q, keys by
// seqused_k and the table.
//
// RUN: flashcore-run %s --device=emulator --seqlen-q=210 --cu-seqlens=5 --pages-per-sequence=9 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --cu-seqlens=8 --pages-per-sequence=3 --seed=2 -- --no-cubin \
// RUN:   --block-m=16 --num-warps=1 --row-max=stale | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --cu-seqlens=1 --pages-per-sequence=2 --pages=4 --seed=3 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --cu-seqlens=1 --pages-per-sequence=2 --pages=4 --seed=3 -- --no-cubin --overlap=qk | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=210 --cu-seqlens=5 --pages-per-sequence=9 --seed=4 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --cu-seqlens=8 --pages-per-sequence=9 --seed=5 -- --no-cubin --key-splits=3 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seqlen-q=40 --cu-seqlens=8 --pages-per-sequence=9 --seed=6 -- --no-cubin --invariance=batch \
// RUN:   --split-keys=64 | FileCheck %s
// CHECK: PASS

!q = memref<1x4x?x64xf16>
!pages = memref<?x2x32x64xf16>

func.func @attention(%query: !q, %key: !pages, %value: !pages, %o: !q, %cu: memref<?xi32>, %used: memref<?xi32>, %table: memref<?x?xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !pages, !pages) cu_seqlens_q(%cu : memref<?xi32>)
      seqused_k(%used : memref<?xi32>) page_table(%table : memref<?x?xi32>) outs(%o : !q) causal(bottom_right)
  return
}
