// RUN: flashcore-opt %s | flashcore-opt | FileCheck %s
// RUN: flashcore-opt %s -mlir-print-op-generic | flashcore-opt | FileCheck %s

!q = memref<2x8x512x64xf16>
!kv = memref<2x2x256x64xf16>
!lse = memref<2x8x512xf32>
!t = tensor<2x8x512x64xf16>
!tkv = tensor<2x2x256x64xf16>
!tlse = tensor<2x8x512xf32>

// CHECK-LABEL: func.func @memrefs(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<2x8x512x64xf16>, %[[K:[^:]+]]: memref<2x2x256x64xf16>,
// CHECK-SAME:    %[[V:[^:]+]]: memref<2x2x256x64xf16>, %[[O:[^:]+]]: memref<2x8x512x64xf16>)
func.func @memrefs(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  // CHECK-NEXT: flashcore.attention ins(%[[Q]], %[[K]], %[[V]] : memref<2x8x512x64xf16>, memref<2x2x256x64xf16>, memref<2x2x256x64xf16>) outs(%[[O]] : memref<2x8x512x64xf16>){{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
  return
}

// CHECK-LABEL: func.func @memrefs_with_lse(
// CHECK-SAME:    %[[O:[^:]+]]: memref<2x8x512x64xf16>, %[[LSE:[^:]+]]: memref<2x8x512xf32>)
func.func @memrefs_with_lse(%q: !q, %k: !kv, %v: !kv, %o: !q, %lse: !lse) {
  // CHECK: flashcore.attention {{.+}} outs(%[[O]] : memref<2x8x512x64xf16>) lse(%[[LSE]] : memref<2x8x512xf32>){{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
      lse(%lse : !lse)
  return
}

// CHECK-LABEL: func.func @tensors(
// CHECK-SAME:    %[[Q:[^:]+]]: tensor<2x8x512x64xf16>, %[[K:[^:]+]]: tensor<2x2x256x64xf16>,
// CHECK-SAME:    %[[V:[^:]+]]: tensor<2x2x256x64xf16>, %[[O:[^:]+]]: tensor<2x8x512x64xf16>)
func.func @tensors(%q: !t, %k: !tkv, %v: !tkv, %o: !t) -> !t {
  // CHECK-NEXT: %[[RESULT:.+]] = flashcore.attention ins(%[[Q]], %[[K]], %[[V]] : tensor<2x8x512x64xf16>, tensor<2x2x256x64xf16>, tensor<2x2x256x64xf16>) outs(%[[O]] : tensor<2x8x512x64xf16>) -> tensor<2x8x512x64xf16>
  // CHECK-NEXT: return %[[RESULT]]
  %result = flashcore.attention ins(%q, %k, %v : !t, !tkv, !tkv)
      outs(%o : !t) -> !t
  return %result : !t
}

// CHECK-LABEL: func.func @tensors_with_lse(
// CHECK-SAME:    %[[O:[^:]+]]: tensor<2x8x512x64xf16>, %[[LSE:[^:]+]]: tensor<2x8x512xf32>)
func.func @tensors_with_lse(%q: !t, %k: !tkv, %v: !tkv, %o: !t, %lse: !tlse)
    -> (!t, !tlse) {
  // CHECK: %[[RESULTS:.+]]:2 = flashcore.attention {{.+}} outs(%[[O]] : tensor<2x8x512x64xf16>) lse(%[[LSE]] : tensor<2x8x512xf32>) -> tensor<2x8x512x64xf16>, tensor<2x8x512xf32>
  // CHECK-NEXT: return %[[RESULTS]]#0, %[[RESULTS]]#1
  %results:2 = flashcore.attention ins(%q, %k, %v : !t, !tkv, !tkv)
      outs(%o : !t) lse(%lse : !tlse) -> !t, !tlse
  return %results#0, %results#1 : !t, !tlse
}

