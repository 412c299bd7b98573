// Log-sum-exp: the natural logarithm of the sum of exponentials of each row, in
// f32. A backward pass needs it, and whoever merges attentions over parts of the
// keys: lse = logsumexp(lse_i), o = sum_i exp(lse_i - lse) * o_i.
// $ flashcore-run docs/examples/lse.mlir
!t = memref<1x4x128x64xf16>
!lse = memref<1x4x128xf32>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !lse) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) lse(%lse : !lse)
  return
}
