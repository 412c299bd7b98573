// Layout (batch, seqlen, heads, dim): the op has axes (batch, heads, seqlen, dim),
// and a transpose of the memref, which moves no data, says that memory has not.
// $ flashcore-run docs/examples/bshd.mlir
!memory = memref<2x100x4x64xf16>
!t = memref<2x4x100x64xf16, strided<[25600, 64, 256, 1]>>

func.func @attention(%q: !memory, %k: !memory, %v: !memory, %o: !memory) {
  %qt = memref.transpose %q (b, s, h, d) -> (b, h, s, d) : !memory to !t
  %kt = memref.transpose %k (b, s, h, d) -> (b, h, s, d) : !memory to !t
  %vt = memref.transpose %v (b, s, h, d) -> (b, h, s, d) : !memory to !t
  %ot = memref.transpose %o (b, s, h, d) -> (b, h, s, d) : !memory to !t
  flashcore.attention ins(%qt, %kt, %vt : !t, !t, !t) outs(%ot : !t)
  return
}
