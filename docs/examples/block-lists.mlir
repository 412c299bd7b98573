// Lists of blocks, FlexAttention's BlockMask: of 64 queries a list of the blocks of
// 64 keys that they see in part, and one of those that they see whole. No other
// block is read, and the mask is not asked in full ones. One list serves all
// batches and heads here (axes of 1).
// $ flashcore-run docs/examples/block-lists.mlir
!t = memref<2x4x256x64xf16>
!counts = memref<1x1x4xi32>
!indices = memref<1x1x4x4xi32>

func.func @attention(%q: !t, %k: !t, %v: !t, %n: !counts, %blocks: !indices, %full_n: !counts, %full: !indices, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t)
      block_counts(%n : !counts) block_indices(%blocks : !indices)
      full_block_counts(%full_n : !counts) full_block_indices(%full : !indices)
      outs(%o : !t) causal(bottom_right) block_size(64, 64)
  return
}
