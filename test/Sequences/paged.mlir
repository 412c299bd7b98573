// A cache in pages, in whatever order the table says: few queries, whose keys
// are split over blocks.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 -- --no-cubin --key-splits=3 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=3 -- --no-cubin --key-warps=2 --num-warps=2 --block-m=16 --block-n=32 \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=4 -- --no-cubin --grid=persistent | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=5 -- --no-cubin --row-max=stale --block-m=16 --num-warps=1 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=6 -- --no-cubin --chip=sm_90a | FileCheck %s
// Copies that are ahead of the last tile ask for no page; the sums of products are for no LSE.
// RUN: sed 's/, %lse: memref<3x8x5xf32>//; s/ lse(%lse : memref<3x8x5xf32>)//' %s > %t.mlir
// RUN: flashcore-run %t.mlir --device=emulator --seed=7 -- --no-cubin --key-warps=2 --num-warps=4 --block-m=32 --block-n=32 --num-stages=2 \
// RUN:   --overlap=qk --row-max=stale --row-sum=mma --head-group=1 --key-splits=1 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=8 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=9 -- --no-cubin --chip=sm_90a --product=warpgroup --key-splits=3 --block-n=96 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=8 -- --no-cubin --invariance=batch --split-keys=128 | FileCheck %s
// Pages of which no number is a tile.
// RUN: sed 's/x16x64xf16>/x48x64xf16>/; s/3x44xi32/3x15xi32/g' %s > %t.48.mlir
// RUN: flashcore-run %t.48.mlir --device=emulator --seed=9 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %t.48.mlir --device=emulator --seed=10 -- --no-cubin --key-warps=2 --num-warps=2 --block-m=16 --block-n=32 | FileCheck %s
// RUN: flashcore-run %t.48.mlir --device=emulator --seed=11 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %t.48.mlir --device=emulator --seed=12 -- --no-cubin --chip=sm_75 | FileCheck %s
// RUN: sed 's/x16x64xf16>/x21x64xf16>/; s/3x44xi32/3x33xi32/g' %s > %t.21.mlir
// RUN: flashcore-run %t.21.mlir --device=emulator --seed=13 -- --no-cubin --key-splits=3 | FileCheck %s
// RUN: flashcore-run %t.21.mlir --device=emulator --seed=14 -- --no-cubin --chip=sm_90a | FileCheck %s
// CHECK: PASS

!q = memref<3x8x5x64xf16>
!pages = memref<?x2x16x64xf16>

func.func @attention(%query: !q, %key: !pages, %value: !pages, %o: !q, %lse: memref<3x8x5xf32>, %used: memref<3xi32>, %table: memref<3x44xi32>, %logits: memref<8xf32>) {
  flashcore.attention ins(%query, %key, %value : !q, !pages, !pages) sink(%logits : memref<8xf32>)
      seqused_k(%used : memref<3xi32>) page_table(%table : memref<3x44xi32>)
      outs(%o : !q) lse(%lse : memref<3x8x5xf32>) causal(bottom_right)
  return
}
