// A paged cache, as in vLLM: keys and values are (pages, heads_kv, page_size, dim),
// and entry (b, p) of the table names the page with keys 16 p to 16 p + 15 of entry
// b. The number of pages is known at run time only.
// $ flashcore-run docs/examples/page_table.mlir
!q = memref<3x8x1x128xf16>
!pages = memref<?x2x16x128xf16>

func.func @attention(%q: !q, %k: !pages, %v: !pages, %used: memref<3xi32>, %table: memref<3x32xi32>, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !pages, !pages)
      seqused_k(%used : memref<3xi32>) page_table(%table : memref<3x32xi32>)
      outs(%o : !q) causal(bottom_right)
  return
}
