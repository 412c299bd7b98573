// With softmax unfused there are three kernels: tiles that write masked scores
// to the workspace, a softmax of rows, and tiles of P V.

// RUN: flashcore-opt %s -split-input-file -flashcore-configure='softmax=unfused block-m=64 chip=sm_89' -flashcore-decompose -flashcore-tile | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -flashcore-configure=chip=sm_89 -flashcore-decompose -flashcore-tile | FileCheck --check-prefix=ONLINE %s

!q = memref<2x8x100x64xf16>
!k = memref<2x2x300x64xf16>

// Five key tiles of 64, two query tiles, 400 blocks of four rows. S has rows of
// 320 columns, 4 bytes each, and P of 2.

// CHECK-LABEL: func.func @closed(
// CHECK:         %[[BYTES:.+]] = arith.constant 3072000 : index
// CHECK:         %[[WORKSPACE:.+]] = gpu.alloc (%[[BYTES]]) : memref<?xi8>
// CHECK:         %[[FLOATS:.+]] = memref.view %[[WORKSPACE]]{{.+}} to memref<?xf32>
// CHECK:         %[[S:[^,]+]], %{{.+}} = memref.extract_strided_metadata %[[FLOATS]]
// CHECK:         %[[HALVES:.+]] = memref.view %[[WORKSPACE]]{{.+}} to memref<?xf16>
// CHECK:         %[[P:[^,]+]], %{{.+}} = memref.extract_strided_metadata %[[HALVES]]
// CHECK:         %[[TILES:.+]] = arith.constant 160 : index
// CHECK:         gpu.launch_func {{.*}}@attention_f16_d64_causal::@attention_f16_d64_causal blocks in (%[[TILES]],
// CHECK-SAME:      args(%{{.+}} : memref<f16>, %{{.+}} : memref<f16>, %[[S]] : memref<f32>)
// CHECK:         %[[ROWS:.+]] = arith.constant 400 : index
// CHECK:         gpu.launch_func {{.*}}@attention_f16_d64_causal::@attention_f16_d64_causal_softmax blocks in (%[[ROWS]],
// CHECK-SAME:      args(%{{.+}} : memref<f32>, %{{.+}} : memref<f32>, %[[S]] : memref<f32>)
// CHECK:         %[[BLOCKS:.+]] = arith.constant 32 : index
// CHECK:         gpu.launch_func {{.*}}@attention_f16_d64_causal::@attention_f16_d64_causal_values blocks in (%[[BLOCKS]],
// CHECK-SAME:      args(%{{.+}} : memref<f16>, %{{.+}} : memref<f16>, %[[P]] : memref<f16>)
// CHECK:         gpu.dealloc %[[WORKSPACE]]

// The first describes the problem.

// CHECK:       gpu.module @attention_f16_d64_causal
// CHECK-SAME:    grid = "(seqlen_q ceildiv 64) * (seqlen_k ceildiv 64) * heads_q * batch"
// CHECK-SAME:    grid = "(seqlen_q ceildiv 4) * heads_q * batch"
// CHECK-SAME:    grid = "(seqlen_q ceildiv 64) * heads_q * batch"
// CHECK-SAME:    tensors =
// CHECK-SAME:    workspace = [{bytes = "(seqlen_k ceildiv 64) * seqlen_q * heads_q * batch * 256"}, {bytes = "(seqlen_k ceildiv 64) * seqlen_q * heads_q * batch * 128"}]
// CHECK-LABEL: gpu.func @attention_f16_d64_causal(
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "q"}, {kind = "pointer", tensor = "k"}, {kind = "pointer", tensor = "workspace"}]
// CHECK-SAME:    shared_memory = 36864 : i64
// CHECK:         %[[SCORES:.+]] = memref.reinterpret_cast %{{.+}} : memref<f32> to memref<2x8x100x320xf32
// CHECK:         %[[IDS:.+]]:4 = affine.delinearize_index %{{.+}} into (2, 8, 2, 5)
// CHECK:         scf.forall (%{{.+}}) in (4) {
// CHECK:           %[[S_ROWS:.+]] = memref.subview %[[SCORES]][%[[IDS]]#0, %[[IDS]]#1,
// CHECK:           flashcore.scores_tile ins(
// CHECK-NOT:         lse(
// CHECK-SAME:        outs(%[[S_ROWS]] :
// CHECK-SAME:        causal(bottom_right)
// CHECK-SAME:        stage(masked)

// A warp has a row; the workspace is read and written. Scores are subtracted before
// anything is multiplied: those of -1e9 differ by 0, their products by 64.

