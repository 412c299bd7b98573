// Scores that are an output have a kernel of their own behind the attention's,
// and what they are not made of is none of its arguments.

// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -flashcore-configure=key-splits=2 -flashcore-decompose -flashcore-tile | FileCheck --check-prefix=SPLIT %s

!q = memref<2x8x100x64xf16>
!k = memref<2x2x300x64xf16>
!s = memref<2x8x100x300xf32>

// Five key tiles of 64, two query tiles.

// CHECK-LABEL: func.func @probabilities(
// CHECK:         gpu.launch_func {{.*}}@attention_f16_d64::@attention_f16_d64 blocks
// CHECK:         %[[TILES:.+]] = arith.constant 160 : index
// CHECK:         gpu.launch_func {{.*}}@attention_f16_d64::@attention_f16_d64_scores blocks in (%[[TILES]],
// CHECK:         return

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "(seqlen_q ceildiv 64) * (seqlen_k ceildiv 64) * heads_q * batch"
// CHECK-SAME:    scores_stage = "probabilities"
// CHECK-SAME:    name = "scores", offset = 0 : i64, role = "output"
// CHECK-SAME:    workspace = [{bytes = "(seqlen_q ceildiv 4) * heads_q * batch * 16"}]
// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK-SAME:    %[[BASE:[^:]+]]: memref<f32> {llvm.align = 16 : i32, llvm.noalias}) kernel
// CHECK-SAME:    {kind = "pointer", tensor = "lse"}, {kind = "pointer", tensor = "sink_logits"}, {kind = "pointer", tensor = "workspace"}]
// CHECK:         %[[PADDED:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [0], sizes: [2, 8, 100]
// CHECK:         %[[REST:.+]] = memref.subview %[[PADDED]][0, 0, 0] [2, 8, 100]
// CHECK:         %[[REST_TILE:.+]] = memref.subview %[[REST]][
// CHECK:         flashcore.attention_tile
// CHECK-SAME:    lse_rest(%[[REST_TILE]] :
// CHECK-NOT:     stage(

// CHECK-LABEL: gpu.func @attention_f16_d64_scores(
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "q"}, {kind = "pointer", tensor = "k"}, {kind = "pointer", tensor = "lse"}, {kind = "pointer", tensor = "scores"}, {kind = "pointer", tensor = "workspace"}]
// CHECK-SAME:    threads = 128
// CHECK:         %[[LSE:.+]] = memref.reinterpret_cast %{{.+}} : memref<f32> to memref<2x8x100xf32
// CHECK:         %[[SCORES:.+]] = memref.reinterpret_cast %{{.+}} : memref<f32> to memref<2x8x100x300xf32
// CHECK:         %[[IDS:.+]]:4 = affine.delinearize_index %{{.+}} into (2, 8, 2, 5)
// CHECK:         %[[KV_HEAD:.+]] = affine.apply {{.+}}[%[[IDS]]#1]
// CHECK:         scf.forall (%{{.+}}) in (4) {
// CHECK:           %[[Q_TILE:.+]] = memref.subview {{.+}}[%[[IDS]]#0, %[[IDS]]#1,
// CHECK:           %[[K_HEAD:.+]] = memref.subview {{.+}}[%[[IDS]]#0, %[[KV_HEAD]],
// CHECK:           %[[ROWS:.+]] = memref.subview %[[SCORES]][%[[IDS]]#0, %[[IDS]]#1,
// CHECK:           flashcore.scores_tile ins(%[[Q_TILE]], %[[K_HEAD]] :
// CHECK-SAME:        lse(%[[LSE]] :
// CHECK-SAME:        lse_rest(%{{.+}} : memref<2x8x100xf32,
// CHECK-SAME:        outs(%[[ROWS]] :
// CHECK-SAME:        at(batch %[[IDS]]#0, head %[[IDS]]#1,
// CHECK-SAME:        stage(probabilities)

// The merge stands between: it writes the log-sum-exp of all keys, and what
// rounding left of it in front of the partial results.

