// A changed score that a mask looks at: keys of a score below a threshold a
// head are hidden, and queries may see none.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x4x100x64xf16>
!kv = memref<1x2x130x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %limits: memref<4xf32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %two = arith.constant 2.0 : f32
    %result = arith.mulf %score, %two : f32
    flashcore.yield %result : f32
  } mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %threshold = memref.load %limits[%h] : memref<4xf32>
    %far = arith.constant 8.0 : f32
    %low = arith.subf %threshold, %far : f32
    %visible = arith.cmpf oge, %score, %low : f32
    flashcore.yield %visible : i1
  }
  return
}
