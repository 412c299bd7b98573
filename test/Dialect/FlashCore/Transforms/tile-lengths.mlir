// A block reads the lengths it works with: the grid follows from sizes alone.

// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s

!t = memref<4x8x512x64xf16>

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    {alignment = 4 : i64, axes = ["batch"], dtype = i32, name = "seqused_k", offset = 0 : i64, role = "input", strides = [1]}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[IDS:.+]]:3 = affine.delinearize_index
// CHECK:         %[[USED:.+]] = memref.load %{{.+}}[%[[IDS]]#{{[01]}}] : memref<4xi32
// CHECK:         %[[NUMBER:.+]] = arith.index_cast %[[USED]] : i32 to index
// CHECK:         %[[CUT:.+]] = arith.minsi %[[NUMBER]], %{{.+}}
// CHECK:         %[[KEYS:.+]] = arith.maxsi %[[CUT]], %{{.+}}
// CHECK:         memref.subview %{{.+}} [1, 1, %[[KEYS]], 64]
// CHECK:         flashcore.attention_tile
// CHECK-SAME:    at(batch %[[IDS]]#{{[01]}}, head %{{.+}}, query %{{.+}} of %{{.+}}, key %{{.+}} to %[[KEYS]] of %[[KEYS]], block %{{.+}})
func.func @used(%q: !t, %o: !t, %used: memref<4xi32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%used : memref<4xi32>) outs(%o : !t)
  return
}

// -----

!t = memref<1x8x?x64xf16>

// CHECK-DAG:   #[[FIRST:.+]] = affine_map<(d0, d1) -> (d0 floordiv 128 + d1)>
// CHECK-DAG:   #[[GRID:.+]] = affine_map<()[s0, s1] -> (s1 * 8 + (s0 ceildiv 128) * 8)>

// CHECK:         func.func @varlen
// CHECK:         affine.apply #[[GRID]]
// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "((seqlen_q ceildiv 128) + cu_seqlens) * heads_q * batch"
// CHECK-SAME:    {alignment = 4 : i64, axes = ["cu_seqlens"], dtype = i32, name = "cu_seqlens_q", offset = 0 : i64, role = "input", strides = [1]}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[SEQUENCE:.+]]:2 = scf.while
// CHECK:         affine.apply #[[FIRST]]
// CHECK:         %[[BLOCK:.+]] = arith.subi
// CHECK:         flashcore.attention_tile
// CHECK-SAME:    at(batch %[[SEQUENCE]]#0,
func.func @varlen(%q: !t, %o: !t, %cu: memref<?xi32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) cu_seqlens_q(%cu : memref<?xi32>)
      cu_seqlens_k(%cu : memref<?xi32>) outs(%o : !t)
  return
}

// -----

!q = memref<4x8x1x64xf16>
!pages = memref<?x2x16x64xf16>

// A sequence's keys are a view of its pages: one matrix for whoever reads it.

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    axes = ["pages", "heads_kv", "page_size", "head_dim"], dtype = f16, name = "k"
// CHECK-SAME:    axes = ["batch", "pages_per_sequence"], dtype = i32, name = "page_table"
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[IDS:.+]]:4 = affine.delinearize_index
// CHECK:         %[[MOST:.+]] = arith.constant 1024 : index
// CHECK:         %[[CUT:.+]] = arith.minsi %{{.+}}, %[[MOST]]
// CHECK:         %[[KEYS:.+]] = arith.maxsi %[[CUT]]
// CHECK:         %[[POOL:.+]] = memref.subview %{{.+}}[0, %{{.+}}, 0, 0] [%{{.+}}, 1, 16, 64]
// CHECK:         %[[TABLE:.+]] = memref.subview %{{.+}}[%[[IDS]]#{{[01]}}, 0] [1, 64]
// CHECK:         %[[K:.+]] = fcgpu.view_pages %[[POOL]] by %[[TABLE]] rows(%[[KEYS]]) step(64)
// CHECK:         %[[V:.+]] = fcgpu.view_pages
// CHECK:         flashcore.attention_tile ins(%{{.+}}, %[[K]], %[[V]] : {{.+}}, memref<1x1x?x64xf16, #fcgpu.pages>, memref<1x1x?x64xf16, #fcgpu.pages>)
func.func @paged(%q: !q, %pages: !pages, %o: !q, %used: memref<4xi32>, %table: memref<4x64xi32>) {
  flashcore.attention ins(%q, %pages, %pages : !q, !pages, !pages) seqused_k(%used : memref<4xi32>)
      page_table(%table : memref<4x64xi32>) outs(%o : !q)
  return
}

// -----

!t = memref<1x8x?x128xf16>
!ends = memref<?xi32>

// Of split keys, rows of no sequence have no partial results to merge.

// CHECK-LABEL: gpu.func @attention_f16_d128_merge
// CHECK-SAME:    tensor = "cu_seqlens_q"
// CHECK:         %[[IDS:.+]]:3 = affine.delinearize_index
// CHECK:         %[[FIRST:.+]] = memref.load %[[ENDS:.+]][%c0
// CHECK:         %[[FROM:.+]] = arith.index_cast %[[FIRST]]
// CHECK:         %[[BEGINS:.+]] = arith.cmpi sge, %[[IDS]]#2, %[[FROM]]
// CHECK:         %[[LAST:.+]] = memref.load %[[ENDS]][
// CHECK:         %[[TO:.+]] = arith.index_cast %[[LAST]]
// CHECK:         %[[GOES_ON:.+]] = arith.cmpi slt, %[[IDS]]#2, %[[TO]]
// CHECK:         %[[IS_OF_ONE:.+]] = arith.andi %[[BEGINS]], %[[GOES_ON]]
// CHECK-NEXT:    scf.if %[[IS_OF_ONE]] {
// CHECK:           vector.store
// CHECK:         }
// CHECK:         gpu.return
func.func @parts(%q: !t, %o: !t, %cu: !ends) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) cu_seqlens_q(%cu : !ends) cu_seqlens_k(%cu : !ends) outs(%o : !t)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2, query = registers,
                                        grid_order = query_fastest, min_blocks = 0, key_splits = 3>}
  return
}
