// Softcap and a scale of its own, as in Gemma 2: the scaled score goes through
// 50 * tanh(score / 50). Without scale(...) it is 1 / sqrt(head_dim).
// $ flashcore-run docs/examples/softcap.mlir
!q = memref<1x4x128x128xbf16>
!kv = memref<1x2x128x128xbf16>

func.func @attention(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
      causal(bottom_right) scale(6.25e-02) softcap(5.0e+01)
  return
}
