// Keys behind a length, and in front of one, have a finite score that leaves them nothing: masks that programs write in the
// place of -infinity, by a choice and by a sum. Each tile of keys may be masked, and the first one is in rows of an odd head.
//
// RUN: sed 's/MASK/-1.0e4/' %s > %t.mlir && flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin | FileCheck %s
// RUN: sed 's/MASK/-1.0e9/' %s > %t.mlir
// RUN: flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin --key-splits=2 | FileCheck %s
// RUN: flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin --schedule=scalar | FileCheck %s
// RUN: flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin --softmax=unfused | FileCheck %s
// RUN: sed 's/MASK/0xFF7FFFFF/' %s > %t.mlir
// RUN: flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin | FileCheck %s
// RUN: flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin --chip=sm_90a | FileCheck %s
// RUN: flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin --row-max=exact | FileCheck %s
// RUN: flashcore-run %t.mlir --device=emulator --seed=1 -- --no-cubin --chip=sm_75 | FileCheck %s

// CHECK: PASS

!q = memref<1x2x40x64xbf16>
!kv = memref<1x2x200x64xbf16>

func.func @attention(%q: !q, %k: !kv, %v: !kv, %o: !q, %lse: memref<1x2x40xf32>) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q) lse(%lse : memref<1x2x40xf32>) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %length = arith.constant 140 : index
    %zero = arith.constant 0.0 : f32
    %mask = arith.constant MASK : f32
    %start = arith.constant 64 : index
    %first = arith.muli %head, %start : index
    %is_key = arith.cmpi slt, %key, %length : index
    %is_late = arith.cmpi sge, %key, %first : index
    %chosen = arith.select %is_key, %score, %mask : f32
    %added = arith.select %is_late, %zero, %mask : f32
    %result = arith.addf %chosen, %added : f32
    flashcore.yield %result : f32
  }
  return
}
