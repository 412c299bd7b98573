// Sinks + window (StreamingLLM): causal, the own key and 60 before it, and the
// first 4 keys.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x2x400x128xf16>
!kv = memref<1x1x400x128xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) causal(bottom_right) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c4 = arith.constant 4 : index
    %c60 = arith.constant 60 : index
    %distance = arith.subi %q, %k : index
    %near = arith.cmpi sle, %distance, %c60 : index
    %isSink = arith.cmpi slt, %k, %c4 : index
    %visible = arith.ori %near, %isSink : i1
    flashcore.yield %visible : i1
  }
  return
}
