// One tile in several layouts, from phase 3 to PTX, and run: a sum that is both
// operands of one product (so one of them is converted), columns that are
// reduced and broadcast, and a tile in column order whose rows are reduced and
// whose scores are changed.

// RUN: flashcore-opt %s \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func( \
// RUN:     flashcore-promote-shared,flashcore-simplify-kernel, \
// RUN:     flashcore-hand-over-slots,flashcore-insert-barriers,flashcore-simplify-kernel, \
// RUN:     flashcore-assign-layouts,flashcore-distribute,flashcore-simplify-kernel), \
// RUN:     flashcore-to-nvvm))' -o %t.mlir
// RUN: mlir-opt %t.mlir -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(nvvm-attach-target{chip=sm_89},gpu-module-to-binary{format=isa})' -o %t.isa.mlir
// RUN: rm -rf %t.run && mkdir %t.run
// RUN: %python %S/../Inputs/layouts.py %t.isa.mlir %t.run
// RUN: flashcore-emu %t.run/kernel.ptx --grid 1 --block 32 --shared 4096 \
// RUN:   --arg %t.run/x.npy f32[16,16]:poison f32[16]:poison f32[16]:poison f32[16,16]:poison \
// RUN:   --expect 1=%t.run/centred.npy 2=%t.run/columns.npy 3=%t.run/rows.npy 4=%t.run/mapped.npy \
// RUN:   --expect-written

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

gpu.module @kernels {
  gpu.func @layouts(%x_base: memref<f16>, %centred_base: memref<f32>,
                    %columns_base: memref<f32>, %rows_base: memref<f32>,
                    %mapped_base: memref<f32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %pad = arith.constant 0.0 : f16
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %none = arith.constant dense<0.0> : vector<16xf32>
    %least = arith.constant dense<-1000.0> : vector<16xf32>
    %x_memref = memref.reinterpret_cast %x_base to offset: [0], sizes: [16, 16],
        strides: [16, 1] : memref<f16> to memref<16x16xf16>
    %centred = memref.reinterpret_cast %centred_base to offset: [0],
        sizes: [16, 16], strides: [16, 1] : memref<f32> to memref<16x16xf32>
    %columns = memref.reinterpret_cast %columns_base to offset: [0],
        sizes: [16], strides: [1] : memref<f32> to memref<16xf32>
    %rows = memref.reinterpret_cast %rows_base to offset: [0],
        sizes: [16], strides: [1] : memref<f32> to memref<16xf32>
    %mapped = memref.reinterpret_cast %mapped_base to offset: [0],
        sizes: [16, 16], strides: [16, 1] : memref<f32> to memref<16x16xf32>
    scf.forall (%warp) in (1) {
      %x = vector.transfer_read %x_memref[%c0, %c0], %pad
          {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 1, number = holder, kept = 16>,
           in_bounds = [false, true]} : memref<16x16xf16>, vector<16x16xf16>
      %twice = arith.addf %x, %x : vector<16x16xf16>
      %square = vector.contract {indexing_maps = [#mk, #kn, #mn],
          iterator_types = ["parallel", "parallel", "reduction"]}
          %twice, %twice, %zero
          : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      %sums = vector.multi_reduction <add>, %square, %none [0]
          : vector<16x16xf32> to vector<16xf32>
      %repeated = vector.broadcast %sums : vector<16xf32> to vector<16x16xf32>
      %difference = arith.subf %square, %repeated : vector<16x16xf32>
      vector.transfer_write %difference, %centred[%c0, %c0]
          {in_bounds = [true, true]} : vector<16x16xf32>, memref<16x16xf32>
      vector.transfer_write %sums, %columns[%c0] {in_bounds = [true]}
          : vector<16xf32>, memref<16xf32>

      // In the order of a right operand from here on.
      %wide = arith.extf %x : vector<16x16xf16> to vector<16x16xf32>
      %places = fcgpu.map_scores %wide[%c0, %c0] : vector<16x16xf32> {
      ^bb0(%score: f32, %query: index, %key: index):
        %is_upper = arith.cmpi sle, %query, %key : index
        %negated = arith.negf %score : f32
        %result = arith.select %is_upper, %negated, %score : f32
        fcgpu.yield %result : f32
      }
      %maxima = vector.multi_reduction <maxnumf>, %places, %least [1]
          : vector<16x16xf32> to vector<16xf32>
      %right = arith.truncf %places : vector<16x16xf32> to vector<16x16xf16>
      %product = vector.contract {indexing_maps = [#mk, #kn, #mn],
          iterator_types = ["parallel", "parallel", "reduction"]}
          %x, %right, %zero
          : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
      vector.transfer_write %maxima, %rows[%c0] {in_bounds = [true]}
          : vector<16xf32>, memref<16xf32>
      vector.transfer_write %product, %mapped[%c0, %c0]
          {in_bounds = [true, true]} : vector<16x16xf32>, memref<16x16xf32>
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
