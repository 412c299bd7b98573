// RUN: flashcore-opt %s -split-input-file | flashcore-opt -split-input-file | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -flashcore-bufferize -flashcore-configure=chip=sm_90 -flashcore-decompose -flashcore-tile | FileCheck %s --check-prefix=TILE

!t = memref<2x8x100x64xbf16>

// CHECK-LABEL: func.func @memrefs(
// CHECK:         flashcore.delta ins(%{{.+}}, %{{.+}} : memref<2x8x100x64xbf16>, memref<2x8x100x64xbf16>) outs(%{{.+}} : memref<2x8x100xf32>){{$}}
// TILE-LABEL: func.func @memrefs(
// TILE:         %[[BLOCKS:.+]] = arith.constant 112 : index
// TILE:         gpu.launch_func @delta_bf16_d64::@delta_bf16_d64 blocks in (%[[BLOCKS]],
func.func @memrefs(%do: !t, %o: !t, %delta: memref<2x8x100xf32>) {
  flashcore.delta ins(%do, %o : !t, !t) outs(%delta : memref<2x8x100xf32>)
  return
}

// Eight threads a row, each with 16 bytes of it; all lanes of a warp take part in
// shuffles, and only rows that are there are written.

// TILE:       gpu.module @delta_bf16_d64 [#nvvm.target<{{.*}}chip = "sm_90"
// TILE-SAME:    grid = "(seqlen_q ceildiv 16) * heads_q * batch"
// TILE-SAME:    attributes = {}, kernel = "delta_bf16_d64", op = "delta"
// TILE-SAME:    name = "do", offset = 0 : i64, role = "input"
// TILE-SAME:    name = "o", offset = 0 : i64, role = "input"
// TILE-SAME:    name = "delta", offset = 0 : i64, role = "output"
// TILE:         gpu.func @delta_bf16_d64(
// TILE:           %[[PLACE:.+]]:2 = affine.delinearize_index %{{.+}} into (16, 8)
// TILE:           scf.for
// TILE:             %[[ROW:.+]] = arith.minsi %[[QUERY:.+]], %{{.+}}
// TILE:             vector.load %{{.+}}[%{{.+}}, %{{.+}}, %[[ROW]], %{{.+}}] {alignment = 16 : i64} : {{.+}}, vector<8xbf16>
// TILE:             arith.mulf %{{.+}} : vector<8xf32>
// TILE-COUNT-3:   gpu.shuffle xor
// TILE-NOT:       gpu.shuffle
// TILE:           %[[IS_ROW:.+]] = arith.cmpi slt, %[[QUERY]]
// TILE:           scf.if
// TILE:             memref.store

// -----

// CHECK-LABEL: func.func @tensors(
// CHECK:         flashcore.delta ins({{.+}}) outs({{.+}}) -> tensor<1x2x3xf32>
// TILE-LABEL: func.func @tensors(
// TILE:         gpu.launch_func @delta_f32_d5::@delta_f32_d5
func.func @tensors(%do: tensor<1x2x3x5xf32>, %o: tensor<1x2x3x5xf32>) -> tensor<1x2x3xf32> {
  %init = tensor.empty() : tensor<1x2x3xf32>
  %delta = flashcore.delta ins(%do, %o : tensor<1x2x3x5xf32>, tensor<1x2x3x5xf32>) outs(%init : tensor<1x2x3xf32>)
      -> tensor<1x2x3xf32>
  return %delta : tensor<1x2x3xf32>
}
