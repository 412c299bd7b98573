// RUN: flashcore-opt %s -split-input-file -flashcore-configure=chip=sm_90 -flashcore-decompose -flashcore-tile | FileCheck %s

!parts = memref<2x1x8x512x64xf32>
!lses = memref<2x1x8x512xf32>
!o = memref<1x8x512x64xf16>
!lse = memref<1x8x512xf32>

// A block a row; two groups of 16 threads, each with one of two parts. The
// kernel says all that a host needs to know, and equal merges share it. An LSE
// that is given is one number: nothing is left behind it.

// CHECK-LABEL: func.func @two_parts
// CHECK-DAG:     %[[ROWS:.+]] = arith.constant 4096 : index
// CHECK-DAG:     %[[THREADS:.+]] = arith.constant 32 : index
// CHECK-DAG:     %[[BYTES:.+]] = arith.constant 544 : i32
// CHECK:         gpu.launch_func @two_parts_kernels::@merge_f16_d64 blocks in (%[[ROWS]],
// CHECK-SAME:      threads in (%[[THREADS]],
// CHECK-SAME:      dynamic_shared_memory_size %[[BYTES]]
// CHECK:         gpu.launch_func @two_parts_kernels::@merge_f16_d64 blocks
// CHECK-NEXT:    return
func.func @two_parts(%outputs: !parts, %lses: !lses, %o: !o, %lse: !lse) {
  flashcore.merge ins(%outputs, %lses : !parts, !lses) outs(%o : !o) lse(%lse : !lse)
  flashcore.merge ins(%outputs, %lses : !parts, !lses) outs(%o : !o) lse(%lse : !lse)
  return
}

// CHECK:       gpu.module @two_parts_kernels [#nvvm.target<{{.*}}chip = "sm_90"
// CHECK-SAME:    grid = "seqlen_q * heads_q * batch"
// CHECK-SAME:    kernel = "merge_f16_d64", op = "merge"
// CHECK-SAME:    axes = ["parts", "batch", "heads_q", "seqlen_q", "head_dim_v"], dtype = f32, name = "outputs"
// CHECK:         gpu.func @merge_f16_d64(
// CHECK-SAME:    memref<f32> {llvm.align = 16 : i32, llvm.noalias, llvm.readonly},
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "outputs"}, {kind = "pointer", tensor = "lses"}, {kind = "pointer", tensor = "o"}, {kind = "pointer", tensor = "lse"}]
// CHECK-SAME:    shared_memory = 544 : i64
// CHECK-SAME:    known_block_size = array<i32: 32, 1, 1>
// CHECK:         %[[ROW:.+]]:3 = affine.delinearize_index %{{.+}} into (1, 8, 512)
// CHECK:         %[[PLACE:.+]]:2 = affine.delinearize_index %{{.+}} into (2, 16)
// CHECK:         %[[LSE:.+]] = memref.load %[[LSES:.+]][%[[PART:.+]], %[[ROW]]#0, %[[ROW]]#1, %[[ROW]]#2] : memref<2x1x8x512xf32
// CHECK:         vector.load %{{.+}}[%[[PART]], %[[ROW]]#0, %[[ROW]]#1, %[[ROW]]#2, %{{.+}}] {alignment = 16 : i64} : {{.+}}, vector<4xf32>
// CHECK:         vector.from_elements %[[LSE]], %{{.+}} : vector<4xf32>
// CHECK:         gpu.barrier
// CHECK:         %[[IS_EMPTY:.+]] = arith.cmpf oeq
// CHECK-NEXT:    %{{.+}} = arith.constant
// CHECK-NEXT:    %[[SAFE:.+]] = arith.select %[[IS_EMPTY]],
// CHECK:         %[[BELOW:.+]] = arith.subf %{{.+}}, %[[SAFE]]
// CHECK-NEXT:    %[[LOG2E:.+]] = arith.constant 1.442695{{.*}} : f32
// CHECK-NEXT:    %[[EXPONENT:.+]] = arith.mulf %[[BELOW]], %[[LOG2E]]
// CHECK-NEXT:    math.exp2 %[[EXPONENT]]
// CHECK:         arith.truncf
// CHECK:         vector.store
// CHECK:         memref.store %{{.+}}, %{{.+}}[%[[ROW]]#0, %[[ROW]]#1, %[[ROW]]#2] : memref<1x8x512xf32

// -----

!parts = memref<?x?x4x?x5xbf16, strided<[?, ?, ?, 5, 1], offset: ?>>
!lses = memref<?x?x4x?xf32>
!o = memref<?x4x?x5xf32>

// Rows that begin at odd elements are read one element at a time, and only
// where there is one. Of an open number of parts, and of none, the sum is a
// loop; a sink is added at the end.

// CHECK-LABEL: func.func @narrow_rows
// CHECK:         gpu.launch_func @merge_f32_d5::@merge_f32_d5
func.func @narrow_rows(%outputs: !parts, %lses: !lses, %sink: memref<4xf32>, %o: !o) {
  flashcore.merge ins(%outputs, %lses : !parts, !lses) sink(%sink : memref<4xf32>) outs(%o : !o)
  return
}
// CHECK-LABEL: gpu.func @merge_f32_d5(
// CHECK-SAME:    {dim = "parts", kind = "size"}
// CHECK-SAME:    known_block_size = array<i32: 16, 1, 1>
// CHECK:         scf.for %{{.+}} = %{{.+}} to %[[ROUNDS:.+]] step
// CHECK:           %[[IS_COLUMN:.+]] = arith.cmpi slt, %[[COLUMN:.+]], %c5
// CHECK-NEXT:      scf.if %[[IS_COLUMN]] -> (vector<1xbf16>) {
// CHECK-NEXT:        vector.load %{{.+}}[%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %[[COLUMN]]] {alignment = 2 : i64}
// CHECK:           arith.extf %{{.+}} : vector<4xbf16> to vector<4xf32>
// CHECK:           scf.yield
// CHECK:         gpu.barrier
// CHECK:         %[[SINK:.+]] = memref.load %{{.+}}[%{{.+}}] : memref<4xf32
// CHECK:         %[[ABOVE:.+]] = math.fma %{{.+}}, %{{.+}}, %[[SINK]]
// CHECK:         arith.select %{{.+}}, %[[SINK]], %[[ABOVE]]
// CHECK-NOT:     arith.truncf
// CHECK:         vector.store %{{.+}} : {{.+}}, vector<1xf32>
