// Sliding window: the query's own key and 40 before it, causal.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<2x4x150x64xbf16>
!kv = memref<2x2x170x64xbf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c0 = arith.constant 0 : index
    %c20 = arith.constant 20 : index
    %c40 = arith.constant 40 : index
    %own = arith.addi %q, %c20 : index
    %distance = arith.subi %own, %k : index
    %causal = arith.cmpi sge, %distance, %c0 : index
    %near = arith.cmpi sle, %distance, %c40 : index
    %visible = arith.andi %causal, %near : i1
    flashcore.yield %visible : i1
  }
  return
}
