// RUN: flashcore-opt %s -flashcore-decompose -flashcore-tile | FileCheck %s

// Warps that share query rows: a loop over rows and key parts, parts innermost.
// Each of 8 warps has 32 rows of Q and two slots of 32 rows of K and V, all of
// 64 columns of 2 bytes: 8 * 2 * 64 * (32 + 2 * 32 * 2).

#schedule = #fcgpu.schedule<chip = "sm_90", block_m = 64, block_n = 32,
  num_warps = 8, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 4>
!t = memref<1x1x128x64xf16>

// CHECK:       #[[ROW:.+]] = affine_map<(d0)[s0] -> (d0 * 32 + s0 * 64)>
// CHECK-LABEL: func.func @warps_share_query_rows
// CHECK-DAG:     %[[SMEM:.+]] = arith.constant 163840 : i32
// CHECK-DAG:     %[[THREADS:.+]] = arith.constant 256 : index
// CHECK:         gpu.launch_func {{.+}} threads in (%[[THREADS]], {{.+}}) dynamic_shared_memory_size %[[SMEM]]
// CHECK:       gpu.func
// CHECK:         scf.forall (%[[ROWS:.+]], %{{.+}}) in (2, 4) {
// CHECK:           affine.apply #[[ROW]](%[[ROWS]])
// CHECK:           flashcore.attention_tile ins(%{{.+}}, %{{.+}}, %{{.+}} : memref<1x1x32x64xf16, {{.+}}>, memref<1x1x128x64xf16, {{.+}}>
// CHECK:         } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
func.func @warps_share_query_rows(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}
