// Swin's bias: queries and keys are places in a window of 12 x 12, and a table
// has an entry for each difference of rows and columns, 23 x 23 of them, a
// head.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<2x4x144x32xbf16>
!kv = memref<2x4x144x32xbf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %table: memref<4x23x23xf32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %side = arith.constant 12 : index
    %c11 = arith.constant 11 : index
    %rowQ = arith.divsi %q, %side : index
    %colQ = arith.remsi %q, %side : index
    %rowK = arith.divsi %k, %side : index
    %colK = arith.remsi %k, %side : index
    %rows = arith.subi %rowQ, %rowK : index
    %cols = arith.subi %colQ, %colK : index
    %row = arith.addi %rows, %c11 : index
    %col = arith.addi %cols, %c11 : index
    %bias = memref.load %table[%h, %row, %col] : memref<4x23x23xf32>
    %result = arith.addf %score, %bias : f32
    flashcore.yield %result : f32
  }
  return
}
