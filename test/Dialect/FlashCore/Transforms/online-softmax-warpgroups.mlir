// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s

// P V of a tile waits for the next tile's Q K^T.

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, product = warpgroup>
!qo = memref<1x1x64x64xf16, strided<[8192, 8192, 64, 1], offset: ?>>
!kv = memref<1x1x?x64xf16>

// One tile at least is walked; where there are no keys, it begins behind them.

// CHECK-DAG:   #[[$TILES:.+]] = affine_map<()[s0] -> (s0 ceildiv 64, 1)>
// CHECK-DAG:   #[[$KEY:.+]] = affine_map<(d0)[s0, s1] -> (d0 * -64 + s0 * 64 - 64, -s1 + 1)>

// CHECK-LABEL: gpu.func @any_number_of_keys(
// CHECK-SAME:    %[[SEQLEN:[^:]+]]: index) kernel
gpu.module @kernels {
  gpu.func @any_number_of_keys(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                               %seqlen: index) kernel {
    // CHECK:      %[[TILES:.+]] = affine.max #[[$TILES]]
    // CHECK:      scf.for %[[I:[^ ]+]] = %{{.+}} to %[[TILES]] step
    // CHECK:        %[[KEY:.+]] = affine.max #[[$KEY]](%[[I]])[%[[TILES]], %[[SEQLEN]]]
    // CHECK:        vector.transfer_read {{.+}}, %[[KEY]], {{.+}} home = shared
    // CHECK:        vector.contract
    // CHECK:        vector.transfer_read {{.+}}, %[[KEY]], {{.+}} home = shared
    // CHECK:        vector.contract
    // CHECK:      } {fcgpu.overlap = #fcgpu.overlap<pv>}
    %zero = arith.constant 0 : index
    %rows = arith.constant 128 : index
    scf.forall (%group) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%group)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %rows, key %zero to %seqlen of %seqlen, block %zero)
          scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, product = warpgroup>
!qo = memref<1x1x64x64xf16, strided<[8192, 8192, 64, 1], offset: ?>>
!kv = memref<1x1x200x64xf16>

// Blocks of which no row sees a key walk a tile, too: its first key is there.

