// RUN: flashcore-opt %s -split-input-file | flashcore-opt -split-input-file | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s --check-prefix=TILE

!k = memref<2x4x100x64xf16>
!v = memref<2x4x100x32xf16>

// CHECK-LABEL: func.func @rows(
// CHECK:         flashcore.append ins(%{{.+}}, %{{.+}} : memref<2x4x3x64xf16>, memref<2x4x3x32xf16>) seqused_k(%{{.+}} : memref<2xi32>) outs(%{{.+}}, %{{.+}} : memref<2x4x100x64xf16>, memref<2x4x100x32xf16>){{$}}
// TILE-LABEL: func.func @rows(
// TILE:         %[[BLOCKS:.+]] = arith.constant 8 : index
// TILE:         gpu.launch_func @append_f16_d64::@append_f16_d64 blocks in (%[[BLOCKS]],
func.func @rows(%k_new: memref<2x4x3x64xf16>, %v_new: memref<2x4x3x32xf16>, %used: memref<2xi32>, %k: !k, %v: !v) {
  flashcore.append ins(%k_new, %v_new : memref<2x4x3x64xf16>, memref<2x4x3x32xf16>) seqused_k(%used : memref<2xi32>)
      outs(%k, %v : !k, !v)
  return
}

// The caches are written, and what is not new of them stays.

// TILE:       gpu.module @append_f16_d64 [#nvvm.target<{{.*}}chip = "sm_89"
// TILE-SAME:    grid = "(seqlen_new ceildiv 16) * heads_kv * batch"
// TILE-SAME:    attributes = {}, kernel = "append_f16_d64", op = "append"
// TILE-SAME:    name = "k", offset = 0 : i64, role = "updated"
// TILE-SAME:    name = "v", offset = 0 : i64, role = "updated"
// TILE-SAME:    name = "k_new", offset = 0 : i64, role = "input"
// TILE:         gpu.func @append_f16_d64(%{{.+}}: memref<f16> {llvm.align = 16 : i32, llvm.noalias}, %{{.+}}: memref<f16> {llvm.align = 16 : i32, llvm.noalias}, %{{.+}}: memref<f16> {llvm.align = 16 : i32, llvm.noalias, llvm.readonly},
// TILE:           memref.load %{{.+}}[%{{.+}}] : memref<2xi32
// TILE:           vector.store
// TILE-NOT:       arith.mulf

// -----

!page = memref<?x4x16x64xbf16>
!row = memref<?x4x?x64xbf16>
!q = memref<?x8x?x64xbf16>

// CHECK-LABEL: func.func @pages(
// CHECK:         flashcore.append ins({{.+}}) seqused_k({{.+}}) page_table(%{{.+}} : memref<?x?xi32>) rotary(%{{.+}}, %{{.+}} : memref<?x16xbf16>, memref<?x16xbf16>) style(half) query(%{{.+}} : memref<?x8x?x64xbf16>) outs({{.+}}) turned(%{{.+}} : memref<?x8x?x64xbf16>)
func.func @pages(%k_new: !row, %v_new: !row, %used: memref<?xi32>, %table: memref<?x?xi32>, %cos: memref<?x16xbf16>,
                 %sin: memref<?x16xbf16>, %q: !q, %k: !page, %v: !page, %turned: !q) {
  flashcore.append ins(%k_new, %v_new : !row, !row) seqused_k(%used : memref<?xi32>) page_table(%table : memref<?x?xi32>)
      rotary(%cos, %sin : memref<?x16xbf16>, memref<?x16xbf16>) style(half) query(%q : !q)
      outs(%k, %v : !page, !page) turned(%turned : !q)
  return
}

// TILE:       gpu.module @append_bf16_d64
// TILE-SAME:    grid = "((seqlen_q ceildiv 16) + seqlen_new) * heads_kv * batch"
// TILE-SAME:    attributes = {rotary = "half"}
// TILE-SAME:    axes = ["pages", "heads_kv", "page_size", "head_dim"]
// TILE-SAME:    name = "q_turned", offset = 0 : i64, role = "output"
// TILE:         arith.mulf
