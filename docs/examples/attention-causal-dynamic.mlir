// Dynamic sizes: everything that may be known at run time only is (sizes, strides,
// offsets); one kernel serves all. head_dim may not be.
// $ flashcore-run docs/examples/attention-causal-dynamic.mlir --batch 2 --heads-q 4 --heads-kv 2 --seqlen-q 70 --seqlen-k 150
!t = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>
!lse = memref<?x?x?xf32>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !lse) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      outs(%o : !t) lse(%lse : !lse) causal(bottom_right)
  return
}
