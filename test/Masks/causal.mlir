// Causal, the sequences ending together: key k is visible iff k <= q + seqlen_k
// - seqlen_q, here 20.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<2x4x150x64xf16>
!kv = memref<2x2x170x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %offset = arith.constant 20 : index
    %last = arith.addi %q, %offset : index
    %visible = arith.cmpi sle, %k, %last : index
    flashcore.yield %visible : i1
  }
  return
}
