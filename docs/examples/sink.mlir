// Attention sinks, as in GPT-OSS: a learned logit a head that takes part in the
// softmax and has no value row, so a query may look at nothing. It counts in lse.
// $ flashcore-run docs/examples/sink.mlir
!q = memref<1x8x128x64xbf16>
!kv = memref<1x2x128x64xbf16>

func.func @attention(%q: !q, %k: !kv, %v: !kv, %logits: memref<8xf32>, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) sink(%logits : memref<8xf32>)
      outs(%o : !q) causal(bottom_right) window_left(63)
  return
}
