// All but the own block: tokens of blocks of 100 see those of the other ones.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x2x330x64xbf16>
!kv = memref<1x2x330x64xbf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c100 = arith.constant 100 : index
    %true = arith.constant true
    %x = arith.divsi %q, %c100 : index
    %y = arith.divsi %k, %c100 : index
    %isOwn = arith.cmpi eq, %x, %y : index
    %visible = arith.xori %isOwn, %true : i1
    flashcore.yield %visible : i1
  }
  return
}
