// Few query rows over many keys: a block owns all query heads of a kv head and
// part of the keys. What the options say is kept.

// RUN: flashcore-opt %s -flashcore-configure | FileCheck %s
// RUN: flashcore-opt %s -flashcore-configure="head-group=2 key-splits=1" \
// RUN:   | FileCheck %s --check-prefix=FORCED

!qo = memref<1x32x1x128xf16>
!kv = memref<1x8x8192x128xf16>

// CHECK-LABEL:  func.func @decoding
// CHECK:          fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32, num_warps = 4, num_stages = 3, query = registers, grid_order = query_fastest, min_blocks = 1, row_max = folded, row_sum = mma, head_group = 4, key_splits = 32>
// FORCED-LABEL: func.func @decoding
// FORCED:         block_m = 16, block_n = 32, num_warps = 2, {{.+}}, row_max = folded, row_sum = mma, head_group = 2>
func.func @decoding(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
  return
}

// An LSE is of sums that are not rounded, and what changes a score comes after
// products that start at the maximum.

!lse = memref<1x32x1xf32>
!bias = memref<1x1x1x8192xf16>

// CHECK-LABEL: func.func @decoding_with_lse
// CHECK:         row_max = stale, head_group = 4
func.func @decoding_with_lse(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %lse: !lse) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv)
      outs(%o : !qo) lse(%lse : !lse)
  return
}

// CHECK-LABEL: func.func @decoding_with_bias
// CHECK:         row_max = stale, row_sum = mma, head_group = 4
func.func @decoding_with_bias(%q: !qo, %k: !kv, %v: !kv, %b: !bias, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
      bias(%b : !bias)
  return
}

!long = memref<1x32x8192x128xf16>

// As many rows as keys fill the chip.

// CHECK-LABEL: func.func @prefill
// CHECK:         fcgpu.schedule = #fcgpu.schedule<
// CHECK-NOT:     head_group
// CHECK-NOT:     key_splits
// CHECK:         return
func.func @prefill(%q: !long, %k: !kv, %v: !kv, %o: !long) {
  flashcore.attention ins(%q, %k, %v : !long, !kv, !kv) outs(%o : !long)
  return
}

!full_qo = memref<64x32x1x128xf16>
!full_kv = memref<64x8x8192x128xf16>

// A batch fills the chip: the heads still share a block, the keys need not be
// shared out.

// CHECK-LABEL: func.func @decoding_of_a_batch
// CHECK:         block_m = 16, block_n = 32, num_warps = 4, num_stages = 3, {{.+}}, head_group = 4>
func.func @decoding_of_a_batch(%q: !full_qo, %k: !full_kv, %v: !full_kv,
                               %o: !full_qo) {
  flashcore.attention ins(%q, %k, %v : !full_qo, !full_kv, !full_kv)
      outs(%o : !full_qo)
  return
}
