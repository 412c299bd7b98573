// Bias: added to every score. An axis of size 1 is broadcast, here those of batch
// and query: one value a head and key. A boolean mask is a bias, too: 0 shows a
// key, -inf hides it.
// $ flashcore-run docs/examples/bias.mlir
!t = memref<2x4x128x64xf16>
!bias = memref<1x4x1x128xf32>

func.func @attention(%q: !t, %k: !t, %v: !t, %bias: !bias, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) bias(%bias : !bias) outs(%o : !t)
  return
}
