// Append: a decoding step as one call. The new row of K and V of each entry goes
// behind the keys that seqused_k counts, in the cache itself; rotary embeddings
// turn it on the way, and the query by its own position.
// $ flashcore-run docs/examples/append.mlir
!q = memref<2x8x1x64xf16>
!cache = memref<2x2x512x64xf16>
!new = memref<2x2x1x64xf16>
!angles = memref<512x32xf16>

func.func @attention(%q: !q, %k: !cache, %v: !cache, %k_new: !new, %v_new: !new, %used: memref<2xi32>, %cos: !angles, %sin: !angles, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !cache, !cache)
      seqused_k(%used : memref<2xi32>)
      append(%k_new, %v_new : !new, !new) rotary(%cos, %sin : !angles, !angles)
      outs(%o : !q) causal(bottom_right) style(half)
  return
}
