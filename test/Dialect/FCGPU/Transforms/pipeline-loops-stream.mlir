// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-pipeline-loops)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, softmax = one_pass>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

// Two slots: tiles 0 and 1 are started at once, tile 2 behind the read of tile 0
// and tile 3 behind that of tile 1.

// CHECK-LABEL: gpu.func @copies_start_when_a_slot_is_free
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<64x16xf16>
gpu.module @kernels {
  gpu.func @copies_start_when_a_slot_is_free(%key: memref<64x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c16 = arith.constant 16 : index
    %ring = fcgpu.alloc_ring : !ring
    // CHECK:      scf.forall
    // CHECK:        fcgpu.copy {{.+}}[%c0] by warp
    // CHECK:        fcgpu.copy {{.+}}[%c1] by warp
    // CHECK:        fcgpu.read %{{.+}}[%c0]
    // CHECK-NEXT:   "use"
    // CHECK-NEXT:   fcgpu.copy %[[KEY]][%c32, %c0] to %{{.+}}[%c2] by warp
    // CHECK-NEXT:   fcgpu.read %{{.+}}[%c1]
    // CHECK-NEXT:   "use"
    // CHECK:        fcgpu.copy {{.+}}[%c3] by warp
    // CHECK-NEXT:   fcgpu.read %{{.+}}[%c2]
    // CHECK-NEXT:   "use"
    // CHECK-NEXT:   fcgpu.read %{{.+}}[%c3]
    scf.forall (%warp) in (1) {
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp
          : memref<64x16xf16> to !ring
      %t0 = fcgpu.read %ring[%c0] : !ring -> !tile
      "use"(%t0) : (!tile) -> ()
      %r1 = arith.muli %c1, %c16 : index
      fcgpu.copy %key[%r1, %c0] to %ring[%c1] by warp
          : memref<64x16xf16> to !ring
      %t1 = fcgpu.read %ring[%c1] : !ring -> !tile
      "use"(%t1) : (!tile) -> ()
      %r2 = arith.muli %c2, %c16 : index
      fcgpu.copy %key[%r2, %c0] to %ring[%c2] by warp
          : memref<64x16xf16> to !ring
      %t2 = fcgpu.read %ring[%c2] : !ring -> !tile
      "use"(%t2) : (!tile) -> ()
      %r3 = arith.muli %c3, %c16 : index
      fcgpu.copy %key[%r3, %c0] to %ring[%c3] by warp
          : memref<64x16xf16> to !ring
      %t3 = fcgpu.read %ring[%c3] : !ring -> !tile
      "use"(%t3) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, softmax = one_pass>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

// A tile that is copied again stays behind the reads of its slot.

// CHECK-LABEL: gpu.func @same_tile_twice_is_no_stream
gpu.module @kernels {
  gpu.func @same_tile_twice_is_no_stream(%key: memref<64x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    // CHECK:      fcgpu.copy
    // CHECK-NEXT: fcgpu.read
    // CHECK-NEXT: "use"
    // CHECK-NEXT: fcgpu.copy
    // CHECK-NEXT: fcgpu.read
    scf.forall (%warp) in (1) {
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp
          : memref<64x16xf16> to !ring
      %t0 = fcgpu.read %ring[%c0] : !ring -> !tile
      "use"(%t0) : (!tile) -> ()
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp
          : memref<64x16xf16> to !ring
      %t1 = fcgpu.read %ring[%c0] : !ring -> !tile
      "use"(%t1) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, softmax = one_pass>
!ring = !fcgpu.ring<2x16x16xf16>
!tile = vector<16x16xf16>

// What to copy is known only behind the first read.

// CHECK-LABEL: gpu.func @address_comes_late
gpu.module @kernels {
  gpu.func @address_comes_late(%key: memref<64x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : !ring
    // CHECK:      fcgpu.copy {{.+}}[%c0] by warp
    // CHECK-NEXT: fcgpu.read
    // CHECK-NEXT: %[[ROW:.+]] = "use"
    // CHECK-NEXT: fcgpu.copy %{{.+}}[%[[ROW]], %{{.+}}]
    scf.forall (%warp) in (1) {
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp
          : memref<64x16xf16> to !ring
      %t0 = fcgpu.read %ring[%c0] : !ring -> !tile
      %row = "use"(%t0) : (!tile) -> index
      fcgpu.copy %key[%row, %c0] to %ring[%c1] by warp
          : memref<64x16xf16> to !ring
      %t1 = fcgpu.read %ring[%c1] : !ring -> !tile
      "use"(%t1) : (!tile) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = split, grid_order = query_fastest,
  min_blocks = 0, softmax = one_pass, query_steps = 1>
!ring = !fcgpu.ring<2x16x32xf16>
!part = vector<16x16xf16>

// Tiles that are read in parts: the third is copied when the first has been
// read, and the second not yet.

// CHECK-LABEL: gpu.func @tiles_read_in_parts
gpu.module @kernels {
  gpu.func @tiles_read_in_parts(%key: memref<64x32xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = fcgpu.alloc_ring : !ring
    // CHECK:      fcgpu.copy {{.+}}[%c0] by warp
    // CHECK-NEXT: fcgpu.copy {{.+}}[%c1] by warp
    // CHECK-NEXT: fcgpu.read %{{.+}}[%c0] : {{.+}}
    // CHECK-NEXT: fcgpu.read %{{.+}}[%c0] column(16)
    // CHECK-NEXT: "use"
    // CHECK-NEXT: fcgpu.copy {{.+}}[%c2] by warp
    // CHECK-NEXT: fcgpu.read %{{.+}}[%c1] : {{.+}}
    // CHECK-NEXT: fcgpu.read %{{.+}}[%c1] column(16)
    // CHECK-NEXT: "use"
    // CHECK-NEXT: fcgpu.read %{{.+}}[%c2]
    scf.forall (%warp) in (1) {
      fcgpu.copy %key[%c0, %c0] to %ring[%c0] by warp : memref<64x32xf16> to !ring
      %a0 = fcgpu.read %ring[%c0] : !ring -> !part
      %a1 = fcgpu.read %ring[%c0] column(16) : !ring -> !part
      "use"(%a0, %a1) : (!part, !part) -> ()
      fcgpu.copy %key[%c1, %c0] to %ring[%c1] by warp : memref<64x32xf16> to !ring
      %b0 = fcgpu.read %ring[%c1] : !ring -> !part
      %b1 = fcgpu.read %ring[%c1] column(16) : !ring -> !part
      "use"(%b0, %b1) : (!part, !part) -> ()
      fcgpu.copy %key[%c2, %c0] to %ring[%c2] by warp : memref<64x32xf16> to !ring
      %d0 = fcgpu.read %ring[%c2] : !ring -> !part
      "use"(%d0) : (!part) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
