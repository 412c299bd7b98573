// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// 128 keys are two full tiles, so there is no mask.

// CHECK-DAG: #[[$MK:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[$NK:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[$KN:.+]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[$MN:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>

// CHECK-LABEL: gpu.func @loop_over_key_tiles
// CHECK-SAME:    (%[[Q:[^:]+]]: memref<{{[^)]+}}>, %[[K:[^:]+]]: memref<1x1x128x32xf16>, %[[V:[^:]+]]: memref<1x1x128x32xf16>, %[[O:[^:]+]]: memref
gpu.module @kernels {
  gpu.func @loop_over_key_tiles(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                %row: index) kernel {
    // CHECK:      %[[QUERY:.+]] = vector.transfer_read %[[Q]]{{.+}} {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 32>, in_bounds
    // CHECK-DAG:  %[[ACC_INIT:.+]] = arith.constant dense<0.000000e+00> : vector<16x32xf32>
    // CHECK-DAG:  %[[MAX_INIT:.+]] = arith.constant dense<0xFF800000> : vector<16xf32>
    // CHECK-DAG:  %[[SUM_INIT:.+]] = arith.constant dense<0.000000e+00> : vector<16x8xf32>
    // CHECK-DAG:  %[[NUM_TILES:.+]] = arith.constant 2 : index
    // CHECK:      %[[STATE:.+]]:3 = scf.for %{{.+}} = %{{.+}} to %[[NUM_TILES]] step %{{.+}} iter_args(%[[ACC:.+]] = %[[ACC_INIT]], %[[MAX:.+]] = %[[MAX_INIT]], %[[SUM:.+]] = %[[SUM_INIT]])
    // CHECK:        %[[KEY:.+]] = vector.transfer_read %[[K]]{{.+}} {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>, in_bounds{{.+}} vector<64x32xf16>
    // CHECK:        %[[SCORES:.+]] = vector.contract {indexing_maps = [#[[$MK]], #[[$NK]], #[[$MN]]]{{.+}} %[[QUERY]], %[[KEY]], %{{.+}} into vector<16x64xf32>
    // CHECK-NOT:    scf.if
    // CHECK:        %[[NEW_MAX:.+]] = vector.multi_reduction <maxnumf>, %[[SCORES]], %[[MAX]] [1] : vector<16x64xf32> to vector<16xf32>
    // CHECK:        %[[RESCALE:.+]] = math.exp2 %{{.+}} : vector<16xf32>
    // CHECK:        %[[OLD_ACC:.+]] = arith.mulf %[[ACC]], %{{.+}} : vector<16x32xf32>
    // CHECK:        %[[OLD_SUM:.+]] = arith.mulf %[[SUM]], %{{.+}} : vector<16x8xf32>
    // CHECK:        %[[P:.+]] = math.exp2 %{{.+}} : vector<16x64xf32>
    // CHECK:        %[[P_HALF:.+]] = arith.truncf %[[P]] : vector<16x64xf32> to vector<16x64xf16>
    // CHECK:        %[[NEW_SUM:.+]] = vector.multi_reduction <add>, %{{.+}}, %[[OLD_SUM]] [1] : vector<16x8x8xf32> to vector<16x8xf32>
    // CHECK:        %[[VALUE:.+]] = vector.transfer_read %[[V]]{{.+}} {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>, in_bounds{{.+}} vector<64x32xf16>
    // CHECK:        %[[NEW_ACC:.+]] = vector.contract {indexing_maps = [#[[$MK]], #[[$KN]], #[[$MN]]]{{.+}} %[[P_HALF]], %[[VALUE]], %[[OLD_ACC]] : {{.+}} into vector<16x32xf32>
    // CHECK:        scf.yield %[[NEW_ACC]], %[[NEW_MAX]], %[[NEW_SUM]]
    // CHECK-NEXT: }{{$}}
    // CHECK:      %[[TOTAL:.+]] = vector.multi_reduction <add>, %[[STATE]]#2, %{{.+}} [1] : vector<16x8xf32> to vector<16xf32>
    // CHECK:      arith.divf %{{.+}}, %[[TOTAL]] : vector<16xf32>
    // CHECK:      %[[NORMALIZED:.+]] = arith.mulf %[[STATE]]#0, %{{.+}} : vector<16x32xf32>
    // CHECK:      %[[O_HALF:.+]] = arith.truncf %[[NORMALIZED]]
    // CHECK:      vector.transfer_write %[[O_HALF]], %[[O]]
    // CHECK-NOT:  flashcore.attention
    // CHECK:      gpu.return
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, overlap = qk>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// The loop says which of its products run beside those of another iteration.

// CHECK-LABEL: gpu.func @products_of_two_iterations
// CHECK:         scf.for
// CHECK:           scf.yield %{{.+}} : vector<16x32xf32>,
// CHECK-NEXT:    } {fcgpu.overlap = #fcgpu.overlap<qk>}
gpu.module @kernels {
  gpu.func @products_of_two_iterations(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                       %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x192x32xf16>

// Three tiles: keys 128, 64, 0.

// CHECK-DAG: #[[$KEY:.+]] = affine_map<(d0) -> (d0 * -64 + 128)>

// CHECK-LABEL: gpu.func @tiles_are_walked_from_the_last_key_down
gpu.module @kernels {
  gpu.func @tiles_are_walked_from_the_last_key_down(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    // CHECK: scf.for %[[I:.+]] = %{{.+}} to
    // CHECK:   %[[KEY:.+]] = affine.apply #[[$KEY]](%[[I]])
    // CHECK:   vector.transfer_read %{{.+}}[%{{.+}}, %{{.+}}, %[[KEY]], %{{.+}}], {{.+}} : memref<1x1x192x32xf16>
    // CHECK:   vector.transfer_read %{{.+}}[%{{.+}}, %{{.+}}, %[[KEY]], %{{.+}}], {{.+}} : memref<1x1x192x32xf16>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 192 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x?x32xbf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x?x32xbf16>

// Rows past the end are zeros in all three inputs, and are not written.

// CHECK-LABEL: gpu.func @rows_past_the_end_are_zero
// CHECK-SAME:    (%[[Q:[^:]+]]: memref<{{[^)]+}}>, %[[K:[^:]+]]: memref<1x1x?x32xbf16>, %[[V:[^:]+]]: memref<1x1x?x32xbf16>, %[[O:[^:]+]]: memref
gpu.module @kernels {
  gpu.func @rows_past_the_end_are_zero(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                       %row: index, %seqlen: index) kernel {
    // CHECK: %[[ZERO_Q:.+]] = arith.constant 0.000000e+00 : bf16
    // CHECK: vector.transfer_read %[[Q]][{{.+}}], %[[ZERO_Q]] {{.*}}in_bounds = [false, true]}
    // CHECK: scf.for %
    // CHECK:   %[[ZERO_K:.+]] = arith.constant 0.000000e+00 : bf16
    // CHECK:   vector.transfer_read %[[K]][{{.+}}], %[[ZERO_K]] {{.*}}in_bounds = [false, true]}
    // CHECK:   %[[ZERO_V:.+]] = arith.constant 0.000000e+00 : bf16
    // CHECK:   vector.transfer_read %[[V]][{{.+}}], %[[ZERO_V]] {{.*}}in_bounds = [false, true]}
    // CHECK: vector.transfer_write %{{.+}}, %[[O]][{{.+}}] {in_bounds = [false, true]} : vector<16x32xbf16>
    %zero = arith.constant 0 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// exp(2 (s - max)) = exp2(c s - c max) with c = 2 log2(e). What the state is
// multiplied with is the exponential of the difference of such products, each
// rounded, as those of its own exponentials are.

// CHECK-LABEL: gpu.func @scale_is_folded_into_exp2
gpu.module @kernels {
  gpu.func @scale_is_folded_into_exp2(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                      %row: index) kernel {
    // CHECK:     scf.for %{{.+}} iter_args(%[[OLD_ACC:.+]] = %{{.+}}, %[[OLD_MAX:.+]] = %{{.+}}, %[[OLD_SUM:.+]] = %{{.+}})
    // CHECK:     %[[SCORES:.+]] = vector.contract
    // CHECK:     %[[MAX:.+]] = vector.multi_reduction <maxnumf>, %[[SCORES]], %[[OLD_MAX]]
    // CHECK:     %[[MINUS_C:.+]] = arith.constant dense<-2.885390e+00> : vector<16xf32>
    // CHECK:     %[[ADDEND:.+]] = arith.mulf %[[MAX]], %[[MINUS_C]]
    // CHECK:     %[[RELATED:.+]]:3 = scf.if
    // CHECK:     } else {
    // CHECK-NEXT:  %[[C:.+]] = arith.constant dense<2.885390e+00> : vector<16xf32>
    // CHECK-NEXT:  %[[BEFORE:.+]] = arith.mulf %[[OLD_MAX]], %[[C]]
    // CHECK-NEXT:  %[[EXPONENT:.+]] = arith.addf %[[BEFORE]], %[[ADDEND]]
    // CHECK-NEXT:  %[[FACTORS:.+]] = math.exp2 %[[EXPONENT]] : vector<16xf32>
    // CHECK-NEXT:  scf.yield %[[SCORES]], %[[ADDEND]], %[[FACTORS]]
    // CHECK-NEXT: }
    // CHECK:     %[[FACTOR_COLUMN:.+]] = vector.shape_cast %[[RELATED]]#2
    // CHECK:     %[[FACTOR_TILE:.+]] = vector.broadcast %[[FACTOR_COLUMN]]
    // CHECK:     arith.mulf %[[OLD_ACC]], %[[FACTOR_TILE]] : vector<16x32xf32>
    // CHECK:     arith.mulf %[[OLD_SUM]], %{{.+}} : vector<16x8xf32>
    // CHECK:     %[[COLUMN:.+]] = vector.shape_cast %[[RELATED]]#1 : vector<16xf32> to vector<16x1xf32>
    // CHECK:     %[[ADDENDS:.+]] = vector.broadcast %[[COLUMN]] : vector<16x1xf32> to vector<16x64xf32>
    // CHECK:     %[[C_TILE:.+]] = arith.constant dense<2.885390e+00> : vector<16x64xf32>
    // CHECK:     %[[EXPONENTS:.+]] = math.fma %[[RELATED]]#0, %[[C_TILE]], %[[ADDENDS]]
    // CHECK:     math.exp2 %[[EXPONENTS]] : vector<16x64xf32>
    // CHECK:     scf.yield %{{.+}}, %[[MAX]], %{{.+}} : vector<16x32xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 32,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// Tiles of at most 32 keys have no branch for rows that are far: the maximum is
// subtracted from every score before anything is multiplied.

// CHECK-LABEL: gpu.func @small_tiles_subtract_every_maximum
gpu.module @kernels {
  gpu.func @small_tiles_subtract_every_maximum(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    // CHECK:     scf.for %{{.+}} iter_args(%{{.+}} = %{{.+}}, %[[OLD_MAX:.+]] = %{{.+}}, %{{.+}} = %{{.+}})
    // CHECK:     %[[SCORES:.+]] = vector.contract
    // CHECK:     %[[MAX:.+]] = vector.multi_reduction <maxnumf>, %[[SCORES]], %[[OLD_MAX]]
    // CHECK-NOT: scf.if
    // CHECK:     %[[IS_EMPTY:.+]] = arith.cmpf oeq, %[[MAX]],
    // CHECK:     %[[SAFE:.+]] = arith.select %[[IS_EMPTY]], %{{.+}}, %[[MAX]]
    // CHECK:     %[[FALLEN:.+]] = arith.subf %[[OLD_MAX]], %[[SAFE]]
    // CHECK:     %[[OF_STATE:.+]] = arith.mulf %[[FALLEN]],
    // CHECK-NEXT: math.exp2 %[[OF_STATE]] : vector<16xf32>
    // CHECK:     %[[BELOW:.+]] = arith.subf %[[SCORES]], %{{.+}} : vector<16x32xf32>
    // CHECK:     %[[EXPONENTS:.+]] = arith.mulf %[[BELOW]],
    // CHECK-NEXT: math.exp2 %[[EXPONENTS]] : vector<16x32xf32>
    // CHECK-NOT: scf.if
    // CHECK:     scf.yield %{{.+}}, %[[MAX]], %{{.+}} : vector<16x32xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// c max is rounded by up to 2^-24 of it. Where that may be more than 2^-12, half
// a step of an f16 P, for |c max| of more than 4096, a row is far: its maximum is
// subtracted from the scores instead, and nothing is added to exponents. The
// others of the warp stay as they are, so what the state is multiplied with comes
// from both forms. A maximum of -inf is far, and 0 is subtracted.

// CHECK-LABEL: gpu.func @far_maximum_is_subtracted_from_scores
gpu.module @kernels {
  gpu.func @far_maximum_is_subtracted_from_scores(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    // CHECK:     scf.for %{{.+}} iter_args(%{{.+}} = %{{.+}}, %[[OLD_MAX:.+]] = %{{.+}}, %{{.+}} = %{{.+}})
    // CHECK:     %[[SCORES:.+]] = vector.contract
    // CHECK:     %[[MAX:.+]] = vector.multi_reduction <maxnumf>, %[[SCORES]], %[[OLD_MAX]]
    // CHECK:     %[[ADDEND:.+]] = arith.mulf %[[MAX]], %{{.+}}
    // CHECK:     %[[SIZE:.+]] = math.absf %[[ADDEND]]
    // CHECK:     %[[FARTHEST:.+]] = arith.constant dense<4.096000e+03> : vector<16xf32>
    // CHECK:     %[[ARE_FAR:.+]] = arith.cmpf ogt, %[[SIZE]], %[[FARTHEST]]
    // CHECK:     %[[ANY:.+]] = vector.multi_reduction <or>, %[[ARE_FAR]], %{{.+}} [0] : vector<16xi1> to i1
    // CHECK:     scf.if %[[ANY]] -> (vector<16x64xf32>, vector<16xf32>, vector<16xf32>)
    // CHECK:       %[[MINUS_INF:.+]] = arith.constant dense<0xFF800000> : vector<16xf32>
    // CHECK:       %[[IS_EMPTY:.+]] = arith.cmpf oeq, %[[MAX]], %[[MINUS_INF]]
    // CHECK:       %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : vector<16xf32>
    // CHECK:       %[[SAFE_MAX:.+]] = arith.select %[[IS_EMPTY]], %[[ZERO]], %[[MAX]]
    // CHECK:       %[[NONE:.+]] = arith.constant dense<0.000000e+00> : vector<16xf32>
    // CHECK:       %[[MINUS_C:.+]] = arith.constant dense<-2.885390e+00> : vector<16xf32>
    // CHECK:       %[[NEAR:.+]] = arith.mulf %[[SAFE_MAX]], %[[MINUS_C]]
    // CHECK:       %[[IS_FAR:.+]] = arith.cmpf ogt
    // CHECK:       %[[SUBTRAHEND:.+]] = arith.select %[[IS_FAR]], %[[SAFE_MAX]], %[[NONE]]
    // CHECK:       %[[NEW_ADDEND:.+]] = arith.select %[[IS_FAR]], %[[NONE]], %[[NEAR]]
    // CHECK:       %[[COLUMN:.+]] = vector.shape_cast %[[SUBTRAHEND]]
    // CHECK:       %[[TILE:.+]] = vector.broadcast %[[COLUMN]]
    // CHECK:       %[[DIFFERENCES:.+]] = arith.subf %[[SCORES]], %[[TILE]] : vector<16x64xf32>
    // CHECK:       %[[NONE_OLD:.+]] = arith.constant dense<0.000000e+00> : vector<16xf32>
    // CHECK:       %[[NEAR_OLD:.+]] = arith.mulf %[[OLD_MAX]], %{{.+}}
    // CHECK:       %[[WAS_FAR:.+]] = arith.cmpf ogt
    // CHECK:       %[[OLD_SUBTRAHEND:.+]] = arith.select %[[WAS_FAR]], %[[OLD_MAX]], %[[NONE_OLD]]
    // CHECK:       %[[OLD_ADDEND:.+]] = arith.select %[[WAS_FAR]], %[[NONE_OLD]], %[[NEAR_OLD]]
    // CHECK:       %[[BETWEEN:.+]] = arith.subf %[[OLD_SUBTRAHEND]], %[[SUBTRAHEND]]
    // CHECK:       %[[C:.+]] = arith.constant dense<2.885390e+00> : vector<16xf32>
    // CHECK:       %[[BETWEEN_ADDENDS:.+]] = arith.subf %[[NEW_ADDEND]], %[[OLD_ADDEND]]
    // CHECK:       %[[EXPONENT:.+]] = math.fma %[[BETWEEN]], %[[C]], %[[BETWEEN_ADDENDS]]
    // CHECK:       %[[FACTORS:.+]] = math.exp2 %[[EXPONENT]]
    // CHECK:       scf.yield %[[DIFFERENCES]], %[[NEW_ADDEND]], %[[FACTORS]]
    // CHECK:     } else {
    // CHECK-NOT:   arith.subf
    // CHECK:       scf.yield %[[SCORES]], %[[ADDEND]],
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>
!lse = memref<1x1x16xf32, strided<[128, 128, 1], offset: ?>>

// A row without keys has sum 0: it gets O = 0 and lse = -inf, by selection.

// CHECK-LABEL: gpu.func @empty_row_is_selected
// CHECK-SAME:    %[[LSE:[^:]+]]: memref<1x1x16xf32,
gpu.module @kernels {
  gpu.func @empty_row_is_selected(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                  %lse: !lse, %row: index) kernel {
    // CHECK:     %[[STATE:.+]]:3 = scf.for %
    // CHECK:     scf.yield
    // CHECK:     %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : vector<16xf32>
    // CHECK:     %[[SUM:.+]] = vector.multi_reduction <add>, %[[STATE]]#2, %[[ZERO]] [1]
    // CHECK-DAG: %[[IS_EMPTY:.+]] = arith.cmpf oeq, %[[SUM]], %[[NO_SUM:.+]] :
    // CHECK-DAG: %[[ONE:.+]] = arith.constant dense<1.000000e+00> : vector<16xf32>
    // CHECK-DAG: %[[INVERSE:.+]] = arith.divf %[[ONE]], %[[SUM]]
    // CHECK-DAG: arith.select %[[IS_EMPTY]], %[[NO_SUM]], %[[INVERSE]]
    // CHECK:     vector.transfer_write %{{.+}} : vector<16x32xf16>
    // CHECK-DAG: %[[LOG2:.+]] = math.log2 %[[SUM]]
    // CHECK-DAG: %[[LN2:.+]] = arith.constant dense<0.693147182> : vector<16xf32>
    // CHECK-DAG: %[[LOG:.+]] = arith.mulf %[[LOG2]], %[[LN2]]
    // CHECK-DAG: %[[SCALE:.+]] = arith.constant dense<2.000000e+00> : vector<16xf32>
    // CHECK-DAG: %[[SUM_LSE:.+]] = math.fma %[[STATE]]#1, %[[SCALE]], %[[LOG]]
    // CHECK-DAG: %[[MINUS_INF:.+]] = arith.constant dense<0xFF800000> : vector<16xf32>
    // CHECK:     %[[RESULT:.+]] = arith.select %[[IS_EMPTY]], %[[MINUS_INF]], %[[SUM_LSE]]
    // CHECK:     vector.transfer_write %[[RESULT]], %[[LSE]]
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo) lse(%lse : !lse)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!q = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!k = memref<1x1x128x32xf16>
!v = memref<1x1x128x16xf16>
!o = memref<1x1x16x16xf16, strided<[2048, 2048, 16, 1], offset: ?>>

// CHECK-LABEL: gpu.func @head_dim_of_value_differs
gpu.module @kernels {
  gpu.func @head_dim_of_value_differs(%q: !q, %k: !k, %v: !v, %o: !o,
                                      %row: index) kernel {
    // CHECK: vector.contract {{.+}} : vector<16x32xf16>, vector<64x32xf16> into vector<16x64xf32>
    // CHECK: vector.contract {{.+}} : vector<16x64xf16>, vector<64x16xf16> into vector<16x16xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !q, !k, !v) outs(%o : !o)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.223606795) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!q = memref<1x1x16x20xf16, strided<[2048, 2048, 20, 1], offset: ?>>
!k = memref<1x1x128x20xf16>
!v = memref<1x1x128x5xf16>
!o = memref<1x1x16x5xf16, strided<[2048, 2048, 5, 1], offset: ?>>

// Tiles have whole chunks of columns, 16 or more. Those behind a row's own read
// as zeros, and are not written.

// CHECK-LABEL: gpu.func @tiles_have_whole_chunks
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x1x16x20xf16, {{[^%]+}}, %[[K:[^:]+]]: memref<1x1x128x20xf16>, %[[V:[^:]+]]: memref<1x1x128x5xf16>, %[[O:[^:]+]]: memref<1x1x16x5xf16,
gpu.module @kernels {
  gpu.func @tiles_have_whole_chunks(%q: !q, %k: !k, %v: !v, %o: !o,
                                    %row: index) kernel {
    // CHECK:     vector.transfer_read %[[Q]][{{.+}}], %{{.+}} {{.*}}: {{.+}}, vector<16x24xf16>
    // CHECK:     vector.transfer_read %[[K]][{{.+}}], %{{.+}} {{.*}}: {{.+}}, vector<64x24xf16>
    // CHECK:     vector.contract {{.+}} : vector<16x24xf16>, vector<64x24xf16> into vector<16x64xf32>
    // CHECK:     vector.transfer_read %[[V]][{{.+}}], %{{.+}} {{.*}}: {{.+}}, vector<64x16xf16>
    // CHECK:     vector.contract {{.+}} : vector<16x64xf16>, vector<64x16xf16> into vector<16x16xf32>
    // CHECK-NOT: in_bounds
    // CHECK:     vector.transfer_write %{{.+}}, %[[O]][{{.+}}] : vector<16x16xf16>, memref<1x1x16x5xf16,
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !q, !k, !v) outs(%o : !o)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.223606795) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// 100 keys: tile 0 is the last one and has a mask, tile 1 is full.

// CHECK-LABEL: gpu.func @tail_of_the_keys_is_masked
gpu.module @kernels {
  gpu.func @tail_of_the_keys_is_masked(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                       %row: index) kernel {
    // CHECK:      %[[NUM_TILES:.+]] = arith.constant 2 : index
    // CHECK:      scf.for %[[I:.+]] = %{{.+}} to %[[NUM_TILES]]
    // CHECK:        %[[KEY:.+]] = affine.apply
    // CHECK:        %[[SCORES:.+]] = vector.contract
    // CHECK:        %[[NUM_MASKED:.+]] = arith.constant 1 : index
    // CHECK:        %[[IS_PARTIAL:.+]] = arith.cmpi slt, %[[I]], %[[NUM_MASKED]] : index
    // CHECK:        %[[VISIBLE_SCORES:.+]] = scf.if %[[IS_PARTIAL]]
    // CHECK:          %[[MASKED:.+]] = fcgpu.map_scores %[[SCORES]][%{{.+}}, %[[KEY]]] : vector<16x64xf32> {
    // CHECK-NEXT:     ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %[[J:.+]]: index):
    // CHECK:            %[[LAST:.+]] = arith.constant 99 : index
    // CHECK:            %[[VISIBLE:.+]] = arith.cmpi sle, %[[J]], %[[LAST]] : index
    // CHECK:            %[[MINUS_INF:.+]] = arith.constant 0xFF800000 : f32
    // CHECK:            %[[RESULT:.+]] = arith.select %[[VISIBLE]], %[[SCORE]], %[[MINUS_INF]] : f32
    // CHECK-NEXT:       fcgpu.yield %[[RESULT]] : f32
    // CHECK:          scf.yield %[[MASKED]]
    // CHECK-NEXT:   } else {
    // CHECK-NEXT:     scf.yield %[[SCORES]]
    // CHECK:        vector.multi_reduction <maxnumf>, %[[VISIBLE_SCORES]],
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x?x32xf16>

// Of s keys, ceil(s / 64) tiles are visited and s mod 64 != 0 of them masked.

// CHECK-DAG: #[[$SMALLER:.+]] = affine_map<()[s0, s1] -> (s0, s1)>
// CHECK-DAG: #[[$NUM_TILES:.+]] = affine_map<()[s0] -> (s0 ceildiv 64)>
// CHECK-DAG: #[[$NUM_MASKED:.+]] = affine_map<()[s0, s1] -> (-(s1 floordiv 64) + s0 ceildiv 64)>
// CHECK-DAG: #[[$LAST:.+]] = affine_map<()[s0] -> (s0 - 1)>

// CHECK-LABEL: gpu.func @dynamic_keys_may_have_a_tail
// CHECK-SAME:    %[[SEQLEN_K:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @dynamic_keys_may_have_a_tail(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                         %row: index, %seqlen_k: index) kernel {
    // CHECK:     %[[END:.+]] = affine.min #{{.+}}()[%[[SEQLEN_K]]]
    // CHECK:     %[[CLAMPED:.+]] = arith.maxsi %[[END]], %{{.+}} : index
    // CHECK:     %[[VISIBLE:.+]] = affine.min #[[$SMALLER]]()[%[[CLAMPED]], %[[SEQLEN_K]]]
    // CHECK:     %[[NUM_TILES:.+]] = affine.apply #[[$NUM_TILES]]()[%[[VISIBLE]]]
    // CHECK:     %[[NUM_MASKED:.+]] = affine.apply #[[$NUM_MASKED]]()
    // CHECK:     scf.for %[[I:.+]] = %{{.+}} to %[[NUM_TILES]]
    // CHECK:       arith.cmpi slt, %[[I]], %[[NUM_MASKED]] : index
    // CHECK:       fcgpu.map_scores
    // CHECK:         %[[LAST:.+]] = affine.min #[[$LAST]]()[%[[SEQLEN_K]]]
    // CHECK:         arith.cmpi sle, %{{.+}}, %[[LAST]] : index
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// Bottom right: key j is visible to query i iff j <= i + seqlen_k - seqlen_q.
// For every query that exists that implies j < seqlen_k: no mask of the tail.
// The last row of the block (32 rows) sees the most keys, its first row limits
// the full tiles.

// CHECK-DAG: #[[$VISIBLE_END:.+]] = affine_map<()[s0] -> (100, s0 + 4)>
// CHECK-DAG: #[[$FULL_END:.+]] = affine_map<()[s0] -> (100, s0 - 27)>
// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0) -> (d0 - 28)>

// CHECK-LABEL: gpu.func @causal_bottom_right
// CHECK-SAME:    %[[ROW:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @causal_bottom_right(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                %row: index) kernel {
    // CHECK:      %[[VISIBLE_END:.+]] = affine.min #[[$VISIBLE_END]]()[%[[ROW]]]
    // CHECK:      arith.maxsi %[[VISIBLE_END]],
    // CHECK:      %[[FULL_END:.+]] = affine.min #[[$FULL_END]]()[%[[ROW]]]
    // CHECK:      arith.maxsi %[[FULL_END]],
    // CHECK:      scf.for %
    // CHECK:        scf.if
    // CHECK:          fcgpu.map_scores %{{.+}}[%[[ROW]], %{{.+}}]
    // CHECK-NEXT:     ^bb0(%{{.+}}: f32, %[[I:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:       %[[LAST:.+]] = affine.min #[[$LAST]](%[[I]])
    // CHECK-NEXT:       %[[VISIBLE:.+]] = arith.cmpi sle, %[[J]], %[[LAST]] : index
    // CHECK:            arith.select %[[VISIBLE]],
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        causal(bottom_right) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// Top left: key j is visible to query i iff j <= i, whatever the lengths.

// CHECK-DAG: #[[$VISIBLE_END:.+]] = affine_map<()[s0] -> (128, s0 + 32)>
// CHECK-DAG: #[[$FULL_END:.+]] = affine_map<()[s0] -> (128, s0 + 1)>
// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0) -> (d0)>

// CHECK-LABEL: gpu.func @causal_top_left
// CHECK-SAME:    %[[ROW:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @causal_top_left(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                            %row: index) kernel {
    // CHECK:      affine.min #[[$VISIBLE_END]]()[%[[ROW]]]
    // CHECK:      affine.min #[[$FULL_END]]()[%[[ROW]]]
    // CHECK:      fcgpu.map_scores
    // CHECK-NEXT: ^bb0(%{{.+}}: f32, %[[I:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:   %[[LAST:.+]] = affine.min #[[$LAST]](%[[I]])
    // CHECK-NEXT:   %[[VISIBLE:.+]] = arith.cmpi sle, %[[J]], %[[LAST]] : index
    // CHECK:        arith.select %[[VISIBLE]],
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 256 : index
    %seqlen_k = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        causal(top_left) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// Below the diagonal of the top left corner the keys may still end.

// CHECK-DAG: #[[$LAST:.+]] = affine_map<(d0) -> (99, d0)>

// CHECK-LABEL: gpu.func @causal_top_left_masks_the_tail_too
gpu.module @kernels {
  gpu.func @causal_top_left_masks_the_tail_too(%q: !qo, %k: !kv, %v: !kv,
                                               %o: !qo, %row: index) kernel {
    // CHECK:      fcgpu.map_scores
    // CHECK-NEXT: ^bb0(%{{.+}}: f32, %[[I:.+]]: index, %[[J:.+]]: index):
    // CHECK-NEXT:   %[[LAST:.+]] = affine.min #[[$LAST]](%[[I]])
    // CHECK-NEXT:   %[[VISIBLE:.+]] = arith.cmpi sle, %[[J]], %[[LAST]] : index
    // CHECK:        arith.select %[[VISIBLE]],
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        causal(top_left) scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

// CHECK-LABEL: gpu.func @foreign_kernel
// CHECK-SAME:    %[[IN:[^:]+]]: vector<16x16xf32>
gpu.module @kernels {
  gpu.func @foreign_kernel(%in: vector<16x16xf32>) kernel {
    // CHECK-NEXT: math.exp %[[IN]] : vector<16x16xf32>
    // CHECK-NEXT: gpu.return
    %e = math.exp %in : vector<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// All warps of a block walk the same tiles: the bounds are those of the block's
// 32 rows and do not depend on the warp.

// CHECK-DAG: #[[$ROW:.+]] = affine_map<(d0)[s0] -> (d0 * 16 + s0 * 32)>
// CHECK-DAG: #[[$VISIBLE_END:.+]] = affine_map<()[s0] -> (128, s0 * 32 + 32)>
// CHECK-DAG: #[[$FULL_END:.+]] = affine_map<()[s0] -> (128, s0 * 32 + 1)>

// CHECK-LABEL: gpu.func @bounds_are_those_of_the_block
// CHECK-SAME:    %[[BLOCK:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @bounds_are_those_of_the_block(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                          %block: index) kernel {
    // CHECK:      scf.forall (%[[WARP:.+]]) in (2)
    // CHECK:        %[[ROW:.+]] = affine.apply #[[$ROW]](%[[WARP]])[%[[BLOCK]]]
    // CHECK:        affine.min #[[$VISIBLE_END]]()[%[[BLOCK]]]
    // CHECK:        affine.min #[[$FULL_END]]()[%[[BLOCK]]]
    // CHECK:        fcgpu.map_scores %{{.+}}[%[[ROW]], %{{.+}}]
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    scf.forall (%warp) in (2) {
      %row = affine.apply affine_map<(d0)[s0] -> (d0 * 16 + s0 * 32)>(%warp)[%block]
      %block_row = affine.apply affine_map<()[s0] -> (s0 * 32)>()[%block]
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %block_row)
          causal(bottom_right) scale(0.176776692) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, row_max = stale, row_sum = mma>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// A stale maximum: O and the sum are rescaled only if some score exceeds its
// row's maximum by 8 in the exponent, 8 / (2 * log2(e)) in the raw score, or if
// some row is far, whose maximum is subtracted from the scores. The sum is a
// product of the rounded P with ones.

// CHECK-LABEL: gpu.func @stale_maximum
gpu.module @kernels {
  gpu.func @stale_maximum(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                          %row: index) kernel {
    // CHECK:      scf.for {{.+}} iter_args(%[[ACC:.+]] = %{{.+}}, %[[MAX:.+]] = %{{.+}}, %[[SUM:.+]] = %{{.+}})
    // CHECK:        %[[SCORES:.+]] = vector.contract
    // CHECK:        %[[NEAR:.+]] = arith.mulf %[[MAX]], %{{.+}}
    // CHECK:        %[[FARTHEST:.+]] = arith.constant dense<4.096000e+03> : vector<16xf32>
    // CHECK:        %[[IS_FAR:.+]] = arith.cmpf ogt, %{{.+}}, %[[FARTHEST]]
    // CHECK:        %[[ADDEND:.+]] = arith.select %[[IS_FAR]], %{{.+}}, %[[NEAR]]
    // CHECK:        %[[ANYTHING:.+]] = arith.constant dense<0xFF800000> : vector<16xf32>
    // CHECK:        %[[SLACK:.+]] = arith.constant dense<2.772588{{.*}}> : vector<16xf32>
    // CHECK:        %[[SUM_LIMITS:.+]] = arith.addf %[[MAX]], %[[SLACK]]
    // CHECK:        %[[LIMITS:.+]] = arith.select %[[IS_FAR]], %[[ANYTHING]], %[[SUM_LIMITS]]
    // CHECK:        %[[GROUPS:.+]] = vector.shape_cast %[[SCORES]] : vector<16x64xf32> to vector<16x8x8xf32>
    // CHECK:        %[[PARTIAL:.+]] = vector.multi_reduction <maxnumf>, %[[GROUPS]], %{{.+}} [1] : vector<16x8x8xf32> to vector<16x8xf32>
    // CHECK:        %[[LIMIT_COLUMN:.+]] = vector.shape_cast %[[LIMITS]]
    // CHECK:        %[[LIMIT_TILE:.+]] = vector.broadcast %[[LIMIT_COLUMN]]
    // CHECK:        %[[EXCEEDS:.+]] = arith.cmpf ogt, %[[PARTIAL]], %[[LIMIT_TILE]] : vector<16x8xf32>
    // CHECK:        %[[ANY:.+]] = vector.multi_reduction <or>, %[[EXCEEDS]], %{{.+}} [0, 1] : vector<16x8xi1> to i1
    // CHECK:        %[[STATE:.+]]:5 = scf.if %[[ANY]]
    // CHECK:          %[[NEW_GROUPS:.+]] = vector.shape_cast %[[SCORES]]
    // CHECK:          %[[NEW_PARTIAL:.+]] = vector.multi_reduction <maxnumf>, %[[NEW_GROUPS]], %{{.+}} [1]
    // CHECK:          %[[NEW_MAX:.+]] = vector.multi_reduction <maxnumf>, %[[NEW_PARTIAL]], %[[MAX]] [1]
    // CHECK:          %[[SAFE_MAX:.+]] = arith.select %{{.+}}, %{{.+}}, %[[NEW_MAX]]
    // CHECK:          %[[NEW_IS_FAR:.+]] = arith.cmpf ogt
    // CHECK:          %[[SUBTRAHEND:.+]] = arith.select %[[NEW_IS_FAR]], %[[SAFE_MAX]],
    // CHECK:          %[[NEW_ADDEND:.+]] = arith.select %[[NEW_IS_FAR]],
    // CHECK:          %[[NEW_ACC:.+]] = arith.mulf %[[ACC]]
    // CHECK:          %[[NEW_SUM:.+]] = arith.mulf %[[SUM]]
    // CHECK:          %[[SUBTRAHENDS:.+]] = vector.shape_cast %[[SUBTRAHEND]]
    // CHECK:          %[[SUBTRAHEND_TILE:.+]] = vector.broadcast %[[SUBTRAHENDS]]
    // CHECK:          %[[DIFFERENCES:.+]] = arith.subf %[[SCORES]], %[[SUBTRAHEND_TILE]]
    // CHECK:          scf.yield %[[NEW_ACC]], %[[NEW_MAX]], %[[NEW_SUM]], %[[DIFFERENCES]], %[[NEW_ADDEND]]
    // CHECK:        } else {
    // CHECK-NEXT:     scf.yield %[[ACC]], %[[MAX]], %[[SUM]], %[[SCORES]], %[[ADDEND]]
    // CHECK:        %[[ADDENDS:.+]] = vector.shape_cast %[[STATE]]#4
    // CHECK:        %[[ADDEND_TILE:.+]] = vector.broadcast %[[ADDENDS]]
    // CHECK:        math.fma %[[STATE]]#3, %{{.+}}, %[[ADDEND_TILE]] : vector<16x64xf32>
    // CHECK:        %[[P_HALF:.+]] = arith.truncf %{{.+}} : vector<16x64xf32> to vector<16x64xf16>
    // CHECK:        %[[ONES:.+]] = arith.constant dense<1.000000e+00> : vector<64x8xf16>
    // CHECK:        %[[SUMS:.+]] = vector.contract {{.+}} %[[P_HALF]], %[[ONES]], %[[STATE]]#2
    // CHECK:        scf.yield %{{.+}}, %[[STATE]]#1, %[[SUMS]]
    // All eight columns hold the sum.
    // CHECK:      vector.multi_reduction <maxnumf>, %{{.+}}, %{{.+}} [1] : vector<16x8xf32> to vector<16xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, row_max = folded, row_sum = mma>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// A folded maximum: the product starts at -(max + 8 / (2 * log2(e))), in whole
// steps, here of 1, of which 8 / (2 * log2(e)) are 3: what scores and what O
// follow by are then the same. Where a score is not negative, or a row has no
// sum yet (sums are negative), the state and the scores follow. P is
// exp2(c * (s + 3)). Above 1024, 4096 / (2 * log2(e)) as a power of 2, a
// product would lose its own digits: it starts there, and the rest is added in
// the branch.

// CHECK-LABEL: gpu.func @folded_maximum
gpu.module @kernels {
  gpu.func @folded_maximum(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                           %row: index) kernel {
    // CHECK:      %[[START0:.+]] = arith.constant dense<0.000000e+00> : vector<16xf32>
    // CHECK:      scf.for {{.+}} iter_args(%[[ACC:.+]] = %{{.+}}, %[[START:.+]] = %[[START0]], %[[SUM:.+]] = %{{.+}})
    // CHECK:        %[[HIGHEST:.+]] = arith.constant dense<1.024000e+03> : vector<16xf32>
    // CHECK:        %[[BEGIN:.+]] = arith.minnumf %[[START]], %[[HIGHEST]]
    // CHECK:        %[[COLUMN:.+]] = vector.shape_cast %[[BEGIN]]
    // CHECK:        %[[FROM:.+]] = vector.broadcast %[[COLUMN]] : vector<16x1xf32> to vector<16x64xf32>
    // CHECK:        %[[SCORES:.+]] = vector.contract {{.+}}, %[[FROM]]
    // CHECK:        %[[BITS:.+]] = arith.bitcast %[[SCORES]] : vector<16x64xf32> to vector<16x64xi32>
    // CHECK:        %[[CLEAR:.+]] = arith.cmpi sgt, %[[BITS]], %{{.+}} : vector<16x64xi32>
    // CHECK:        %[[GROUPS:.+]] = vector.shape_cast %[[CLEAR]] : vector<16x64xi1> to vector<16x8x8xi1>
    // CHECK:        %[[SUM_BITS:.+]] = arith.bitcast %[[SUM]] : vector<16x8xf32> to vector<16x8xi32>
    // CHECK:        %[[EMPTY:.+]] = arith.cmpi sgt, %[[SUM_BITS]], %{{.+}} : vector<16x8xi32>
    // CHECK:        %[[EXCEEDS:.+]] = vector.multi_reduction <or>, %[[GROUPS]], %[[EMPTY]] [1] : vector<16x8x8xi1> to vector<16x8xi1>
    // CHECK:        %[[IS_FAR:.+]] = arith.cmpf ogt, %[[START]], %{{.+}} : vector<16xf32>
    // CHECK:        %[[ANY_FAR:.+]] = vector.multi_reduction <or>, %[[IS_FAR]], %{{.+}} [0] : vector<16xi1> to i1
    // CHECK:        %[[ANY:.+]] = vector.multi_reduction <or>, %[[EXCEEDS]], %[[ANY_FAR]] [0, 1] : vector<16x8xi1> to i1
    // CHECK:        %[[STATE:.+]]:4 = scf.if %[[ANY]]
    // CHECK:          %[[TILE_MAX:.+]] = vector.multi_reduction <maxnumf>, %[[SCORES]]
    // CHECK:          %[[SLACK:.+]] = arith.constant dense<3.000000e+00> : vector<16xf32>
    // CHECK:          %[[RAISE:.+]] = arith.addf %[[TILE_MAX]], %[[SLACK]]
    // CHECK:          %[[BEGUN:.+]] = arith.minnumf %[[START]], %{{.+}}
    // CHECK:          %[[STEPS:.+]] = arith.mulf %[[RAISE]], %{{.+}}
    // CHECK:          %[[WHOLE:.+]] = math.ceil %[[STEPS]]
    // CHECK:          %[[STEP:.+]] = arith.constant dense<1.000000e+00> : vector<16xf32>
    // CHECK:          %[[RAISE_STEPS:.+]] = arith.mulf %[[WHOLE]], %[[STEP]]
    // CHECK:          %[[LOWER:.+]] = arith.subf %[[BEGUN]], %[[RAISE_STEPS]]
    // CHECK:          %[[FALLEN:.+]] = arith.minnumf %[[LOWER]], %[[START]]
    // CHECK:          %[[NEW_START:.+]] = arith.select %{{.+}}, %[[LOWER]], %[[FALLEN]]
    // CHECK:          %[[BETWEEN:.+]] = arith.subf %[[NEW_START]], %[[START]]
    // CHECK:          %[[EXPONENTS:.+]] = arith.mulf %[[BETWEEN]], %{{.+}}
    // CHECK:          %[[GROWTH:.+]] = math.exp2 %[[EXPONENTS]] : vector<16xf32>
    // CHECK:          %[[DIFFERENCE:.+]] = arith.subf %[[NEW_START]], %[[BEGUN]]
    // CHECK:          %[[NEW_ACC:.+]] = arith.mulf %[[ACC]]
    // CHECK:          %[[NEW_SUM:.+]] = arith.mulf %[[SUM]]
    // CHECK:          %[[DIFFERENCE_COLUMN:.+]] = vector.shape_cast %[[DIFFERENCE]]
    // CHECK:          %[[DIFFERENCE_TILE:.+]] = vector.broadcast %[[DIFFERENCE_COLUMN]]
    // CHECK:          %[[NEW_SCORES:.+]] = arith.addf %[[SCORES]], %[[DIFFERENCE_TILE]]
    // CHECK:          scf.yield %[[NEW_ACC]], %[[NEW_START]], %[[NEW_SUM]], %[[NEW_SCORES]]
    // CHECK:        } else {
    // CHECK-NEXT:     scf.yield %[[ACC]], %[[START]], %[[SUM]], %[[SCORES]]
    // CHECK:        %[[ADDEND:.+]] = arith.constant dense<8.656170{{.*}}> : vector<16x64xf32>
    // CHECK:        %[[EXPONENT:.+]] = math.fma %[[STATE]]#3, %{{.+}}, %[[ADDEND]]
    // CHECK:        math.exp2 %[[EXPONENT]]
    // CHECK:        %[[ONES:.+]] = arith.constant dense<-1.000000e+00> : vector<64x8xf16>
    // CHECK:        %[[SUMS:.+]] = vector.contract {{.+}}, %[[ONES]], %[[STATE]]#2
    // CHECK:        scf.yield %{{.+}}, %[[STATE]]#1, %[[SUMS]]
    // CHECK:      arith.negf %{{.+}} : vector<16x8xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, row_max = folded, row_sum = mma>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// A partial tile takes the branch of a growing maximum, where it is masked: one
// comparison a tile tells it from the full ones.

// CHECK-LABEL: gpu.func @folded_maximum_of_a_partial_tile
gpu.module @kernels {
  gpu.func @folded_maximum_of_a_partial_tile(%q: !qo, %k: !kv, %v: !kv,
                                             %o: !qo, %row: index) kernel {
    // CHECK:      scf.for %[[I:.+]] = {{.+}} iter_args(%[[ACC:.+]] = %{{.+}}, %[[START:.+]] = %{{.+}}, %[[SUM:.+]] = %{{.+}})
    // CHECK:        %[[SCORES:.+]] = vector.contract
    // CHECK:        %[[NUM_MASKED:.+]] = arith.constant 1 : index
    // CHECK:        %[[IS_PARTIAL:.+]] = arith.cmpi slt, %[[I]], %[[NUM_MASKED]] : index
    // CHECK-NOT:    fcgpu.skip_unless
    // CHECK:        %[[FAR_OR_PARTIAL:.+]] = vector.multi_reduction <or>, %{{.+}}, %[[IS_PARTIAL]] [0] : vector<16xi1> to i1
    // CHECK-NEXT:   %[[FOLLOWS:.+]] = vector.multi_reduction <or>, %{{.+}}, %[[FAR_OR_PARTIAL]] [0, 1] : vector<16x8xi1> to i1
    // CHECK-NEXT:   %{{.+}}:4 = scf.if %[[FOLLOWS]]
    // CHECK-NEXT:     %[[MASKED:.+]] = fcgpu.map_scores %[[SCORES]]
    // CHECK:          vector.multi_reduction <maxnumf>, %[[MASKED]],
    // CHECK:          %[[NEW_SCORES:.+]] = arith.addf %[[MASKED]]
    // CHECK:          scf.yield %{{.+}}, %{{.+}}, %{{.+}}, %[[NEW_SCORES]]
    // CHECK:        } else {
    // CHECK-NEXT:     scf.yield %[[ACC]], %[[START]], %[[SUM]], %[[SCORES]]
    // CHECK-NOT:    fcgpu.map_scores
    // CHECK:      gpu.return
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, row_max = stale, row_sum = mma>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// The same of a stale maximum, which is that of the masked scores. A warp that
// sees nothing of a tile skips it before.

// CHECK-LABEL: gpu.func @stale_maximum_of_a_partial_tile
gpu.module @kernels {
  gpu.func @stale_maximum_of_a_partial_tile(%q: !qo, %k: !kv, %v: !kv,
                                            %o: !qo) kernel
      attributes {fcgpu.schedule = #schedule} {
    // CHECK:      scf.for %[[I:.+]] = {{.+}} iter_args(%{{.+}} = %{{.+}}, %[[MAX:.+]] = %{{.+}}, %{{.+}} = %{{.+}})
    // CHECK:        %[[SCORES:.+]] = vector.contract
    // CHECK-NEXT:   %[[SEES:.+]] = arith.cmpi sge, %[[I]], %{{.+}} : index
    // CHECK-NEXT:   fcgpu.skip_unless %[[SEES]]
    // CHECK:        %[[IS_PARTIAL:.+]] = arith.cmpi slt, %[[I]], %{{.+}} : index
    // CHECK:        %[[FOLLOWS:.+]] = vector.multi_reduction <or>, %{{.+}}, %[[IS_PARTIAL]] [0, 1] : vector<16x8xi1> to i1
    // CHECK-NEXT:   %{{.+}}:5 = scf.if %[[FOLLOWS]]
    // CHECK-NEXT:     %[[MASKED:.+]] = fcgpu.map_scores %[[SCORES]]
    // CHECK:          %[[GROUPS:.+]] = vector.shape_cast %[[MASKED]] :
    // CHECK:          %[[PARTIAL_MAX:.+]] = vector.multi_reduction <maxnumf>, %[[GROUPS]], %{{.+}} [1]
    // CHECK:          vector.multi_reduction <maxnumf>, %[[PARTIAL_MAX]], %[[MAX]] [1]
    // CHECK:          %[[NEW_SCORES:.+]] = arith.subf %[[MASKED]]
    // CHECK:          scf.yield %{{.+}}, %{{.+}}, %{{.+}}, %[[NEW_SCORES]], %{{.+}}
    // CHECK-NOT:    fcgpu.map_scores
    // CHECK:      gpu.return
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    scf.forall (%warp) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 16)>(%warp)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %zero)
          causal(bottom_right) scale(0.176776692) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// The tiles of a block that are masked may lie behind the last key that one
// warp's 16 rows see.

// CHECK-DAG:   #[[$END:.+]] = affine_map<(d0) -> (128, d0 * 16 + 16)>
// CHECK-DAG:   #[[$FIRST:.+]] = affine_map<(d0) -> (-(d0 ceildiv 16) + 2)>
// CHECK-LABEL: gpu.func @masked_tile_may_be_hidden_from_a_warp
gpu.module @kernels {
  gpu.func @masked_tile_may_be_hidden_from_a_warp(%q: !qo, %k: !kv, %v: !kv,
                                                  %o: !qo) kernel
      attributes {fcgpu.schedule = #schedule} {
    // CHECK:      scf.forall (%[[WARP:.+]]) in (2)
    // CHECK:        %[[LAST:.+]] = affine.min #[[$END]](%[[WARP]])
    // CHECK:        %[[FIRST:.+]] = affine.apply #[[$FIRST]](%[[LAST]])
    // CHECK:        scf.for %[[I:[^ ]+]] =
    // CHECK:          %[[SEES:.+]] = arith.cmpi sge, %[[I]], %[[FIRST]] : index
    // CHECK-NEXT:     fcgpu.skip_unless %[[SEES]]
    // CHECK:          scf.if
    // CHECK:          fcgpu.map_scores
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    scf.forall (%warp) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 16)>(%warp)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %zero)
          causal(bottom_right) scale(0.176776692) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// A warp alone sees something of every tile of its block.

// CHECK-LABEL: gpu.func @no_tile_is_hidden_from_a_warp_alone
// CHECK-NOT:     fcgpu.skip_unless
gpu.module @kernels {
  gpu.func @no_tile_is_hidden_from_a_warp_alone(%q: !qo, %k: !kv, %v: !kv,
                                                %o: !qo) kernel
      attributes {fcgpu.schedule = #schedule} {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    scf.forall (%warp) in (1) {
      %row = affine.apply affine_map<(d0) -> (d0 * 16)>(%warp)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %zero)
          causal(bottom_right) scale(0.176776692) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
