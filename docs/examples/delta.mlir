// Delta: what the gradients of scores subtract in a backward pass, the sum of each row of
// dO * O, in f32.
// $ flashcore-compile docs/examples/delta.mlir -o delta.ptx
!t = memref<1x8x512x64xbf16>

func.func @delta(%do: !t, %o: !t, %delta: memref<1x8x512xf32>) {
  flashcore.delta ins(%do, %o : !t, !t) outs(%delta : memref<1x8x512xf32>)
  return
}
