// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax,canonicalize,cse)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, softmax = one_pass>
!qo = memref<1x1x16x64xf16, strided<[4096, 4096, 64, 1], offset: ?>>
!kv = memref<1x1x64x64xf16>

// All scores, one maximum, all exponentials; nothing is rescaled. If the maximum of
// some row is far, those are subtracted from all scores.

// CHECK-LABEL: gpu.func @scores_come_first(
// CHECK-SAME:    %{{[^:]+}}: memref<1x1x16x64xf16, {{[^,]+, [^,]+, [^,]+, [^,]+, [^,]+}}>, %[[K:[^:]+]]: memref<1x1x64x64xf16>, %[[V:[^:]+]]: memref<1x1x64x64xf16>
gpu.module @kernels {
  gpu.func @scores_come_first(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index)
      kernel {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK-NOT:  scf.for
    // CHECK:      %[[K1:.+]] = vector.transfer_read %[[K]][%[[C0]], %[[C0]], %[[C32]], %[[C0]]]
    // CHECK:      %[[S1:.+]] = vector.contract {{.+}} %{{.+}}, %[[K1]], %{{.+}} : {{.+}} into vector<16x32xf32>
    // CHECK:      %[[K0:.+]] = vector.transfer_read %[[K]][%[[C0]], %[[C0]], %[[C0]], %[[C0]]]
    // CHECK:      %[[S0:.+]] = vector.contract {{.+}} %{{.+}}, %[[K0]], %{{.+}} : {{.+}} into vector<16x32xf32>
    // CHECK:      %[[MAX:.+]] = arith.maxnumf %[[S1]], %[[S0]] : vector<16x32xf32>
    // CHECK:      %[[ROW_MAX:.+]] = vector.multi_reduction <maxnumf>, %[[MAX]], %{{.+}} [1] : vector<16x32xf32> to vector<16xf32>
    // CHECK-NOT:  vector.multi_reduction <maxnumf>
    // The difference first, without a branch: right for any maximum.
    // CHECK-NOT:  scf.if
    // CHECK:      %[[SAFE_MAX:.+]] = arith.select %{{.+}}, %{{.+}}, %[[ROW_MAX]]
    // CHECK:      %[[COLUMN:.+]] = vector.shape_cast %[[SAFE_MAX]]
    // CHECK:      %[[MAX_TILE:.+]] = vector.broadcast %[[COLUMN]]
    // CHECK:      %[[D1:.+]] = arith.subf %[[S1]], %[[MAX_TILE]]
    // CHECK:      %[[E1:.+]] = arith.mulf %[[D1]], %{{.+}} : vector<16x32xf32>
    // CHECK:      math.exp2 %[[E1]]
    // CHECK:      vector.transfer_read %[[V]][%[[C0]], %[[C0]], %[[C32]], %[[C0]]]
    // CHECK:      %[[O1:.+]] = vector.contract {{.+}} into vector<16x64xf32>
    // CHECK:      %[[D0:.+]] = arith.subf %[[S0]], %[[MAX_TILE]]
    // CHECK:      %[[E0:.+]] = arith.mulf %[[D0]], %{{.+}} : vector<16x32xf32>
    // CHECK:      math.exp2 %[[E0]]
    // CHECK:      vector.transfer_read %[[V]][%[[C0]], %[[C0]], %[[C0]], %[[C0]]]
    // CHECK:      vector.contract {{.+}} %{{.+}}, %{{.+}}, %[[O1]] : {{.+}} into vector<16x64xf32>
    // CHECK-NOT:  scf.for
    // CHECK:      vector.transfer_write
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %c0, head %c0, query %row of %c64, key %c0 to %c64 of %c64, block %row) scale(1.250000e-01)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, softmax = one_pass>
!qo = memref<1x1x16x64xf16, strided<[4096, 4096, 64, 1], offset: ?>>
!kv = memref<1x1x64x64xf16>

// A causal block may see one tile only: the other starts past the last key, reads
// as zeros, and is masked, also against the end of the sequence.

// CHECK-LABEL: gpu.func @tile_that_is_not_there(
// CHECK-SAME:    %[[K:[^:,]+]]: memref<1x1x64x64xf16>, %{{[^:,]+}}: memref<1x1x64x64xf16>
gpu.module @kernels {
  gpu.func @tile_that_is_not_there(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                   %row: index) kernel {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    // CHECK-DAG:  %[[END:.+]] = arith.constant 64 : index
    // CHECK-DAG:  %[[ONE:.+]] = arith.constant 1 : index
    // CHECK:      %[[EXISTS:.+]] = arith.cmpi sgt, %[[N:.+]], %[[ONE]] : index
    // CHECK:      %[[KEY:.+]] = arith.select %[[EXISTS]], %{{.+}}, %[[END]] : index
    // CHECK:      %[[TILE:.+]] = vector.transfer_read %[[K]][%{{.+}}, %{{.+}}, %[[KEY]], %{{.+}}]
    // CHECK:      %[[S:.+]] = vector.contract {{.+}} %{{.+}}, %[[TILE]],
    // CHECK:      %[[PARTIAL:.+]] = arith.cmpi sgt, %[[HEAD:.+]], %[[ONE]]
    // CHECK:      %[[ABSENT:.+]] = arith.cmpi sle, %[[N]], %[[ONE]]
    // CHECK:      %[[MASKED:.+]] = arith.ori %[[PARTIAL]], %[[ABSENT]]
    // CHECK:      scf.if %[[MASKED]]
    // CHECK:        fcgpu.map_scores %[[S]][%{{.+}}, %[[KEY]]]
    // CHECK:          affine.min
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %c0, head %c0, query %row of %c64, key %c0 to %c64 of %c64, block %row) causal(bottom_right)
        scale(1.250000e-01) {fcgpu.schedule = #schedule}
    gpu.return
  }
}
