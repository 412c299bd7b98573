// Padded batches: seqused_k says how many keys of each entry are valid. The kernel
// reads it, so a captured graph replays with other lengths, and tiles past the
// last key are not visited. Causal masks count from that key.
// $ flashcore-run docs/examples/seqused_k.mlir
!q = memref<4x8x16x64xf16>
!cache = memref<4x2x512x64xf16>

func.func @attention(%q: !q, %k: !cache, %v: !cache, %used: memref<4xi32>, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !cache, !cache) seqused_k(%used : memref<4xi32>)
      outs(%o : !q) causal(bottom_right)
  return
}
