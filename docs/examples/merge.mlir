// Merge: the attention to all keys from those to four disjoint parts of them, which
// several devices, or a shared prefix and what follows it, have left as O and LSE.
// $ flashcore-compile docs/examples/merge.mlir -o merge.ptx
!outputs = memref<4x1x8x512x64xf32>
!lses = memref<4x1x8x512xf32>

func.func @merge(%outputs: !outputs, %lses: !lses, %o: memref<1x8x512x64xf16>, %lse: memref<1x8x512xf32>) {
  flashcore.merge ins(%outputs, %lses : !outputs, !lses) outs(%o : memref<1x8x512x64xf16>) lse(%lse : memref<1x8x512xf32>)
  return
}
