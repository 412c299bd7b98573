// A region counts from the first query and key, whatever of the keys is used: its
// bounds are no window, which would count from the ends of the lengths.
//
// RUN: flashcore-run %s --device=emulator --seed=1 -- --no-cubin --block-m=16 --num-warps=1 --block-n=16 --key-splits=3 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 -- --no-cubin --block-m=32 --num-warps=2 | FileCheck %s
// CHECK: PASS

!q = memref<3x1x200x64xf16>
!kv = memref<3x1x1500x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %used: memref<3xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) seqused_k(%used : memref<3xi32>) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c1304 = arith.constant 1304 : index
    %last = arith.addi %q, %c1304 : index
    %visible = arith.cmpi sle, %k, %last : index
    flashcore.yield %visible : i1
  }
  return
}
