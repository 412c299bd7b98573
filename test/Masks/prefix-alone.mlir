// Only a prefix of each batch entry, of a length that is data: one range of
// keys, which ends within a tile.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 -- --no-cubin --key-splits=2 | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<3x2x90x64xf16>
!kv = memref<3x2x170x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %prefix: memref<3xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %more = arith.constant 75 : index
    %length = memref.load %prefix[%b] : memref<3xi32>
    %index = arith.index_cast %length : i32 to index
    %end = arith.addi %index, %more : index
    %visible = arith.cmpi slt, %k, %end : index
    flashcore.yield %visible : i1
  }
  return
}
