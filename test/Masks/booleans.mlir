// A mask that is a tensor of booleans, a byte each, and a bias of signed bytes.
// Bytes of neighbouring keys are read in pairs, unless the tensor begins at an
// odd address, and one by one past the last whole tile.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --offset=1 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --offset=2 -- --no-cubin --softmax=online --row-max=stale \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator --offset=3 -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<1x2x150x64xf16>
!kv = memref<1x1x200x64xf16>
!shown = memref<150x200xi8, strided<[200, 1], offset: ?>>
!bias = memref<2x210xi8>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %shown: !shown, %biases: !bias) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %c4 = arith.constant 4 : index
    %behind = arith.addi %k, %c4 : index
    %byte = memref.load %biases[%h, %behind] : !bias
    %wide = arith.extsi %byte : i8 to i32
    %bias = arith.sitofp %wide : i32 to f32
    %result = arith.addf %score, %bias : f32
    flashcore.yield %result : f32
  } mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %none = arith.constant 0 : i8
    %entry = memref.load %shown[%q, %k] : !shown
    %visible = arith.cmpi ne, %entry, %none : i8
    flashcore.yield %visible : i1
  }
  return
}
