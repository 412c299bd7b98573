// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax,canonicalize,cse)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 32,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 4>
!qo = memref<1x1x32x64xf16, strided<[4096, 4096, 64, 1], offset: ?>>
!kv = memref<1x1x200x64xf16>

// Seven key tiles, the first of them partial: warp p walks tiles p and p + 4 if
// there is one.

// CHECK-DAG:   #[[COUNT:.+]] = affine_map<(d0) -> ((-d0 + 7) ceildiv 4)>
// CHECK-DAG:   #[[MASKED:.+]] = affine_map<(d0) -> ((-d0 + 1) ceildiv 4)>
// CHECK-DAG:   #[[KEY:.+]] = affine_map<(d0, d1) -> (d0 * -128 - d1 * 32 + 192)>
// CHECK-DAG:   #[[ROW:.+]] = affine_map<(d0) -> (d0 * 8)>
// CHECK-LABEL: gpu.func @tiles_are_walked_in_turn(
// CHECK-SAME:    %{{.+}}: memref<1x1x32x64xf16, {{.+}}>, %[[K:[^:]+]]: memref<1x1x200x64xf16>, %{{[^:]+}}: memref<1x1x200x64xf16>, %[[O:[^:]+]]: memref<1x1x32x64xf16,
gpu.module @kernels {
  gpu.func @tiles_are_walked_in_turn(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                     %row: index) kernel {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c200 = arith.constant 200 : index
    // CHECK:      scf.forall (%{{.+}}, %[[PART:.+]]) in (1, 4)
    // CHECK-DAG:    %[[N:.+]] = affine.apply #[[COUNT]](%[[PART]])
    // CHECK-DAG:    %[[NUM_MASKED:.+]] = affine.apply #[[MASKED]](%[[PART]])
    // CHECK:        %[[STATE:.+]]:3 = scf.for %[[I:.+]] = %{{.+}} to %[[N]]
    // CHECK:          %[[ROW_OF_K:.+]] = affine.apply #[[KEY]](%[[I]], %[[PART]])
    // CHECK:          vector.transfer_read %[[K]][%{{.+}}, %{{.+}}, %[[ROW_OF_K]], %{{.+}}], {{.+}}<copy = warp, ring = warp, slots = 2, number = turn>
    // CHECK:          arith.cmpi slt, %[[I]], %[[NUM_MASKED]]

    // Maxima and sums of each row; then the warp's share of the rows of all parts,
    // relative to the maximum of all, where each may be far (online-softmax.mlir).
    // CHECK:        %[[SUM:.+]] = vector.multi_reduction <add>, %[[STATE]]#2
    // CHECK:        %[[SHARE:.+]]:12 = fcgpu.all_to_all %[[STATE]]#0, %[[STATE]]#1, %[[SUM]] part %[[PART]] of 4 : vector<32x64xf32>, vector<32xf32>, vector<32xf32>
    // CHECK:        %[[MAX_2:.+]] = arith.maxnumf %[[SHARE]]#4, %[[SHARE]]#5
    // CHECK:        %[[MAX_3:.+]] = arith.maxnumf %[[MAX_2]], %[[SHARE]]#6
    // CHECK:        %[[MAX_4:.+]] = arith.maxnumf %[[MAX_3]], %[[SHARE]]#7
    // CHECK:        %[[IS_EMPTY:.+]] = arith.cmpf oeq, %[[MAX_4]], %{{.+}} : vector<8xf32>
    // CHECK:        %[[SAFE:.+]] = arith.select %[[IS_EMPTY]], %{{.+}}, %[[MAX_4]]
    // CHECK:        %[[NEAR:.+]] = arith.mulf %[[SAFE]], %[[MINUS_C:.+]] : vector<8xf32>
    // CHECK:        %[[IS_FAR:.+]] = arith.cmpf ogt, %{{.+}}, %[[FARTHEST:.+]] : vector<8xf32>
    // CHECK:        %[[SUBTRAHEND:.+]] = arith.select %[[IS_FAR]], %[[SAFE]], %{{.+}}
    // CHECK:        %[[ADDEND:.+]] = arith.select %[[IS_FAR]], %{{.+}}, %[[NEAR]]
    // CHECK:        %[[NEAR_0:.+]] = arith.mulf %[[SHARE]]#4, %[[MINUS_C]]
    // CHECK:        %[[IS_FAR_0:.+]] = arith.cmpf ogt, %{{.+}}, %[[FARTHEST]]
    // CHECK:        %[[SUBTRAHEND_0:.+]] = arith.select %[[IS_FAR_0]], %[[SHARE]]#4, %{{.+}}
    // CHECK:        %[[ADDEND_0:.+]] = arith.select %[[IS_FAR_0]], %{{.+}}, %[[NEAR_0]]
    // CHECK:        %[[ABOVE:.+]] = arith.subf %[[SUBTRAHEND_0]], %[[SUBTRAHEND]]
    // CHECK:        %[[ABOVE_ADDEND:.+]] = arith.subf %[[ADDEND]], %[[ADDEND_0]]
    // CHECK:        %[[EXPONENT:.+]] = math.fma %[[ABOVE]], %{{.+}}, %[[ABOVE_ADDEND]]
    // CHECK:        %[[FACTOR:.+]] = math.exp2 %[[EXPONENT]]
    // CHECK:        %[[O_0:.+]] = arith.mulf %[[SHARE]]#0, %{{.+}} : vector<8x64xf32>
    // CHECK:        %[[L_0:.+]] = arith.mulf %[[SHARE]]#8, %[[FACTOR]]
    // CHECK:        %[[O_1:.+]] = math.fma %[[SHARE]]#1, %{{.+}}, %[[O_0]]
    // CHECK:        %[[L_1:.+]] = math.fma %[[SHARE]]#9, %{{.+}}, %[[L_0]]

    // CHECK:        %[[FIRST_ROW:.+]] = affine.apply #[[ROW]](%[[PART]])
    // CHECK:        vector.transfer_write %{{.+}}, %[[O]][%{{.+}}, %{{.+}}, %[[FIRST_ROW]], %{{.+}}] {in_bounds = [true, true]} : vector<8x64xf16>
    scf.forall (%rows, %part) in (1, 4) {
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
          at(batch %c0, head %c0, query %row of %c64, key %c0 to %c200 of %c200, block %row)
          scale(1.250000e-01) {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 4>
!qo = memref<1x1x?x64xf16, strided<[4096, 4096, 64, 1], offset: ?>>
!kv = memref<1x1x256x64xf16>
!lse = memref<1x1x?xf32, strided<[64, 64, 1], offset: ?>>

// Two rows of cores for four warps: each gets half of the columns of one, and the
// first of the two writes the log-sum-exp. Eight full tiles are two a warp. The
// number of rows is known at run time only.

// CHECK-DAG:   #[[ROW:.+]] = affine_map<(d0) -> ((d0 floordiv 2) * 8)>
// CHECK-DAG:   #[[COL:.+]] = affine_map<(d0) -> (d0 * 32 - (d0 floordiv 2) * 64)>
// CHECK-LABEL: gpu.func @columns_are_shared_too(
gpu.module @kernels {
  gpu.func @columns_are_shared_too(%q: !qo, %k: !kv, %v: !kv, %o: !qo,
                                   %lse: !lse, %row: index, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c256 = arith.constant 256 : index
    // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[TWO:.+]] = arith.constant 2 : index
    // CHECK:      scf.forall (%{{.+}}, %[[PART:.+]]) in (1, 4)
    // CHECK:        scf.for %{{.+}} = %[[ZERO]] to %[[TWO]]
    // CHECK:        fcgpu.all_to_all
    // CHECK-DAG:    %[[FIRST_ROW:.+]] = affine.apply #[[ROW]](%[[PART]])
    // CHECK-DAG:    %[[FIRST_COL:.+]] = affine.apply #[[COL]](%[[PART]])
    // CHECK:        vector.transfer_write %{{.+}}, %{{.+}}[%{{.+}}, %{{.+}}, %[[FIRST_ROW]], %[[FIRST_COL]]] {in_bounds = [false, true]} : vector<8x32xf16>
    // CHECK:        %[[IS_FIRST:.+]] = arith.cmpi eq, %[[FIRST_COL]], %[[ZERO]]
    // CHECK:        scf.if %[[IS_FIRST]] {
    // CHECK:          vector.transfer_write %{{.+}}, %{{.+}}[%{{.+}}, %{{.+}}, %[[FIRST_ROW]]] : vector<8xf32>
    scf.forall (%rows, %part) in (1, 4) {
      flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo) lse(%lse : !lse)
          at(batch %c0, head %c0, query %row of %n, key %c0 to %c256 of %c256, block %row) scale(1.250000e-01)
          {fcgpu.schedule = #schedule}
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
