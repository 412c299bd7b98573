// Many queries on caches of several lengths, with a bias and a softcap.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 -- --no-cubin --overlap=qk | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=3 -- --no-cubin --grid=persistent --num-warps=8 --block-m=128 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=4 -- --no-cubin --chip=sm_90a | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=5 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=6 -- --no-cubin --chip=sm_90a --product=warpgroup --grid=persistent | FileCheck %s
// CHECK: PASS

!q = memref<2x2x140x128xbf16>
!kv = memref<2x1x250x128xbf16>
!bias = memref<1x2x140x250xf32>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %used: memref<2xi32>, %bias: !bias) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) bias(%bias : !bias) seqused_k(%used : memref<2xi32>)
      outs(%o : !q) window_left(90) window_right(40) softcap(2.000000e+01)
  return
}
