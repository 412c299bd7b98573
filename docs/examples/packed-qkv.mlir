// Packed Q, K and V: one (batch, seqlen, 3, heads, dim) buffer, as one linear layer
// leaves it. Three views of it are the operands; nothing is copied apart.
// $ flashcore-run docs/examples/packed-qkv.mlir
!packed = memref<2x100x3x4x64xf16>
!q = memref<2x4x100x64xf16, strided<[76800, 64, 768, 1]>>
!k = memref<2x4x100x64xf16, strided<[76800, 64, 768, 1], offset: 256>>
!v = memref<2x4x100x64xf16, strided<[76800, 64, 768, 1], offset: 512>>
!q_rows = memref<2x100x4x64xf16, strided<[76800, 768, 64, 1]>>
!k_rows = memref<2x100x4x64xf16, strided<[76800, 768, 64, 1], offset: 256>>
!v_rows = memref<2x100x4x64xf16, strided<[76800, 768, 64, 1], offset: 512>>
!o = memref<2x4x100x64xf16>

func.func @attention(%qkv: !packed, %o: !o) {
  %q_rows = memref.subview %qkv[0, 0, 0, 0, 0] [2, 100, 1, 4, 64] [1, 1, 1, 1, 1] : !packed to !q_rows
  %k_rows = memref.subview %qkv[0, 0, 1, 0, 0] [2, 100, 1, 4, 64] [1, 1, 1, 1, 1] : !packed to !k_rows
  %v_rows = memref.subview %qkv[0, 0, 2, 0, 0] [2, 100, 1, 4, 64] [1, 1, 1, 1, 1] : !packed to !v_rows
  %q = memref.transpose %q_rows (b, s, h, d) -> (b, h, s, d) : !q_rows to !q
  %k = memref.transpose %k_rows (b, s, h, d) -> (b, h, s, d) : !k_rows to !k
  %v = memref.transpose %v_rows (b, s, h, d) -> (b, h, s, d) : !v_rows to !v
  flashcore.attention ins(%q, %k, %v : !q, !k, !v) outs(%o : !o)
  return
}
