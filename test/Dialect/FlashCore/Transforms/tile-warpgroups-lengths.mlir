// RUN: flashcore-opt %s -split-input-file -flashcore-decompose -flashcore-tile | FileCheck %s

// Of tensors in which sequences end there are maps with a ragged axis, beside
// the plain ones; results need no others.

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, product = warpgroup, output = bulk>
!t = memref<1x2x512x128xf16>

func.func @back_to_back(%q: !t, %k: !t, %v: !t, %o: !t, %ends: memref<4xi32>) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) cu_seqlens_q(%ends : memref<4xi32>) cu_seqlens_k(%ends : memref<4xi32>)
      outs(%o : !t) {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d128(
// CHECK-SAME:    {box = [1, 1, 64, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "q"},
// CHECK-SAME:    {box = [1, 1, 1, 64, 64], kind = "tensor_map", ragged = 2 : i64, swizzle = 128 : i64, tensor = "q"},
// CHECK-SAME:    {box = [1, 1, 128, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "k"},
// CHECK-SAME:    {box = [1, 1, 1, 128, 64], kind = "tensor_map", ragged = 2 : i64, swizzle = 128 : i64, tensor = "k"},
// CHECK-SAME:    {box = [1, 1, 128, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "v"},
// CHECK-SAME:    {box = [1, 1, 1, 128, 64], kind = "tensor_map", ragged = 2 : i64, swizzle = 128 : i64, tensor = "v"},
// CHECK-SAME:    {box = [1, 1, 1, 16, 64], kind = "tensor_map", ragged = 2 : i64, swizzle = 128 : i64, tensor = "o"}],

// -----

// Boxes of a page, or of the part of one that is in a tile; all queries are
// there. Rows of one panel are rows of the tensor.

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 96,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, product = warpgroup>
!t = memref<1x2x512x64xf16>
!pages = memref<9x2x64x64xf16>

func.func @pages(%q: !t, %k: !pages, %v: !pages, %o: !t, %table: memref<1x8xi32>) {
  flashcore.attention ins(%q, %k, %v : !t, !pages, !pages) page_table(%table : memref<1x8xi32>)
      outs(%o : !t) {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK-SAME:    {box = [1, 1, 64, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "q"},
// CHECK-SAME:    {box = [1, 1, 32, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "k"},
// CHECK-SAME:    {box = [1, 1, 1, 32, 64], kind = "tensor_map", ragged = 2 : i64, swizzle = 128 : i64, tensor = "k"},
// CHECK-SAME:    {box = [1, 1, 32, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "v"},
// CHECK-SAME:    {box = [1, 1, 1, 32, 64], kind = "tensor_map", ragged = 2 : i64, swizzle = 128 : i64, tensor = "v"}],
// CHECK:         fcgpu.view_pages {{.*}} step(96)

// -----

// Of several panels one box has all of them, in groups of 8 rows, or where
// columns of ones are behind them all rows of the page. One group has a map of
// its own, beside that of a sequence's end.

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 96,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, row_sum = mma, product = warpgroup>
!t = memref<1x2x512x128xf16>
!pages = memref<9x2x64x128xf16>

func.func @panels_of_pages(%q: !t, %k: !pages, %v: !pages, %o: !t, %table: memref<1x8xi32>) {
  flashcore.attention ins(%q, %k, %v : !t, !pages, !pages) page_table(%table : memref<1x8xi32>)
      outs(%o : !t) {fcgpu.schedule = #schedule}
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d128(
// CHECK-SAME:    {box = [1, 1, 64, 64], kind = "tensor_map", swizzle = 128 : i64, tensor = "q"},
// CHECK-SAME:    {box = [1, 4, 2, 8, 64], group = 8 : i64, kind = "tensor_map", swizzle = 128 : i64, tensor = "k"},
// CHECK-SAME:    {box = [1, 1, 2, 8, 64], group = 8 : i64, kind = "tensor_map", swizzle = 128 : i64, tensor = "k"},
// CHECK-SAME:    {box = [1, 1, 2, 8, 64], group = 8 : i64, kind = "tensor_map", ragged = 2 : i64, swizzle = 128 : i64, tensor = "k"},
// CHECK-SAME:    {box = [1, 1, 2, 32, 64], group = 32 : i64, kind = "tensor_map", swizzle = 128 : i64, tensor = "v"},
// CHECK-SAME:    {box = [1, 1, 2, 32, 64], group = 32 : i64, kind = "tensor_map", ragged = 2 : i64, swizzle = 128 : i64, tensor = "v"}],
