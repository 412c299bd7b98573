// RUN: flashcore-opt %s | flashcore-opt | FileCheck %s
// RUN: flashcore-opt %s -mlir-print-op-generic | flashcore-opt | FileCheck %s

!q = memref<1x1x16x64xf16>
!kv = memref<1x1x?x64xf16>
!lse = memref<1x1x16xf32>

// CHECK-LABEL: func.func @plain(
// CHECK-SAME:    %[[B:[^:]+]]: index, %[[H:[^:]+]]: index, %[[ROW:[^:]+]]: index, %[[LQ:[^:]+]]: index, %[[KEY:[^:]+]]: index, %[[END:[^:]+]]: index, %[[LK:[^:]+]]: index, %[[BLOCK:[^:]+]]: index)
func.func @plain(%q: !q, %k: !kv, %o: !q, %b: index, %h: index, %row: index, %seqlen_q: index, %key: index,
                 %end: index, %seqlen_k: index, %block: index) {
  // CHECK: flashcore.attention_tile ins({{[^)]+}}) outs({{[^)]+}}) at(batch %[[B]], head %[[H]], query %[[ROW]] of %[[LQ]], key %[[KEY]] to %[[END]] of %[[LK]], block %[[BLOCK]]) causal(bottom_right) window_left(3) window_right(4) scale(1.250000e-01){{$}}
  flashcore.attention_tile ins(%q, %k, %k : !q, !kv, !kv) outs(%o : !q)
      at(batch %b, head %h, query %row of %seqlen_q, key %key to %end of %seqlen_k, block %block)
      causal(bottom_right) window_left(3) window_right(4) scale(0.125)
  return
}

// Sink, rng and lists are those of the whole attention.

// CHECK-LABEL: func.func @every_clause(
func.func @every_clause(%q: !q, %k: !kv, %o: !q, %lse: !lse, %i: index, %sink: memref<8xf32>, %rng: memref<4xi32>,
                        %counts: memref<2x8x4xi32>, %indices: memref<2x8x4x9xi32>) {
  // CHECK:      flashcore.attention_tile ins(
  // CHECK-SAME: sink(%{{[^ ]+}} : memref<8xf32>)
  // CHECK-SAME: rng(%{{[^ ]+}} : memref<4xi32>)
  // CHECK-SAME: block_counts(%{{[^ ]+}} : memref<2x8x4xi32>) block_indices(%{{[^ ]+}} : memref<2x8x4x9xi32>)
  // CHECK-SAME: full_block_counts(%{{[^ ]+}} : memref<2x8x4xi32>) full_block_indices(%{{[^ ]+}} : memref<2x8x4x9xi32>)
  // CHECK-SAME: outs(%{{[^ ]+}} : memref<1x1x16x64xf16>) lse(%{{[^ ]+}} : memref<1x1x16xf32>) at(
  // CHECK-SAME: causal(top_left) scale(1.250000e-01) dropout(1.000000e-01) block_size [128, 64] score {
  // CHECK:        flashcore.yield %{{.+}} : f32
  // CHECK:      } mask {
  // CHECK:        flashcore.yield %{{.+}} : i1
  // CHECK:      } {test.note}
  flashcore.attention_tile ins(%q, %k, %k : !q, !kv, !kv) sink(%sink : memref<8xf32>) rng(%rng : memref<4xi32>)
      block_counts(%counts : memref<2x8x4xi32>) block_indices(%indices : memref<2x8x4x9xi32>)
      full_block_counts(%counts : memref<2x8x4xi32>) full_block_indices(%indices : memref<2x8x4x9xi32>)
      outs(%o : !q) lse(%lse : !lse) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i)
      causal(top_left) scale(0.125) dropout(0.1) block_size [128, 64]
      score {
      ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
        flashcore.yield %score : f32
      } mask {
      ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
        %visible = arith.cmpi sle, %key, %query : index
        flashcore.yield %visible : i1
      } {test.note}
  return
}

// The output may be a partial result in f32 (T1), of any strides (T4) and more
// columns (T2). Its LSE may be two numbers a row (T3).

// CHECK-LABEL: func.func @partial_result(
func.func @partial_result(%q: !q, %k: !kv, %o: memref<1x1x16x72xf32, strided<[12, 5, 67, 2], offset: 3>>, %lse: !lse,
                          %rest: !lse, %i: index) {
  // CHECK: flashcore.attention_tile {{.+}} outs(%{{.+}} : memref<1x1x16x72xf32, strided<[12, 5, 67, 2], offset: 3>>) lse({{.+}}) lse_rest(%{{.+}} : memref<1x1x16xf32>)
  flashcore.attention_tile ins(%q, %k, %k : !q, !kv, !kv)
      outs(%o : memref<1x1x16x72xf32, strided<[12, 5, 67, 2], offset: 3>>) lse(%lse : !lse) lse_rest(%rest : !lse)
      at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// Of probabilities, lse and lse_rest are the whole's.

// CHECK-LABEL: func.func @scores(
func.func @scores(%q: !q, %k: !kv, %s: memref<1x1x16x300xf32>, %lse: memref<2x8x512xf32>, %i: index) {
  // CHECK: flashcore.scores_tile ins({{[^)]+}}) outs(%{{.+}} : memref<1x1x16x300xf32>) at({{.+}}) causal(top_left) scale(1.250000e-01) stage(masked){{$}}
  flashcore.scores_tile ins(%q, %k : !q, !kv) outs(%s : memref<1x1x16x300xf32>)
      at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) causal(top_left) scale(0.125) stage(masked)
  // CHECK: flashcore.scores_tile ins({{[^)]+}}) lse(%{{.+}} : memref<2x8x512xf32>) lse_rest(%{{.+}} : memref<2x8x512xf32>) outs({{.+}} scale(1.250000e-01) stage(probabilities) score {
  flashcore.scores_tile ins(%q, %k : !q, !kv) lse(%lse : memref<2x8x512xf32>) lse_rest(%lse : memref<2x8x512xf32>)
      outs(%s : memref<1x1x16x300xf32>) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i)
      scale(0.125) stage(probabilities) score {
      ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
        flashcore.yield %score : f32
      }
  return
}

// CHECK-LABEL: func.func @values(
func.func @values(%v: !kv, %o: !q, %p: memref<?x1x16x32xf16, strided<[32, 32, ?, 1]>>, %i: index) {
  // CHECK: flashcore.values_tile ins(%{{.+}}, %{{.+}} : memref<?x1x16x32xf16, strided<[32, 32, ?, 1]>>, memref<1x1x?x64xf16>) outs({{[^)]+}}) at({{.+}}) window_left(7){{$}}
  flashcore.values_tile ins(%p, %v : memref<?x1x16x32xf16, strided<[32, 32, ?, 1]>>, !kv) outs(%o : !q)
      at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) window_left(7)
  return
}
