// Dilated: every third key before the query.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x4x170x64xf16>
!kv = memref<1x2x170x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %distance = arith.subi %q, %k : index
    %rest = arith.remsi %distance, %c3 : index
    %onGrid = arith.cmpi eq, %rest, %c0 : index
    %causal = arith.cmpi sle, %k, %q : index
    %visible = arith.andi %onGrid, %causal : i1
    flashcore.yield %visible : i1
  }
  return
}
