// A tile of scores is one product, changed and hidden as those of an attention,
// and written as it is.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64, num_warps = 2, num_stages = 2,
  query = registers, grid_order = query_fastest, min_blocks = 0>
!q = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!k = memref<1x1x128x32xf16>
!s = memref<1x1x16x128xf32, strided<[16384, 16384, 128, 1], offset: ?>>

// Whole tiles, so that no column is compared with the end; the scale is last.

// CHECK-LABEL: gpu.func @scaled
// CHECK-SAME:    (%[[Q:[^:]+]]: {{.+}}, %[[K:[^:]+]]: memref<1x1x128x32xf16>, %[[S:[^:]+]]: {{.+}}, %[[ROW:[^:]+]]: index,
gpu.module @kernels {
  gpu.func @scaled(%q: !q, %k: !k, %s: !s, %row: index, %number: index) kernel {
    // CHECK:      %[[KEY:.+]] = affine.apply
    // CHECK:      %[[QUERY:.+]] = vector.transfer_read %[[Q]]{{.+}} vector<16x32xf16>
    // CHECK:      %[[KEYS:.+]] = vector.transfer_read %[[K]][%{{.+}}, %{{.+}}, %[[KEY]], %{{.+}}]{{.+}} {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>
    // CHECK:      %[[DOTS:.+]] = vector.contract {{.+}} %[[QUERY]], %[[KEYS]], %{{.+}} into vector<16x64xf32>
    // CHECK-NOT:  fcgpu.map_scores
    // CHECK:      %[[SCALE:.+]] = arith.constant dense<5.000000e-01>
    // CHECK:      %[[SCORES:.+]] = arith.mulf %[[DOTS]], %[[SCALE]] : vector<16x64xf32>
    // CHECK:      vector.transfer_write %[[SCORES]], %[[S]][%{{.+}}, %{{.+}}, %{{.+}}, %[[KEY]]] {in_bounds = [false, true]}
    // CHECK-NOT:  flashcore.attention
    // CHECK:      gpu.return
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    %key = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%number]
    %end = affine.apply affine_map<()[s0] -> (s0 * 64 + 64)>()[%number]
    flashcore.scores_tile ins(%q, %k : !q, !k) outs(%s : !s)
        at(batch %zero, head %zero, query %row of %seqlen, key %key to %end of %seqlen, block %row) scale(0.5)
        stage(scaled) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64, num_warps = 2, num_stages = 2,
  query = registers, grid_order = query_fastest, min_blocks = 0>
!q = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!k = memref<1x1x?x32xf16>
!s = memref<1x1x16x?xf16, strided<[?, ?, ?, 1], offset: ?>>

// Keys behind the end of the sequence are 0 where nothing hides them yet.

// CHECK-LABEL: gpu.func @capped
// CHECK-SAME:    %[[SEQLEN:[^:]+]]: index)
gpu.module @kernels {
  gpu.func @capped(%q: !q, %k: !k, %s: !s, %row: index, %key: index, %end: index, %seqlen: index) kernel {
    // CHECK:      %[[DOTS:.+]] = vector.contract
    // CHECK:      %[[CAPPED:.+]] = fcgpu.map_scores %[[DOTS]]
    // CHECK:        math.tanh
    // CHECK:      fcgpu.map_scores %[[CAPPED]]
    // CHECK-NEXT: ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %[[COLUMN:.+]]: index):
    // CHECK:        %[[EXISTS:.+]] = arith.cmpi slt, %[[COLUMN]], %[[SEQLEN]]
    // CHECK:        arith.select %[[EXISTS]], %[[SCORE]], %{{.+}} : f32
    // CHECK:      arith.mulf
    // CHECK:      %[[ROUNDED:.+]] = arith.truncf %{{.+}} : vector<16x64xf32> to vector<16x64xf16>
    // CHECK:      vector.transfer_write %[[ROUNDED]], {{.+}} : vector<16x64xf16>
    // CHECK-NOT:  in_bounds
    %zero = arith.constant 0 : index
    flashcore.scores_tile ins(%q, %k : !q, !k) outs(%s : !s)
        at(batch %zero, head %zero, query %row of %seqlen, key %key to %end of %seqlen, block %row)
        scale(0.176776692) stage(capped)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %third = arith.constant 0.33333334 : f32
      %ratio = arith.mulf %score, %third : f32
      %tanh = math.tanh %ratio : f32
      %cap = arith.constant 3.0 : f32
      %capped = arith.mulf %tanh, %cap : f32
      flashcore.yield %capped : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64, num_warps = 2, num_stages = 2,
  query = registers, grid_order = query_fastest, min_blocks = 0>
!q = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!k = memref<1x1x100x32xf16>
!s = memref<1x1x16x100xf32, strided<[?, ?, ?, 1], offset: ?>>

// A row whose log-sum-exp is -inf sees nothing: 0, not NaN. The difference from the
// scaled score is rounded once, before it is an exponent of 2: of large scores each
// product would be rounded by more than that. So would LSE, which is two numbers.

// CHECK-LABEL: gpu.func @probabilities
// CHECK-SAME:    %[[LSE:[^:]+]]: memref<2x8x128xf32>, %[[REST:[^:]+]]: memref<2x8x128xf32>, %[[BATCH:[^:]+]]: index, %[[HEAD:[^:]+]]: index
gpu.module @kernels {
  gpu.func @probabilities(%q: !q, %k: !k, %s: !s, %lse: memref<2x8x128xf32>, %rest: memref<2x8x128xf32>, %batch: index, %head: index,
                          %row: index, %key: index) kernel {
    // CHECK:      %[[DOTS:.+]] = vector.contract
    // CHECK:      %[[MASKED:.+]] = fcgpu.map_scores %[[DOTS]]
    // CHECK:        arith.select %{{.+}}, %{{.+}}, %{{.+}} : f32
    // CHECK:      %[[WEIGHTS:.+]] = fcgpu.map_scores %[[MASKED]]
    // CHECK-NEXT: ^bb0(%[[SCORE:.+]]: f32, %[[QUERY:.+]]: index, %{{.+}}: index):
    // CHECK:        %[[INSIDE:.+]] = arith.minui %[[QUERY]], %{{.+}} : index
    // CHECK:        %[[OF_ROW:.+]] = memref.load %[[LSE]][%[[BATCH]], %[[HEAD]], %[[INSIDE]]]
    // CHECK:        %[[IS_EMPTY:.+]] = arith.cmpf oeq, %[[OF_ROW]],
    // CHECK:        %[[SAFE:.+]] = arith.select %[[IS_EMPTY]], %{{.+}}, %[[OF_ROW]]
    // CHECK:        %[[MINUS_LSE:.+]] = arith.negf %[[SAFE]]
    // CHECK:        %[[BELOW:.+]] = math.fma %[[SCORE]], %{{.+}}, %[[MINUS_LSE]]
    // CHECK:        %[[REST_OF_ROW:.+]] = memref.load %[[REST]][%[[BATCH]], %[[HEAD]], %[[INSIDE]]]
    // CHECK:        %[[BELOW_BOTH:.+]] = arith.subf %[[BELOW]], %[[REST_OF_ROW]]
    // CHECK:        %[[LOG2E:.+]] = arith.constant 1.442695{{.*}} : f32
    // CHECK:        %[[EXPONENT:.+]] = arith.mulf %[[BELOW_BOTH]], %[[LOG2E]]
    // CHECK:        math.exp2 %[[EXPONENT]]
    // CHECK:      vector.transfer_write %[[WEIGHTS]],
    %seqlen_q = arith.constant 128 : index
    %seqlen = arith.constant 100 : index
    flashcore.scores_tile ins(%q, %k : !q, !k) lse(%lse : memref<2x8x128xf32>)
        lse_rest(%rest : memref<2x8x128xf32>) outs(%s : !s)
        at(batch %batch, head %head, query %row of %seqlen_q, key %key to %seqlen of %seqlen, block %row)
        causal(top_left) scale(0.176776692) stage(probabilities) {fcgpu.schedule = #schedule}
    gpu.return
  }
}
