// Lists of blocks: the tiles are those of the blocks that they name, first of
// those that a mask is asked in, then of full ones.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline="builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))" | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16>
!kv = memref<1x1x256x32xf16>
!counts = memref<2x1x4xi32>
!indices = memref<2x1x4x4xi32>

// Two tiles a block. Counts are those that are possible; of entries, those that
// are no block are one past the last key.

// CHECK-DAG: #[[$ROW:.+]] = affine_map<()[s0] -> (s0 floordiv 64)>
// CHECK-DAG: #[[$TILES:.+]] = affine_map<()[s0] -> (s0 * 2)>
// CHECK-DAG: #[[$BLOCK:.+]] = affine_map<(d0) -> (d0 floordiv 2)>
// CHECK-DAG: #[[$KEY:.+]] = affine_map<(d0, d1) -> (d0 * 64 + d1 * 32 - (d1 floordiv 2) * 64)>

// CHECK-LABEL: gpu.func @two_lists
// CHECK-SAME:    %[[COUNTS:[^:]+]]: memref<2x1x4xi32>, %[[INDICES:[^:]+]]: memref<2x1x4x4xi32>, %[[FULL_COUNTS:[^:]+]]: memref<2x1x4xi32>, %[[FULL:[^:]+]]: memref<2x1x4x4xi32>, %[[BATCH:[^:]+]]: index, %[[QUERY:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @two_lists(%q: !qo, %k: !kv, %o: !qo, %counts: !counts, %indices: !indices,
                      %full_counts: !counts, %full: !indices, %batch: index, %query: index) kernel {
    // CHECK:     %[[ROW:.+]] = affine.apply #[[$ROW]]()[%[[QUERY]]]
    // CHECK:     %[[LOADED:.+]] = memref.load %[[COUNTS]][%[[BATCH]], %c0{{.*}}, %[[ROW]]]
    // CHECK:     %[[NUMBER:.+]] = arith.index_cast %[[LOADED]] : i32 to index
    // CHECK:     %[[MOST:.+]] = arith.minsi %[[NUMBER]], %c4{{.*}} : index
    // CHECK:     %[[COUNT:.+]] = arith.maxsi %[[MOST]], %c0{{.*}} : index
    // CHECK:     %[[MASKED:.+]] = affine.apply #[[$TILES]]()[%[[COUNT]]]
    // CHECK:     memref.load %[[FULL_COUNTS]][%[[BATCH]],
    // CHECK:     %[[TILES:.+]] = arith.addi %[[MASKED]], %{{.+}} : index
    // CHECK:     scf.for %[[I:.+]] = %{{.+}} to %[[TILES]]
    // CHECK:       %[[PLACE:.+]] = affine.apply #[[$BLOCK]](%[[I]])
    // CHECK:       %[[INSIDE:.+]] = arith.minsi %[[PLACE]], %c3{{.*}} : index
    // CHECK:       %[[ENTRY:.+]] = memref.load %[[INDICES]][%[[BATCH]], %{{.+}}, %{{.+}}, %[[INSIDE]]]
    // CHECK:       %[[OF_MASKED:.+]] = arith.index_castui %[[ENTRY]] : i32 to index
    // CHECK:       %[[IS_MASKED:.+]] = arith.cmpi slt, %[[I]], %[[MASKED]] : index
    // CHECK:       memref.load %[[FULL]][
    // CHECK:       %[[NAMED:.+]] = arith.select %[[IS_MASKED]], %[[OF_MASKED]], %{{.+}} : index
    // CHECK:       %[[LISTED:.+]] = arith.minui %[[NAMED]], %c4{{.*}} : index
    // CHECK:       %[[KEY:.+]] = affine.apply #[[$KEY]](%[[LISTED]], %[[I]])
    // CHECK:       vector.transfer_read %{{.+}}[%{{.+}}, %{{.+}}, %[[KEY]], %{{.+}}]
    // CHECK:       %[[IS_BEFORE:.+]] = arith.cmpi slt, %[[I]], %[[MASKED]] : index
    // CHECK:       scf.if %[[IS_BEFORE]]
    // CHECK:         fcgpu.map_scores
    // CHECK:           arith.andi
    // CHECK:       else
    // Keys of a full block are all seen that exist.
    // CHECK:         %[[IS_PAST:.+]] = arith.cmpi sgt, %{{.+}}, %c256
    // CHECK:         scf.if %[[IS_PAST]]
    // CHECK:           fcgpu.map_scores
    // CHECK-NEXT:      ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %[[J:.+]]: index):
    // CHECK-NEXT:      arith.cmpi slt, %[[J]], %c256
    // CHECK:       vector.transfer_read %{{.+}}[%{{.+}}, %{{.+}}, %[[KEY]], %{{.+}}]
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 256 : index
    %seqlen_k = arith.constant 256 : index
    flashcore.attention_tile ins(%q, %k, %k : !qo, !kv, !kv) block_counts(%counts : !counts)
        block_indices(%indices : !indices) full_block_counts(%full_counts : !counts)
        full_block_indices(%full : !indices) outs(%o : !qo)
        at(batch %batch, head %zero, query %query of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %query)
        window_left(100) window_right(7) scale(1.250000e-01) block_size [64, 64] {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!qo = memref<1x1x16x32xf16>
!kv = memref<1x1x40x32xf16>
!counts = memref<1x1x1xi32>
!indices = memref<1x1x1x1xi32>

// Without a mask all blocks are full ones. Of a block longer than the keys, only
// tiles with keys are walked.

// CHECK-DAG: #[[$TILES:.+]] = affine_map<()[s0] -> (s0 * 2)>

// CHECK-LABEL: gpu.func @one_list_without_mask
// CHECK-SAME:    %[[COUNTS:[^:]+]]: memref<1x1x1xi32>
gpu.module @kernels {
  gpu.func @one_list_without_mask(%q: !qo, %k: !kv, %o: !qo, %counts: !counts, %indices: !indices) kernel {
    // CHECK:     memref.load %[[COUNTS]]
    // CHECK:     affine.apply #[[$TILES]]()
    // CHECK:     scf.for
    // CHECK:       memref.load
    // CHECK-NOT:   memref.load
    // CHECK:       %[[IS_PAST:.+]] = arith.cmpi sgt
    // CHECK-NEXT:  scf.if %[[IS_PAST]]
    // CHECK:         fcgpu.map_scores
    // CHECK-NOT:   fcgpu.map_scores
    // CHECK:       scf.yield {{.*}} vector<16x32xf32>, vector<16xf32>, vector<16x8xf32>
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 16 : index
    %seqlen_k = arith.constant 40 : index
    flashcore.attention_tile ins(%q, %k, %k : !qo, !kv, !kv) block_counts(%counts : !counts)
        block_indices(%indices : !indices) outs(%o : !qo)
        at(batch %zero, head %zero, query %zero of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %zero)
        scale(1.250000e-01) block_size [1024, 1024] {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 32,
  num_warps = 4, num_stages = 2, query = shared, overlap = pv, row_max = stale, row_sum = add,
  grid_order = query_fastest, min_blocks = 1, product = warpgroup>
!qo = memref<1x1x64x64xf16>
!kv = memref<1x1x?x64xf16>
!counts = memref<1x1x4xi32>
!indices = memref<1x1x4x?xi32>

// Where a product waits for the next tile's, one is walked even if no block is
// listed: past the last key, where nothing is read.

// CHECK-DAG: #[[$WALKED:.+]] = affine_map<()[s0] -> (s0 * 2, 1)>
// CHECK-DAG: #[[$BLOCKS:.+]] = affine_map<()[s0] -> (s0 ceildiv 64)>
// CHECK-DAG: #[[$BEHIND:.+]] = affine_map<(d0, d1)[s0] -> (d0 * 64 + d1 * 32 - (d1 floordiv 2) * 64, -s0 + 1)>

// CHECK-LABEL: gpu.func @at_least_one_tile
// CHECK-SAME:    memref<1x1x4x?xi32>, %[[SEQLEN_K:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @at_least_one_tile(%q: !qo, %k: !kv, %o: !qo, %counts: !counts, %indices: !indices, %seqlen_k: index) kernel {
    // CHECK:     %[[COUNT:.+]] = arith.maxsi
    // CHECK:     %[[HAS_KEYS:.+]] = arith.cmpi sgt, %[[SEQLEN_K]], %c0
    // CHECK:     arith.select %[[HAS_KEYS]], %[[COUNT]], %c0
    // CHECK:     %[[LISTED:.+]] = affine.apply
    // CHECK:     %[[TILES:.+]] = affine.max #[[$WALKED]]()
    // CHECK:     scf.for %[[I:.+]] = %{{.+}} to %[[TILES]]
    // CHECK:       %[[END:.+]] = affine.apply #[[$BLOCKS]]()
    // CHECK:       %[[BLOCK:.+]] = arith.minui %{{.+}}, %[[END]] : index
    // CHECK:       %[[IS_THERE:.+]] = arith.cmpi slt, %[[I]], %[[LISTED]] : index
    // CHECK:       %[[WALKED:.+]] = arith.select %[[IS_THERE]], %[[BLOCK]], %[[END]] : index
    // CHECK:       affine.max #[[$BEHIND]](%[[WALKED]], %[[I]])[%[[SEQLEN_K]]]
    %zero = arith.constant 0 : index
    %seqlen_q = arith.constant 256 : index
    flashcore.attention_tile ins(%q, %k, %k : !qo, !kv, !kv) block_counts(%counts : !counts)
        block_indices(%indices : !indices) outs(%o : !qo)
        at(batch %zero, head %zero, query %zero of %seqlen_q, key %zero to %seqlen_k of %seqlen_k, block %zero)
        scale(1.250000e-01) block_size [64, 64] {fcgpu.schedule = #schedule}
    gpu.return
  }
}
