// Regions see the scaled score and whole coordinates, behind softcap and bias;
// what the mask hides is -infinity. Coordinates with which something is read
// stay within the sequences.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// CHECK-LABEL: gpu.func @both
// CHECK-SAME:    %[[ROW:[^:]+]]: index, %[[BATCH:[^:]+]]: index, %[[HEAD:[^:]+]]: index, %[[TABLE:[^:]+]]: memref<4x128xf32>) kernel
gpu.module @kernels {
  gpu.func @both(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index, %batch: index, %head: index, %table: memref<4x128xf32>)
      kernel {
    // CHECK:      scf.for
    // CHECK:        %[[PRODUCT:.+]] = vector.contract
    // CHECK-NEXT:   %[[SCORES:.+]] = fcgpu.map_scores %[[PRODUCT]]
    // CHECK-NEXT:   ^bb0(%[[SCORE:.+]]: f32, %[[QUERY:.+]]: index, %[[KEY:.+]]: index):
    // CHECK:          %[[TWO:.+]] = arith.constant 2.000000e+00 : f32
    // CHECK:          %[[SCALED:.+]] = arith.mulf %[[SCORE]], %[[TWO]] : f32
    // CHECK-DAG:      %[[LAST_QUERY:.+]] = arith.minsi %[[QUERY]],
    // CHECK-DAG:      %[[LAST_KEY:.+]] = arith.minsi %[[KEY]],
    // CHECK-DAG:      %[[SOME_QUERY:.+]] = arith.maxsi %[[LAST_QUERY]],
    // CHECK-DAG:      %[[SOME_KEY:.+]] = arith.maxsi %[[LAST_KEY]],
    // CHECK:          %[[BIAS:.+]] = memref.load %[[TABLE]][%[[HEAD]], %[[SOME_KEY]]]
    // CHECK:          %[[CHANGED:.+]] = arith.addf %[[SCALED]], %[[BIAS]] : f32
    // CHECK:          %[[VISIBLE:.+]] = arith.cmpi ne, %[[SOME_QUERY]], %[[SOME_KEY]]
    // CHECK:          %[[HIDDEN:.+]] = arith.constant 0xFF800000 : f32
    // CHECK:          %[[RESULT:.+]] = arith.select %[[VISIBLE]], %[[CHANGED]], %[[HIDDEN]] : f32
    // CHECK:          fcgpu.yield %[[RESULT]] : f32
    // CHECK:        vector.multi_reduction <maxnumf>, %[[SCORES]],
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        tile(%batch, %head, %row, %seqlen, %zero, %seqlen, %seqlen, %row)
        scale(2.000000e+00) score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %bias = memref.load %table[%h, %j] : memref<4x128xf32>
      %result = arith.addf %score, %bias : f32
      flashcore.yield %result : f32
    } mask {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %visible = arith.cmpi ne, %i, %j : index
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

// A mask of coordinates alone leaves the score as it is: the scale is that of
// the exponentials. Nothing is read, so nothing is cut.

// CHECK-LABEL: gpu.func @mask
gpu.module @kernels {
  gpu.func @mask(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    // CHECK:        fcgpu.map_scores
    // CHECK-NEXT:   ^bb0(%[[SCORE:.+]]: f32, %[[QUERY:.+]]: index, %[[KEY:.+]]: index):
    // CHECK-NOT:      arith.mulf
    // CHECK-NOT:      arith.minsi
    // CHECK:          %[[VISIBLE:.+]] = arith.cmpi ne, %[[QUERY]], %[[KEY]]
    // CHECK:          arith.select %[[VISIBLE]], %[[SCORE]],
    // CHECK:        arith.constant dense<2.885390e+00> : vector<16x64xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        tile(%zero, %zero, %row, %seqlen, %zero, %seqlen, %seqlen, %row)
        scale(2.000000e+00) mask {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %visible = arith.cmpi ne, %i, %j : index
      flashcore.yield %visible : i1
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}
