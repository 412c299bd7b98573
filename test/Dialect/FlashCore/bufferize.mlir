// RUN: flashcore-opt %s -flashcore-bufferize -split-input-file | FileCheck %s

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @output_argument_is_written_in_place(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16>, %[[K:[^:]+]]: memref<1x8x512x64xf16>,
// CHECK-SAME:    %[[V:[^:]+]]: memref<1x8x512x64xf16>, %[[O:[^:]+]]: memref<1x8x512x64xf16>) -> memref<1x8x512x64xf16>
func.func @output_argument_is_written_in_place(%q: !t, %k: !t, %v: !t, %o: !t)
    -> !t {
  // CHECK-NEXT: flashcore.attention ins(%[[Q]], %[[K]], %[[V]] : {{.+}}) outs(%[[O]] : memref<1x8x512x64xf16>){{$}}
  // CHECK-NEXT: return %[[O]]
  %result = flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) -> !t
  return %result : !t
}

// -----

!t = tensor<1x8x512x64xf16>
!lse = tensor<1x8x512xf32>

// CHECK-LABEL: func.func @lse_is_written_in_place(
// CHECK-SAME:    %[[O:[^:]+]]: memref<1x8x512x64xf16>, %[[LSE:[^:]+]]: memref<1x8x512xf32>)
func.func @lse_is_written_in_place(%q: !t, %o: !t, %lse: !lse) -> (!t, !lse) {
  // CHECK-NEXT: flashcore.attention {{.+}} outs(%[[O]] : memref<1x8x512x64xf16>) lse(%[[LSE]] : memref<1x8x512xf32>){{$}}
  // CHECK-NEXT: return %[[O]], %[[LSE]]
  %results:2 = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      lse(%lse : !lse) -> !t, !lse
  return %results#0, %results#1 : !t, !lse
}

// -----

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @empty_output_is_allocated(
func.func @empty_output_is_allocated(%q: !t) -> !t {
  // CHECK-NEXT: %[[O:.+]] = memref.alloc() {{.*}}: memref<1x8x512x64xf16>
  // CHECK-NEXT: flashcore.attention {{.+}} outs(%[[O]] : memref<1x8x512x64xf16>)
  // CHECK-NEXT: return %[[O]]
  %o = tensor.empty() : !t
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) -> !t
  return %result : !t
}

// -----

// The caller may still read %o, so it cannot be written; its contents do not
// matter, so they are not copied.

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @output_used_later_is_not_copied(
// CHECK-SAME:    %[[O:[^:]+]]: memref<1x8x512x64xf16>)
func.func @output_used_later_is_not_copied(%q: !t, %o: !t) -> (!t, !t) {
  // CHECK-NEXT: %[[NEW:.+]] = memref.alloc() {{.*}}: memref<1x8x512x64xf16>
  // CHECK-NEXT: flashcore.attention {{.+}} outs(%[[NEW]] : memref<1x8x512x64xf16>)
  // CHECK-NEXT: return %[[NEW]], %[[O]]
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) -> !t
  return %result, %o : !t, !t
}

// -----

// The kernel reads query while it writes output: they may not share memory.

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @output_never_shares_the_buffer_of_query(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16>)
func.func @output_never_shares_the_buffer_of_query(%q: !t) -> !t {
  // CHECK-NEXT: %[[O:.+]] = memref.alloc() {{.*}}: memref<1x8x512x64xf16>
  // CHECK-NEXT: flashcore.attention ins(%[[Q]], %[[Q]], %[[Q]] : {{.+}}) outs(%[[O]] : memref<1x8x512x64xf16>)
  // CHECK-NEXT: return %[[O]]
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) -> !t
  return %result : !t
}

// -----

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @result_feeds_the_next_attention(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16>, %[[S:[^:]+]]: memref<1x8x512x64xf16>, %[[O:[^:]+]]: memref<1x8x512x64xf16>)
func.func @result_feeds_the_next_attention(%q: !t, %s: !t, %o: !t) -> !t {
  // CHECK-NEXT: flashcore.attention ins(%[[Q]], %[[Q]], %[[Q]] : {{.+}}) outs(%[[S]] :
  // CHECK-NEXT: flashcore.attention ins(%[[S]], %[[Q]], %[[Q]] : {{.+}}) outs(%[[O]] :
  // CHECK-NEXT: return %[[O]]
  %first = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%s : !t) -> !t
  %second = flashcore.attention ins(%first, %q, %q : !t, !t, !t) outs(%o : !t)
      -> !t
  return %second : !t
}

