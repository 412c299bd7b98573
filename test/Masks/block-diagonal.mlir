// Block-diagonal: blocks of 48 queries see blocks of 48 keys.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x4x170x128xf16>
!kv = memref<1x2x170x128xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c48 = arith.constant 48 : index
    %ofQuery = arith.floordivsi %q, %c48 : index
    %ofKey = arith.floordivsi %k, %c48 : index
    %visible = arith.cmpi eq, %ofQuery, %ofKey : index
    flashcore.yield %visible : i1
  }
  return
}
