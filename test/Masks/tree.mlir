// A tree of drafts for speculative decoding: query i of 12 sees all of the
// cache, and of the drafts, the last 12 keys, its ancestors. Which they are is
// a table.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<2x4x12x64xf16>
!kv = memref<2x2x140x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %ancestors: memref<12x12xi8>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c0 = arith.constant 0 : index
    %c128 = arith.constant 128 : index
    %none = arith.constant 0 : i8
    %inCache = arith.cmpi slt, %k, %c128 : index
    %draft = arith.subi %k, %c128 : index
    %inside = arith.maxsi %draft, %c0 : index
    %entry = memref.load %ancestors[%q, %inside] : memref<12x12xi8>
    %isAncestor = arith.cmpi ne, %entry, %none : i8
    %visible = arith.ori %inCache, %isAncestor : i1
    flashcore.yield %visible : i1
  }
  return
}
