// RUN: flashcore-opt %s -flashcore-decompose -flashcore-tile | FileCheck %s

// One more warpgroup than those that multiply, a loop over these, and a tensor
// map for each tensor that is copied by boxes: 64 rows of Q, 128 of K and V.

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, product = warpgroup>
!t = memref<1x2x512x128xf16>

// CHECK-LABEL: func.func @attention(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x2x512x128xf16>
func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  // The launch of MLIR's runtime passes no structures by value: what would become
  // a pointer to one stays a cast that nothing lowers.
  // CHECK:       %[[BASE:[^,]+]], %{{.*}} = memref.extract_strided_metadata %[[Q]]
  // CHECK:       %[[MAP:.+]] = builtin.unrealized_conversion_cast %[[BASE]] : memref<f16> to !llvm.ptr
  // CHECK:       gpu.launch_func {{.*}} threads in (%c384,
  // CHECK-SAME:    %[[MAP]] : !llvm.ptr
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      {fcgpu.schedule = #schedule}
  return
}

// CHECK:       gpu.func @attention_f16_d128(
// CHECK-SAME:    %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr) kernel
// CHECK-SAME:    {box = [1, 1, 64, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "q"}
// CHECK-SAME:    {box = [1, 1, 128, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "k"}
// CHECK-SAME:    {box = [1, 1, 128, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "v"}
// CHECK-SAME:    shared_memory = 163936 : i64
// CHECK-SAME:    threads = 384 : i64
// CHECK-SAME:    known_block_size = array<i32: 384, 1, 1>
// CHECK:         scf.forall (%[[G:.+]]) in (2) {
// CHECK:           affine.apply {{.*}}(%[[G]])
// CHECK:         } {mapping = [#gpu.warpgroup<linear_dim_0>]}
