// Q K^T alone, from phase 3 to PTX: 16 queries, 64 keys, head_dim 64.

// RUN: flashcore-opt %s \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func( \
// RUN:     flashcore-promote-shared,flashcore-simplify-kernel, \
// RUN:     flashcore-pipeline-loops,flashcore-simplify-kernel, \
// RUN:     flashcore-hand-over-slots,flashcore-insert-barriers,flashcore-split-masked-tiles,flashcore-simplify-kernel, \
// RUN:     flashcore-assign-layouts,flashcore-distribute,flashcore-simplify-kernel), \
// RUN:     flashcore-to-nvvm))' -o %t.mlir
// RUN: mlir-opt %t.mlir -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(nvvm-attach-target{chip=sm_89},gpu-module-to-binary{format=isa})' -o %t.isa.mlir
// RUN: FileCheck %s --check-prefix=MMA < %t.isa.mlir
// RUN: FileCheck %s --check-prefix=LDMATRIX < %t.isa.mlir
// RUN: FileCheck %s --check-prefix=SHUFFLE < %t.isa.mlir
// RUN: FileCheck %s --check-prefix=SYNC < %t.isa.mlir

// Key groups of 8 times steps of 16 along head_dim: 8 * 4 products.

// MMA-LABEL:    .entry qk(
// MMA-COUNT-32: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// MMA-NOT:      mma.sync
// MMA:          ret;

// ldmatrix.x4 brings 16 x 16: Q is 1 * 4 of them and K 4 * 4, none transposed.

// LDMATRIX-LABEL:    .entry qk(
// LDMATRIX-NOT:      .trans
// LDMATRIX-COUNT-20: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// LDMATRIX-NOT:      ldmatrix
// LDMATRIX:          ret;

// Nothing crosses the lanes.

// SHUFFLE-LABEL: .entry qk(
// SHUFFLE-NOT:   shfl
// SHUFFLE:       ret;

// The warp waits for its copies and meets before it reads them.

// SYNC-LABEL: .entry qk(
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
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

gpu.module @kernels {
  gpu.func @qk(%q_base: memref<f16>, %k_base: memref<f16>, %s_base: memref<f32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %pad = arith.constant 0.0 : f16
    %zero = arith.constant dense<0.0> : vector<16x64xf32>
    %query = memref.reinterpret_cast %q_base to offset: [0], sizes: [16, 64],
        strides: [64, 1] : memref<f16> to memref<16x64xf16>
    %key = memref.reinterpret_cast %k_base to offset: [0], sizes: [64, 64],
        strides: [64, 1] : memref<f16> to memref<64x64xf16>
    %scores = memref.reinterpret_cast %s_base to offset: [0], sizes: [16, 64],
        strides: [64, 1] : memref<f32> to memref<16x64xf32>
    scf.forall (%warp) in (1) {
      %q = vector.transfer_read %query[%c0, %c0], %pad
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 1, number = holder, kept = 64>,
           in_bounds = [false, true]} : memref<16x64xf16>, vector<16x64xf16>
      %k = vector.transfer_read %key[%c0, %c0], %pad
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<64x64xf16>, vector<64x64xf16>
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
          iterator_types = ["parallel", "parallel", "reduction"]} %q, %k, %zero
          : vector<16x64xf16>, vector<64x64xf16> into vector<16x64xf32>
      vector.transfer_write %s, %scores[%c0, %c0] {in_bounds = [true, true]}
          : vector<16x64xf32>, memref<16x64xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
