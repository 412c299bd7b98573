// A scale a head, some of them below 0, with a softcap, a bias and a score region
// behind it, and the scores at their first stage.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --block-m=64 --block-n=16 --num-warps=4 --key-splits=3 \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator --input-kind=large -- --no-cubin --softmax=unfused | FileCheck %s
// CHECK: PASS

!q = memref<2x4x150x64xf16>
!kv = memref<2x2x170x64xf16>
!bias = memref<1x4x1x170xf32>
!scores = memref<2x4x150x170xf32>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %scales: memref<4xf32>, %bias: !bias,
                     %scores: !scores) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) head_scale(%scales : memref<4xf32>)
      bias(%bias : !bias) outs(%o : !q) scores(%scores : !scores) softcap(3.000000e+01) stage(scaled) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %half = arith.constant 0.5 : f32
    %result = arith.mulf %score, %half : f32
    flashcore.yield %result : f32
  }
  return
}
