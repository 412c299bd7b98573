// Documents: sequences back to back, of which each token sees its own. The
// number of each token's document is data.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<2x2x190x64xf16>
!kv = memref<2x1x190x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %document: memref<2x190xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) causal(bottom_right) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %ofQuery = memref.load %document[%b, %q] : memref<2x190xi32>
    %ofKey = memref.load %document[%b, %k] : memref<2x190xi32>
    %visible = arith.cmpi eq, %ofQuery, %ofKey : i32
    flashcore.yield %visible : i1
  }
  return
}
