// Rows that do not begin at multiples of 16 bytes, or have no whole chunks.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-distribute,canonicalize,cse)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x24xf16>

// Rows of 40 bytes are copied 8 bytes at a time, two pieces a chunk: eight
// threads a row, of which six have a piece and the sixth is zeros. What is not a
// whole chunk does not go past L1.

// CHECK-LABEL: gpu.func @pieces_of_half_a_chunk
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<?x20xf16>
gpu.module @kernels {
  gpu.func @pieces_of_half_a_chunk(%key: memref<?x20xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[C5:.+]] = arith.constant 5 : index
    // CHECK-DAG:  %[[C6:.+]] = arith.constant 6 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C24:.+]] = arith.constant 24 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[THREAD]], %[[C8]] : index
    // CHECK-DAG:  %[[PIECE:.+]] = arith.remui %[[THREAD]], %[[C8]] : index
    // CHECK:      %[[IS_PIECE:.+]] = arith.cmpi slt, %[[PIECE]], %[[C6]] : index
    // CHECK-NEXT: scf.if %[[IS_PIECE]] {
    // CHECK-DAG:    %[[COLUMN:.+]] = arith.muli %[[PIECE]], %[[C4]] : index
    // CHECK-DAG:    %[[EXISTS:.+]] = arith.cmpi slt, %[[PIECE]], %[[C5]] : index
    // CHECK-DAG:    %[[ELEMENTS:.+]] = arith.select %[[EXISTS]], %[[C4]], %[[C0]] : index
    // CHECK-DAG:    %[[CHUNK:.+]] = arith.divui %[[PIECE]], %[[C2]] : index
    // CHECK-DAG:    %[[ROW_START:.+]] = arith.muli %[[ROW]], %[[C24]] : index
    // CHECK-DAG:    %[[CHUNK_START:.+]] = arith.muli %[[CHUNK]], %[[C8]] : index
    // CHECK-DAG:    %[[START:.+]] = arith.addi %[[ROW_START]], %[[CHUNK_START]] : index
    // CHECK-DAG:    %[[IN_CHUNK:.+]] = arith.remui %[[PIECE]], %[[C2]] : index
    // CHECK-DAG:    %[[SHIFT:.+]] = arith.muli %[[IN_CHUNK]], %[[C4]] : index
    // CHECK-DAG:    %[[PLACE:.+]] = arith.addi %[[START]], %[[SHIFT]] : index
    // CHECK-DAG:    %[[BYTES:.+]] = arith.muli %[[PLACE]], %[[C2]] : index
    // CHECK-DAG:    %[[TARGET:.+]] = memref.view %{{.+}}[%[[BYTES]]][]
    // CHECK:        nvgpu.device_async_copy %[[KEY]][%[[ROW]], %[[COLUMN]]], %[[TARGET]][%[[C0]]], 4, %[[ELEMENTS]] : memref<?x20xf16>
    // CHECK-NEXT: {{^ *}}}
    // CHECK-NOT:  nvgpu.device_async_copy
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block in_bounds
        : memref<?x20xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x16xf16>

// Rows of 10 bytes begin at odd elements. Each thread has one element at a time,
// of a row that exists in the first five columns; the others are zeros.

// CHECK-LABEL: gpu.func @elements_go_through_registers
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<?x5xf16>
gpu.module @kernels {
  gpu.func @elements_go_through_registers(%key: memref<?x5xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0.000000e+00 : f16
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C5:.+]] = arith.constant 5 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : index
    // CHECK-DAG:  %[[C128:.+]] = arith.constant 128 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[THREAD]], %[[C16]] : index
    // CHECK-DAG:  %[[COLUMN:.+]] = arith.remui %[[THREAD]], %[[C16]] : index
    // CHECK-DAG:  %[[NUM_ROWS:.+]] = memref.dim %[[KEY]], %[[C0]]
    // CHECK-DAG:  %[[IS_ROW:.+]] = arith.cmpi slt, %[[ROW]], %[[NUM_ROWS]] : index
    // CHECK-DAG:  %[[IS_COLUMN:.+]] = arith.cmpi slt, %[[COLUMN]], %[[C5]] : index
    // CHECK-DAG:  %[[EXISTS:.+]] = arith.andi %[[IS_ROW]], %[[IS_COLUMN]] : i1
    // CHECK-DAG:  %[[IN_CHUNK:.+]] = arith.remui %[[COLUMN]], %[[C8]] : index
    // CHECK-DAG:  %[[PLACE:.+]] = arith.addi %{{.+}}, %[[IN_CHUNK]] : index
    // CHECK:      %[[TARGET:.+]] = memref.view
    // CHECK-NEXT: %[[ELEMENT:.+]] = scf.if %[[EXISTS]] -> (f16) {
    // CHECK-NEXT:   %[[LOADED:.+]] = memref.load %[[KEY]][%[[ROW]], %[[COLUMN]]]
    // CHECK-NEXT:   scf.yield %[[LOADED]] : f16
    // CHECK-NEXT: } else {
    // CHECK-NEXT:   scf.yield %[[ZERO]] : f16
    // CHECK-NEXT: }
    // CHECK-NEXT: memref.store %[[ELEMENT]], %[[TARGET]][%[[C0]]]
    // CHECK:      memref.load %[[KEY]]
    // CHECK:      memref.store %{{.+}}, %[[TARGET]][%[[C128]]]
    // CHECK-NOT:  memref.store
    // CHECK-NOT:  nvgpu.device_async_copy
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block
        : memref<?x5xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 48, block_n = 16,
  num_warps = 3, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x120xf16>

// Three warps copy three rows at once, 32 lanes each: more would not come out
// even, and some threads would have a row of the next pass.

// CHECK-LABEL: gpu.func @threads_of_a_row_divide_all
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<16x119xf16>
gpu.module @kernels {
  gpu.func @threads_of_a_row_divide_all(%key: memref<16x119xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C3:.+]] = arith.constant 3 : index
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[THREAD]], %[[C32]] : index
    // CHECK-DAG:  %[[COLUMN:.+]] = arith.remui %[[THREAD]], %[[C32]] : index
    // CHECK:      memref.load %[[KEY]][%[[ROW]], %[[COLUMN]]]
    // CHECK:      %[[ROW_3:.+]] = arith.addi %[[ROW]], %[[C3]] : index
    // CHECK:      memref.load %[[KEY]][%[[ROW_3]], %[[COLUMN]]]
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block in_bounds
        : memref<16x119xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x16xf16>

