// Sequences of unlike length, back to back on the seqlen axis without padding
// (varlen): sequence b has rows cu_seqlens[b] to cu_seqlens[b + 1]. Masks count
// from each sequence's own ends; sizes and lengths are known at run time only.
// $ flashcore-run docs/examples/cu_seqlens.mlir --seqlen-q=300 --seqlen-k=300 --cu-seqlens=6
!q = memref<1x4x?x64xf16>
!kv = memref<1x2x?x64xf16>
!ends = memref<?xi32>

func.func @attention(%q: !q, %k: !kv, %v: !kv, %cu_q: !ends, %cu_k: !ends, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv)
      cu_seqlens_q(%cu_q : !ends) cu_seqlens_k(%cu_k : !ends)
      outs(%o : !q) causal(bottom_right)
  return
}
