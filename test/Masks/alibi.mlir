// ALiBi: scores fall with the distance, by a slope a head.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS

!q = memref<2x4x150x64xf16>
!kv = memref<2x4x170x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %slopes: memref<4xf32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) causal(bottom_right) score {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %offset = arith.constant 20 : i32
    %q32 = arith.index_cast %q : index to i32
    %k32 = arith.index_cast %k : index to i32
    %own = arith.addi %q32, %offset : i32
    %distance = arith.subi %own, %k32 : i32
    %size = math.absi %distance : i32
    %real = arith.sitofp %size : i32 to f32
    %slope = memref.load %slopes[%h] : memref<4xf32>
    %step = math.absf %slope : f32
    %fall = arith.mulf %step, %real : f32
    %result = arith.subf %score, %fall : f32
    flashcore.yield %result : f32
  }
  return
}
