// A mask region that says what a clause says makes the same kernel: on both
// paths, static lengths, but for the launch that the first line describes.

// RUN: split-file %s %t
// RUN: flashcore-compile %t/causal-region.mlir -o %t/a.ptx
// RUN: flashcore-compile %t/causal-clause.mlir -o %t/b.ptx
// RUN: grep -v '^//' %t/a.ptx | sed 's/attention_f16_d64/kernel/' > %t/a.txt
// RUN: grep -v '^//' %t/b.ptx | sed 's/attention_f16_d64_causal/kernel/' > %t/b.txt
// RUN: diff %t/a.txt %t/b.txt

// RUN: flashcore-compile %t/window-region.mlir -o %t/c.ptx --chip=sm_90a
// RUN: flashcore-compile %t/window-clause.mlir -o %t/d.ptx --chip=sm_90a
// RUN: grep -v '^//' %t/c.ptx | sed 's/attention_f16_d128/kernel/' > %t/c.txt
// RUN: grep -v '^//' %t/d.ptx | sed 's/attention_f16_d128_causal/kernel/' > %t/d.txt
// RUN: diff %t/c.txt %t/d.txt
// RUN: grep wgmma %t/c.txt

// Masks that no clause can say: blocks of 96 queries and keys are bounds; what
// has holes within tiles is evaluated in those that are left; holes of tiles are
// skipped.

// RUN: flashcore-compile %t/blocks.mlir --explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: mask region bounds of keys: tiles outside are skipped, full tiles have no mask
// RUN: flashcore-compile %t/holes.mlir --explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=HOLES
// HOLES: mask region bounds of keys, outside of which tiles are skipped, and more, which each other tile evaluates
// RUN: sed 's/andi %near, %odd/ori %near, %early/' %t/holes.mlir \
// RUN:   | flashcore-compile --explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=RANGES
// RANGES: mask region 2 ranges of keys: tiles between them are skipped, full tiles have no mask
// RUN: sed 's/andi %near, %odd/ori %near, %odd/' %t/holes.mlir \
// RUN:   | flashcore-compile --explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: mask region no bounds of keys were found: each tile evaluates it

//--- causal-region.mlir
!q = memref<4x16x2000x64xf16>
!k = memref<4x16x2048x64xf16>
func.func @f(%q: !q, %k: !k, %v: !k, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !k) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %offset = arith.constant 48 : index
    %own = arith.addi %i, %offset : index
    %visible = arith.cmpi sge, %own, %j : index
    flashcore.yield %visible : i1
  }
  return
}
//--- causal-clause.mlir
!q = memref<4x16x2000x64xf16>
!k = memref<4x16x2048x64xf16>
func.func @f(%q: !q, %k: !k, %v: !k, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !k) outs(%o : !q) causal(bottom_right)
  return
}
//--- window-region.mlir
!t = memref<1x16x16384x128xf16>
func.func @f(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %width = arith.constant 1024 : i32
    %i32 = arith.index_cast %i : index to i32
    %j32 = arith.index_cast %j : index to i32
    %distance = arith.subi %i32, %j32 : i32
    %near = arith.cmpi sle, %distance, %width : i32
    %causal = arith.cmpi sle, %j32, %i32 : i32
    %visible = arith.andi %near, %causal : i1
    flashcore.yield %visible : i1
  }
  return
}
//--- window-clause.mlir
!t = memref<1x16x16384x128xf16>
func.func @f(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) causal(bottom_right) window_left(1024)
  return
}
//--- blocks.mlir
!t = memref<1x16x1024x128xf16>
func.func @f(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %size = arith.constant 96 : index
    %x = arith.divsi %i, %size : index
    %y = arith.divsi %j, %size : index
    %visible = arith.cmpi eq, %x, %y : index
    flashcore.yield %visible : i1
  }
  return
}
//--- holes.mlir
!t = memref<1x16x1024x128xf16>
func.func @f(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %width = arith.constant 100 : index
    %distance = arith.subi %i, %j : index
    %size = math.absi %distance : index
    %near = arith.cmpi sle, %size, %width : index
    %size32 = arith.index_cast %size : index to i32
    %odd = arith.trunci %size32 : i32 to i1
    %few = arith.constant 8 : index
    %early = arith.cmpi slt, %j, %few : index
    %visible = arith.andi %near, %odd : i1
    flashcore.yield %visible : i1
  }
  return
}
