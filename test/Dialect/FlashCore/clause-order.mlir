// Clauses are read in any order and printed in one.

// RUN: split-file %s %t
// RUN: flashcore-opt %t/orders.mlir -split-input-file | FileCheck %t/orders.mlir
// RUN: flashcore-opt %t/orders.mlir -split-input-file \
// RUN:   | flashcore-opt -split-input-file | FileCheck %t/orders.mlir
// RUN: flashcore-opt %t/errors.mlir -split-input-file -verify-diagnostics

//--- orders.mlir
!t = memref<1x8x512x64xf16>
!bias = memref<1x1x512x512xf32>
!lse = memref<1x8x512xf32>

// CHECK-LABEL: func.func @backwards(
func.func @backwards(%q: !t, %b: !bias, %o: !t, %lse: !lse) {
  // CHECK-NEXT: flashcore.attention ins(%{{.+}}, %{{.+}}, %{{.+}} : memref<1x8x512x64xf16>, memref<1x8x512x64xf16>, memref<1x8x512x64xf16>) bias(%{{.+}} : memref<1x1x512x512xf32>) outs(%{{.+}} : memref<1x8x512x64xf16>) lse(%{{.+}} : memref<1x8x512xf32>) causal(top_left) window_left(64) window_right(0) scale(1.250000e-01) softcap(3.000000e+01) {foo}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) softcap(30.0) scale(0.125)
      window_right(0) window_left(64) causal(top_left) lse(%lse : !lse)
      outs(%o : !t) bias(%b : !bias) {foo}
  return
}

// CHECK-LABEL: func.func @modifiers_before_outputs(
func.func @modifiers_before_outputs(%q: !t, %o: !t, %lse: !lse) {
  // CHECK-NEXT: flashcore.attention ins({{.+}}) outs({{.+}}) lse({{.+}}) causal(bottom_right)
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) causal(bottom_right)
      lse(%lse : !lse) outs(%o : !t)
  return
}

// CHECK-LABEL: func.func @regions_first(
func.func @regions_first(%q: !t, %o: !t) {
  // CHECK-NEXT: flashcore.attention ins({{.+}}) outs({{.+}}) causal(bottom_right) score {
  // CHECK:      } mask {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %true = arith.constant true
    flashcore.yield %true : i1
  } score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    flashcore.yield %score : f32
  } causal(bottom_right) outs(%o : !t)
  return
}

// -----

!t = tensor<1x8x512x64xf16>
!lse = tensor<1x8x512xf32>

// CHECK-LABEL: func.func @results(
func.func @results(%q: !t, %o: !t, %lse: !lse) -> (!t, !lse) {
  // CHECK-NEXT: flashcore.attention ins({{.+}}) outs({{.+}}) lse({{.+}}) causal(top_left) -> tensor<1x8x512x64xf16>, tensor<1x8x512xf32>
  %0:2 = flashcore.attention ins(%q, %q, %q : !t, !t, !t) lse(%lse : !lse)
      causal(top_left) outs(%o : !t) -> !t, !lse
  return %0#0, %0#1 : !t, !lse
}

//--- errors.mlir
!t = memref<1x8x512x64xf16>

func.func @twice(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) causal(top_left)
      outs(%o : !t)
      // expected-error @below {{expects 'causal' once, but got it twice}}
      causal(bottom_right)
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @two_outputs(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      // expected-error @below {{expects 'outs' once, but got it twice}}
      outs(%o : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @no_output(%q: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) causal(top_left)
  // expected-error @below {{expects 'outs(%output : type)', but got no 'outs'}}
}

// -----

!t = memref<1x8x512x64xf16>

func.func @misspelt_clause(%q: !t, %o: !t) {
  // expected-error @below {{expects 'outs(%output : type)' or another clause (head_scale, bias, alibi, sink, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, append, rotary, rng, block_counts, block_indices, full_block_counts, full_block_indices, outs, lse, scores, causal, window_left, window_right, scale, softcap, dropout, block_size, stage, style, score, mask), but got 'softcup'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) softcup(5.0) outs(%o : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @misspelt_clause_behind_outs(%q: !t, %o: !t) {
  // expected-error @below {{custom op 'softcup' is unknown}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) softcup(5.0)
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @types_of_two_inputs(%q: !t, %o: !t) {
  // expected-error @below {{expects the types of query, key and value, but got 2}}
  flashcore.attention ins(%q, %q, %q : !t, !t) outs(%o : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32>

func.func @stage_of_another_name(%q: !t, %o: !t, %s: !s) {
  // expected-error @below {{expects stage to be scaled, capped, changed, masked or probabilities, but got weights}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) scores(%s : !s) stage(weights)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32>

func.func @stage_without_a_name(%q: !t, %o: !t, %s: !s) {
  // expected-error @below {{expects stage to be scaled, capped, changed, masked or probabilities}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) scores(%s : !s) stage()
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @append_of_one(%q: !t, %u: memref<1xi32>) {
  // expected-error @below {{expected ','}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : memref<1xi32>) append(%q : !t) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @style_of_another_name(%q: !t, %o: !t) {
  // expected-error @below {{expects style to be interleaved or half, but got quarter}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) style(quarter)
  return
}

// -----

!t = memref<1x8x512x64xf16>

func.func @style_without_a_name(%q: !t, %o: !t) {
  // expected-error @below {{expects style to be interleaved or half}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) style()
  return
}
