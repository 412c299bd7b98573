// All pages of the table count: no lengths are data. A page of two tiles is
// looked up once for each.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --pages=3 --seed=2 -- --no-cubin --block-n=32 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=8 -- --no-cubin --chip=sm_90a --product=warpgroup --block-n=64 --grid=persistent | FileCheck %s
// CHECK: PASS

!q = memref<2x4x20x64xf16>
!pages = memref<?x2x128x64xf16>

func.func @attention(%query: !q, %key: !pages, %value: !pages, %o: !q, %table: memref<2x5xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !pages, !pages) page_table(%table : memref<2x5xi32>)
      outs(%o : !q) causal(bottom_right)
  return
}
