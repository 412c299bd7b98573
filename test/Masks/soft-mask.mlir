// A soft mask: keys lose weight with the square of their distance, like a
// Gaussian.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x4x150x64xf16>
!kv = memref<1x4x150x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %scale = arith.constant -0.005 : f32
    %q32 = arith.index_cast %q : index to i32
    %k32 = arith.index_cast %k : index to i32
    %distance = arith.subi %q32, %k32 : i32
    %real = arith.sitofp %distance : i32 to f32
    %square = arith.mulf %real, %real : f32
    %result = math.fma %square, %scale, %score : f32
    flashcore.yield %result : f32
  }
  return
}
