// Pages of one key, and all sizes known at run time only; as flash-attn has its
// caches, (pages, page_size, heads, head_dim) in memory. Without seqused_k all
// pages of the table count.
//
// RUN: flashcore-run %s --device=emulator --batch=2 --heads-q=4 --heads-kv=2 --seqlen-q=40 --pages-per-sequence=70 --pages=160 -- \
// RUN:   --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --batch=3 --heads-q=2 --heads-kv=2 --seqlen-q=1 --pages-per-sequence=1 --pages=3 --seed=2 -- \
// RUN:   --no-cubin | FileCheck %s
// CHECK: PASS

!q = memref<?x?x?x40xbf16, strided<[?, ?, ?, 1]>>
!pages = memref<?x?x1x40xbf16, strided<[?, ?, ?, 1]>>

func.func @attention(%query: !q, %key: !pages, %value: !pages, %o: !q, %table: memref<?x?xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !pages, !pages) page_table(%table : memref<?x?xi32>)
      outs(%o : !q) window_left(30)
  return
}
