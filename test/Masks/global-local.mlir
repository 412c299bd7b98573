// Global + local (Longformer): the first 8 keys are visible to all, 32 keys on
// both sides of the query, and all to the first 8 queries.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x2x450x64xf16>
!kv = memref<1x2x450x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %distance = arith.subi %q, %k : index
    %size = math.absi %distance : index
    %local = arith.cmpi sle, %size, %c32 : index
    %globalKey = arith.cmpi slt, %k, %c8 : index
    %globalQuery = arith.cmpi slt, %q, %c8 : index
    %global = arith.ori %globalKey, %globalQuery : i1
    %visible = arith.ori %local, %global : i1
    flashcore.yield %visible : i1
  }
  return
}
