// Scores: the matrix of scores or probabilities, too, as they are at a stage:
// scaled, capped, changed, masked or probabilities. The attention is as it is
// without; a kernel of its own writes them, tile by tile, hidden keys and all.
// $ flashcore-run docs/examples/scores.mlir
!t = memref<1x4x128x64xf16>
!lse = memref<1x4x128xf32>
!scores = memref<1x4x128x128xf32>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !lse, %scores: !scores) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      outs(%o : !t) lse(%lse : !lse) scores(%scores : !scores)
      causal(bottom_right) stage(probabilities)
  return
}
