// Softmax alone, from phase 3 to PTX: 16 rows of 64 scores, given in f16.

// RUN: flashcore-opt %s \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func( \
// RUN:     flashcore-promote-shared,flashcore-simplify-kernel, \
// RUN:     flashcore-pipeline-loops,flashcore-simplify-kernel, \
// RUN:     flashcore-hand-over-slots,flashcore-insert-barriers,flashcore-split-masked-tiles,flashcore-simplify-kernel, \
// RUN:     flashcore-assign-layouts,flashcore-distribute,flashcore-simplify-kernel), \
// RUN:     flashcore-to-nvvm))' -o %t.mlir
// RUN: mlir-opt %t.mlir -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(nvvm-attach-target{chip=sm_89},gpu-module-to-binary{format=isa})' -o %t.isa.mlir
// RUN: FileCheck %s --check-prefix=SHUFFLE < %t.isa.mlir
// RUN: FileCheck %s --check-prefix=EXP < %t.isa.mlir
// RUN: FileCheck %s --check-prefix=OTHER < %t.isa.mlir
// RUN: FileCheck %s --check-prefix=SYNC < %t.isa.mlir

// The maximum and the sum of a row each cross the four lanes of its quad with two
// shuffles, for rows 0 to 7 and for rows 8 to 15.

// SHUFFLE-LABEL:   .entry softmax(
// SHUFFLE-COUNT-8: shfl.sync.bfly.b32
// SHUFFLE-NOT:     shfl
// SHUFFLE:         ret;

// A lane holds 16 * 64 / 32 of the scores.

// EXP-LABEL:    .entry softmax(
// EXP-COUNT-32: ex2.approx.ftz.f32
// EXP-NOT:      ex2
// EXP:          ret;

// OTHER-LABEL: .entry softmax(
// OTHER-NOT:   mma.sync
// OTHER-NOT:   __nv_
// OTHER:       ret;

// The warp waits for its copies and meets before it reads them.

// SYNC-LABEL: .entry softmax(
// SYNC:       cp.async.cg.shared.global
// SYNC:       cp.async.commit_group
// SYNC-NOT:   ldmatrix
// SYNC:       cp.async.wait_group
// SYNC-NOT:   ldmatrix
// SYNC:       bar.warp.sync
// SYNC:       ldmatrix

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 64,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

gpu.module @kernels {
  gpu.func @softmax(%s_base: memref<f16>, %p_base: memref<f32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %pad = arith.constant 0.0 : f16
    %minus_inf = arith.constant dense<0xFF800000> : vector<16xf32>
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %zero_groups = arith.constant dense<0.0> : vector<16x8xf32>
    %scores = memref.reinterpret_cast %s_base to offset: [0], sizes: [16, 64],
        strides: [64, 1] : memref<f16> to memref<16x64xf16>
    %output = memref.reinterpret_cast %p_base to offset: [0], sizes: [16, 64],
        strides: [64, 1] : memref<f32> to memref<16x64xf32>
    scf.forall (%warp) in (1) {
      %half = vector.transfer_read %scores[%c0, %c0], %pad
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 1, number = holder, kept = 64>,
           in_bounds = [false, true]} : memref<16x64xf16>, vector<16x64xf16>
      %s = arith.extf %half : vector<16x64xf16> to vector<16x64xf32>
      %max = vector.multi_reduction <maxnumf>, %s, %minus_inf [1]
          : vector<16x64xf32> to vector<16xf32>
      %max_column = vector.shape_cast %max : vector<16xf32> to vector<16x1xf32>
      %max_tile = vector.broadcast %max_column
          : vector<16x1xf32> to vector<16x64xf32>
      %shifted = arith.subf %s, %max_tile : vector<16x64xf32>
      %exp = math.exp2 %shifted : vector<16x64xf32>
      %groups = vector.shape_cast %exp
          : vector<16x64xf32> to vector<16x8x8xf32>
      %partial = vector.multi_reduction <add>, %groups, %zero_groups [1]
          : vector<16x8x8xf32> to vector<16x8xf32>
      %sum = vector.multi_reduction <add>, %partial, %zero [1]
          : vector<16x8xf32> to vector<16xf32>
      %sum_column = vector.shape_cast %sum : vector<16xf32> to vector<16x1xf32>
      %sum_tile = vector.broadcast %sum_column
          : vector<16x1xf32> to vector<16x64xf32>
      %p = arith.divf %exp, %sum_tile : vector<16x64xf32>
      vector.transfer_write %p, %output[%c0, %c0] {in_bounds = [true, true]}
          : vector<16x64xf32>, memref<16x64xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
