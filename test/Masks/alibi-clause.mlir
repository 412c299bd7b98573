// ALiBi by its clause, with a softcap, a score region behind it, and lengths
// that are not equal.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --block-m=64 --block-n=16 --num-warps=4 --key-splits=3 \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<2x4x150x64xf16>
!kv = memref<2x2x170x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %slopes: memref<4xf32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) alibi(%slopes : memref<4xf32>) outs(%o : !q)
      softcap(3.000000e+01) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %half = arith.constant 0.5 : f32
    %result = arith.mulf %score, %half : f32
    flashcore.yield %result : f32
  }
  return
}
