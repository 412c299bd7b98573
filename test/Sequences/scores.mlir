// Scores of batch entries that use only their first keys, with everything that
// changes scores or hides them: what a key that is not there has is said by the
// stage.
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 --input-kind=rising -- --no-cubin --key-splits=3 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=3 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: sed 's/masked/scaled/' %s > %t.mlir
// RUN: flashcore-run %t.mlir --device=emulator --seed=4 -- --no-cubin | FileCheck %s
// RUN: sed 's/masked/changed/' %s > %t.mlir
// RUN: flashcore-run %t.mlir --device=emulator --seed=5 -- --no-cubin | FileCheck %s
// RUN: sed 's/masked/probabilities/' %s > %t.mlir
// RUN: flashcore-run %t.mlir --device=emulator --seed=6 -- --no-cubin --grid=persistent | FileCheck %s
// CHECK: PASS B3 H4/2 S45x150 D72/40 bf16 {{.*}} seqused_k lse scores={{.*}}, scores {{.*}} allowed
!q = memref<3x4x45x72xbf16>
!k = memref<3x2x150x72xbf16>
!v = memref<3x2x150x40xbf16>
!o = memref<3x4x45x40xbf16>
!s = memref<3x4x45x150xf32>

func.func @attention(%q: !q, %k: !k, %v: !v, %o: !o, %lse: memref<3x4x45xf32>, %s: !s, %used: memref<3xi32>,
                     %logits: memref<4xf32>, %slopes: memref<4xf32>, %bias: memref<3x1x1x150xf32>,
                     %table: memref<8xf32>, %documents: memref<3x150xi32>) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !v) bias(%bias : memref<3x1x1x150xf32>) sink(%logits : memref<4xf32>)
      alibi(%slopes : memref<4xf32>) seqused_k(%used : memref<3xi32>)
      outs(%o : !o) lse(%lse : memref<3x4x45xf32>) scores(%s : !s)
      causal(bottom_right) softcap(2.0e+01) stage(masked)
  score {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %eight = arith.constant 8 : index
    %place = arith.remui %j, %eight : index
    %entry = memref.load %table[%place] : memref<8xf32>
    %changed = arith.addf %score, %entry : f32
    flashcore.yield %changed : f32
  } mask {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %document = memref.load %documents[%b, %j] : memref<3x150xi32>
    %one = arith.constant 1 : i32
    %visible = arith.cmpi ne, %document, %one : i32
    flashcore.yield %visible : i1
  }
  return
}
