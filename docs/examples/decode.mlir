// Decoding: one query over a long cache. The four query heads of a key head share
// one block, and the keys are split over blocks, which a second kernel merges. The
// compiler decides so where it knows the sizes.
// $ flashcore-run docs/examples/decode.mlir
!q = memref<1x8x1x128xf16>
!cache = memref<1x2x2048x128xf16>

func.func @attention(%q: !q, %k: !cache, %v: !cache, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !cache, !cache) outs(%o : !q)
  return
}