// Whole chunks in rows that are 36 bytes apart: it is the stride that counts, and
// in a view the offset of what it is a view of.

// CHECK-LABEL: gpu.func @rows_that_are_apart
gpu.module @kernels {
  gpu.func @rows_that_are_apart(%apart: memref<?x16xf16, strided<[18, 1]>>,
                                %odd: memref<?x16xf16, strided<[16, 1], offset: 3>>,
                                %row: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      nvgpu.device_async_copy %{{.+}}, 2 : memref<?x16xf16, strided<[18, 1]>>
    // CHECK:      memref.load %{{.+}} : memref<16x16xf16, strided<[16, 1], offset: ?>>
    // CHECK-NOT:  nvgpu.device_async_copy
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %apart[%c0, %c0] to %ring[%c0] by block in_bounds
        : memref<?x16xf16, strided<[18, 1]>> to !ring
    %view = memref.subview %odd[%row, 0] [16, 16] [1, 1]
        : memref<?x16xf16, strided<[16, 1], offset: 3>>
       to memref<16x16xf16, strided<[16, 1], offset: ?>>
    fcgpu.copy %view[%c0, %c0] to %ring[%c0] by block in_bounds
        : memref<16x16xf16, strided<[16, 1], offset: ?>> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Of 16 columns 12 exist: pairs 0 to 3 are stored, and two of 4 to 7.

// CHECK-LABEL: gpu.func @columns_that_may_not_exist
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<16x12xf16>
gpu.module @kernels {
  gpu.func @columns_that_may_not_exist(%out: memref<16x12xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C12:.+]] = arith.constant 12 : index
    // CHECK:      %[[COLUMN:.+]] = arith.muli
    // CHECK-NEXT: vector.store %{{.+}}, %[[OUT]][%[[ROW:.+]], %[[COLUMN]]] {alignment = 4 : i64} : memref<16x12xf16>, vector<2xf16>
    // CHECK-NEXT: %[[COLUMN_8:.+]] = arith.addi %[[COLUMN]], %[[C8]] : index
    // CHECK-NEXT: %[[IS_COLUMN:.+]] = arith.cmpi slt, %[[COLUMN_8]], %[[C12]] : index
    // CHECK-NEXT: scf.if %[[IS_COLUMN]] {
    // CHECK-NEXT:   vector.store %{{.+}}, %[[OUT]][%[[ROW]], %[[COLUMN_8]]] {alignment = 4 : i64} : memref<16x12xf16>, vector<2xf16>
    // CHECK-NEXT: }
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %tile = arith.constant dense<1.0> : vector<16x16xf16>
    vector.transfer_write %tile, %out[%c0, %c0] {in_bounds = [true, false]}
        : vector<16x16xf16>, memref<16x12xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Rows that begin at odd elements are stored element by element: of the pair at
// column 8 only the first exists.

// CHECK-LABEL: gpu.func @odd_columns
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<16x9xf16>
gpu.module @kernels {
  gpu.func @odd_columns(%out: memref<16x9xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-NOT:     vector.store
    // CHECK:         %[[COLUMN:.+]] = arith.muli
    // CHECK-NEXT:    memref.store %{{.+}}, %[[OUT]][%[[ROW:.+]], %[[COLUMN]]]
    // CHECK-NEXT:    %[[COLUMN_1:.+]] = arith.addi %[[COLUMN]], %c1
    // CHECK-NEXT:    memref.store %{{.+}}, %[[OUT]][%[[ROW]], %[[COLUMN_1]]]
    // CHECK-COUNT-2: scf.if
    // CHECK-NOT:     vector.store
    // CHECK:         gpu.return
    %c0 = arith.constant 0 : index
    %tile = arith.constant dense<1.0> : vector<16x16xf16>
    vector.transfer_write %tile, %out[%c0, %c0] {in_bounds = [true, false]}
        : vector<16x16xf16>, memref<16x9xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// How many columns exist may be known at run time only: they are stored element
// by element, since a row of any length may begin anywhere.

// CHECK-LABEL: gpu.func @open_number_of_columns
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<16x?xf32>, %[[FIRST:[^:]+]]: index
gpu.module @kernels {
  gpu.func @open_number_of_columns(%out: memref<16x?xf32>, %column: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[COLUMNS:.+]] = memref.dim %[[OUT]], %c1
    // CHECK-NOT:  vector.store
    // CHECK:      %[[COLUMN:.+]] = arith.addi %[[FIRST]],
    // CHECK:      %[[IS_COLUMN:.+]] = arith.cmpi slt, %[[COLUMN]], %[[COLUMNS]]
    // CHECK-NEXT: scf.if %[[IS_COLUMN]] {
    // CHECK-NEXT:   memref.store %{{.+}}, %[[OUT]][%{{.+}}, %[[COLUMN]]]
    // CHECK-NOT:  vector.store
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %tile = arith.constant dense<1.0> : vector<16x8xf32>
    vector.transfer_write %tile, %out[%c0, %column] {in_bounds = [true, false]}
        : vector<16x8xf32>, memref<16x?xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// As many columns as the target has may lie behind its first ones.

// CHECK-LABEL: gpu.func @columns_further_on_are_checked
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<16x8xf16>, %[[FIRST:[^:]+]]: index
gpu.module @kernels {
  gpu.func @columns_further_on_are_checked(%out: memref<16x8xf16>, %column: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[COLUMN:.+]] = arith.addi %[[FIRST]],
    // CHECK:      %[[IS_COLUMN:.+]] = arith.cmpi slt, %[[COLUMN]], %c8
    // CHECK-NEXT: scf.if %[[IS_COLUMN]] {
    // CHECK-NEXT:   vector.store %{{.+}}, %[[OUT]][%{{.+}}, %[[COLUMN]]]
    %c0 = arith.constant 0 : index
    %tile = arith.constant dense<1.0> : vector<16x8xf16>
    vector.transfer_write %tile, %out[%c0, %column] {in_bounds = [true, false]}
        : vector<16x8xf16>, memref<16x8xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 144,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x144x24xf16>

// Four passes of 16 rows at a time, in a loop that leaves one. Whole chunks are
// copied without one.

// CHECK-LABEL: gpu.func @many_pieces_are_copied_in_a_loop
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<144x20xf16>, %[[WHOLE:[^:]+]]: memref<144x24xf16>
gpu.module @kernels {
  gpu.func @many_pieces_are_copied_in_a_loop(%key: memref<144x20xf16>,
                                             %whole: memref<144x24xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:     %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:     %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:     %[[C64:.+]] = arith.constant 64 : index
    // CHECK-DAG:     %[[C128:.+]] = arith.constant 128 : index
    // CHECK-DAG:     %[[ROW:.+]] = arith.divui %{{.+}}, %[[C8]] : index
    // CHECK:         scf.for %[[DONE:.+]] = %[[C0]] to %[[C128]] step %[[C64]] {
    // CHECK-NEXT:      %[[FIRST:.+]] = arith.addi %[[ROW]], %[[DONE]] : index
    // CHECK:           nvgpu.device_async_copy %[[KEY]][%[[FIRST]], %{{.+}}]
    // CHECK-COUNT-3:   nvgpu.device_async_copy %[[KEY]]
    // CHECK-NOT:       nvgpu.device_async_copy
    // CHECK:         {{^      }}}
    // CHECK:         %[[LAST:.+]] = arith.addi %[[ROW]], %[[C128]] : index
    // CHECK:         nvgpu.device_async_copy %[[KEY]][%[[LAST]], %{{.+}}]
    // CHECK-NOT:     scf.for
    // CHECK-COUNT-5: nvgpu.device_async_copy %[[WHOLE]]
    // CHECK-NOT:     nvgpu.device_async_copy
    // CHECK:         gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block in_bounds
        : memref<144x20xf16> to !ring
    fcgpu.copy %whole[%c0, %c0] to %ring[%c0] by block in_bounds
        : memref<144x24xf16> to !ring
    gpu.return
  }
}
