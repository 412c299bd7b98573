// Dropout: a share of P meets no V, and the rest counts for more. What is dropped
// follows from seed and offset (rng) and the place of a score alone, so that every
// schedule and chip, and a backward pass, drop the same.
// $ flashcore-run docs/examples/dropout.mlir
!t = memref<1x4x128x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %words: memref<4xi32>, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) rng(%words : memref<4xi32>)
      outs(%o : !t) dropout(0.1)
  return
}
