// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-infer-in-bounds)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x16xf16>

// Tiles from the last one down, of a sequence that need not end with a tile: all
// rows of every tile but the first exist.

// CHECK-LABEL: gpu.func @all_tiles_but_the_first
gpu.module @kernels {
  gpu.func @all_tiles_but_the_first(%k: memref<?x16xf16>, %visible: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : !ring
    %seqlen = memref.dim %k, %c0 : memref<?x16xf16>
    %end = affine.min affine_map<()[s0, s1] -> (s0, s1)>()[%visible, %seqlen]
    %n = affine.apply affine_map<()[s0] -> (s0 ceildiv 16)>()[%end]
    %last = affine.apply affine_map<()[s0] -> ((s0 ceildiv 16) * 16 - 16)>()[%end]
    // CHECK: fcgpu.copy {{.+}} by block :
    fcgpu.copy %k[%last, %c0] to %ring[%c0] by block
        : memref<?x16xf16> to !ring
    scf.for %i = %c0 to %n step %c1 {
      %next = arith.addi %i, %c1 : index
      %row = affine.apply affine_map<(d0)[s0] -> (d0 * -16 + (s0 ceildiv 16) * 16 - 16)>(%next)[%end]
      %exists = arith.cmpi slt, %next, %n : index
      // CHECK: fcgpu.copy {{.+}} by block if %{{.+}} in_bounds :
      fcgpu.copy %k[%row, %c0] to %ring[%next] by block if %exists
          : memref<?x16xf16> to !ring
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x16xf16>

// Nothing says that the rows end with the source, but of constants all is known.

// CHECK-LABEL: gpu.func @unknown_and_constant_rows
gpu.module @kernels {
  gpu.func @unknown_and_constant_rows(%k: memref<100x16xf16>, %row: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c84 = arith.constant 84 : index
    %c85 = arith.constant 85 : index
    %ring = fcgpu.alloc_ring : !ring
    // CHECK: fcgpu.copy {{.+}} by block :
    fcgpu.copy %k[%row, %c0] to %ring[%c0] by block
        : memref<100x16xf16> to !ring
    // CHECK: fcgpu.copy {{.+}} by block in_bounds :
    fcgpu.copy %k[%c84, %c0] to %ring[%c0] by block
        : memref<100x16xf16> to !ring
    // CHECK: fcgpu.copy {{.+}} by block :
    fcgpu.copy %k[%c85, %c0] to %ring[%c0] by block
        : memref<100x16xf16> to !ring
    gpu.return
  }
}

// -----

!ring = !fcgpu.ring<2x16x16xf16>

// CHECK-LABEL: gpu.func @kernels_of_others_are_left_alone
gpu.module @kernels {
  gpu.func @kernels_of_others_are_left_alone(%k: memref<100x16xf16>) kernel {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    // CHECK: fcgpu.copy {{.+}} by block :
    fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block
        : memref<100x16xf16> to !ring
    gpu.return
  }
}
