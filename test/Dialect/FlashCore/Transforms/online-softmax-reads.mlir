// What is read by coordinates: those past the ends are cut, but a tile that lies
// whole in front of them has a map_scores of its own, without cuts. Loads of
// what is side by side for neighbouring keys are marked there, if addresses
// allow pairs.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s
// RUN: sed 's/min_blocks = 0/min_blocks = 0, invariance = batch/' %s | flashcore-opt - -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s --check-prefix=INVARIANT

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>
!shown = memref<128x128xi8>

// Of fixed sizes and strides, the address alone is asked: no tile reaches past
// the keys. Where the bits of a row must not depend on others, there is one way.

// CHECK-LABEL:     gpu.func @pairs
// CHECK-SAME:        %[[SHOWN:[^:]+]]: memref<128x128xi8>) kernel
// INVARIANT-LABEL: gpu.func @pairs
gpu.module @kernels {
  gpu.func @pairs(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index, %shown: !shown) kernel {
    // CHECK:      vector.contract
    // CHECK:      %[[ADDRESS:.+]] = memref.extract_aligned_pointer_as_index %[[SHOWN]]
    // CHECK:      %[[REST:.+]] = arith.andi %[[ADDRESS]], %c1
    // CHECK:      %[[ALIGNED:.+]] = arith.cmpi eq, %[[REST]], %c0
    // CHECK:      scf.if %[[ALIGNED]]
    // CHECK-NEXT:   fcgpu.map_scores
    // CHECK-NEXT:   ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[KEY:.+]]: index):
    // CHECK:          memref.load %[[SHOWN]][%[[QUERY]], %[[KEY]]] {fcgpu.paired}
    // CHECK:      } else {
    // CHECK-NEXT:   fcgpu.map_scores
    // CHECK-NEXT:   ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[KEY:.+]]: index):
    // CHECK:          %[[INSIDE:.+]] = arith.minui %[[QUERY]],
    // CHECK:          memref.load %[[SHOWN]][%[[INSIDE]], %[[KEY]]] : memref<128x128xi8>
    // INVARIANT-NOT: scf.if
    // INVARIANT:     fcgpu.map_scores
    // INVARIANT:       %[[QUERY:.+]] = arith.minui
    // INVARIANT:       %[[KEY:.+]] = arith.minui
    // INVARIANT:       memref.load %{{.+}}[%[[QUERY]], %[[KEY]]] : memref<128x128xi8>
    // INVARIANT-NOT: fcgpu.map_scores
    // INVARIANT:     gpu.return
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692)
        mask {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %none = arith.constant 0 : i8
      %byte = memref.load %shown[%i, %j] : !shown
      %visible = arith.cmpi ne, %byte, %none : i8
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
!kv = memref<1x1x?x32xf16>
!table = memref<?x?xf16, strided<[?, 1], offset: ?>>

// Open sizes and strides are asked as the kernel runs; without keys nothing is
// read.

// CHECK-LABEL: gpu.func @open_sizes
// CHECK-SAME:    %[[ROW:[^:]+]]: index, %[[SEQLEN_Q:[^:]+]]: index, %[[SEQLEN_K:[^:]+]]: index, %[[TABLE:[^:]+]]: memref<?x?xf16, strided<[?, 1], offset: ?>>) kernel
gpu.module @kernels {
  gpu.func @open_sizes(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index, %seqlen_q: index, %seqlen_k: index,
                       %table: !table) kernel {
    // CHECK:      %[[SCORES:.+]] = vector.contract
    // CHECK:      %[[ROWS:.+]] = affine.apply #{{.+}}()[%[[ROW]]]
    // CHECK:      %[[HAS_ROWS:.+]] = arith.cmpi sle, %[[ROWS]], %[[SEQLEN_Q]]
    // CHECK:      %[[HAS_KEYS:.+]] = arith.cmpi sle, %{{.+}}, %[[SEQLEN_K]]
    // CHECK:      %[[WHOLE:.+]] = arith.andi %[[HAS_ROWS]], %[[HAS_KEYS]]
    // CHECK:      %{{.+}}, %[[OFFSET:.+]], %{{.+}}:2, %[[STRIDES:.+]]:2 = memref.extract_strided_metadata %[[TABLE]]
    // CHECK:      %[[ADDRESS:.+]] = memref.extract_aligned_pointer_as_index %[[TABLE]]
    // CHECK:      %[[START:.+]] = affine.apply #{{.+}}(%[[ADDRESS]], %[[OFFSET]])
    // CHECK:      %[[STRIDE:.+]] = affine.apply #{{.+}}(%[[STRIDES]]#0)
    // CHECK:      %[[BITS:.+]] = arith.ori %[[START]], %[[STRIDE]]
    // CHECK:      %[[REST:.+]] = arith.andi %[[BITS]], %c3
    // CHECK:      %[[ALIGNED:.+]] = arith.cmpi eq, %[[REST]], %c0
    // CHECK:      %[[BOTH:.+]] = arith.andi %[[WHOLE]], %[[ALIGNED]]
    // CHECK:      scf.if %[[BOTH]]
    // CHECK-NEXT:   fcgpu.map_scores %[[SCORES]]
    // CHECK-NEXT:   ^bb0(%{{.+}}: f32, %[[QUERY:.+]]: index, %[[KEY:.+]]: index):
    // CHECK:          memref.load %[[TABLE]][%[[QUERY]], %[[KEY]]] {fcgpu.paired}
    // CHECK:      } else {
    // CHECK:        %[[IS_SOME:.+]] = arith.cmpi sgt, %[[SEQLEN_K]], %c0
    // CHECK:        scf.if %[[IS_SOME]]
    // CHECK:          fcgpu.map_scores %[[SCORES]]
    // CHECK:            memref.load {{.+}} : memref<?x?xf16,
    // CHECK:        } else {
    // CHECK-NEXT:     scf.yield %[[SCORES]]
    %zero = arith.constant 0 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %row)
        scale(0.176776692)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %half = memref.load %table[%i, %j] : !table
      %bias = arith.extf %half : f16 to f32
      %result = arith.addf %score, %bias : f32
      flashcore.yield %result : f32
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

// No pairs: an odd distance from the key, rows an odd number of elements apart,
// and what lies the other way round.

// CHECK-LABEL: gpu.func @no_pairs
gpu.module @kernels {
  gpu.func @no_pairs(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index, %odd: memref<130xf32>, %rows: memref<128x129xf32>,
                     %distances: memref<300xf32>) kernel {
    // CHECK-NOT: scf.if
    // CHECK:     fcgpu.map_scores
    // CHECK-COUNT-3: memref.load {{.+}} : memref
    // CHECK-NOT: fcgpu.paired
    // CHECK:     gpu.return
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692)
        score {
    ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
      %one = arith.constant 1 : index
      %next = arith.addi %j, %one : index
      %x = memref.load %odd[%next] : memref<130xf32>
      %y = memref.load %rows[%i, %j] : memref<128x129xf32>
      %c128 = arith.constant 128 : index
      %difference = arith.subi %i, %j : index
      %distance = arith.addi %difference, %c128 : index
      %z = memref.load %distances[%distance] : memref<300xf32>
      %xy = arith.addf %x, %y : f32
      %xyz = arith.addf %xy, %z : f32
      %result = arith.addf %score, %xyz : f32
      flashcore.yield %result : f32
    } {fcgpu.schedule = #schedule}
    gpu.return
  }
}
