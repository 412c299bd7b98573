// The reference shape: batch 1, 8 heads, 512 queries and keys, head_dim 64.
// $ flashcore-run docs/examples/attention.mlir
!qkv = memref<1x8x512x64xf16>
!lse = memref<1x8x512xf32>

func.func @attention(%q: !qkv, %k: !qkv, %v: !qkv, %o: !qkv, %lse: !lse) {
  flashcore.attention ins(%q, %k, %v : !qkv, !qkv, !qkv)
      outs(%o : !qkv) lse(%lse : !lse)
  return
}
