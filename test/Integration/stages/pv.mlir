// P V alone, from phase 3 to PTX: 16 queries, 64 keys, head_dim 64, and uniform
// P, so that every row of O is the mean of V.

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

// Column groups of 8 times steps of 16 along the keys: 8 * 4 products.

// MMA-LABEL:    .entry pv(
// MMA-COUNT-32: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// MMA-NOT:      mma.sync
// MMA:          ret;

// V is 4 * 4 of ldmatrix.x4, all transposed; P takes none.

// LDMATRIX-LABEL:    .entry pv(
// LDMATRIX-COUNT-16: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// LDMATRIX-NOT:      ldmatrix
// LDMATRIX:          ret;

// SHUFFLE-LABEL: .entry pv(
// SHUFFLE-NOT:   shfl
// SHUFFLE:       ret;

// The warp waits for its copies and meets before it reads them.

// SYNC-LABEL: .entry pv(
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
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

gpu.module @kernels {
  gpu.func @pv(%v_base: memref<f16>, %o_base: memref<f32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %pad = arith.constant 0.0 : f16
    %zero = arith.constant dense<0.0> : vector<16x64xf32>
    %p = arith.constant dense<1.562500e-02> : vector<16x64xf16>
    %value = memref.reinterpret_cast %v_base to offset: [0], sizes: [64, 64],
        strides: [64, 1] : memref<f16> to memref<64x64xf16>
    %output = memref.reinterpret_cast %o_base to offset: [0], sizes: [16, 64],
        strides: [64, 1] : memref<f32> to memref<16x64xf32>
    scf.forall (%warp) in (1) {
      %v = vector.transfer_read %value[%c0, %c0], %pad
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>,
           in_bounds = [false, true]} : memref<64x64xf16>, vector<64x64xf16>
      %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
          iterator_types = ["parallel", "parallel", "reduction"]} %p, %v, %zero
          : vector<16x64xf16>, vector<64x64xf16> into vector<16x64xf32>
      vector.transfer_write %o, %output[%c0, %c0] {in_bounds = [true, true]}
          : vector<16x64xf32>, memref<16x64xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
