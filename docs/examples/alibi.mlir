// ALiBi: a score loses slope * distance, with a slope a head, as in Falcon and
// MPT. The slopes are data; no bias tensor of all scores is read.
// $ flashcore-run docs/examples/alibi.mlir
!t = memref<1x8x128x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %slopes: memref<8xf32>, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) alibi(%slopes : memref<8xf32>)
      outs(%o : !t) causal(bottom_right)
  return
}
