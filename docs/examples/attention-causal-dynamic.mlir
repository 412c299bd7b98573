// Everything that may be dynamic is: sizes, strides, offsets. head_dim is not.
!t = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>
!lse = memref<?x?x?xf32>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !lse) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      outs(%o : !t) lse(%lse : !lse) causal(bottom_right)
  return
}
