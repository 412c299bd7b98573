// Grouped heads: eight query heads read two key and value heads, query head h that
// of number h / 4. With one of them it is multi-query attention. Nothing is said
// but the types.
// $ flashcore-run docs/examples/grouped-heads.mlir
!q = memref<1x8x96x128xbf16>
!kv = memref<1x2x96x128xbf16>

func.func @attention(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q) causal(bottom_right)
  return
}
