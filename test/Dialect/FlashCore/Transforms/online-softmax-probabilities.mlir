// A tile that has its probabilities is P V alone: the walk of any attention over
// the keys that its queries see, last tile first, with nothing to mask or to
// rescale. Each warp copies its own rows of P.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 0, softmax = unfused, product = wmma, exchange = plain>
!o = memref<1x1x16x32xf16, strided<[8192, 8192, 32, 1], offset: ?>>
!v = memref<1x1x256x32xf16>
!p = memref<4x1x16x64xf16, strided<[64, 64, 256, 1], offset: ?>>

// CHECK-LABEL: gpu.func @causal(
// CHECK-SAME:    %[[P:[^:]+]]: memref<4x1x16x64xf16, {{[^:]+: \?>>}}, %[[V:[^:]+]]: memref<1x1x256x32xf16>, %[[O:[^:]+]]: memref<
gpu.module @kernels {
  gpu.func @causal(%p: !p, %v: !v, %o: !o, %warp: index, %block: index) kernel {
    // CHECK:     %[[TILES:.+]] = affine.min
    // CHECK:     %[[SUM:.+]] = scf.for %[[I:.+]] = %{{.+}} to %{{.+}} step %{{.+}} iter_args(%[[ACC:.+]] = %{{.+}}) -> (vector<16x32xf32>) {
    // CHECK:       %[[KEY:.+]] = affine.apply
    // CHECK:       %[[TILE:.+]] = affine.apply
    // CHECK:       %[[P_TILE:.+]] = vector.transfer_read %[[P]][%[[TILE]],
    // CHECK-SAME:    #fcgpu.staging<copy = warp, ring = warp, slots = 2, number = turn, home = shared, layout = plain>
    // CHECK-SAME:    in_bounds = [false, true]
    // CHECK-SAME:    vector<16x64xf16>
    // CHECK:       %[[V_TILE:.+]] = vector.transfer_read %[[V]][%{{[^,]+}}, %{{[^,]+}}, %[[KEY]],
    // CHECK-SAME:    #fcgpu.staging<copy = block, ring = block, slots = 2,
    // CHECK-NEXT:  %[[NEXT:.+]] = vector.contract {{.+}} %[[P_TILE]], %[[V_TILE]], %[[ACC]] {fcgpu.product = #fcgpu.product<wmma>}
    // CHECK-NEXT:  scf.yield %[[NEXT]]
    // CHECK-NEXT: }
    // CHECK:     %[[ROUNDED:.+]] = arith.truncf %[[SUM]]
    // CHECK:     vector.transfer_write %[[ROUNDED]], %[[O]]
    // CHECK-NOT: vector.transfer_write
    // CHECK:     gpu.return
    %c0 = arith.constant 0 : index
    %c256 = arith.constant 256 : index
    flashcore.values_tile ins(%p, %v : !p, !v) outs(%o : !o)
        at(batch %c0, head %c0, query %warp of %c256, key %c0 to %c256 of %c256, block %block)
        causal(bottom_right) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

// One tile of keys: no loop is left of it behind the pass.

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 64,
  num_warps = 1, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 0, softmax = unfused>
!o = memref<1x1x16x32xf16>
!v = memref<1x1x40x32xf16>
!p = memref<1x1x16x64xf16>

// CHECK-LABEL: gpu.func @one_tile(
gpu.module @kernels {
  gpu.func @one_tile(%p: !p, %v: !v, %o: !o) kernel {
    // CHECK: vector.transfer_read {{.+}} #fcgpu.staging<copy = warp, ring = warp, slots = 2, number = turn>
    // CHECK: vector.transfer_read {{.+}} #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %c40 = arith.constant 40 : index
    flashcore.values_tile ins(%p, %v : !p, !v) outs(%o : !o)
        at(batch %c0, head %c0, query %c0 of %c16, key %c0 to %c40 of %c40, block %c0)
        {fcgpu.schedule = #schedule}
    gpu.return
  }
}
