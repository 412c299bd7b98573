// T5's relative bias: a table of 32 distances a head; those beyond share the
// last.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x4x170x64xf16>
!kv = memref<1x2x170x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %table: memref<32x4xf16>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) causal(top_left) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c0 = arith.constant 0 : index
    %c31 = arith.constant 31 : index
    %distance = arith.subi %q, %k : index
    %near = arith.minsi %distance, %c31 : index
    %bucket = arith.maxsi %near, %c0 : index
    %half = memref.load %table[%bucket, %h] : memref<32x4xf16>
    %bias = arith.extf %half : f16 to f32
    %result = arith.addf %score, %bias : f32
    flashcore.yield %result : f32
  }
  return
}
