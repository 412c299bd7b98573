// A scale a head: a learned temperature that the scores of a head are multiplied
// by, as in Swin v2, whose rows of q and k have length 1 (scale(1)).
// $ flashcore-run docs/examples/head_scale.mlir
!t = memref<1x8x128x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %scales: memref<8xf32>, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) head_scale(%scales : memref<8xf32>)
      outs(%o : !t) scale(1.000000e+00)
  return
}