// CHECK-LABEL: func.func @dynamic_sizes_strides_and_offset(
func.func @dynamic_sizes_strides_and_offset(
    %q: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>,
    %o: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>,
    %lse: memref<?x?x?xf32, strided<[?, ?, ?], offset: ?>>) {
  // CHECK: flashcore.attention ins(
  // CHECK-SAME: outs(%{{.+}} : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>)
  // CHECK-SAME: lse(%{{.+}} : memref<?x?x?xf32, strided<[?, ?, ?], offset: ?>>)
  flashcore.attention ins(%q, %q, %q
      : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>,
        memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>,
        memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>)
      outs(%o : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>)
      lse(%lse : memref<?x?x?xf32, strided<[?, ?, ?], offset: ?>>)
  return
}

// CHECK-LABEL: func.func @any_strides_and_offset(
func.func @any_strides_and_offset(
    %q: memref<1x2x70x33xf16, strided<[9001, 4501, 65, 1], offset: 3>>, %own: memref<1x2x70x33xf16, strided<[9001, 4501, 65, 1], offset: 3>>) {
  // CHECK: outs(%{{.+}} : memref<1x2x70x33xf16, strided<[9001, 4501, 65, 1], offset: 3>>)
  flashcore.attention ins(%q, %q, %q
      : memref<1x2x70x33xf16, strided<[9001, 4501, 65, 1], offset: 3>>,
        memref<1x2x70x33xf16, strided<[9001, 4501, 65, 1], offset: 3>>,
        memref<1x2x70x33xf16, strided<[9001, 4501, 65, 1], offset: 3>>)
      outs(%own : memref<1x2x70x33xf16, strided<[9001, 4501, 65, 1], offset: 3>>)
  return
}

// CHECK-LABEL: func.func @head_dim_v_differs_from_head_dim(
func.func @head_dim_v_differs_from_head_dim(
    %q: !q, %k: !kv, %v: memref<2x2x256x128xf16>, %o: memref<2x8x512x128xf16>) {
  // CHECK: flashcore.attention ins(%{{.+}} : memref<2x8x512x64xf16>, memref<2x2x256x64xf16>, memref<2x2x256x128xf16>) outs(%{{.+}} : memref<2x8x512x128xf16>){{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, memref<2x2x256x128xf16>)
      outs(%o : memref<2x8x512x128xf16>)
  return
}

// CHECK-LABEL: func.func @causal_bottom_right(
func.func @causal_bottom_right(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  // CHECK: flashcore.attention {{.+}} causal(bottom_right){{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
      causal(bottom_right)
  return
}

// CHECK-LABEL: func.func @causal_top_left(
func.func @causal_top_left(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  // CHECK: flashcore.attention {{.+}} causal(top_left){{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
      causal(top_left)
  return
}

// CHECK-LABEL: func.func @window_of_both_sides(
func.func @window_of_both_sides(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  // CHECK: flashcore.attention {{.+}} window_left(127) window_right(0){{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
      window_left(127) window_right(0)
  return
}

// CHECK-LABEL: func.func @window_of_one_side(
func.func @window_of_one_side(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  // CHECK: flashcore.attention {{.+}} outs({{[^)]+}}) window_right(16){{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
      window_right(16)
  return
}

// CHECK-LABEL: func.func @scale_and_softcap(
func.func @scale_and_softcap(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  // CHECK: flashcore.attention {{.+}} scale(1.250000e-01) softcap(5.000000e+01){{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
      scale(1.250000e-01) softcap(5.000000e+01)
  return
}

// CHECK-LABEL: func.func @bias_broadcast_over_batch_and_query(
// CHECK-SAME:    %[[BIAS:[^:]+]]: memref<1x8x1x256xf16>)
func.func @bias_broadcast_over_batch_and_query(
    %q: !q, %k: !kv, %v: !kv, %o: !q, %bias: memref<1x8x1x256xf16>) {
  // CHECK: flashcore.attention ins({{[^)]+}}) bias(%[[BIAS]] : memref<1x8x1x256xf16>) outs(
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv)
      bias(%bias : memref<1x8x1x256xf16>) outs(%o : !q)
  return
}

// Single elements of a bias are loaded, so any strides will do (C10).

