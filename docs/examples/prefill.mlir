// Prefill: sizes at which blocks of 128 query rows fill the chip and the keys of a
// row are a loop. docs/Pipeline.md shows this kernel phase by phase.
// $ flashcore-compile docs/examples/prefill.mlir --explain -o prefill.ptx
!t = memref<4x32x4096x64xf16>
!lse = memref<4x32x4096xf32>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !lse) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      outs(%o : !t) lse(%lse : !lse) causal(bottom_right)
  return
}