// SPLIT-LABEL: func.func @probabilities(
// SPLIT:         gpu.launch_func {{.*}}::@attention_f16_d64 blocks
// SPLIT:         gpu.launch_func {{.*}}::@attention_f16_d64_merge blocks
// SPLIT:         gpu.launch_func {{.*}}::@attention_f16_d64_scores blocks
// SPLIT-LABEL: gpu.func @attention_f16_d64_merge(
// SPLIT-SAME:    %[[BASE:[^:]+]]: memref<f32> {llvm.align = 16 : i32, llvm.noalias}) kernel
// SPLIT-DAG:     %[[PARTS:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [1600], sizes: [2, 2, 8, 100, 64]
// SPLIT-DAG:     %[[PADDED:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [0], sizes: [2, 8, 100]
// SPLIT:         %[[REST:.+]] = memref.subview %[[PADDED]][0, 0, 0] [2, 8, 100]
// SPLIT:         vector.load %[[PARTS]]
// SPLIT:         memref.store %{{.+}}, %[[REST]][
func.func @probabilities(%q: !q, %k: !k, %o: !q, %lse: memref<2x8x100xf32>, %s: !s, %sink: memref<8xf32>) {
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) sink(%sink : memref<8xf32>)
      outs(%o : !q) lse(%lse : memref<2x8x100xf32>) scores(%s : !s) stage(probabilities)
  return
}

// -----

// Without scores there is none.

!q = memref<2x8x100x64xf16>

// CHECK-LABEL: func.func @none(
// CHECK-COUNT-1: gpu.launch_func
// CHECK-NOT:     gpu.launch_func
// CHECK-NOT:     _scores
// SPLIT-LABEL: func.func @none(
// SPLIT-NOT:     _scores
func.func @none(%q: !q, %o: !q) {
  flashcore.attention ins(%q, %q, %q : !q, !q, !q) outs(%o : !q)
  return
}

// -----

// Before the cap there is nothing but the scale.

!q = memref<1x2x1x64xf16>
!k = memref<1x2x64x64xf16>

// CHECK-LABEL: func.func @scaled(
// CHECK:       gpu.module @attention_f16_d64_causal
// CHECK-SAME:    grid = "(seqlen_q ceildiv 16) *
// CHECK-LABEL: gpu.func @attention_f16_d64_causal_scores(
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "q"}, {kind = "pointer", tensor = "k"}, {kind = "pointer", tensor = "scores"}]
// CHECK-SAME:    threads = 32
// CHECK:         flashcore.scores_tile
// CHECK-NOT:     softcap(
// CHECK-NOT:     bias(
// CHECK-NOT:     causal(
// CHECK-NOT:     mask {
// CHECK:         scale({{.+}}) stage(scaled)
// CHECK-NOT:     score {
// CHECK:         gpu.return
// SPLIT-LABEL: func.func @scaled(
// SPLIT-LABEL: gpu.func @attention_f16_d64_causal_scores(
func.func @scaled(%q: !q, %k: !k, %o: !q, %s: memref<1x2x1x64xf16>, %bias: memref<1x1x1x64xf32>, %ids: memref<64xi32>) {
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) bias(%bias : memref<1x1x1x64xf32>) outs(%o : !q)
      scores(%s : memref<1x2x1x64xf16>) causal(bottom_right) softcap(2.0) stage(scaled)
  score {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    %y = arith.addf %x, %x : f32
    flashcore.yield %y : f32
  } mask {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    %id = memref.load %ids[%j] : memref<64xi32>
    %zero = arith.constant 0 : i32
    %visible = arith.cmpi eq, %id, %zero : i32
    flashcore.yield %visible : i1
  }
  return
}

// -----

// What changes scores is there, and what hides them is not.

!q = memref<1x2x1x64xf16>
!k = memref<1x2x64x64xf16>

// CHECK-LABEL: gpu.func @attention_f16_d64_causal_scores(
// CHECK-SAME:    tensor = "bias"
// CHECK-SAME:    tensor = "alibi_slopes"
// CHECK:         flashcore.scores_tile ins(
// CHECK-NOT:     causal(
// CHECK:         stage(changed) score {
// CHECK:           math.tanh
// CHECK:           memref.load {{.+}} : memref<1x1x1x64xf32
// CHECK:           arith.addf
// CHECK:           memref.load {{.+}} : memref<2xf32
// CHECK:           math.fma
// CHECK-NOT:     mask {
// CHECK:         gpu.return
// SPLIT-LABEL: gpu.func @attention_f16_d64_causal_scores(
func.func @changed(%q: !q, %k: !k, %o: !q, %s: memref<1x2x1x64xf16>, %bias: memref<1x1x1x64xf32>, %slopes: memref<2xf32>) {
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) bias(%bias : memref<1x1x1x64xf32>) alibi(%slopes : memref<2xf32>)
      outs(%o : !q) scores(%s : memref<1x2x1x64xf16>) causal(bottom_right) softcap(2.0) stage(changed)
  mask {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    %visible = arith.cmpi ne, %i, %j : index
    flashcore.yield %visible : i1
  }
  return
}