// CHECK-LABEL: func.func @bias_of_any_strides(
func.func @bias_of_any_strides(
    %q: !q, %k: !kv, %v: !kv, %o: !q,
    %bias: memref<2x1x512x256xf16, strided<[131, 0, 257, 3], offset: 5>>) {
  // CHECK: bias(%{{.+}} : memref<2x1x512x256xf16, strided<[131, 0, 257, 3], offset: 5>>)
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv)
      bias(%bias : memref<2x1x512x256xf16, strided<[131, 0, 257, 3], offset: 5>>)
      outs(%o : !q)
  return
}

// CHECK-LABEL: func.func @head_scales(
// CHECK-SAME:    %[[SCALES:[^:]+]]: memref<8xf32>)
func.func @head_scales(%q: !q, %k: !kv, %v: !kv, %o: !q,
                       %scales: memref<8xf32>) {
  // CHECK: flashcore.attention ins({{[^)]+}}) head_scale(%[[SCALES]] : memref<8xf32>) outs(
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv)
      outs(%o : !q) head_scale(%scales : memref<8xf32>)
  return
}

// CHECK-LABEL: func.func @alibi_slopes(
// CHECK-SAME:    %[[SLOPES:[^:]+]]: memref<8xf32>)
func.func @alibi_slopes(%q: !q, %k: !kv, %v: !kv, %o: !q,
                        %slopes: memref<8xf32>) {
  // CHECK: flashcore.attention ins({{[^)]+}}) alibi(%[[SLOPES]] : memref<8xf32>) outs(
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv)
      alibi(%slopes : memref<8xf32>) outs(%o : !q)
  return
}

// CHECK-LABEL: func.func @sink_logits(
// CHECK-SAME:    %[[SINK:[^:]+]]: memref<8xf32>)
func.func @sink_logits(%q: !q, %k: !kv, %v: !kv, %o: !q, %sink: memref<8xf32>) {
  // CHECK: flashcore.attention ins({{[^)]+}}) sink(%[[SINK]] : memref<8xf32>) outs(
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv)
      sink(%sink : memref<8xf32>) outs(%o : !q)
  return
}

// CHECK-LABEL: func.func @dropout(
// CHECK-SAME:    %[[RNG:[^:]+]]: memref<4xi32>)
func.func @dropout(%q: !q, %k: !kv, %v: !kv, %o: !q, %rng: memref<4xi32>) {
  // CHECK: flashcore.attention ins({{[^)]+}}) rng(%[[RNG]] : memref<4xi32>) outs({{[^)]+}}) softcap(3.000000e+01) dropout(1.000000e-01)
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv)
      dropout(0.1) outs(%o : !q) softcap(30.0) rng(%rng : memref<4xi32>)
  return
}

// An axis of size 1 is broadcast; there may be more blocks than rows need.

// CHECK-LABEL: func.func @block_lists(
// CHECK-SAME:    %[[COUNTS:[^:]+]]: memref<1x?x?xi32>, %[[INDICES:[^:]+]]: memref<1x?x?x9xi32>, %[[FULL_COUNTS:[^:]+]]: memref<1x?x?xi32>, %[[FULL:[^:]+]]: memref<1x?x?x9xi32>)
func.func @block_lists(%q: !q, %k: !kv, %v: !kv, %o: !q, %counts: memref<1x?x?xi32>, %indices: memref<1x?x?x9xi32>,
                       %full_counts: memref<1x?x?xi32>, %full: memref<1x?x?x9xi32>) {
  // CHECK: flashcore.attention ins({{[^)]+}}) block_counts(%[[COUNTS]] : memref<1x?x?xi32>) block_indices(%[[INDICES]] : memref<1x?x?x9xi32>) full_block_counts(%[[FULL_COUNTS]] : memref<1x?x?xi32>) full_block_indices(%[[FULL]] : memref<1x?x?x9xi32>) outs({{[^)]+}}) causal(top_left) block_size(128, 64)
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) block_size(128, 64)
      full_block_counts(%full_counts : memref<1x?x?xi32>) full_block_indices(%full : memref<1x?x?x9xi32>)
      block_counts(%counts : memref<1x?x?xi32>) block_indices(%indices : memref<1x?x?x9xi32>)
      causal(top_left) outs(%o : !q)
  return
}

