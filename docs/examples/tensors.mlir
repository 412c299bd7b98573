// Tensors: for compilers that have not bufferized yet. Outputs are destinations and
// results, as in linalg; `flashcore-bufferize` makes memrefs of them.
// $ flashcore-run docs/examples/tensors.mlir
!t = tensor<1x4x128x64xf16>
!lse = tensor<1x4x128xf32>

func.func @attention(%q: !t, %k: !t, %v: !t) -> (!t, !lse) {
  %o_init = tensor.empty() : !t
  %lse_init = tensor.empty() : !lse
  %o, %lse = flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      outs(%o_init : !t) lse(%lse_init : !lse) -> !t, !lse
  return %o, %lse : !t, !lse
}
