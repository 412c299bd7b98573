// A block reads the lengths it works with: the grid follows from sizes alone.

// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-tile | FileCheck %s

!t = memref<4x8x512x64xf16>

// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    {alignment = 4 : i64, axes = ["batch"], dtype = i32, name = "seqused_k", offset = 0 : i64, role = "input", strides = [1]}
// CHECK:         %[[IDS:.+]]:3 = affine.delinearize_index
// CHECK:         %[[USED:.+]] = memref.load %{{.+}}[%[[IDS]]#{{[01]}}] : memref<4xi32
// CHECK:         %[[NUMBER:.+]] = arith.index_cast %[[USED]] : i32 to index
// CHECK:         %[[CUT:.+]] = arith.minsi %[[NUMBER]], %{{.+}}
// CHECK:         %[[KEYS:.+]] = arith.maxsi %[[CUT]], %{{.+}}
// CHECK:         memref.subview %{{.+}} [1, 1, %[[KEYS]], 64]
// CHECK:         flashcore.attention
// CHECK-SAME:    tile(%[[IDS]]#{{[01]}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %[[KEYS]], %[[KEYS]], %{{.+}})
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
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-SAME:    {dim = "seqlen_q", plus = "cu_seqlens", tile = 128 : i64}
// CHECK-SAME:    {alignment = 4 : i64, axes = ["cu_seqlens"], dtype = i32, name = "cu_seqlens_q", offset = 0 : i64, role = "input", strides = [1]}
// CHECK:         %[[SEQUENCE:.+]]:2 = scf.while
// CHECK:         affine.apply #[[FIRST]]
// CHECK:         %[[BLOCK:.+]] = arith.subi
// CHECK:         flashcore.attention
// CHECK-SAME:    tile(%[[SEQUENCE]]#0,
func.func @varlen(%q: !t, %o: !t, %cu: memref<?xi32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) cu_seqlens_q(%cu : memref<?xi32>)
      cu_seqlens_k(%cu : memref<?xi32>) outs(%o : !t)
  return
}