// CHECK-LABEL: gpu.func @attention_f16_d64_causal_softmax(
// CHECK-SAME:    %{{.+}}: memref<f32> {llvm.align = 16 : i32, llvm.noalias}) kernel
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "lse"}, {kind = "pointer", tensor = "sink_logits"}, {kind = "pointer", tensor = "workspace"}]
// CHECK-SAME:    threads = 128
// CHECK:         %[[SCORES:.+]] = memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [2, 8, 100, 320]
// CHECK:         %[[PAIRS:.+]] = memref.reinterpret_cast %{{.+}} to offset: [512000], sizes: [2, 8, 100, 160]
// CHECK:         %[[ROW:.+]]:3 = affine.delinearize_index %{{.+}} into (2, 8, 25)
// CHECK:         %[[PLACE:.+]]:2 = affine.delinearize_index %{{.+}} into (4, 32)
// CHECK:         %[[QUERY:.+]] = affine.apply {{.+}}[%[[ROW]]#2, %[[PLACE]]#0]
// CHECK-NOT:     scf.if
// CHECK:         scf.for %[[COLUMN:.+]] = %{{.+}} to %{{.+}} step %{{.+}} iter_args(
// CHECK:           vector.load %[[SCORES]][%[[ROW]]#0, %[[ROW]]#1, %[[QUERY]], %[[COLUMN]]] {alignment = 16 : i64}
// CHECK:           %[[SAFE_MAX:.+]] = arith.select
// CHECK:           %[[BELOW:.+]] = arith.subf %{{.+}}, %[[SAFE_MAX]] : f32
// CHECK:           %[[EXPONENT:.+]] = arith.mulf %[[BELOW]], %{{.+}} : f32
// CHECK:           math.exp2 %[[EXPONENT]]
// CHECK-COUNT-4:   math.exp2
// CHECK-COUNT-10: gpu.shuffle xor
// CHECK:         %[[SINK:.+]] = memref.load %{{.+}}[%[[ROW]]#1] : memref<8xf32
// CHECK:         math.fma %{{.+}}, %{{.+}}, %[[SINK]] : f32
// CHECK:         scf.for %[[COLUMN:.+]] =
// CHECK:           arith.subf
// CHECK-NEXT:      arith.constant 1.442695
// CHECK-NEXT:      arith.mulf
// CHECK-NEXT:      math.exp2
// CHECK:           %[[HALF:.+]] = arith.truncf %{{.+}} : vector<4xf32> to vector<4xf16>
// CHECK:           %[[WORDS:.+]] = vector.bitcast %[[HALF]]
// CHECK:           %[[PAIR:.+]] = arith.divui %[[COLUMN]],
// CHECK:           vector.store %[[WORDS]], %[[PAIRS]][%[[ROW]]#0, %[[ROW]]#1, %[[QUERY]], %[[PAIR]]] {alignment = 8 : i64}
// CHECK:         memref.store %{{.+}}[%[[ROW]]#0, %[[ROW]]#1, %[[QUERY]]] : memref<2x8x100xf32

// There is no query and no key.

// CHECK-LABEL: gpu.func @attention_f16_d64_causal_values(
// CHECK-SAME:    llvm.readonly}) kernel
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "v"}, {kind = "pointer", tensor = "o"}, {kind = "pointer", tensor = "workspace"}]
// CHECK-SAME:    shared_memory = 55296 : i64
// CHECK:         scf.forall (%{{.+}}) in (4) {
// CHECK:           %[[V_HEAD:.+]] = memref.subview {{.+}} [1, 1, 300, 64]
// CHECK:           %[[O_TILE:.+]] = memref.subview
// CHECK:           %[[P_TILE:.+]] = memref.reinterpret_cast %{{.+}}, sizes: [5, 1, %{{.+}}, 64], strides: [64, 64, 320, 1]
// CHECK:           flashcore.values_tile ins(%[[P_TILE]], %[[V_HEAD]] :
// CHECK-SAME:        outs(%[[O_TILE]] :
// CHECK-SAME:        causal(bottom_right)

// ONLINE-LABEL: func.func @closed(
// ONLINE-NOT:     gpu.alloc
// ONLINE-COUNT-1: gpu.launch_func
// ONLINE-NOT:     gpu.launch_func
// ONLINE-LABEL: gpu.func @attention_f16_d64_causal(
// ONLINE-NOT:     gpu.func
// ONLINE-NOT:     probabilities(
func.func @closed(%q: !q, %k: !k, %o: !q, %lse: memref<2x8x100xf32>, %sink: memref<8xf32>) {
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) sink(%sink : memref<8xf32>)
      outs(%o : !q) lse(%lse : memref<2x8x100xf32>) causal(bottom_right)
  return
}

// -----

// Sizes that are known at run time only are arguments of all three; rows that
// are none are left out.

!t = memref<?x4x?x64xf16>

// CHECK:       #[[$COUNT:.+]] = affine_map<()[s0, s1, s2] -> ((((s2 ceildiv 64) * s0) * s1) * 1536)>
// CHECK-LABEL: func.func @open(
// ONLINE-LABEL: func.func @open(
// CHECK:         %[[COUNT:.+]] = affine.apply #[[$COUNT]]()
// CHECK:         gpu.alloc (%[[COUNT]]) : memref<?xi8>
// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK-SAME:    {kind = "pointer", tensor = "workspace"}, {dim = "batch", kind = "size"}, {dim = "seqlen_q", kind = "size"}, {dim = "seqlen_k", kind = "size"},
// CHECK-LABEL: gpu.func @attention_f16_d64_softmax(
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "workspace"}, {dim = "batch", kind = "size"}, {dim = "seqlen_q", kind = "size"}, {dim = "seqlen_k", kind = "size"}]
// CHECK:         %[[IS_ROW:.+]] = arith.cmpi slt
// CHECK:         scf.if %[[IS_ROW]] {
// CHECK-NOT:     memref.store
// CHECK-LABEL: gpu.func @attention_f16_d64_values(
// CHECK-SAME:    {kind = "pointer", tensor = "workspace"}, {dim = "batch", kind = "size"}, {dim = "seqlen_q", kind = "size"}, {dim = "seqlen_k", kind = "size"},
// CHECK:         flashcore.values_tile
// CHECK-SAME:      ins(%{{.+}} : memref<?x1x?x64xf16, strided<[64, 64, ?, 1], offset: ?>>,
func.func @open(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}
