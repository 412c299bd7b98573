// Prefix LM: a prefix of each batch entry is visible to all, the rest is
// causal. The lengths of the prefixes are data.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<2x4x170x64xf16>
!kv = memref<2x4x170x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %prefix: memref<2xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %length = memref.load %prefix[%b] : memref<2xi32>
    %end = arith.index_cast %length : i32 to index
    %inPrefix = arith.cmpi slt, %k, %end : index
    %causal = arith.cmpi sle, %k, %q : index
    %visible = arith.ori %inPrefix, %causal : i1
    flashcore.yield %visible : i1
  }
  return
}