// CHECK-LABEL: func.func @sequences_back_to_back(
// CHECK-SAME:    %[[CU_Q:[^:]+]]: memref<5xi32>, %[[CU_K:[^:]+]]: memref<?xi32>)
func.func @sequences_back_to_back(
    %q: memref<1x8x?x64xf16>, %k: memref<1x2x?x64xf16>,
    %o: memref<1x8x?x64xf16>, %cu_q: memref<5xi32>, %cu_k: memref<?xi32>) {
  // CHECK: flashcore.attention ins({{[^)]+}}) cu_seqlens_q(%[[CU_Q]] : memref<5xi32>) cu_seqlens_k(%[[CU_K]] : memref<?xi32>) outs(
  flashcore.attention ins(%q, %k, %k : memref<1x8x?x64xf16>,
                          memref<1x2x?x64xf16>, memref<1x2x?x64xf16>)
      cu_seqlens_q(%cu_q : memref<5xi32>) cu_seqlens_k(%cu_k : memref<?xi32>)
      outs(%o : memref<1x8x?x64xf16>)
  return
}

// Key and value have a batch axis of pages here, so it may differ from query's.

// CHECK-LABEL: func.func @paged_keys(
// CHECK-SAME:    %[[USED:[^:]+]]: memref<2xi32>, %[[TABLE:[^:]+]]: memref<2x16xi32>)
func.func @paged_keys(%q: !q, %pages: memref<100x2x32x64xf16>, %o: !q,
                      %used: memref<2xi32>, %table: memref<2x16xi32>) {
  // CHECK: flashcore.attention ins({{[^)]+}}) seqused_k(%[[USED]] : memref<2xi32>) page_table(%[[TABLE]] : memref<2x16xi32>) outs(
  flashcore.attention ins(%q, %pages, %pages : !q, memref<100x2x32x64xf16>,
                          memref<100x2x32x64xf16>)
      seqused_k(%used : memref<2xi32>) page_table(%table : memref<2x16xi32>)
      outs(%o : !q)
  return
}

// CHECK-LABEL: func.func @score_region(
func.func @score_region(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  // CHECK:      flashcore.attention {{.+}} score {
  // CHECK-NEXT: ^{{.+}}(%[[SCORE:[^:]+]]: f32, %{{.+}}: index, %{{.+}}: index, %{{.+}}: index, %{{.+}}: index):
  // CHECK-NEXT:   %[[TWICE:.+]] = arith.addf %[[SCORE]], %[[SCORE]] : f32
  // CHECK-NEXT:   flashcore.yield %[[TWICE]] : f32
  // CHECK-NEXT: }{{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %twice = arith.addf %score, %score : f32
    flashcore.yield %twice : f32
  }
  return
}

// CHECK-LABEL: func.func @mask_region(
func.func @mask_region(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  // CHECK:      flashcore.attention {{.+}} mask {
  // CHECK-NEXT: ^{{.+}}(%{{.+}}: f32, %{{.+}}: index, %{{.+}}: index, %[[QUERY:[^:]+]]: index, %[[KEY:[^:]+]]: index):
  // CHECK-NEXT:   %[[VISIBLE:.+]] = arith.cmpi sle, %[[KEY]], %[[QUERY]] : index
  // CHECK-NEXT:   flashcore.yield %[[VISIBLE]] : i1
  // CHECK-NEXT: }{{$}}
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %visible = arith.cmpi sle, %key, %query : index
    flashcore.yield %visible : i1
  }
  return
}

// Regions may use values from outside.

