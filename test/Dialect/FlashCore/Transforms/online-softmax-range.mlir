// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline="builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))" | FileCheck %s

// A tile of some of the keys: tiles are counted from its first key.

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16>
!kv = memref<1x1x256x32xf16>
!partial = memref<1x1x16x32xf32>
!lse = memref<1x1x16xf32>

// A range of whole tiles needs no mask. O of a partial result is not rounded, and
// its LSE are two numbers: the second is what rounding the first one left, of the
// product by an fma and of the sum by Knuth's TwoSum.

// CHECK-DAG: #[[$KEYS:.+]] = affine_map<()[s0] -> (s0 * -96 + 256, 96)>
// CHECK-DAG: #[[$NUM_TILES:.+]] = affine_map<()[s0] -> (s0 floordiv 32)>
// CHECK-DAG: #[[$KEY:.+]] = affine_map<(d0)[s0, s1] -> (d0 * -32 + s1 * 96 + (s0 floordiv 32) * 32 - 32)>

// CHECK-LABEL: gpu.func @range_of_whole_tiles
// CHECK-SAME:    %[[O:[^:]+]]: memref<1x1x16x32xf32>, %[[LSE:[^:]+]]: memref<1x1x16xf32>, %[[REST:[^:]+]]: memref<1x1x16xf32>, %[[SPLIT:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @range_of_whole_tiles(%q: !qo, %k: !kv, %v: !kv, %o: !partial,
                                 %lse: !lse, %rest: !lse, %split: index) kernel {
    // CHECK:     %[[KEYS:.+]] = affine.min #[[$KEYS]]()[%[[SPLIT]]]
    // CHECK:     %[[VISIBLE:.+]] = arith.maxsi %[[KEYS]], %{{.+}} : index
    // CHECK:     %[[NUM_TILES:.+]] = affine.apply #[[$NUM_TILES]]()[%[[VISIBLE]]]
    // CHECK:     scf.for %[[I:.+]] = %{{.+}} to %[[NUM_TILES]]
    // CHECK:       affine.apply #[[$KEY]](%[[I]])[%[[VISIBLE]], %[[SPLIT]]]
    // CHECK-NOT:   fcgpu.map_scores
    // CHECK:       scf.yield %{{.+}} : vector<16x32xf32>, vector<16xf32>, vector<16x8xf32>
    // CHECK-NOT: arith.truncf
    // CHECK:     vector.transfer_write %{{.+}}, %[[O]][{{.+}} : vector<16x32xf32>
    // CHECK:     %[[LN2:.+]] = arith.constant dense<0.693147{{.*}}> : vector<16xf32>
    // CHECK:     %[[LOG:.+]] = arith.mulf %{{.+}}, %[[LN2]]
    // CHECK:     %[[SUM:.+]] = math.fma %[[MAX:.+]], %[[SCALE:.+]], %[[LOG]]
    // CHECK:     %[[VALUE:.+]] = arith.select %[[IS_EMPTY:.+]], %{{.+}}, %[[SUM]]
    // CHECK-NEXT: %[[FIRST:.+]] = arith.constant 0 : index
    // CHECK:     vector.transfer_write %[[VALUE]], %[[LSE]][%[[FIRST]],
    // CHECK:     %[[PRODUCT:.+]] = arith.mulf %[[MAX]], %[[FACTOR:.+]] : vector<16xf32>
    // CHECK-NEXT: %[[MINUS_PRODUCT:.+]] = arith.negf %[[PRODUCT]]
    // CHECK-NEXT: %[[OF_PRODUCT:.+]] = math.fma %[[MAX]], %[[FACTOR]], %[[MINUS_PRODUCT]]
    // CHECK-NEXT: %[[ADDED:.+]] = arith.subf %[[VALUE]], %[[PRODUCT]]
    // CHECK-NEXT: %[[STAYED:.+]] = arith.subf %[[VALUE]], %[[ADDED]]
    // CHECK-NEXT: %[[LOST_PRODUCT:.+]] = arith.subf %[[PRODUCT]], %[[STAYED]]
    // CHECK-NEXT: %[[LOST_LOG:.+]] = arith.subf %[[LOG]], %[[ADDED]]
    // CHECK-NEXT: %[[OF_SUM:.+]] = arith.addf %[[LOST_PRODUCT]], %[[LOST_LOG]]
    // CHECK:     %[[LEFT:.+]] = arith.addf %[[OF_PRODUCT]], %[[OF_SUM]]
    // CHECK:     %[[SECOND:.+]] = arith.select %[[IS_EMPTY]], %{{.+}}, %[[LEFT]]
    // CHECK:     vector.transfer_write %[[SECOND]], %[[REST]][
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 16 : index
    %seqlen_k = arith.constant 256 : index
    %begin = affine.apply affine_map<()[s0] -> (s0 * 96)>()[%split]
    %end = affine.apply affine_map<()[s0] -> (s0 * 96 + 96)>()[%split]
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !partial) lse(%lse : !lse)
        lse_rest(%rest : !lse)
        at(batch %zero, head %zero, query %zero of %seqlen_q, key %begin to %end of %seqlen_k, block %zero)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16>
!kv = memref<1x1x256x32xf16>

// Of 100 keys the last four are in a tile with others: those are hidden.

// CHECK-LABEL: gpu.func @range_ends_within_a_tile
gpu.module @kernels {
  gpu.func @range_ends_within_a_tile(%q: !qo, %k: !kv, %v: !kv, %o: !qo) kernel {
    // CHECK:     %[[NUM_TILES:.+]] = arith.constant 4 : index
    // CHECK:     scf.for %[[I:.+]] = %{{.+}} to %[[NUM_TILES]]
    // CHECK:       %[[NUM_MASKED:.+]] = arith.constant 1 : index
    // CHECK:       arith.cmpi slt, %[[I]], %[[NUM_MASKED]] : index
    // CHECK:       fcgpu.map_scores
    // CHECK:         %[[LAST:.+]] = arith.constant 109 : index
    // CHECK:         arith.cmpi sle, %{{.+}}, %[[LAST]] : index
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 16 : index
    %begin = arith.constant 10 : index
    %end = arith.constant 110 : index
    %seqlen_k = arith.constant 256 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %zero of %seqlen_q, key %begin to %end of %seqlen_k, block %zero)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16>
!kv = memref<1x1x256x32xf16>

// Queries 0 to 15 see keys 240 to 255 or less: none of the first 128, so that no
// tile of this range is visited under a window of ten keys.

// CHECK-LABEL: gpu.func @range_without_visible_keys
gpu.module @kernels {
  gpu.func @range_without_visible_keys(%q: !qo, %k: !kv, %v: !kv, %o: !qo) kernel {
    // CHECK:     %[[NUM_TILES:.+]] = arith.constant 0 : index
    // CHECK:     scf.for %{{.+}} = %{{.+}} to %[[NUM_TILES]]
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 16 : index
    %end = arith.constant 128 : index
    %seqlen_k = arith.constant 256 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %zero of %seqlen_q, key %zero to %end of %seqlen_k, block %zero)
        causal(bottom_right) window_left(10) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}
