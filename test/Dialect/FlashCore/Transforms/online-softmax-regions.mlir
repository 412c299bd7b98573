// Regions see the scaled score and whole coordinates; what the mask hides is
// -infinity. online-softmax-reads.mlir has what is read.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// CHECK-LABEL: gpu.func @both
// CHECK-SAME:    %[[ROW:[^:]+]]: index, %[[BATCH:[^:]+]]: index, %[[HEAD:[^:]+]]: index, %[[TABLE:[^:]+]]: memref<4x128xf32, strided<[1, 4]>>) kernel
gpu.module @kernels {
  gpu.func @both(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index, %batch: index, %head: index, %table: memref<4x128xf32, strided<[1, 4]>>)
      kernel {
    // CHECK:      scf.for
    // CHECK:        %[[PRODUCT:.+]] = vector.contract
    // CHECK-NEXT:   %[[SCORES:.+]] = fcgpu.map_scores %[[PRODUCT]]
    // CHECK-NEXT:   ^bb0(%[[SCORE:.+]]: f32, %[[QUERY:.+]]: index, %[[KEY:.+]]: index):
    // CHECK-DAG:      %[[TWO:.+]] = arith.constant 2.000000e+00 : f32
    // CHECK:          %[[BIAS:.+]] = memref.load %[[TABLE]][%[[HEAD]], %[[KEY]]]
    // CHECK:          %[[CHANGED:.+]] = math.fma %[[SCORE]], %[[TWO]], %[[BIAS]] : f32
    // CHECK-DAG:      %[[NARROW_QUERY:.+]] = arith.index_cast %[[QUERY]] : index to i32
    // CHECK-DAG:      %[[NARROW_KEY:.+]] = arith.index_cast %[[KEY]] : index to i32
    // CHECK:          %[[REST:.+]] = arith.remui %[[NARROW_QUERY]],
    // CHECK:          %[[VISIBLE:.+]] = arith.cmpi ne, %[[REST]], %[[NARROW_KEY]] : i32
    // CHECK:          %[[HIDDEN:.+]] = arith.constant 0xFF800000 : f32
    // CHECK:          %[[RESULT:.+]] = arith.select %[[VISIBLE]], %[[CHANGED]], %[[HIDDEN]] : f32
    // CHECK:          fcgpu.yield %[[RESULT]] : f32
    // CHECK:        vector.multi_reduction <maxnumf>, %[[SCORES]],
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %batch, head %head, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %bias = memref.load %table[%h, %j] : memref<4x128xf32, strided<[1, 4]>>
      %result = arith.addf %score, %bias : f32
      flashcore.yield %result : f32
    }
        mask {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %few = arith.constant 30 : index
      %rest = arith.remsi %i, %few : index
      %visible = arith.cmpi ne, %rest, %j : index
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
    // CHECK-DAG:      %[[NARROW_QUERY:.+]] = arith.index_cast %[[QUERY]] : index to i32
    // CHECK-DAG:      %[[NARROW_KEY:.+]] = arith.index_cast %[[KEY]] : index to i32
    // CHECK:          %[[REST:.+]] = arith.remui %[[NARROW_QUERY]],
    // CHECK:          %[[VISIBLE:.+]] = arith.cmpi ne, %[[REST]], %[[NARROW_KEY]] : i32
    // CHECK:          arith.select %[[VISIBLE]], %[[SCORE]],
    // CHECK:        arith.constant dense<2.885390e+00> : vector<16x64xf32>
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(2.000000e+00)
        mask {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %few = arith.constant 30 : index
      %rest = arith.remsi %i, %few : index
      %visible = arith.cmpi ne, %rest, %j : index
      flashcore.yield %visible : i1
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[65536, 65536, 32, 1], offset: ?>>
!kv = memref<1x1x2048x32xf16>

// Ranges of keys that lie apart: the walk counts the tiles of both, and from the
// first of the second one on passes over those between. What lies whole within
// one range has no mask, of which the region is then a part.

// CHECK-LABEL: gpu.func @ranges
gpu.module @kernels {
  gpu.func @ranges(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index, %block: index) kernel {
    // CHECK-DAG:  %[[LATER:.+]] = arith.cmpi slt, %{{.+}}, %c2 : index
    // CHECK-DAG:  %[[BEGIN:.+]] = arith.select %[[LATER]],
    // CHECK-DAG:  %[[FIRST_COUNT:.+]] = arith.subi %{{.+}}, %[[BEGIN]]
    // CHECK-DAG:  %[[END:.+]] = arith.minsi %{{.+}}, %[[BEGIN]]
    // CHECK-DAG:  %[[GAP:.+]] = arith.subi %[[BEGIN]], %[[END]]
    // CHECK-DAG:  %[[COUNT:.+]] = arith.addi %[[FIRST_COUNT]],
    // CHECK:      scf.for %[[I:.+]] = %{{.+}} to %[[COUNT]]
    // CHECK:        %[[BEHIND:.+]] = arith.cmpi sge, %[[I]], %[[FIRST_COUNT]]
    // CHECK-NEXT:   %[[PASSED:.+]] = arith.select %[[BEHIND]], %[[GAP]],
    // CHECK:        %[[KEY:.+]] = affine.apply {{.+}}(%[[I]], %[[PASSED]])
    // CHECK:        vector.transfer_read %{{.+}}[%{{.+}}, %{{.+}}, %[[KEY]],
    // CHECK:        %[[BOTH:.+]] = arith.andi
    // CHECK-NEXT:   scf.if %[[BOTH]]
    // CHECK:          fcgpu.map_scores
    // CHECK:            arith.ori
    // CHECK:        } else {
    // CHECK-NEXT:     scf.yield
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 2048 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %block)
        scale(0.176776692)
        mask {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %first = arith.constant 100 : index
      %reach = arith.constant 200 : index
      %distance = arith.subi %i, %j : index
      %size = math.absi %distance : index
      %near = arith.cmpi sle, %size, %reach : index
      %early = arith.cmpi slt, %j, %first : index
      %visible = arith.ori %near, %early : i1
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

// Formulas as people write them, in fewer cycles: coordinates of 32 bits, the
// remainder of a power of two, a factor for a divisor.

// CHECK-LABEL: gpu.func @arithmetic
gpu.module @kernels {
  gpu.func @arithmetic(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    // CHECK:        fcgpu.map_scores
    // CHECK-NEXT:   ^bb0(%[[SCORE:.+]]: f32, %[[QUERY:.+]]: index, %[[KEY:.+]]: index):
    // CHECK-DAG:      %[[I:.+]] = arith.index_cast %[[QUERY]] : index to i32
    // CHECK-DAG:      %[[J:.+]] = arith.index_cast %[[KEY]] : index to i32
    // CHECK-NOT:      index
    // CHECK:          %[[DISTANCE:.+]] = arith.subi %[[I]], %[[J]] overflow<nsw> : i32
    // CHECK:          %[[REAL:.+]] = arith.sitofp %[[DISTANCE]] : i32 to f32
    // CHECK:          %[[SIZE:.+]] = math.absf %[[REAL]]
    // CHECK:          %[[TENTH:.+]] = arith.constant 1.000000e-01 : f32
    // CHECK:          %[[PART:.+]] = arith.mulf %[[TENTH]], %{{.+}} : f32
    // CHECK:          math.fma %[[PART]], %[[SIZE]], %[[SCORE]] : f32
    // CHECK-NOT:      arith.floordivsi
    // CHECK:          %[[LOW_BITS:.+]] = arith.constant 7 : i32
    // CHECK:          %[[REST:.+]] = arith.andi %{{.+}}, %[[LOW_BITS]] : i32
    // CHECK:          arith.cmpi ne, %[[REST]], %{{.+}} : i32
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %distance = arith.subi %i, %j : index
      %size = math.absi %distance : index
      %narrow = arith.index_cast %size : index to i32
      %real = arith.sitofp %narrow : i32 to f32
      %ten = arith.constant 10.0 : f32
      %part = arith.divf %real, %ten : f32
      %result = arith.subf %score, %part : f32
      flashcore.yield %result : f32
    }
        mask {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %distance = arith.subi %i, %j : index
      %eight = arith.constant 8 : index
      %quotient = arith.floordivsi %distance, %eight : index
      %product = arith.muli %quotient, %eight : index
      %rest = arith.subi %distance, %product : index
      %zero_rest = arith.constant 0 : index
      %visible = arith.cmpi ne, %rest, %zero_rest : index
      flashcore.yield %visible : i1
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}