// CHECK-LABEL: func.func @both_regions_with_a_captured_value(
// CHECK-SAME:    %[[FACTOR:[^:]+]]: f32)
func.func @both_regions_with_a_captured_value(
    %q: !t, %k: !tkv, %v: !tkv, %o: !t, %factor: f32) -> !t {
  // CHECK:      flashcore.attention {{.+}} score {
  // CHECK:        %[[SCALED:.+]] = arith.mulf %{{.+}}, %[[FACTOR]] : f32
  // CHECK-NEXT:   flashcore.yield %[[SCALED]] : f32
  // CHECK-NEXT: } mask {
  // CHECK:        flashcore.yield %{{.+}} : i1
  // CHECK-NEXT: } -> tensor<2x8x512x64xf16>
  %result = flashcore.attention ins(%q, %k, %v : !t, !tkv, !tkv)
      outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %scaled = arith.mulf %score, %factor : f32
    flashcore.yield %scaled : f32
  } mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %visible = arith.cmpi ne, %key, %query : index
    flashcore.yield %visible : i1
  } -> !t
  return %result : !t
}

// CHECK-LABEL: func.func @attributes_of_others_are_kept(
func.func @attributes_of_others_are_kept(%q: !t, %k: !tkv, %v: !tkv, %o: !t)
    -> !t {
  // CHECK: flashcore.attention {{.+}} causal(top_left) {test.note = "kept"} -> tensor<2x8x512x64xf16>
  %result = flashcore.attention ins(%q, %k, %v : !t, !tkv, !tkv)
      outs(%o : !t) causal(top_left) {test.note = "kept"} -> !t
  return %result : !t
}

// CHECK-LABEL: func.func @scores(
// CHECK-SAME:    %[[O:[^:]+]]: memref<2x8x512x64xf16>, %[[LSE:[^:]+]]: memref<2x8x512xf32>, %[[S:[^:]+]]: memref<2x8x512x256xbf16
func.func @scores(%q: !q, %k: !kv, %o: !q, %lse: !lse,
                  %s: memref<2x8x512x256xbf16, strided<[?, ?, ?, 1], offset: ?>>) {
  // CHECK-COUNT-5: outs(%[[O]] : {{.+}}) lse(%[[LSE]] : {{.+}}) scores(%[[S]] : memref<2x8x512x256xbf16, strided<[?, ?, ?, 1], offset: ?>>) stage({{scaled|capped|changed|masked|probabilities}}){{$}}
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) outs(%o : !q) lse(%lse : !lse) stage(scaled)
      scores(%s : memref<2x8x512x256xbf16, strided<[?, ?, ?, 1], offset: ?>>)
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) outs(%o : !q) lse(%lse : !lse) stage(capped)
      scores(%s : memref<2x8x512x256xbf16, strided<[?, ?, ?, 1], offset: ?>>)
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) outs(%o : !q) lse(%lse : !lse) stage(changed)
      scores(%s : memref<2x8x512x256xbf16, strided<[?, ?, ?, 1], offset: ?>>)
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) outs(%o : !q) lse(%lse : !lse) stage(masked)
      scores(%s : memref<2x8x512x256xbf16, strided<[?, ?, ?, 1], offset: ?>>)
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) outs(%o : !q) lse(%lse : !lse) stage(probabilities)
      scores(%s : memref<2x8x512x256xbf16, strided<[?, ?, ?, 1], offset: ?>>)
  return
}

// CHECK-LABEL: func.func @tensors_with_scores(
// CHECK-SAME:    %[[O:[^:]+]]: tensor<2x8x512x64xf16>, %[[S:[^:]+]]: tensor<2x8x512x256xf16>)
func.func @tensors_with_scores(%q: !t, %k: !tkv, %o: !t, %s: tensor<2x8x512x256xf16>)
    -> tensor<2x8x512x256xf16> {
  // CHECK: %[[RESULTS:.+]]:2 = flashcore.attention {{.+}} outs(%[[O]] : tensor<2x8x512x64xf16>) scores(%[[S]] : tensor<2x8x512x256xf16>) stage(masked) -> tensor<2x8x512x64xf16>, tensor<2x8x512x256xf16>
  // CHECK-NEXT: return %[[RESULTS]]#1
  %results:2 = flashcore.attention ins(%q, %k, %k : !t, !tkv, !tkv) outs(%o : !t)
      scores(%s : tensor<2x8x512x256xf16>) stage(masked) -> !t, tensor<2x8x512x256xf16>
  return %results#1 : tensor<2x8x512x256xf16>
}

