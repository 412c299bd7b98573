// Softcap: scores saturate at 30.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x4x150x64xf16>
!kv = memref<1x2x170x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) causal(bottom_right) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %cap = arith.constant 30.0 : f32
    %inverse = arith.constant 0.033333335 : f32
    %ratio = arith.mulf %score, %inverse : f32
    %tanh = math.tanh %ratio : f32
    %result = arith.mulf %cap, %tanh : f32
    flashcore.yield %result : f32
  }
  return
}
