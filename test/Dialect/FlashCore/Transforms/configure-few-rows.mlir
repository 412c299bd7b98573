// Few query rows over many keys: a block owns all query heads of a kv head and
// part of the keys. What the options say is kept.

// RUN: flashcore-opt %s -flashcore-configure | FileCheck %s
// RUN: flashcore-opt %s -flashcore-configure="head-group=2 key-splits=1" \
// RUN:   | FileCheck %s --check-prefix=FORCED

!qo = memref<1x32x1x128xf16>
!kv = memref<1x8x8192x128xf16>

// CHECK-LABEL:  func.func @decoding
// CHECK:          fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32, num_warps = 4, num_stages = 3, query = registers, grid_order = query_fastest, min_blocks = 1, head_group = 4, key_splits = 32>
// FORCED-LABEL: func.func @decoding
// FORCED:         block_m = 16, block_n = 32, num_warps = 2, {{.+}}, head_group = 2>
func.func @decoding(%q: !qo, %k: !kv, %v: !kv, %o: !qo) {
  flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
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
