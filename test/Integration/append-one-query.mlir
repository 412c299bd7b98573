// Of one query the strides of q do not tell which axis is the inner one: without
// --layout it is bhsd, and rows that are appended do not overlap.
//
// RUN: flashcore-run %s --device=emulator --heads-kv=3 --seqlen-k=104 --seqlen-new=20 -- --no-cubin | FileCheck %s
// CHECK: PASS B1 H3/3 S1x104 {{.*}} bhsd

!q = memref<1x3x1x88xf16>
!kv = memref<1x?x?x88xf16>

func.func @attention(%q: !q, %k: !kv, %v: !kv, %o: !q, %used: memref<1xi32>, %k_new: !kv, %v_new: !kv) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) seqused_k(%used : memref<1xi32>) append(%k_new, %v_new : !kv, !kv)
      outs(%o : !q) causal(bottom_right)
  return
}
