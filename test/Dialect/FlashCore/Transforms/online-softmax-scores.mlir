// What a region makes of every score comes before the mask. The softmax scale
// and the factors of a formula go where they cost least: at its end into the
// exponentials and the log-sum-exp.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>
!lse = memref<1x1x16xf32, strided<[128, 128, 1], offset: ?>>

// 4 tanh(2 s / 4): the region computes tanh(s / 2), and the 4 is the scale of
// the softmax; 4 log2(e) = 5.77078.

// CHECK-LABEL: gpu.func @softcap
// CHECK-SAME:    %[[ROW:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @softcap(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %lse: !lse, %row: index)
      kernel {
    // CHECK:      %[[STATE:.+]]:3 = scf.for
    // CHECK:        %[[KEY:.+]] = affine.apply
    // CHECK:        %[[PRODUCT:.+]] = vector.contract
    // CHECK-NEXT:   %[[SCORES:.+]] = fcgpu.map_scores %[[PRODUCT]][%[[ROW]], %[[KEY]]]
    // CHECK-NEXT:   ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %{{.+}}: index):
    // CHECK-NEXT:     %[[HALF:.+]] = arith.constant 5.000000e-01 : f32
    // CHECK-NEXT:     %[[SCALED:.+]] = arith.mulf %[[SCORE]], %[[HALF]] fastmath<contract> : f32
    // CHECK:          %[[CAPPED:.+]] = math.tanh %[[SCALED]] : f32
    // CHECK:          fcgpu.yield %[[CAPPED]] : f32
    // CHECK-NOT:    scf.if
    // CHECK:        vector.multi_reduction <maxnumf>, %[[SCORES]],
    // CHECK:        %[[RELATED:.+]]:3 = scf.if
    // CHECK:        } else {
    // CHECK:          scf.yield %[[SCORES]],
    // CHECK:        %[[C:.+]] = arith.constant dense<5.770780e+00> : vector<16x64xf32>
    // CHECK:        math.fma %[[RELATED]]#0, %[[C]],
    // CHECK:      %[[CAP:.+]] = arith.constant dense<4.000000e+00> : vector<16xf32>
    // CHECK:      math.fma %[[STATE]]#1, %[[CAP]],
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo) lse(%lse : !lse)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %quarter = arith.constant 0.25 : f32
      %ratio = arith.mulf %score, %quarter : f32
      %tanh = math.tanh %ratio : f32
      %cap = arith.constant 4.0 : f32
      %capped = arith.mulf %tanh, %cap : f32
      flashcore.yield %capped : f32
    } {fcgpu.schedule = #schedule}
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
!bias = memref<3x1x128x128xf16, strided<[16383, 16383, 1, 128]>>

// 2 s + bias, so nothing is left of the scale. No row or key is past the end.

// CHECK-LABEL: gpu.func @bias
// CHECK-SAME:    %[[BIAS:[^:]+]]: memref<3x1x128x128xf16, strided<[16383, 16383, 1, 128]>>, %[[BATCH:[^:]+]]: index, %{{[^:]+}}: index, %{{[^:]+}}: index) kernel
gpu.module @kernels {
  gpu.func @bias(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %lse: !lse, %bias: !bias,
                 %batch: index, %head: index, %row: index) kernel {
    // CHECK:      %[[STATE:.+]]:3 = scf.for
    // CHECK:        %[[SCORES:.+]] = fcgpu.map_scores
    // CHECK-NEXT:   ^bb0(%[[SCORE:.+]]: f32, %[[QUERY:.+]]: index, %[[J:.+]]: index):
    // CHECK:          %[[SCALE:.+]] = arith.constant 2.000000e+00 : f32
    // CHECK:          %[[VALUE:.+]] = memref.load %[[BIAS]][%[[BATCH]], %{{.+}}, %[[QUERY]], %[[J]]]
    // CHECK-NEXT:     %[[ADDED:.+]] = arith.extf %[[VALUE]] : f16 to f32
    // CHECK-NEXT:     %[[RESULT:.+]] = math.fma %[[SCORE]], %[[SCALE]], %[[ADDED]] : f32
    // CHECK-NEXT:     fcgpu.yield %[[RESULT]] : f32
    // CHECK:        %[[RELATED:.+]]:3 = scf.if
    // CHECK:        } else {
    // CHECK:          scf.yield %[[SCORES]],
    // CHECK:        %[[C:.+]] = arith.constant dense<1.44269502> : vector<16x64xf32>
    // CHECK:        math.fma %[[RELATED]]#0, %[[C]],
    // CHECK:      math.log2
    // CHECK:      %[[ONE:.+]] = arith.constant dense<1.000000e+00> : vector<16xf32>
    // CHECK:      math.fma %[[STATE]]#1, %[[ONE]],
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo) lse(%lse : !lse)
        at(batch %batch, head %head, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %first = arith.constant 0 : index
      %half = memref.load %bias[%b, %first, %i, %j] : !bias
      %bias_value = arith.extf %half : f16 to f32
      %sum = arith.addf %score, %bias_value : f32
      flashcore.yield %sum : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>
!bias = memref<1x8x1x?xf32>

// A bias of one row is the same for all queries. One of f32 is not extended.
// Keys past the end read the last one.

// CHECK-DAG: #[[$LAST:.+]] = affine_map<()[s0] -> (s0 - 1, 0)>

// CHECK-LABEL: gpu.func @bias_of_one_row
// CHECK-SAME:    %[[BIAS:[^:]+]]: memref<1x8x1x?xf32>, %{{[^:]+}}: index, %[[HEAD:[^:]+]]: index, %{{[^:]+}}: index, %[[SEQLEN_K:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @bias_of_one_row(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %bias: !bias,
                            %batch: index, %head: index, %row: index,
                            %seqlen_k: index) kernel {
    // CHECK:      scf.if
    // CHECK:        fcgpu.map_scores
    // CHECK:      } else {
    // CHECK:        fcgpu.map_scores
    // CHECK-NEXT: ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %[[J:.+]]: index):
    // CHECK:        %[[LAST:.+]] = affine.max #[[$LAST]]()[%[[SEQLEN_K]]]
    // CHECK-NEXT:   %[[KEY:.+]] = arith.minui %[[J]], %[[LAST]] : index
    // CHECK:        %[[VALUE:.+]] = memref.load %[[BIAS]][%[[FIRST:.+]], %[[HEAD]], %[[FIRST]], %[[KEY]]]
    // CHECK-NEXT:   math.fma %[[SCORE]], %{{.+}}, %[[VALUE]] : f32
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %batch, head %head, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        scale(0.176776692)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %first = arith.constant 0 : index
      %bias_value = memref.load %bias[%first, %h, %first, %j] : !bias
      %sum = arith.addf %score, %bias_value : f32
      flashcore.yield %sum : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>
!bias = memref<?x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>

// 4 tanh(2 s / 4) + bias: neither the scale nor the cap goes through the sum.

// CHECK-LABEL: gpu.func @sum_of_a_product
// CHECK-SAME:    %[[BIAS:[^:]+]]: memref<?x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>
gpu.module @kernels {
  gpu.func @sum_of_a_product(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %bias: !bias, %batch: index,
      %head: index, %row: index) kernel {
    // CHECK:      %[[SCORES:.+]] = fcgpu.map_scores
    // CHECK-NEXT: ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %{{.+}}: index):
    // CHECK:        %[[HALF:.+]] = arith.constant 5.000000e-01 : f32
    // CHECK-NEXT:   %[[RATIO:.+]] = arith.mulf %[[SCORE]], %[[HALF]] fastmath<contract> : f32
    // CHECK:        %[[TANH:.+]] = math.tanh %[[RATIO]] : f32
    // CHECK:        %[[CAPPED:.+]] = arith.mulf %[[TANH]], %{{.+}} fastmath<contract> : f32
    // CHECK:        %[[VALUE:.+]] = memref.load %[[BIAS]]
    // CHECK-NEXT:   %[[SUM:.+]] = arith.addf %[[CAPPED]], %[[VALUE]] fastmath<contract> : f32
    // CHECK-NEXT:   fcgpu.yield %[[SUM]] : f32
    // CHECK:      arith.constant dense<1.442695{{.*}}> : vector<16x64xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %batch, head %head, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %quarter = arith.constant 0.25 : f32
      %ratio = arith.mulf %score, %quarter : f32
      %tanh = math.tanh %ratio : f32
      %cap = arith.constant 4.0 : f32
      %capped = arith.mulf %tanh, %cap : f32
      %bias_value = memref.load %bias[%b, %h, %i, %j] : !bias
      %sum = arith.addf %capped, %bias_value : f32
      flashcore.yield %sum : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x100x32xf16>

// Scores change in every tile, and before the mask: -inf stays -inf.

// CHECK-LABEL: gpu.func @full_tiles_have_changed_scores_and_no_mask
gpu.module @kernels {
  gpu.func @full_tiles_have_changed_scores_and_no_mask(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    // CHECK:      %[[PRODUCT:.+]] = vector.contract
    // CHECK-NEXT: %[[SCORES:.+]] = fcgpu.map_scores %[[PRODUCT]]
    // CHECK:        math.tanh
    // CHECK:      %[[VISIBLE_SCORES:.+]] = scf.if
    // CHECK-NEXT:   %[[MASKED:.+]] = fcgpu.map_scores %[[SCORES]]
    // CHECK-NOT:      math.tanh
    // CHECK:        scf.yield %[[MASKED]]
    // CHECK-NEXT: } else {
    // CHECK-NEXT:   scf.yield %[[SCORES]]
    // CHECK:      vector.multi_reduction <maxnumf>, %[[VISIBLE_SCORES]],
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 128 : index
    %seqlen_k = arith.constant 100 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        scale(0.176776692)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %quarter = arith.constant 0.25 : f32
      %ratio = arith.mulf %score, %quarter : f32
      %tanh = math.tanh %ratio : f32
      %cap = arith.constant 4.0 : f32
      %capped = arith.mulf %tanh, %cap : f32
      flashcore.yield %capped : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// CHECK-LABEL: gpu.func @scores_are_not_changed_without_need
gpu.module @kernels {
  gpu.func @scores_are_not_changed_without_need(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    // CHECK-NOT: fcgpu.map_scores
    // CHECK:     gpu.return
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
!kv = memref<1x1x128x32xf16>

// 2 s - m d, with m of the row: the factor of d takes the scale away, and the
// exponentials have it, 2 log2(e) = 2.88539.

// CHECK-LABEL: gpu.func @sum_with_a_product_of_the_row
// CHECK-SAME:    %[[SLOPES:[^:]+]]: memref<8xf32>, %{{[^:]+}}: index, %[[HEAD:[^:]+]]: index
gpu.module @kernels {
  gpu.func @sum_with_a_product_of_the_row(
      %q: !qo, %k: !kv, %v: !kv, %o: !qo, %slopes: memref<8xf32>, %batch: index, %head: index, %row: index) kernel {
    // CHECK:      %[[SCORES:.+]] = fcgpu.map_scores
    // CHECK-NEXT: ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %[[KEY:.+]]: index):
    // CHECK:        %[[DISTANCE:.+]] = arith.sitofp
    // CHECK:        %[[SLOPE:.+]] = memref.load %[[SLOPES]][%[[HEAD]]]
    // CHECK:        %[[PART:.+]] = arith.constant -5.000000e-01 : f32
    // CHECK:        %[[FACTOR:.+]] = arith.mulf %[[SLOPE]], %[[PART]] : f32
    // CHECK-NEXT:   %[[SUM:.+]] = math.fma %[[FACTOR]], %[[DISTANCE]], %[[SCORE]] : f32
    // CHECK-NEXT:   fcgpu.yield %[[SUM]] : f32
    // CHECK:      arith.constant dense<2.885390{{.*}}> : vector<16x64xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %batch, head %head, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %steps = arith.subi %i, %j : index
      %narrow = arith.index_cast %steps : index to i32
      %distance = arith.sitofp %narrow : i32 to f32
      %slope = memref.load %slopes[%h] : memref<8xf32>
      %fall = arith.mulf %distance, %slope : f32
      %sum = arith.subf %score, %fall : f32
      flashcore.yield %sum : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// A factor alone is one of the exponentials, 6 log2(e) = 8.65617, but one that
// turns the order of the scores round.

// CHECK-LABEL: gpu.func @factors
// CHECK-NOT:     fcgpu.map_scores
// CHECK:         arith.constant dense<8.656170{{.*}}> : vector<16x64xf32>
// CHECK-LABEL: gpu.func @negative_factor
// CHECK:         %[[FACTOR:.+]] = arith.constant -6.000000e+00 : f32
// CHECK:         arith.mulf %{{.+}}, %[[FACTOR]]
// CHECK:         arith.constant dense<1.442695{{.*}}> : vector<16x64xf32>
gpu.module @kernels {
  gpu.func @factors(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %three = arith.constant 3.0 : f32
      %product = arith.mulf %three, %score : f32
      flashcore.yield %product : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
  gpu.func @negative_factor(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %three = arith.constant -3.0 : f32
      %product = arith.mulf %three, %score : f32
      flashcore.yield %product : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// A mask that looks at the score sees all of it.

// CHECK-LABEL: gpu.func @compared_score
// CHECK:         %[[SIX:.+]] = arith.constant 6.000000e+00 : f32
// CHECK:         %[[SCORE:.+]] = arith.mulf %{{.+}}, %[[SIX]]
// CHECK:         arith.cmpf ogt, %[[SCORE]],
// CHECK:         arith.constant dense<1.442695{{.*}}> : vector<16x64xf32>
gpu.module @kernels {
  gpu.func @compared_score(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %three = arith.constant 3.0 : f32
      %product = arith.mulf %score, %three : f32
      flashcore.yield %product : f32
    }
        mask {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %least = arith.constant -1.0 : f32
      %visible = arith.cmpf ogt, %score, %least : f32
      flashcore.yield %visible : i1
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// The least f32, doubled, is -inf, which hides a key: a factor stays behind what
// is loaded as f32. What cannot overflow lets it go, 2 log2(e) = 2.88539: halves
// of anything, numbers of f16, and -inf.

// CHECK-LABEL: gpu.func @twice_an_f32
// CHECK:         arith.constant 2.000000e+00 : f32
// CHECK:         %[[TWICE:.+]] = arith.mulf
// CHECK:         fcgpu.yield %[[TWICE]]
// CHECK:         arith.constant dense<1.442695{{.*}}> : vector<16x64xf32>
// CHECK-LABEL: gpu.func @twice_half_an_f32
// CHECK:         %[[TWICE:.+]] = arith.mulf
// CHECK:         fcgpu.yield %[[TWICE]]
// CHECK:         arith.constant dense<0.72134{{.*}}> : vector<16x64xf32>
// CHECK-LABEL: gpu.func @half_an_f32
// CHECK-NOT:     arith.mulf {{.*}} : f32
// CHECK:         arith.constant dense<0.72134{{.*}}> : vector<16x64xf32>
// CHECK-LABEL: gpu.func @twice_an_f16
// CHECK-NOT:     arith.mulf {{.*}} : f32
// CHECK:         arith.constant dense<2.885390{{.*}}> : vector<16x64xf32>
// CHECK-LABEL: gpu.func @twice_a_mask
// CHECK-NOT:     arith.mulf {{.*}} : f32
// CHECK:         arith.constant dense<2.885390{{.*}}> : vector<16x64xf32>
gpu.module @kernels {
  gpu.func @twice_an_f32(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %masks: memref<128xf32>, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(1.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %mask = memref.load %masks[%j] : memref<128xf32>
      %sum = arith.addf %score, %mask : f32
      %two = arith.constant 2.0 : f32
      %product = arith.mulf %sum, %two : f32
      flashcore.yield %product : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
  gpu.func @twice_half_an_f32(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %masks: memref<128xf32>, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(1.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %mask = memref.load %masks[%j] : memref<128xf32>
      %sum = arith.addf %score, %mask : f32
      %two = arith.constant 2.0 : f32
      %half = arith.constant 0.5 : f32
      %twice = arith.mulf %sum, %two : f32
      %product = arith.mulf %twice, %half : f32
      flashcore.yield %product : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
  gpu.func @half_an_f32(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %masks: memref<128xf32>, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(1.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %mask = memref.load %masks[%j] : memref<128xf32>
      %sum = arith.addf %score, %mask : f32
      %half = arith.constant 0.5 : f32
      %product = arith.mulf %sum, %half : f32
      flashcore.yield %product : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
  gpu.func @twice_an_f16(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %masks: memref<128xf16>, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(1.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %mask = memref.load %masks[%j] : memref<128xf16>
      %wide = arith.extf %mask : f16 to f32
      %sum = arith.addf %score, %wide : f32
      %two = arith.constant 2.0 : f32
      %product = arith.mulf %sum, %two : f32
      flashcore.yield %product : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
  gpu.func @twice_a_mask(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %masks: memref<128xf32>, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(1.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %hidden = arith.constant 0xFF800000 : f32
      %visible = arith.cmpi sle, %j, %i : index
      %sum = arith.select %visible, %score, %hidden : f32
      %two = arith.constant 2.0 : f32
      %product = arith.mulf %sum, %two : f32
      flashcore.yield %product : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// A slope over the scale, of 1/8, may be more than the largest f32: then it is
// that, so that a distance of 0 adds 0. What is no number of coordinates may
// overflow sooner than in the formula, and the factor stays.

// CHECK-LABEL: gpu.func @steep
// CHECK:         %[[SLOPE:.+]] = memref.load
// CHECK:         %[[EIGHT:.+]] = arith.constant -8.000000e+00 : f32
// CHECK:         %[[FACTOR:.+]] = arith.mulf %[[SLOPE]], %[[EIGHT]]
// CHECK:         %[[IS_LOST:.+]] = arith.andi
// CHECK:         %[[IS_POSITIVE:.+]] = arith.cmpf ogt, %[[FACTOR]],
// CHECK:         %[[LARGEST:.+]] = arith.select %[[IS_POSITIVE]],
// CHECK:         %[[SAFE:.+]] = arith.select %[[IS_LOST]], %[[LARGEST]], %[[FACTOR]]
// CHECK:         math.fma %[[SAFE]],
// CHECK-LABEL: gpu.func @steps_beside_twice_an_f32
// CHECK:         %[[TWO:.+]] = arith.constant 2.000000e+00 : f32
// CHECK:         %[[MASKED:.+]] = math.fma
// CHECK:         %[[TWICE:.+]] = arith.mulf %[[MASKED]], %[[TWO]]
// CHECK:         arith.addf %[[TWICE]],
// CHECK-LABEL: gpu.func @weights_of_masks
// CHECK-NOT:     arith.select {{.*}} : f32
// CHECK:         arith.constant dense<1.442695{{.*}}> : vector<16x64xf32>
gpu.module @kernels {
  gpu.func @steep(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %masks: memref<128xf32>, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(1.250000e-01)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %steps = arith.subi %i, %j : index
      %narrow = arith.index_cast %steps : index to i32
      %distance = arith.sitofp %narrow : i32 to f32
      %slope = memref.load %masks[%h] : memref<128xf32>
      %fall = arith.mulf %distance, %slope : f32
      %sum = arith.subf %score, %fall : f32
      flashcore.yield %sum : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
  gpu.func @steps_beside_twice_an_f32(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %masks: memref<128xf32>, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(1.250000e-01)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %steps = arith.subi %i, %j : index
      %narrow = arith.index_cast %steps : index to i32
      %distance = arith.sitofp %narrow : i32 to f32
      %slope = memref.load %masks[%h] : memref<128xf32>
      %mask = memref.load %masks[%j] : memref<128xf32>
      %two = arith.constant 2.0 : f32
      %masked = arith.addf %score, %mask : f32
      %twice = arith.mulf %masked, %two : f32
      %fall = arith.mulf %slope, %distance : f32
      %sum = arith.addf %twice, %fall : f32
      flashcore.yield %sum : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
  gpu.func @weights_of_masks(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %masks: memref<128xf32>, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(1.250000e-01)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %weight = memref.load %masks[%h] : memref<128xf32>
      %mask = memref.load %masks[%j] : memref<128xf32>
      %fall = arith.mulf %weight, %mask : f32
      %sum = arith.addf %score, %fall : f32
      flashcore.yield %sum : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}
