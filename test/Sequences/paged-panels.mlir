// Rows of several panels in pages smaller than a tile: one box brings all panels
// of a page. Of every size of pages, with and without columns of ones behind V,
// where a tile takes parts of pages, of heads one after the other in a row, of
// strides known at run time only, and of one page and one head, whose strides
// may be any.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 -- --no-cubin --chip=sm_90a --product=warpgroup --row-sum=add --key-splits=2 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=3 -- --no-cubin --chip=sm_90a --product=warpgroup --block-n=80 --grid=persistent | FileCheck %s
// RUN: sed 's/x16x128x/x8x128x/g; s/3x20x/3x40x/g' %s > %t-8.mlir
// RUN: flashcore-run %t-8.mlir --device=emulator --seed=4 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %t-8.mlir --device=emulator --seed=5 -- --no-cubin --chip=sm_90a --product=warpgroup --row-sum=add --overlap=none | FileCheck %s
// RUN: sed 's/x16x128x/x32x128x/g; s/3x20x/3x10x/g' %s > %t-32.mlir
// RUN: flashcore-run %t-32.mlir --device=emulator --seed=6 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: sed 's/x16x128x/x64x128x/g; s/3x20x/3x5x/g; s/xf/xbf/g' %s > %t-64.mlir
// RUN: flashcore-run %t-64.mlir --device=emulator --seed=7 -- --no-cubin --chip=sm_90a --product=warpgroup --block-n=128 | FileCheck %s
// RUN: flashcore-run %t-64.mlir --device=emulator --seed=8 -- --no-cubin --chip=sm_90a --product=warpgroup --block-n=96 | FileCheck %s
// RUN: sed 's/x16x128x/x16x256x/g; s/5x128x/5x256x/g' %s > %t-256.mlir
// RUN: flashcore-run %t-256.mlir --device=emulator --seed=9 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: sed 's/x16x128xf16>/x16x128xf16, strided<[4096, 128, 256, 1]>>/' %s > %t-bshd.mlir
// RUN: flashcore-run %t-bshd.mlir --device=emulator --seed=10 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: sed 's/x16x128xf16>/x16x128xf16, strided<[?, ?, ?, 1]>>/' %s > %t-open.mlir
// RUN: flashcore-run %t-open.mlir --device=emulator --seed=11 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: sed 's/?x2x16x128xf16>/?x1x16x128xf16, strided<[?, ?, ?, 1]>>/; s/3x20x/3x1x/g' %s > %t-one.mlir
// RUN: flashcore-run %t-one.mlir --device=emulator --pages=1 --seed=12 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// CHECK: PASS

!q = memref<3x4x5x128xf16>
!pages = memref<?x2x16x128xf16>

func.func @attention(%query: !q, %key: !pages, %value: !pages, %o: !q, %used: memref<3xi32>, %table: memref<3x20xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !pages, !pages)
      seqused_k(%used : memref<3xi32>) page_table(%table : memref<3x20xi32>)
      outs(%o : !q) causal(bottom_right)
  return
}