// -----

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @every_optional_tensor_becomes_a_memref(
// CHECK-SAME:    %[[BIAS:[^:]+]]: memref<1x1x512x512xf32>, %[[PER_HEAD:[^:]+]]: memref<8xf32>, %[[USED:[^:]+]]: memref<1xi32>, %[[TABLE:[^:]+]]: memref<1x16xi32>)
func.func @every_optional_tensor_becomes_a_memref(
    %q: !t, %o: !t, %bias: tensor<1x1x512x512xf32>, %per_head: tensor<8xf32>,
    %used: tensor<1xi32>, %table: tensor<1x16xi32>) -> !t {
  // CHECK: flashcore.attention
  // CHECK-SAME: bias(%[[BIAS]] : memref<1x1x512x512xf32>)
  // CHECK-SAME: alibi(%[[PER_HEAD]] : memref<8xf32>)
  // CHECK-SAME: sink(%[[PER_HEAD]] : memref<8xf32>)
  // CHECK-SAME: seqused_k(%[[USED]] : memref<1xi32>)
  // CHECK-SAME: page_table(%[[TABLE]] : memref<1x16xi32>)
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      bias(%bias : tensor<1x1x512x512xf32>) alibi(%per_head : tensor<8xf32>)
      sink(%per_head : tensor<8xf32>) seqused_k(%used : tensor<1xi32>)
      page_table(%table : tensor<1x16xi32>) outs(%o : !t) -> !t
  return %result : !t
}

// -----

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @modifiers_and_attributes_are_kept(
func.func @modifiers_and_attributes_are_kept(%q: !t, %o: !t)
    -> !t {
  // CHECK: flashcore.attention {{.+}} causal(top_left) window_left(3) window_right(4) scale(5.000000e-01) softcap(2.000000e+00) {test.note}{{$}}
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      causal(top_left) window_left(3)
      window_right(4) scale(0.5) softcap(2.0) {test.note} -> !t
  return %result : !t
}

// -----

!t = tensor<1x8x512x64xf16>
!table = tensor<8x512xf32>

// CHECK-LABEL: func.func @tensor_read_in_a_score_region(
// CHECK-SAME:    %[[TABLE:[^:]+]]: memref<8x512xf32>)
func.func @tensor_read_in_a_score_region(%q: !t, %o: !t, %table: !table) -> !t {
  // CHECK:      flashcore.attention {{.+}} score {
  // CHECK-NEXT: ^{{.+}}(%[[SCORE:[^:]+]]: f32, %{{[^:]+}}: index, %[[HEAD:[^:]+]]: index, %{{[^:]+}}: index, %[[KEY:[^:]+]]: index):
  // CHECK-NEXT:   %[[ADDEND:.+]] = memref.load %[[TABLE]][%[[HEAD]], %[[KEY]]] : memref<8x512xf32>
  // CHECK-NEXT:   %[[SUM:.+]] = arith.addf %[[SCORE]], %[[ADDEND]] : f32
  // CHECK-NEXT:   flashcore.yield %[[SUM]] : f32
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %addend = tensor.extract %table[%head, %key] : !table
    %sum = arith.addf %score, %addend : f32
    flashcore.yield %sum : f32
  } -> !t
  return %result : !t
}

// -----

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func private @callee(
// CHECK-SAME:    %{{[^:]+}}: memref<1x8x512x64xf16>, %{{[^:]+}}: memref<1x8x512x64xf16>) -> memref<1x8x512x64xf16>
func.func private @callee(%q: !t, %o: !t) -> !t {
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) -> !t
  return %result : !t
}

// CHECK-LABEL: func.func @calls_pass_buffers(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16>, %[[O:[^:]+]]: memref<1x8x512x64xf16>) -> memref<1x8x512x64xf16>
func.func @calls_pass_buffers(%q: !t, %o: !t) -> !t {
  // CHECK-NEXT: call @callee(%[[Q]], %[[O]]) : (memref<1x8x512x64xf16>, memref<1x8x512x64xf16>) -> memref<1x8x512x64xf16>
  %result = call @callee(%q, %o) : (!t, !t) -> !t
  return %result : !t
}

// -----

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @loop_carried_output_is_written_in_place(
// CHECK-SAME:    %[[O:[^:]+]]: memref<1x8x512x64xf16>, %{{[^:]+}}: index)
func.func @loop_carried_output_is_written_in_place(%q: !t, %o: !t, %n: index)
    -> !t {
  // CHECK:      scf.for
  // CHECK-NEXT:   flashcore.attention {{.+}} outs(%[[O]] : memref<1x8x512x64xf16>)
  // CHECK-NEXT: }
  // CHECK-NEXT: return %[[O]]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %result = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %o) -> !t {
    %next = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%acc : !t)
        -> !t
    scf.yield %next : !t
  }
  return %result : !t
}

// -----

!m = memref<1x8x512x64xf16>

// CHECK-LABEL: func.func @memrefs_are_left_alone(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16>, %[[O:[^:]+]]: memref<1x8x512x64xf16>)
func.func @memrefs_are_left_alone(%q: !m, %o: !m) {
  // CHECK-NEXT: flashcore.attention ins(%[[Q]], %[[Q]], %[[Q]] : {{.+}}) outs(%[[O]] : memref<1x8x512x64xf16>)
  // CHECK-NEXT: return
  flashcore.attention ins(%q, %q, %q : !m, !m, !m) outs(%o : !m)
  return
}

// -----

!t = tensor<1x8x512x64xf16>
!s = tensor<1x8x512x512xf32>

// CHECK-LABEL: func.func @scores_are_written_in_place(
// CHECK-SAME:    %[[O:[^:]+]]: memref<1x8x512x64xf16>, %[[S:[^:]+]]: memref<1x8x512x512xf32>)
func.func @scores_are_written_in_place(%q: !t, %o: !t, %s: !s) -> (!t, !s) {
  // CHECK-NEXT: flashcore.attention {{.+}} outs(%[[O]] : memref<1x8x512x64xf16>) scores(%[[S]] : memref<1x8x512x512xf32>) stage(capped){{$}}
  // CHECK-NEXT: return %[[O]], %[[S]]
  %results:2 = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      scores(%s : !s) stage(capped) -> !t, !s
  return %results#0, %results#1 : !t, !s
}
