// Windows: query i, at position p = i + seqlen_k - seqlen_q, sees the keys from
// p - window_left to p + window_right.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// p = i - 28. The first row of the block (32 rows) sees the first keys, the last
// row limits the full tiles. All tiles up to the end of the keys are visited:
// iteration 0 holds the tail of the keys, and from TAIL on a window begins.

// CHECK-DAG: #[[$VISIBLE_BEGIN:.+]] = affine_map<()[s0] -> (s0 - 108)>
// CHECK-DAG: #[[$FULL_BEGIN:.+]] = affine_map<()[s0] -> (s0 - 77)>
// CHECK-DAG: #[[$NUM_TILES:.+]] = affine_map<()[s0] -> (-(s0 floordiv 64) + 2)>
// CHECK-DAG: #[[$TAIL:.+]] = affine_map<()[s0] -> (-(s0 ceildiv 64) + 2)>
// CHECK-DAG: #[[$KEY:.+]] = affine_map<(d0) -> (d0 * -64 + 64)>
// CHECK-DAG: #[[$FIRST:.+]] = affine_map<(d0) -> (d0 - 108)>

// CHECK-LABEL: gpu.func @window_left
// CHECK-SAME:    %[[ROW:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @window_left(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index)
      kernel {
    // CHECK:      %[[VISIBLE_BEGIN:.+]] = affine.max #[[$VISIBLE_BEGIN]]()[%[[ROW]]]
    // CHECK:      %[[FIRST_VISIBLE:.+]] = arith.maxsi %[[VISIBLE_BEGIN]], %{{.+}} : index
    // CHECK:      %[[FULL_BEGIN:.+]] = affine.max #[[$FULL_BEGIN]]()[%[[ROW]]]
    // CHECK:      %[[FIRST_FULL:.+]] = arith.maxsi %[[FULL_BEGIN]], %{{.+}} : index
    // CHECK:      %[[MAY_BE_NEGATIVE:.+]] = affine.apply #[[$NUM_TILES]]()[%[[FIRST_VISIBLE]]]
    // CHECK:      %[[NUM_TILES:.+]] = arith.maxsi %[[MAY_BE_NEGATIVE]], %{{.+}} : index
    // CHECK:      %[[TAIL:.+]] = affine.apply #[[$TAIL]]()[%[[FIRST_FULL]]]
    // CHECK:      %[[SEEN_BEGIN:.+]] = affine.max #[[$VISIBLE_BEGIN]]()[%[[ROW]]]
    // CHECK-NEXT: %[[END_SEEN:.+]] = affine.apply #[[$NUM_TILES]]()[%[[SEEN_BEGIN]]]
    // CHECK:      scf.for %[[I:.+]] = %{{.+}} to %[[NUM_TILES]]
    // CHECK:        %[[KEY:.+]] = affine.apply #[[$KEY]](%[[I]])
    // CHECK:        %[[SCORES:.+]] = vector.contract
    // Hidden from a warp whose last row ends, or whose first row begins, elsewhere.
    // CHECK-NEXT:   %[[HAS_BEGUN:.+]] = arith.cmpi sge, %[[I]], %{{.+}} : index
    // CHECK-NEXT:   fcgpu.skip_unless %[[HAS_BEGUN]]
    // CHECK-NEXT:   %[[ENDS_LATER:.+]] = arith.cmpi slt, %[[I]], %[[END_SEEN]] : index
    // CHECK-NEXT:   fcgpu.skip_unless %[[ENDS_LATER]]
    // CHECK-NEXT:   %[[IS_BEFORE_TAIL:.+]] = arith.cmpi slt, %[[I]], %[[TAIL]] : index
    // CHECK-NEXT:   %[[VISIBLE_SCORES:.+]] = scf.if %[[IS_BEFORE_TAIL]]
    // CHECK-NEXT:     %[[ONE:.+]] = arith.constant 1 : index
    // CHECK-NEXT:     %[[IS_HEAD:.+]] = arith.cmpi slt, %[[I]], %[[ONE]] : index
    // CHECK-NEXT:     %[[HEAD_SCORES:.+]] = scf.if %[[IS_HEAD]]
    // CHECK:            %[[MASKED:.+]] = fcgpu.map_scores %[[SCORES]][%[[ROW]], %[[KEY]]]
    // CHECK:            scf.yield %[[MASKED]]
    // CHECK-NEXT:     } else {
    // CHECK-NEXT:       scf.yield %[[SCORES]]
    // CHECK-NEXT:     }
    // CHECK-NEXT:     scf.yield %[[HEAD_SCORES]]
    // CHECK-NEXT:   } else {
    // CHECK-NEXT:     %[[TAIL_MASKED:.+]] = fcgpu.map_scores %[[SCORES]][%[[ROW]], %[[KEY]]]
    // CHECK-NEXT:     ^bb0(%[[SCORE:.+]]: f32, %[[QUERY:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:       %[[END:.+]] = arith.constant 99 : index
    // CHECK-NEXT:       %[[EXISTS:.+]] = arith.cmpi sle, %[[J]], %[[END]] : index
    // CHECK-NEXT:       %[[FIRST:.+]] = affine.max #[[$FIRST]](%[[QUERY]])
    // CHECK-NEXT:       %[[IS_LATE:.+]] = arith.cmpi sge, %[[J]], %[[FIRST]] : index
    // CHECK-NEXT:       %[[VISIBLE:.+]] = arith.andi %[[EXISTS]], %[[IS_LATE]] : i1
    // CHECK-NEXT:       %[[MINUS_INF:.+]] = arith.constant 0xFF800000 : f32
    // CHECK-NEXT:       arith.select %[[VISIBLE]], %[[SCORE]], %[[MINUS_INF]] : f32
    // CHECK:          scf.yield %[[TAIL_MASKED]]
    // CHECK:        vector.multi_reduction <maxnumf>, %[[VISIBLE_SCORES]],
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        window_left(80) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// The keys end with a tile: no iteration at the head has a mask.

// CHECK-DAG: #[[$FIRST:.+]] = affine_map<(d0) -> (d0 - 80)>

// CHECK-LABEL: gpu.func @window_left_masks_the_tail_only
gpu.module @kernels {
  gpu.func @window_left_masks_the_tail_only(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                            %row: index) kernel {
    // CHECK:      %[[SCORES:.+]] = vector.contract
    // CHECK-COUNT-2: fcgpu.skip_unless
    // CHECK:      %[[IS_BEFORE_TAIL:.+]] = arith.cmpi slt
    // CHECK-NEXT: scf.if %[[IS_BEFORE_TAIL]]
    // CHECK-NEXT:   scf.yield %[[SCORES]]
    // CHECK-NEXT: } else {
    // CHECK:        fcgpu.map_scores %[[SCORES]]
    // CHECK-NEXT:   ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:     %[[FIRST:.+]] = affine.max #[[$FIRST]](%[[QUERY]])
    // CHECK-NEXT:     %[[VISIBLE:.+]] = arith.cmpi sge, %[[J]], %[[FIRST]] : index
    // CHECK:          arith.select %[[VISIBLE]],
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        window_left(80) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// A window to the right ends the tiles like a diagonal. It may reach past the
// last key, so the tail of the keys is masked too.

// CHECK-DAG: #[[$VISIBLE_END:.+]] = affine_map<()[s0] -> (100, s0 + 24)>
// CHECK-DAG: #[[$FULL_END:.+]] = affine_map<()[s0] -> (100, s0 - 7)>
// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0) -> (99, d0 - 8)>

// CHECK-LABEL: gpu.func @window_right
// CHECK-SAME:    %[[ROW:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @window_right(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index)
      kernel {
    // CHECK:      affine.min #[[$VISIBLE_END]]()[%[[ROW]]]
    // CHECK:      affine.min #[[$FULL_END]]()[%[[ROW]]]
    // CHECK-NOT:  affine.max
    // CHECK:      scf.for
    // CHECK:        fcgpu.map_scores
    // CHECK-NEXT:   ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:     %[[LAST:.+]] = affine.min #[[$LAST]](%[[QUERY]])
    // CHECK-NEXT:     %[[VISIBLE:.+]] = arith.cmpi sle, %[[J]], %[[LAST]] : index
    // CHECK:          arith.select %[[VISIBLE]],
    // CHECK-NOT:    fcgpu.map_scores
    // CHECK:      gpu.return
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        window_right(20) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// A window of 0 to the right is the bottom-right diagonal: every key it shows
// exists.

// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0) -> (d0 - 28)>

// CHECK-LABEL: gpu.func @window_right_of_zero_needs_no_mask_of_the_tail
gpu.module @kernels {
  gpu.func @window_right_of_zero_needs_no_mask_of_the_tail(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    // CHECK:      fcgpu.map_scores
    // CHECK-NEXT: ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:   %[[LAST:.+]] = affine.min #[[$LAST]](%[[QUERY]])
    // CHECK-NEXT:   arith.cmpi sle, %[[J]], %[[LAST]] : index
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        window_right(0) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x?x32xf16, strided<[?, ?, 32, 1], offset: ?>>
!kv = memref<1x1x?x32xf16, strided<[?, ?, 32, 1]>>

// Both ends, of sizes known at run time only.

// CHECK-DAG: #[[$VISIBLE_END:.+]] = affine_map<()[s0, s1, s2] -> (s0, s0 + s1 - s2 + 42)>
// CHECK-DAG: #[[$FULL_END:.+]] = affine_map<()[s0, s1, s2] -> (s0, s0 + s1 - s2 + 11)>
// CHECK-DAG: #[[$VISIBLE_BEGIN:.+]] = affine_map<()[s0, s1, s2] -> (s0 + s2 - s1 - 20)>
// CHECK-DAG: #[[$FULL_BEGIN:.+]] = affine_map<()[s0, s1, s2] -> (s0 + s2 - s1 + 11)>
// CHECK-DAG: #[[$SMALLER:.+]] = affine_map<()[s0, s1] -> (s0, s1)>
// CHECK-DAG: #[[$END_TILE:.+]] = affine_map<()[s0] -> (s0 ceildiv 64)>
// CHECK-DAG: #[[$TO_FLOOR:.+]] = affine_map<()[s0, s1] -> (-(s1 floordiv 64) + s0 ceildiv 64)>
// CHECK-DAG: #[[$TO_CEIL:.+]] = affine_map<()[s0, s1] -> (-(s1 ceildiv 64) + s0 ceildiv 64)>
// CHECK-DAG: #[[$KEY:.+]] = affine_map<(d0)[s0] -> (d0 * -64 + (s0 ceildiv 64) * 64 - 64)>
// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0)[s0, s1] -> (s0 - 1, d0 + s0 - s1 + 10)>
// CHECK-DAG: #[[$FIRST:.+]] = affine_map<(d0)[s0, s1] -> (d0 + s1 - s0 - 20)>

// CHECK-LABEL: gpu.func @dynamic_window_on_both_sides
// CHECK-SAME:    %[[ROW:[^:]+]]: index, %[[SEQLEN_Q:[^:]+]]: index, %[[SEQLEN_K:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @dynamic_window_on_both_sides(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index, %seqlen_q: index,
      %seqlen_k: index) kernel {
    // CHECK:      %[[VISIBLE_END:.+]] = affine.min #[[$VISIBLE_END]]()[%[[SEQLEN_K]], %[[ROW]], %[[SEQLEN_Q]]]
    // CHECK:      %[[CLAMPED_END:.+]] = arith.maxsi %[[VISIBLE_END]],
    // CHECK:      %[[END:.+]] = affine.min #[[$SMALLER]]()[%[[CLAMPED_END]], %[[SEQLEN_K]]]
    // CHECK:      affine.apply #[[$END_TILE]]()[%[[END]]]
    // CHECK:      %[[FULL_END:.+]] = affine.min #[[$FULL_END]]()[%[[SEQLEN_K]], %[[ROW]], %[[SEQLEN_Q]]]
    // CHECK:      %[[LAST_FULL:.+]] = arith.maxsi %[[FULL_END]],
    // CHECK:      %[[HEAD:.+]] = affine.apply #[[$TO_FLOOR]]()[%[[END]], %[[LAST_FULL]]]
    // CHECK:      %[[VISIBLE_BEGIN:.+]] = affine.max #[[$VISIBLE_BEGIN]]()[%[[ROW]], %[[SEQLEN_Q]], %[[SEQLEN_K]]]
    // CHECK:      %[[BEGIN:.+]] = arith.maxsi %[[VISIBLE_BEGIN]],
    // CHECK:      %[[FULL_BEGIN:.+]] = affine.max #[[$FULL_BEGIN]]()[%[[ROW]], %[[SEQLEN_Q]], %[[SEQLEN_K]]]
    // CHECK:      %[[FIRST_FULL:.+]] = arith.maxsi %[[FULL_BEGIN]],
    // CHECK:      %[[MAY_BE_NEGATIVE:.+]] = affine.apply #[[$TO_FLOOR]]()[%[[END]], %[[BEGIN]]]
    // CHECK:      %[[NUM_TILES:.+]] = arith.maxsi %[[MAY_BE_NEGATIVE]],
    // CHECK:      %[[TAIL:.+]] = affine.apply #[[$TO_CEIL]]()[%[[END]], %[[FIRST_FULL]]]
    // CHECK:      scf.for %[[I:.+]] = %{{.+}} to %[[NUM_TILES]]
    // CHECK:        affine.apply #[[$KEY]](%[[I]])[%[[END]]]
    // CHECK:        arith.cmpi slt, %[[I]], %[[TAIL]] : index
    // CHECK:          arith.cmpi slt, %[[I]], %[[HEAD]] : index
    // CHECK:        } else {
    // CHECK:        } else {
    // CHECK:          fcgpu.map_scores
    // CHECK-NEXT:     ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:       %[[LAST:.+]] = affine.min #[[$LAST]](%[[QUERY]])[%[[SEQLEN_K]], %[[SEQLEN_Q]]]
    // CHECK-NEXT:       %[[IS_EARLY:.+]] = arith.cmpi sle, %[[J]], %[[LAST]] : index
    // CHECK-NEXT:       %[[FIRST:.+]] = affine.max #[[$FIRST]](%[[QUERY]])[%[[SEQLEN_Q]], %[[SEQLEN_K]]]
    // CHECK-NEXT:       %[[IS_LATE:.+]] = arith.cmpi sge, %[[J]], %[[FIRST]] : index
    // CHECK-NEXT:       arith.andi %[[IS_EARLY]], %[[IS_LATE]] : i1
    %zero = arith.constant 0 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        window_left(20) window_right(10) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// The bottom-right diagonal and a window count from the same position: of the
// two ends the diagonal is the nearer one, and no tail of the keys shows.

// CHECK-DAG: #[[$VISIBLE_END:.+]] = affine_map<()[s0] -> (100, s0 + 4)>
// CHECK-DAG: #[[$VISIBLE_BEGIN:.+]] = affine_map<()[s0] -> (s0 - 48)>
// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0) -> (d0 - 28)>
// CHECK-DAG: #[[$FIRST:.+]] = affine_map<(d0) -> (d0 - 48)>

// CHECK-LABEL: gpu.func @window_with_bottom_right
gpu.module @kernels {
  gpu.func @window_with_bottom_right(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                     %row: index) kernel {
    // CHECK:      affine.min #[[$VISIBLE_END]]
    // CHECK:      affine.max #[[$VISIBLE_BEGIN]]
    // CHECK:      fcgpu.map_scores
    // CHECK-NEXT: ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:   %[[LAST:.+]] = affine.min #[[$LAST]](%[[QUERY]])
    // CHECK-NEXT:   arith.cmpi sle, %[[J]], %[[LAST]] : index
    // CHECK-NEXT:   %[[FIRST:.+]] = affine.max #[[$FIRST]](%[[QUERY]])
    // CHECK-NEXT:   arith.cmpi sge, %[[J]], %[[FIRST]] : index
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        causal(bottom_right) window_left(20) window_right(30) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// The top-left diagonal counts from query 0: three ends, and the nearest holds.

// CHECK-DAG: #[[$VISIBLE_END:.+]] = affine_map<()[s0] -> (100, s0 + 32, s0 + 34)>
// CHECK-DAG: #[[$FULL_END:.+]] = affine_map<()[s0] -> (100, s0 + 1, s0 + 3)>
// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0) -> (99, d0, d0 + 2)>
// CHECK-DAG: #[[$FIRST:.+]] = affine_map<(d0) -> (d0 - 48)>

// CHECK-LABEL: gpu.func @window_with_top_left
gpu.module @kernels {
  gpu.func @window_with_top_left(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                 %row: index) kernel {
    // CHECK:      affine.min #[[$VISIBLE_END]]
    // CHECK:      affine.min #[[$FULL_END]]
    // CHECK:      fcgpu.map_scores
    // CHECK-NEXT: ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:   %[[LAST:.+]] = affine.min #[[$LAST]](%[[QUERY]])
    // CHECK-NEXT:   arith.cmpi sle, %[[J]], %[[LAST]] : index
    // CHECK-NEXT:   %[[FIRST:.+]] = affine.max #[[$FIRST]](%[[QUERY]])
    // CHECK-NEXT:   arith.cmpi sge, %[[J]], %[[FIRST]] : index
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        causal(top_left) window_left(20) window_right(30) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// Windows wider than any sequence are cut to 2^40 keys, far from the ends of
// the integers.

// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0) -> (d0 + 1099511627776)>
// CHECK-DAG: #[[$FIRST:.+]] = affine_map<(d0) -> (d0 - 1099511627776)>

// CHECK-LABEL: gpu.func @widest_windows_do_not_overflow
gpu.module @kernels {
  gpu.func @widest_windows_do_not_overflow(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                           %row: index) kernel {
    // CHECK: affine.min #[[$LAST]]
    // CHECK: affine.max #[[$FIRST]]
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        window_left(9223372036854775807) window_right(9223372036854775807) scale(0.176776692)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// All warps of a block walk the same tiles: both ends are those of the block's
// 32 rows and do not depend on the warp.

// CHECK-DAG: #[[$VISIBLE_BEGIN:.+]] = affine_map<()[s0] -> (s0 * 32 - 20)>
// CHECK-DAG: #[[$FULL_BEGIN:.+]] = affine_map<()[s0] -> (s0 * 32 + 11)>

// CHECK-LABEL: gpu.func @bounds_are_those_of_the_block
// CHECK-SAME:    %[[BLOCK:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @bounds_are_those_of_the_block(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                          %block: index) kernel {
    // CHECK: scf.forall (%{{.+}}) in (2)
    // CHECK:   affine.max #[[$VISIBLE_BEGIN]]()[%[[BLOCK]]]
    // CHECK:   affine.max #[[$FULL_BEGIN]]()[%[[BLOCK]]]
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    scf.forall (%warp) in (2) {
      %row = affine.apply affine_map<(d0)[s0] -> (d0 * 16 + s0 * 32)>(%warp)[%block]
      %block_row = affine.apply affine_map<()[s0] -> (s0 * 32)>()[%block]
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %block_row)
          window_left(20) scale(0.176776692) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, row_max = stale, row_sum = mma>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// The partial tiles of both ends take the branch of a growing maximum.

// CHECK-DAG: #[[$TAIL:.+]] = affine_map<()[s0] -> (-(s0 ceildiv 64) + 2)>

// CHECK-LABEL: gpu.func @stale_maximum_masks_both_ends
gpu.module @kernels {
  gpu.func @stale_maximum_masks_both_ends(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                          %row: index) kernel {
    // CHECK:      %[[TAIL:.+]] = affine.apply #[[$TAIL]]()[%{{.+}}]
    // CHECK:      scf.for %[[I:[^ ]+]] = %
    // CHECK:        vector.contract
    // CHECK:        %[[ONE:.+]] = arith.constant 1 : index
    // CHECK-NEXT:   %[[IS_HEAD:.+]] = arith.cmpi slt, %[[I]], %[[ONE]] : index
    // CHECK-NEXT:   %[[IS_TAIL:.+]] = arith.cmpi sge, %[[I]], %[[TAIL]] : index
    // CHECK-NEXT:   %[[IS_PARTIAL:.+]] = arith.ori %[[IS_HEAD]], %[[IS_TAIL]] : i1
    // CHECK:        %[[FOLLOWS:.+]] = vector.multi_reduction <or>, %{{.+}}, %[[IS_PARTIAL]] [0, 1]
    // CHECK-NEXT:   scf.if %[[FOLLOWS]]
    // CHECK-NEXT:     fcgpu.map_scores
    // CHECK-NOT:    fcgpu.map_scores
    // CHECK:      gpu.return
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        window_left(80) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}