// CHECK-LABEL: func.func @every_clause_in_order(
func.func @every_clause_in_order(
    %q: !t, %k: !tkv, %v: !tkv, %o: !t, %lse: !tlse,
    %bias: tensor<2x1x512x256xf32>, %per_head: tensor<8xf32>,
    %used: tensor<2xi32>) -> (!t, !tlse) {
  // CHECK: flashcore.attention ins(
  // CHECK-SAME: bias(
  // CHECK-SAME: alibi(
  // CHECK-SAME: sink(
  // CHECK-SAME: seqused_k(
  // CHECK-SAME: outs(
  // CHECK-SAME: lse(
  // CHECK-SAME: causal(bottom_right) window_left(1) window_right(2) scale(1.000000e+00) softcap(3.000000e+01)
  // CHECK-SAME: score {
  // CHECK:      } mask {
  // CHECK:      } {test.note} -> tensor<2x8x512x64xf16>, tensor<2x8x512xf32>
  %results:2 = flashcore.attention ins(%q, %k, %v : !t, !tkv, !tkv)
      bias(%bias : tensor<2x1x512x256xf32>) alibi(%per_head : tensor<8xf32>)
      sink(%per_head : tensor<8xf32>) seqused_k(%used : tensor<2xi32>)
      outs(%o : !t) lse(%lse : !tlse)
      causal(bottom_right) window_left(1) window_right(2) scale(1.0)
      softcap(30.0) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    flashcore.yield %score : f32
  } mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %visible = arith.cmpi sle, %key, %query : index
    flashcore.yield %visible : i1
  } {test.note} -> !t, !tlse
  return %results#0, %results#1 : !t, !tlse
}

// CHECK-LABEL: func.func @append_and_rotary(
func.func @append_and_rotary(
    %q: memref<2x8x4x64xf16>, %k: memref<2x2x512x64xf16>, %v: memref<2x2x512x32xf16>, %used: memref<2xi32>,
    %k_new: memref<2x2x4x64xf16>, %v_new: memref<2x2x4x32xf16>, %cos: memref<600x16xf16>, %o: memref<2x8x4x32xf16>) {
  // CHECK: flashcore.attention ins(
  // CHECK-SAME: seqused_k(%{{.+}} : memref<2xi32>)
  // CHECK-SAME: append(%{{.+}}, %{{.+}} : memref<2x2x4x64xf16>, memref<2x2x4x32xf16>)
  // CHECK-SAME: rotary(%{{.+}}, %{{.+}} : memref<600x16xf16>, memref<600x16xf16>)
  // CHECK-SAME: outs(
  // CHECK-SAME: style(interleaved)
  flashcore.attention ins(%q, %k, %v : memref<2x8x4x64xf16>, memref<2x2x512x64xf16>, memref<2x2x512x32xf16>)
      style(interleaved) outs(%o : memref<2x8x4x32xf16>)
      rotary(%cos, %cos : memref<600x16xf16>, memref<600x16xf16>)
      append(%k_new, %v_new : memref<2x2x4x64xf16>, memref<2x2x4x32xf16>) seqused_k(%used : memref<2xi32>)
  return
}

// CHECK-LABEL: func.func @append_of_any_number_to_pages(
func.func @append_of_any_number_to_pages(
    %q: memref<?x8x?x64xf16>, %k: memref<?x2x16x64xf16>, %used: memref<?xi32>, %table: memref<?x?xi32>,
    %new: memref<?x2x?x64xf16>, %o: memref<?x8x?x64xf16>) {
  // CHECK: flashcore.attention ins(
  // CHECK-SAME: page_table(
  // CHECK-SAME: append(%{{.+}}, %{{.+}} : memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
  flashcore.attention ins(%q, %k, %k : memref<?x8x?x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x64xf16>)
      seqused_k(%used : memref<?xi32>) page_table(%table : memref<?x?xi32>)
      append(%new, %new : memref<?x2x?x64xf16>, memref<?x2x?x64xf16>) outs(%o : memref<?x8x?x64xf16>)
  return
}