// CHECK-LABEL: gpu.func @causal(
gpu.module @kernels {
  gpu.func @causal(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %block: index) kernel {
    // CHECK:      %[[TILES:.+]] = affine.max #{{.+}}()[%{{.+}}]
    // CHECK:      scf.for %[[I:[^ ]+]] = %{{.+}} to %[[TILES]] step
    // CHECK-NEXT:   %[[KEY:.+]] = affine.apply #{{.+}}(%[[I]])[%[[TILES]]]
    // CHECK:        vector.transfer_read {{.+}}, %[[KEY]],
    %zero = arith.constant 0 : index
    %rows = arith.constant 1024 : index
    %seqlen = arith.constant 200 : index
    scf.forall (%group) in (2) {
      %row = affine.apply affine_map<(d0)[s0] -> (d0 * 64 + s0 * 128)>(%group)[%block]
      %block_row = affine.apply affine_map<()[s0] -> (s0 * 128)>()[%block]
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %rows, key %zero to %seqlen of %seqlen, block %block_row)
          causal(bottom_right) scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
!qo = memref<1x1x64x64xf16, strided<[8192, 8192, 64, 1], offset: ?>>
!kv = memref<1x1x?x64xf16>

// A loop whose products do not reach over iterations may run as often as there
// are tiles.

// CHECK-DAG:   #[[$TILES:.+]] = affine_map<()[s0] -> (s0 ceildiv 64)>

// CHECK-LABEL: gpu.func @without_overlap(
// CHECK-NOT:     affine.max
// CHECK:         %[[TILES:.+]] = affine.apply #[[$TILES]]
// CHECK-NOT:     affine.max
// CHECK:         scf.for %{{[^ ]+}} = %{{.+}} to %[[TILES]] step
// CHECK-NOT:     affine.max
// CHECK:         gpu.return
gpu.module @kernels {
  gpu.func @without_overlap(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                            %seqlen: index) kernel {
    %zero = arith.constant 0 : index
    %rows = arith.constant 128 : index
    scf.forall (%group) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%group)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %rows, key %zero to %seqlen of %seqlen, block %zero)
          scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, row_sum = mma, product = warpgroup>
!qo = memref<1x1x64x64xf16, strided<[8192, 8192, 64, 1], offset: ?>>
!kv = memref<1x1x128x64xf16>

// O has eight columns more than V, whose own are ones: those are the row sums.

// CHECK-LABEL: gpu.func @columns_of_ones(
gpu.module @kernels {
  gpu.func @columns_of_ones(%q: !qo, %k: !kv, %v: !kv, %o: !qo) kernel {
    // CHECK:      %[[NONE:.+]] = arith.constant dense<0.000000e+00> : vector<64x72xf32>
    // CHECK:      %[[ROWS:.+]]:3 = scf.for {{.+}} iter_args(%[[ACC:.+]] = %[[NONE]], %[[MAX:.+]] = %{{.+}}, %[[SUM:.+]] = %{{.+}})
    // CHECK:        %[[RESCALED:.+]] = arith.mulf %[[ACC]], %{{.+}} : vector<64x72xf32>
    // CHECK:        %[[ONES:.+]] = arith.constant dense<1.000000e+00> : vector<64x72xf16>
    // CHECK:        %[[P:.+]] = arith.truncf
    // CHECK:        %[[V:.+]] = vector.transfer_read
    // CHECK-NEXT:   %[[WIDE:.+]] = vector.insert_strided_slice %[[V]], %[[ONES]] {offsets = [0, 0], strides = [1, 1]}
    // CHECK-NEXT:   %[[NEXT:.+]] = vector.contract {{.+}} %[[P]], %[[WIDE]], %[[RESCALED]]
    // CHECK-NEXT:   scf.yield %[[NEXT]], %{{.+}}, %[[SUM]]
    // CHECK:      %[[O:.+]] = vector.extract_strided_slice %[[ROWS]]#0 {offsets = [0, 0], sizes = [64, 64], strides = [1, 1]}
    // CHECK:      %[[COLUMNS:.+]] = vector.extract_strided_slice %[[ROWS]]#0 {offsets = [0, 64], sizes = [64, 8], strides = [1, 1]}
    // CHECK:      vector.multi_reduction <maxnumf>, %[[COLUMNS]], %{{.+}} [1]
    // CHECK:      arith.mulf %[[O]],
    %zero = arith.constant 0 : index
    %rows = arith.constant 128 : index
    scf.forall (%group) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%group)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %rows, key %zero to %rows of %rows, block %zero)
          scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, row_max = stale, row_sum = mma, product = warpgroup>
!qo = memref<1x1x64x64xf16, strided<[8192, 8192, 64, 1], offset: ?>>
!kv = memref<1x1x128x64xf16>

// The product before is not done where the maximum follows the scores: the first
// branch gives factors, by which the second rescales O, behind the exponentials:
// canonicalisation would unite branches that are neighbours.

// CHECK-LABEL: gpu.func @output_is_late(
gpu.module @kernels {
  gpu.func @output_is_late(%q: !qo, %k: !kv, %v: !kv, %o: !qo) kernel {
    // CHECK:      scf.for {{.+}} iter_args(%[[ACC:[^ ]+]] = %{{.+}}, %[[MAX:[^ ]+]] = %{{.+}}, %[[SUM:[^ ]+]] = %{{.+}})
    // CHECK:        %[[SCORES:.+]] = vector.contract
    // CHECK:        %[[ONE:.+]] = arith.constant dense<1.000000e+00> : vector<64xf32>
    // CHECK:        %[[EXCEEDS:.+]] = vector.multi_reduction <or>
    // CHECK-NEXT:   %[[FIRST:.+]]:5 = scf.if %[[EXCEEDS]]
    // CHECK-NOT:      %[[ACC]]
    // CHECK:          %[[FACTORS:.+]] = math.exp2 %{{.+}} : vector<64xf32>
    // CHECK:          %[[DIFFERENCES:.+]] = arith.subf %[[SCORES]], %{{.+}}
    // CHECK-NEXT:     scf.yield %[[FACTORS]], %{{.+}}, %[[SUM]], %[[DIFFERENCES]], %{{.+}}
    // CHECK-NEXT:   } else {
    // CHECK-NEXT:     scf.yield %[[ONE]], %[[MAX]], %[[SUM]], %[[SCORES]], %{{.+}}
    // CHECK-NEXT:   }
    // CHECK:        math.exp2 %{{.+}} : vector<64x64xf32>
    // CHECK-NEXT:   %[[LATE:.+]] = scf.if %[[EXCEEDS]] -> (vector<64x72xf32>) {
    // CHECK-NEXT:     vector.shape_cast %[[FIRST]]#0
    // CHECK-NEXT:     %[[FACTOR:.+]] = vector.broadcast
    // CHECK-NEXT:     %[[RESCALED:.+]] = arith.mulf %[[ACC]], %[[FACTOR]]
    // CHECK-NEXT:     scf.yield %[[RESCALED]]
    // CHECK-NEXT:   } else {
    // CHECK-NEXT:     scf.yield %[[ACC]]
    // CHECK-NEXT:   }
    // CHECK:        vector.contract {{.+}}, %[[LATE]] :
    // CHECK:      } {fcgpu.overlap = #fcgpu.overlap<pv>}
    %zero = arith.constant 0 : index
    %rows = arith.constant 128 : index
    scf.forall (%group) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%group)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %rows, key %zero to %rows of %rows, block %zero)
          scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, row_max = stale, product = warpgroup>
!qo = memref<1x1x64x64xf16, strided<[8192, 8192, 64, 1], offset: ?>>
!kv = memref<1x1x128x64xf16>

// Without a product under way, one branch does all.

// CHECK-LABEL: gpu.func @output_is_there(
gpu.module @kernels {
  gpu.func @output_is_there(%q: !qo, %k: !kv, %v: !kv, %o: !qo) kernel {
    // CHECK:      scf.for {{.+}} iter_args(%[[ACC:[^ ]+]] = %{{.+}},
    // CHECK:        scf.if
    // CHECK:          %[[RESCALED:.+]] = arith.mulf %[[ACC]], %{{.+}} : vector<64x64xf32>
    // CHECK:          scf.yield %[[RESCALED]],
    // CHECK-NOT:    scf.if
    // CHECK:      gpu.return
    %zero = arith.constant 0 : index
    %rows = arith.constant 128 : index
    scf.forall (%group) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%group)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %rows, key %zero to %rows of %rows, block %zero)
          scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv, row_max = checked, row_sum = mma,
  product = warpgroup>
!qo = memref<1x1x64x64xf16, strided<[8192, 8192, 64, 1], offset: ?>>
!kv = memref<1x1x128x64xf16>

// The exponentials are looked at, as integers; the scores only where a row has
// no maximum yet, or a far one, which is subtracted from them. A row that is lost
// raises a flag, and the block walks again.

// CHECK-LABEL: gpu.func @checked(
gpu.module @kernels {
  gpu.func @checked(%q: !qo, %k: !kv, %v: !kv, %o: !qo) kernel {
    // CHECK:      %[[FLAG:.+]] = fcgpu.alloc_flag
    // CHECK:      scf.forall
    // CHECK:        scf.for {{.+}} iter_args(%[[ACC:[^ ]+]] = %{{.+}}, %[[MAX:[^ ]+]] = %{{.+}}, %{{.+}} = %{{.+}})
    // CHECK:          %[[SCORES:.+]] = vector.contract
    // CHECK:          %[[ADDEND:.+]] = arith.mulf %[[MAX]], %{{.+}} : vector<64xf32>
    // CHECK:          %[[SIZE:.+]] = math.absf %[[ADDEND]]
    // CHECK:          %[[FARTHEST:.+]] = arith.constant dense<4.096000e+03> : vector<64xf32>
    // CHECK:          %[[ARE_FAR:.+]] = arith.cmpf ogt, %[[SIZE]], %[[FARTHEST]]
    // CHECK:          %[[NEW:.+]] = vector.multi_reduction <or>, %[[ARE_FAR]], %{{.+}} [0] : vector<64xi1> to i1
    // CHECK:          %[[FOLLOWED:.+]]:5 = scf.if %[[NEW]]
    // CHECK:            vector.multi_reduction <maxnumf>
    // CHECK:            %[[DIFFERENCES:.+]] = arith.subf %[[SCORES]], %{{.+}}
    // CHECK:            scf.yield %{{.+}}, %{{.+}}, %{{.+}}, %[[DIFFERENCES]], %{{.+}}
    // CHECK:          } else {
    // CHECK:            scf.yield %{{.+}}, %[[MAX]], %{{.+}}, %[[SCORES]], %[[ADDEND]]
    // CHECK:          %[[ADDENDS:.+]] = vector.shape_cast %[[FOLLOWED]]#4
    // CHECK:          %[[ADDEND_TILE:.+]] = vector.broadcast %[[ADDENDS]]
    // CHECK:          math.fma %[[FOLLOWED]]#3, %{{.+}}, %[[ADDEND_TILE]]
    // CHECK:          %[[P:.+]] = math.exp2 %{{.+}} : vector<64x64xf32>
    // CHECK:          %[[BITS:.+]] = arith.bitcast %{{.+}} to vector<64x8x8xi32>
    // CHECK:          %[[LARGEST:.+]] = vector.multi_reduction <maxsi>, %[[BITS]],
    // CHECK:          %[[LIMIT:.+]] = arith.constant dense<1132462080> : vector<64x8xi32>
    // CHECK:          arith.cmpi sgt, %[[LARGEST]], %[[LIMIT]]
    // CHECK:          %[[EXCEEDS:.+]] = vector.multi_reduction <or>
    // CHECK:          %[[SCALED:.+]]:4 = scf.if %[[EXCEEDS]]
    // CHECK:            vector.multi_reduction <maxsi>, %[[LARGEST]], %{{.+}} [1]
    // CHECK:            arith.mulf %[[P]], %{{.+}} : vector<64x64xf32>
    // CHECK:          %[[ANY:.+]] = arith.ori %[[NEW]], %[[EXCEEDS]]
    // CHECK:          scf.if %[[ANY]] -> (vector<64x72xf32>)
    // CHECK:      %[[LOST:.+]] = arith.cmpf uge, %{{.+}}, %{{.+}} : vector<64x8xf32>
    // CHECK:      %[[ANY_LOST:.+]] = vector.multi_reduction <or>, %[[LOST]]
    // CHECK:      fcgpu.raise %[[FLAG]] if %[[ANY_LOST]]
    // CHECK:      %[[AGAIN:.+]] = fcgpu.test_flag %[[FLAG]]
    // CHECK-NEXT: scf.if %[[AGAIN]] {
    // CHECK:        scf.forall
    // CHECK:          scf.for
    // CHECK-NOT:      maxsi
    // CHECK:          vector.multi_reduction <maxnumf>
    // CHECK-NOT:      fcgpu.raise
    // CHECK:      gpu.return
    %zero = arith.constant 0 : index
    %rows = arith.constant 128 : index
    scf.forall (%group) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%group)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %zero, head %zero, query %row of %rows, key %zero to %rows of %rows, block %zero)
          scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup, output = bulk>
!qo = memref<1x1x64x64xf16, strided<[8192, 8192, 64, 1], offset: ?>>
!kv = memref<1x1x128x64xf16>
!lse = memref<1x1x64xf32, strided<[128, 128, 1], offset: ?>>

// O goes by way of a slot of its warpgroup, the log-sum-exp does not.

// CHECK-LABEL: gpu.func @bulk_output(
gpu.module @kernels {
  gpu.func @bulk_output(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %lse: !lse) kernel {
    // CHECK: vector.transfer_write %{{.+}}, %{{.+}} {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, home = shared>
    // CHECK-SAME: vector<64x64xf16>, memref<1x1x64x64xf16
    // CHECK: vector.transfer_write
    // CHECK-NOT: staging
    // CHECK-SAME: vector<64xf32>, memref<1x1x64xf32
    %zero = arith.constant 0 : index
    %rows = arith.constant 128 : index
    scf.forall (%group) in (2) {
      %row = affine.apply affine_map<(d0) -> (d0 * 64)>(%group)
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo) lse(%lse : !lse)
          at(batch %zero, head %zero, query %row of %rows, key %zero to %rows of %rows, block %zero)
          scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}
