// What depends on the thread: memory accesses, the coordinates of scores, warps.
// Canonicalization and CSE make the index arithmetic readable.

// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-distribute,canonicalize,cse)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x64xf16>

// 128 threads copy 16 rows of 8 chunks at once: thread t row t / 8, chunk t mod
// 8, to the chunk that the row mod 8 is xored to. A row past the end of the
// source reads nothing (0 of 8 elements) and fills with zeros.

// CHECK-LABEL: gpu.func @copy_by_block_is_swizzled_and_zero_filled
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<?x64xf16>, %[[FIRST_ROW:[^:]+]]: index, %[[TILE:[^:]+]]: index
gpu.module @kernels {
  gpu.func @copy_by_block_is_swizzled_and_zero_filled(
      %key: memref<?x64xf16>, %row: index, %tile: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C64:.+]] = arith.constant 64 : index
    // CHECK-DAG:  %[[C2048:.+]] = arith.constant 2048 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[BYTES:.+]] = memref.reinterpret_cast
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[THREAD]], %[[C8]] : index
    // CHECK-DAG:  %[[CHUNK:.+]] = arith.remui %[[THREAD]], %[[C8]] : index
    // CHECK-DAG:  %[[SLOT:.+]] = arith.remui %[[TILE]], %[[C2]] : index
    // CHECK-DAG:  %[[SLOT_START:.+]] = arith.muli %[[SLOT]], %[[C2048]] : index
    // CHECK-DAG:  %[[SOURCE_ROW:.+]] = arith.addi %[[FIRST_ROW]], %[[ROW]] : index
    // CHECK-DAG:  %[[SOURCE_COL:.+]] = arith.muli %[[CHUNK]], %[[C8]] : index
    // CHECK-DAG:  %[[NUM_ROWS:.+]] = memref.dim %[[KEY]], %[[C0]]
    // CHECK-DAG:  %[[EXISTS:.+]] = arith.cmpi slt, %[[SOURCE_ROW]], %[[NUM_ROWS]] : index
    // CHECK-DAG:  %[[ELEMENTS:.+]] = arith.select %[[EXISTS]], %[[C8]], %[[C0]] : index
    // CHECK-DAG:  %[[MASK:.+]] = arith.remui %[[ROW]], %[[C8]] : index
    // CHECK-DAG:  %[[ROW_START:.+]] = arith.muli %[[ROW]], %[[C64]] : index
    // CHECK-DAG:  %[[SWIZZLED:.+]] = arith.xori %[[CHUNK]], %[[MASK]] : index
    // CHECK-DAG:  %[[COL:.+]] = arith.muli %[[SWIZZLED]], %[[C8]] : index
    // CHECK-DAG:  %[[PLACE:.+]] = arith.addi %[[ROW_START]], %[[COL]] : index
    // CHECK-DAG:  %[[PLACE_BYTES:.+]] = arith.muli %[[PLACE]], %[[C2]] : index
    // CHECK-DAG:  %[[IN_FIRST:.+]] = memref.view %[[BYTES]][%[[PLACE_BYTES]]][]
    // CHECK-DAG:  %[[TARGET:.+]] = memref.view %[[IN_FIRST]][%[[SLOT_START]]][]
    // CHECK:      nvgpu.device_async_copy %[[KEY]][%[[SOURCE_ROW]], %[[SOURCE_COL]]], %[[TARGET]][%[[C0]]], 8, %[[ELEMENTS]] {bypassL1}
    // CHECK-NOT:  nvgpu.device_async_copy
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%row, %c0] to %ring[%tile] by block
        : memref<?x64xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x64xf16>

// Rows in pages of 8, of which a tile has two: each thread asks the table for the
// page of its row, or for the first one where none of the page exists. Where in
// the page does not depend on the tile.

// CHECK-LABEL: gpu.func @copy_finds_the_pages_of_rows
// CHECK-SAME:    %[[POOL:[^:]+]]: memref<?x1x8x64xf16>, %[[TABLE:[^:]+]]: memref<1x?xi32>, %[[ROWS:[^:]+]]: index, %[[FIRST_ROW:[^:]+]]: index
gpu.module @kernels {
  gpu.func @copy_finds_the_pages_of_rows(
      %pool: memref<?x1x8x64xf16>, %table: memref<1x?xi32>, %rows: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[OWN:.+]] = arith.divui %{{.+}}, %[[C8]] : index
    // CHECK-DAG:  %[[ROW:.+]] = arith.addi %[[FIRST_ROW]], %[[OWN]] : index
    // CHECK-DAG:  %[[EXISTS:.+]] = arith.cmpi slt, %[[ROW]], %[[ROWS]] : index
    // CHECK-DAG:  %[[ELEMENTS:.+]] = arith.select %[[EXISTS]], %[[C8]], %[[C0]] : index
    // CHECK-DAG:  %[[FIRST_PAGE:.+]] = arith.divui %[[FIRST_ROW]], %[[C8]] : index
    // CHECK-DAG:  %[[OWN_PAGE:.+]] = arith.divui %[[OWN]], %[[C8]] : index
    // CHECK-DAG:  %[[ENTRY:.+]] = arith.addi %[[FIRST_PAGE]], %[[OWN_PAGE]] : index
    // CHECK-DAG:  %[[BEGIN:.+]] = arith.muli %[[ENTRY]], %[[C8]] : index
    // CHECK-DAG:  %[[HAS_ROWS:.+]] = arith.cmpi ult, %[[BEGIN]], %[[ROWS]] : index
    // CHECK-DAG:  %[[ASKED:.+]] = arith.select %[[HAS_ROWS]], %[[ENTRY]], %[[C0]] : index
    // CHECK-DAG:  %[[NUMBER:.+]] = memref.load %[[TABLE]][%[[C0]], %[[ASKED]]]
    // CHECK-DAG:  %[[PAGE:.+]] = arith.index_cast %[[NUMBER]] : i32 to index
    // CHECK-DAG:  %[[ROW_OF_PAGE:.+]] = arith.remui %[[OWN]], %[[C8]] : index
    // CHECK:      nvgpu.device_async_copy %[[POOL]][%[[PAGE]], %[[C0]], %[[ROW_OF_PAGE]], %{{.+}}], %{{.+}}, 8, %[[ELEMENTS]] {bypassL1}
    // CHECK-NOT:  fcgpu.view_pages
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %key = fcgpu.view_pages %pool by %table rows(%rows) step(16)
        : memref<?x1x8x64xf16>, memref<1x?xi32> -> memref<1x1x?x64xf16, #fcgpu.pages>
    fcgpu.copy %key[%c0, %c0, %row, %c0] to %ring[%c0] by block
        : memref<1x1x?x64xf16, #fcgpu.pages> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x64xf16>

// A page of two tiles is one for all rows of a tile.

// CHECK-LABEL: gpu.func @copy_finds_the_page_of_a_tile
// CHECK-SAME:    %[[POOL:[^:]+]]: memref<?x1x32x64xf16>, %{{[^:]+}}: memref<1x?xi32>, %{{[^:]+}}: index, %[[FIRST_ROW:[^:]+]]: index
gpu.module @kernels {
  gpu.func @copy_finds_the_page_of_a_tile(
      %pool: memref<?x1x32x64xf16>, %table: memref<1x?xi32>, %rows: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK-DAG:  %[[ENTRY:.+]] = arith.divui %[[FIRST_ROW]], %[[C32]] : index
    // CHECK-DAG:  arith.muli %[[ENTRY]], %[[C32]] : index
    // CHECK-DAG:  %[[TILE:.+]] = arith.remui %[[FIRST_ROW]], %[[C32]] : index
    // CHECK-DAG:  %[[ROW_OF_PAGE:.+]] = arith.addi %[[TILE]], %{{.+}} : index
    // CHECK:      nvgpu.device_async_copy %[[POOL]][%{{.+}}, %{{.+}}, %[[ROW_OF_PAGE]],
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %key = fcgpu.view_pages %pool by %table rows(%rows) step(16)
        : memref<?x1x32x64xf16>, memref<1x?xi32> -> memref<1x1x?x64xf16, #fcgpu.pages>
    fcgpu.copy %key[%c0, %c0, %row, %c0] to %ring[%c0] by block
        : memref<1x1x?x64xf16, #fcgpu.pages> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<2x16x64xf16>

// Rows that all exist are not compared with the number of rows. All of them are
// filled with zeros where the predicate of an early copy is false.

// CHECK-LABEL: gpu.func @copy_in_bounds_reads_all_rows
// CHECK-SAME:    %[[IS_TILE:[^:]+]]: i1
gpu.module @kernels {
  gpu.func @copy_in_bounds_reads_all_rows(%key: memref<?x64xf16>, %row: index,
                                          %is_tile: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-NOT:  arith.cmpi
    // CHECK:      nvgpu.device_async_copy %{{.+}}, 8 {bypassL1}
    // CHECK-NOT:  arith.cmpi
    // CHECK:      %[[ELEMENTS:.+]] = arith.select %[[IS_TILE]], %[[C8]], %[[C0]] : index
    // CHECK:      nvgpu.device_async_copy %{{.+}}, 8, %[[ELEMENTS]] {bypassL1}
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%row, %c0] to %ring[%c0] by block in_bounds
        : memref<?x64xf16> to !ring
    fcgpu.copy %key[%row, %c0] to %ring[%c1] by block if %is_tile zero_fill in_bounds
        : memref<?x64xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x64xf16>

// 32 lanes copy 4 rows at once, so there are four copies, each of its own row
// check, and none asks which warp it is.

// CHECK-LABEL: gpu.func @copy_by_warp_uses_the_lanes
gpu.module @kernels {
  gpu.func @copy_by_warp_uses_the_lanes(%query: memref<?x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C12:.+]] = arith.constant 12 : index
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[LANE:.+]] = arith.remui %[[THREAD]], %[[C32]] : index
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[LANE]], %[[C8]] : index
    // CHECK:      nvgpu.device_async_copy %{{.+}}[%[[ROW]], %{{.+}}]
    // CHECK:      %[[ROW_4:.+]] = arith.addi %[[ROW]], %[[C4]] : index
    // CHECK:      nvgpu.device_async_copy %{{.+}}[%[[ROW_4]], %{{.+}}]
    // CHECK:      %[[ROW_8:.+]] = arith.addi %[[ROW]], %[[C8]] : index
    // CHECK:      nvgpu.device_async_copy %{{.+}}[%[[ROW_8]], %{{.+}}]
    // CHECK:      %[[ROW_12:.+]] = arith.addi %[[ROW]], %[[C12]] : index
    // CHECK:      nvgpu.device_async_copy %{{.+}}[%[[ROW_12]], %{{.+}}]
    // CHECK-NOT:  nvgpu.device_async_copy
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %query[%c0, %c0] to %ring[%c0] by warp
        : memref<?x64xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 128, block_n = 16,
  num_warps = 8, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x64xf16>

// 256 threads would copy 32 rows at once: those of the last 16 do nothing.

// CHECK-LABEL: gpu.func @more_threads_than_rows
gpu.module @kernels {
  gpu.func @more_threads_than_rows(%key: memref<?x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[THREAD]], %[[C8]] : index
    // CHECK:      %[[HAS_ROW:.+]] = arith.cmpi slt, %[[ROW]], %[[C16]] : index
    // CHECK-NEXT: scf.if %[[HAS_ROW]] {
    // CHECK:        nvgpu.device_async_copy
    // CHECK:      }
    // CHECK-NOT:  nvgpu.device_async_copy
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block : memref<?x64xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x48xf16>

// 6 chunks a row: two threads take three each, and the group of the swizzle is
// gcd(6, 8) = 2, so rows 4 to 7 of eight are xored with 1. The second and third
// chunk lie whole groups on: 16 and 32 elements.

// CHECK-LABEL: gpu.func @chunks_of_a_row_that_are_no_power_of_two
gpu.module @kernels {
  gpu.func @chunks_of_a_row_that_are_no_power_of_two(%key: memref<16x48xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[THREAD]], %[[C2]] : index
    // CHECK-DAG:  %[[CHUNK:.+]] = arith.remui %[[THREAD]], %[[C2]] : index
    // CHECK-DAG:  %[[ROW_GROUP:.+]] = arith.divui %[[ROW]], %[[C4]] : index
    // CHECK-DAG:  %[[MASK:.+]] = arith.remui %[[ROW_GROUP]], %[[C2]] : index
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : index
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK:      arith.xori %[[CHUNK]], %[[MASK]] : index
    // CHECK-NOT:  arith.xori
    // CHECK:      %[[PLACE:.+]] = memref.view
    // CHECK:      nvgpu.device_async_copy %{{.+}}, %[[PLACE]][%[[C0]]], 8
    // CHECK:      nvgpu.device_async_copy %{{.+}}, %[[PLACE]][%[[C16]]], 8
    // CHECK:      nvgpu.device_async_copy %{{.+}}, %[[PLACE]][%[[C32]]], 8
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block : memref<16x48xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x64xf16>

// CHECK-LABEL: gpu.func @predicate_guards_the_whole_copy
// CHECK-SAME:    %[[WANTED:[^:]+]]: i1
gpu.module @kernels {
  gpu.func @predicate_guards_the_whole_copy(%key: memref<?x64xf16>, %wanted: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      scf.if %[[WANTED]] {
    // CHECK:        nvgpu.device_async_copy
    // CHECK:      {{^ *}}}
    // CHECK-NEXT: nvvm.cp.async.commit.group
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block if %wanted
        : memref<?x64xf16> to !ring
    fcgpu.commit_copies
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.func @commit_and_wait_are_those_of_cp_async
gpu.module @kernels {
  gpu.func @commit_and_wait_are_those_of_cp_async()
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      nvvm.cp.async.commit.group
    // CHECK-NEXT: nvvm.cp.async.wait.group 1
    fcgpu.commit_copies
    fcgpu.wait_copies in_flight(1)
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<2x16x32xf16>
!tile = vector<16x32xf16>

// Lane l names row l mod 16 of the cores and chunk l / 16 of the two; the next
// two chunks differ in bit 1 of the chunk number, also after the swizzle.

// CHECK-LABEL: gpu.func @read_undoes_the_swizzle
// CHECK-SAME:    %[[TILE:[^:]+]]: index
gpu.module @kernels {
  gpu.func @read_undoes_the_swizzle(%tile: index, %out: memref<16x32xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : index
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C1024:.+]] = arith.constant 1024 : index
    // CHECK-DAG:  %[[BYTES:.+]] = memref.reinterpret_cast
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[LANE:.+]] = arith.remui %[[THREAD]], %[[C32]] : index
    // CHECK-DAG:  %[[ROW:.+]] = arith.remui %[[LANE]], %[[C16]] : index
    // CHECK-DAG:  %[[ROW_GROUP:.+]] = arith.divui %[[ROW]], %[[C2]] : index
    // CHECK-DAG:  %[[MASK:.+]] = arith.remui %[[ROW_GROUP]], %[[C4]] : index
    // CHECK-DAG:  %[[ROW_START:.+]] = arith.muli %[[ROW]], %[[C32]] : index
    // CHECK-DAG:  %[[CHUNK:.+]] = arith.divui %[[LANE]], %[[C16]] : index
    // CHECK-DAG:  %[[SWIZZLED:.+]] = arith.xori %[[CHUNK]], %[[MASK]] : index
    // CHECK-DAG:  %[[COL:.+]] = arith.muli %[[SWIZZLED]], %[[C8]] : index
    // CHECK-DAG:  %[[LANE_PART:.+]] = arith.addi %[[ROW_START]], %[[COL]] : index
    // CHECK-DAG:  %[[SLOT:.+]] = arith.remui %[[TILE]], %[[C2]] : index
    // CHECK-DAG:  %[[SLOT_START:.+]] = arith.muli %[[SLOT]], %[[C1024]] : index
    // CHECK-DAG:  %[[LANE_BYTES:.+]] = arith.muli %[[LANE_PART]], %[[C2]] : index
    // CHECK-DAG:  %[[IN_FIRST:.+]] = memref.view %[[BYTES]][%[[LANE_BYTES]]][]
    // CHECK-DAG:  %[[LEFT:.+]] = memref.view %[[IN_FIRST]][%[[SLOT_START]]][]
    // CHECK:      nvgpu.ldmatrix %[[LEFT]][%[[C0]]] {numTiles = 4 : i32, transpose = false}
    // CHECK-DAG:  %[[OTHER:.+]] = arith.xori %[[LANE_PART]], %[[C16]] : index
    // CHECK-DAG:  %[[OTHER_BYTES:.+]] = arith.muli %[[OTHER]], %[[C2]] : index
    // CHECK-DAG:  %[[OTHER_IN_FIRST:.+]] = memref.view %[[BYTES]][%[[OTHER_BYTES]]][]
    // CHECK-DAG:  %[[RIGHT:.+]] = memref.view %[[OTHER_IN_FIRST]][%[[SLOT_START]]][]
    // CHECK:      nvgpu.ldmatrix %[[RIGHT]][%[[C0]]] {numTiles = 4 : i32, transpose = false}
    // CHECK-NOT:  nvgpu.ldmatrix
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %value = fcgpu.read %ring[%tile] {fcgpu.home = #row} : !ring -> !tile
    vector.transfer_write %value, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x32xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// A lane stores the two neighbours it holds of each core, 4 bytes at once.

// CHECK-LABEL: gpu.func @write_stores_pairs
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<16x16xf16>
gpu.module @kernels {
  gpu.func @write_stores_pairs(%out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[LANE:.+]] = arith.remui %[[THREAD]], %{{.+}} : index
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[LANE]], %[[C4]] : index
    // CHECK-DAG:  %[[IN_QUAD:.+]] = arith.remui %[[LANE]], %[[C4]] : index
    // CHECK-DAG:  %[[COL:.+]] = arith.muli %[[IN_QUAD]], %[[C2]] : index
    // CHECK-NOT:  scf.if
    // CHECK:      vector.store %{{.+}}, %[[OUT]][%[[ROW]], %[[COL]]] {alignment = 4 : i64} : memref<16x16xf16>, vector<2xf16>
    // CHECK:      %[[COL_8:.+]] = arith.addi %[[COL]], %[[C8]] : index
    // CHECK:      vector.store %{{.+}}, %[[OUT]][%[[ROW]], %[[COL_8]]]
    // CHECK:      %[[ROW_8:.+]] = arith.addi %[[ROW]], %[[C8]] : index
    // CHECK:      vector.store %{{.+}}, %[[OUT]][%[[ROW_8]], %[[COL]]]
    // CHECK:      vector.store %{{.+}}, %[[OUT]][%[[ROW_8]], %[[COL_8]]]
    // CHECK-NOT:  scf.if
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %one = arith.constant dense<1.0> : !tile
    vector.transfer_write %one, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// CHECK-LABEL: gpu.func @write_checks_rows_that_may_not_exist
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<?x16xf16>
gpu.module @kernels {
  gpu.func @write_checks_rows_that_may_not_exist(%out: memref<?x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %{{.+}}, %[[C4]] : index
    // CHECK-DAG:  %[[NUM_ROWS:.+]] = memref.dim %[[OUT]],
    // CHECK-DAG:  %[[EXISTS:.+]] = arith.cmpi slt, %[[ROW]], %[[NUM_ROWS]] : index
    // CHECK:      scf.if %[[EXISTS]] {
    // CHECK:        vector.store %{{.+}}, %[[OUT]][%[[ROW]],
    // CHECK:        vector.store %{{.+}}, %[[OUT]][%[[ROW]],
    // CHECK:      }
    // CHECK-DAG:  %[[ROW_8:.+]] = arith.addi %[[ROW]], %[[C8]] : index
    // CHECK-DAG:  %[[EXISTS_8:.+]] = arith.cmpi slt, %[[ROW_8]], %[[NUM_ROWS]] : index
    // CHECK:      scf.if %[[EXISTS_8]] {
    // CHECK:        vector.store %{{.+}}, %[[OUT]][%[[ROW_8]],
    // CHECK:        vector.store %{{.+}}, %[[OUT]][%[[ROW_8]],
    // CHECK:      }
    %c0 = arith.constant 0 : index
    %one = arith.constant dense<1.0> : !tile
    vector.transfer_write %one, %out[%c0, %c0] {in_bounds = [false, true]}
        : !tile, memref<?x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// The memref has as many rows as the tile, whatever in_bounds says.

// CHECK-LABEL: gpu.func @write_of_all_rows_needs_no_check
gpu.module @kernels {
  gpu.func @write_of_all_rows_needs_no_check(%out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      gpu.thread_id
    // CHECK-NOT:  scf.if
    // CHECK:      vector.store
    %c0 = arith.constant 0 : index
    %one = arith.constant dense<1.0> : !tile
    vector.transfer_write %one, %out[%c0, %c0] {in_bounds = [false, true]}
        : !tile, memref<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// As many rows, but written from another row on than the first.

// CHECK-LABEL: gpu.func @write_of_as_many_rows_further_down_is_checked
gpu.module @kernels {
  gpu.func @write_of_as_many_rows_further_down_is_checked(
      %out: memref<16x16xf16>, %row: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      gpu.thread_id
    // CHECK-NOT:  vector.store
    // CHECK:      scf.if
    // CHECK:        vector.store
    %c0 = arith.constant 0 : index
    %one = arith.constant dense<1.0> : !tile
    vector.transfer_write %one, %out[%row, %c0] {in_bounds = [false, true]}
        : !tile, memref<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!rows = vector<16xf32>

// All four lanes of a quad hold the row's value; the first one stores it.

// CHECK-LABEL: gpu.func @first_lane_of_the_quad_writes_a_row_value
// CHECK-SAME:    %[[LSE:[^:]+]]: memref<?xf32>
gpu.module @kernels {
  gpu.func @first_lane_of_the_quad_writes_a_row_value(%lse: memref<?xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[LANE:.+]], %[[C4]] : index
    // CHECK-DAG:  %[[NUM_ROWS:.+]] = memref.dim %[[LSE]], %[[C0]]
    // CHECK-DAG:  %[[EXISTS:.+]] = arith.cmpi slt, %[[ROW]], %[[NUM_ROWS]] : index
    // CHECK-DAG:  %[[IN_QUAD:.+]] = arith.remui %[[LANE]], %[[C4]] : index
    // CHECK-DAG:  %[[IS_FIRST:.+]] = arith.cmpi eq, %[[IN_QUAD]], %[[C0]] : index
    // CHECK:      %[[STORES:.+]] = arith.andi %[[EXISTS]], %[[IS_FIRST]] : i1
    // CHECK-NEXT: scf.if %[[STORES]] {
    // CHECK-NEXT:   memref.store %{{.+}}, %[[LSE]][%[[ROW]]]
    // CHECK-NEXT: }
    %c0 = arith.constant 0 : index
    %one = arith.constant dense<1.0> : !rows
    vector.transfer_write %one, %lse[%c0] : !rows, memref<?xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf16>

// 2 * 16 * 16 elements are 1024 bytes; both rings are views of one allocation,
// which the launch sizes.

// CHECK-LABEL: gpu.func @rings_follow_each_other
gpu.module @kernels {
  gpu.func @rings_follow_each_other(%a: memref<16x16xf16>,
                                    %b: memref<16x32xbf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C1024:.+]] = arith.constant 1024 : index
    // CHECK:      %[[SHARED:.+]] = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    // CHECK:      %[[BYTES:.+]] = memref.reinterpret_cast %[[SHARED]] to offset: [0], sizes: [3072], strides: [1]
    // CHECK:      %[[IN_FIRST:.+]] = memref.view %[[BYTES]][%{{.+}}][] : {{.+}} to memref<1024xi8, #gpu.address_space<workgroup>>
    // CHECK:      %[[FIRST:.+]] = memref.view %[[IN_FIRST]][%{{.+}}][] : {{.+}} to memref<256xf16, #gpu.address_space<workgroup>>
    // CHECK:      nvgpu.device_async_copy %{{.+}}, %[[FIRST]][
    // CHECK:      %[[SECOND_SHIFT:.+]] = arith.addi %{{.+}}, %[[C1024]] : index
    // CHECK:      %[[IN_SECOND:.+]] = memref.view %[[BYTES]][%[[SECOND_SHIFT]]][] : {{.+}} to memref<2048xi8, #gpu.address_space<workgroup>>
    // CHECK:      %[[SECOND:.+]] = memref.view %[[IN_SECOND]][%{{.+}}][] : {{.+}} to memref<512xbf16, #gpu.address_space<workgroup>>
    // CHECK:      nvgpu.device_async_copy %{{.+}}, %[[SECOND]][
    %c0 = arith.constant 0 : index
    %first = fcgpu.alloc_ring : <2x16x16xf16>
    %second = fcgpu.alloc_ring : <2x16x32xbf16>
    fcgpu.copy %a[%c0, %c0] to %first[%c0] by block
        : memref<16x16xf16> to <2x16x16xf16>
    fcgpu.copy %b[%c0, %c0] to %second[%c0] by block
        : memref<16x32xbf16> to <2x16x32xbf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf32>

// Lane l has row l / 4 and columns 2 (l mod 4) and the next one of each core; the
// cores are (0, 0), (0, 8), (8, 0) and (8, 8).

// CHECK-LABEL: gpu.func @map_scores_knows_the_coordinates
// CHECK-SAME:    %[[FIRST_QUERY:[^:]+]]: index, %[[FIRST_KEY:[^:]+]]: index
gpu.module @kernels {
  gpu.func @map_scores_knows_the_coordinates(%query: index, %key: index,
                                             %out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : index
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C9:.+]] = arith.constant 9 : index
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[LANE:.+]] = arith.remui %[[THREAD]], %[[C32]] : index
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[LANE]], %[[C4]] : index
    // CHECK-DAG:  %[[IN_QUAD:.+]] = arith.remui %[[LANE]], %[[C4]] : index
    // CHECK-DAG:  %[[COL:.+]] = arith.muli %[[IN_QUAD]], %[[C2]] : index
    // CHECK-DAG:  %[[QUERY:.+]] = arith.addi %[[FIRST_QUERY]], %[[ROW]] : index
    // CHECK-DAG:  %[[KEY:.+]] = arith.addi %[[FIRST_KEY]], %[[COL]] : index
    // CHECK:      %[[R000:.+]] = "score"(%{{.+}}, %[[QUERY]], %[[KEY]])
    // CHECK:      %[[KEY_1:.+]] = arith.addi %[[KEY]], %[[C1]] : index
    // CHECK:      %[[R001:.+]] = "score"(%{{.+}}, %[[QUERY]], %[[KEY_1]])
    // CHECK:      %[[CORE_00:.+]] = vector.from_elements %[[R000]], %[[R001]]
    // CHECK:      %[[KEY_8:.+]] = arith.addi %[[KEY]], %[[C8]] : index
    // CHECK:      "score"(%{{.+}}, %[[QUERY]], %[[KEY_8]])
    // CHECK:      %[[KEY_9:.+]] = arith.addi %[[KEY]], %[[C9]] : index
    // CHECK:      "score"(%{{.+}}, %[[QUERY]], %[[KEY_9]])
    // CHECK:      %[[QUERY_8:.+]] = arith.addi %[[QUERY]], %[[C8]] : index
    // CHECK:      "score"(%{{.+}}, %[[QUERY_8]], %[[KEY]])
    // CHECK:      "score"(%{{.+}}, %[[QUERY_8]], %[[KEY_1]])
    // CHECK:      "score"(%{{.+}}, %[[QUERY_8]], %[[KEY_8]])
    // CHECK:      "score"(%{{.+}}, %[[QUERY_8]], %[[KEY_9]])
    // CHECK:      vector.store %[[CORE_00]]
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !tile
    %scores = fcgpu.map_scores %zero[%query, %key] : !tile {
    ^bb0(%score: f32, %i: index, %j: index):
      %new = "score"(%score, %i, %j) : (f32, index, index) -> f32
      fcgpu.yield %new : f32
    }
    vector.transfer_write %scores, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Every warp runs the body of the loop over warps once.

// CHECK-LABEL: gpu.func @loop_over_warps_becomes_the_warp_number
gpu.module @kernels {
  gpu.func @loop_over_warps_becomes_the_warp_number()
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[WARP:.+]] = arith.divui %[[THREAD]], %[[C32]] : index
    // CHECK-NOT:  scf.forall
    // CHECK:      "use"(%[[WARP]])
    // CHECK:      gpu.return
    scf.forall (%warp) in (4) {
      "use"(%warp) : (index) -> ()
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x40xf16>

// 5 chunks a row: eight threads share a row, so that neighbours copy from the
// same sectors, and three of them are idle. Rows of oddly many chunks need no
// swizzle.

// CHECK-LABEL: gpu.func @copy_of_oddly_many_chunks_has_idle_threads
// CHECK-SAME:    %[[KEY:[^:]+]]: memref<?x40xf16>
gpu.module @kernels {
  gpu.func @copy_of_oddly_many_chunks_has_idle_threads(%key: memref<?x40xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C5:.+]] = arith.constant 5 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C40:.+]] = arith.constant 40 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[ROW:.+]] = arith.divui %[[THREAD]], %[[C8]] : index
    // CHECK-DAG:  %[[CHUNK:.+]] = arith.remui %[[THREAD]], %[[C8]] : index
    // CHECK-DAG:  %[[IS_BUSY:.+]] = arith.cmpi slt, %[[CHUNK]], %[[C5]] : index
    // CHECK-NOT:  arith.xori
    // CHECK:      scf.if %[[IS_BUSY]] {
    // CHECK-NEXT:   %[[COL:.+]] = arith.muli %[[CHUNK]], %[[C8]] : index
    // CHECK-NEXT:   %[[ROW_START:.+]] = arith.muli %[[ROW]], %[[C40]] : index
    // CHECK-NEXT:   %[[PLACE:.+]] = arith.addi %[[ROW_START]], %[[COL]] : index
    // CHECK-NEXT:   %[[PLACE_BYTES:.+]] = arith.muli %[[PLACE]], %{{.+}} : index
    // CHECK-NEXT:   %[[TARGET:.+]] = memref.view %{{.+}}[%[[PLACE_BYTES]]][]
    // CHECK-NEXT:   nvgpu.device_async_copy %[[KEY]][%[[ROW]], %[[COL]]], %[[TARGET]][%{{.+}}], 8,
    // CHECK-NEXT: {{^ *}}}
    // CHECK:      %[[ROW_8:.+]] = arith.addi %[[ROW]], %[[C8]] : index
    // CHECK:      scf.if %[[IS_BUSY]] {
    // CHECK:        nvgpu.device_async_copy %[[KEY]][%[[ROW_8]], %{{.+}}]
    // CHECK-NEXT: {{^ *}}}
    // CHECK-NOT:  nvgpu.device_async_copy
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block : memref<?x40xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x72xf16>

// 9 chunks a row: all of the eight threads copy one, and one of them the ninth.

// CHECK-LABEL: gpu.func @only_the_last_pass_of_a_row_has_idle_threads
gpu.module @kernels {
  gpu.func @only_the_last_pass_of_a_row_has_idle_threads(%key: memref<?x72xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C9:.+]] = arith.constant 9 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[CHUNK:.+]] = arith.remui %[[THREAD]], %[[C8]] : index
    // CHECK-NOT:  scf.if
    // CHECK:      nvgpu.device_async_copy
    // CHECK:      %[[NEXT_CHUNK:.+]] = arith.addi %[[CHUNK]], %[[C8]] : index
    // CHECK-NEXT: %[[IS_BUSY:.+]] = arith.cmpi slt, %[[NEXT_CHUNK]], %[[C9]] : index
    // CHECK-NEXT: scf.if %[[IS_BUSY]] {
    // CHECK:        nvgpu.device_async_copy
    // CHECK-NEXT: {{^ *}}}
    // CHECK-NOT:  nvgpu.device_async_copy
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.copy %key[%c0, %c0] to %ring[%c0] by block : memref<?x72xf16> to !ring
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<2x16x24xf16>
!tile = vector<16x24xf16>

// Of the last column of cores, ldmatrix.x2 takes the rows that the lanes 0 to
// 15 name: 16 elements to the right of those of the first two columns.

// CHECK-LABEL: gpu.func @read_of_an_odd_number_of_cores
// CHECK-SAME:    %[[TILE:[^:]+]]: index
gpu.module @kernels {
  gpu.func @read_of_an_odd_number_of_cores(%tile: index,
                                           %out: memref<16x24xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : index
    // CHECK-DAG:  %[[C24:.+]] = arith.constant 24 : index
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C768:.+]] = arith.constant 768 : index
    // CHECK-DAG:  %[[THREAD:.+]] = gpu.thread_id x
    // CHECK-DAG:  %[[LANE:.+]] = arith.remui %[[THREAD]], %{{.+}} : index
    // CHECK-DAG:  %[[ROW:.+]] = arith.remui %[[LANE]], %[[C16]] : index
    // CHECK-DAG:  %[[ROW_START:.+]] = arith.muli %[[ROW]], %[[C24]] : index
    // CHECK-DAG:  %[[CHUNK:.+]] = arith.divui %[[LANE]], %[[C16]] : index
    // CHECK-DAG:  %[[COL:.+]] = arith.muli %[[CHUNK]], %[[C8]] : index
    // CHECK-DAG:  %[[LANE_PART:.+]] = arith.addi %[[ROW_START]], %[[COL]] : index
    // CHECK-DAG:  %[[SLOT:.+]] = arith.remui %[[TILE]], %[[C2]] : index
    // CHECK-DAG:  %[[SLOT_START:.+]] = arith.muli %[[SLOT]], %[[C768]] : index
    // CHECK-DAG:  %[[LANE_BYTES:.+]] = arith.muli %[[LANE_PART]], %[[C2]] : index
    // CHECK-DAG:  %[[IN_FIRST:.+]] = memref.view %{{.+}}[%[[LANE_BYTES]]][]
    // CHECK-DAG:  %[[PLACE:.+]] = memref.view %[[IN_FIRST]][%[[SLOT_START]]][]
    // CHECK:      nvgpu.ldmatrix %[[PLACE]][%[[C0]]] {numTiles = 4 : i32, transpose = false}
    // CHECK:      nvgpu.ldmatrix %[[PLACE]][%[[C16]]] {numTiles = 2 : i32, transpose = false} : memref<384xf16, #gpu.address_space<workgroup>> -> vector<2x2xf16>
    // CHECK-NOT:  nvgpu.ldmatrix
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %value = fcgpu.read %ring[%tile] {fcgpu.home = #row} : !ring -> !tile
    vector.transfer_write %value, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x24xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!ring = !fcgpu.ring<1x16x64xf16>

// Columns 32 to 63 are chunks 4 to 7: the swizzle flips bits 2 and 1 of their
// numbers, so that two addresses serve four pairs.

// CHECK-LABEL: gpu.func @read_of_the_last_columns
gpu.module @kernels {
  gpu.func @read_of_the_last_columns(%out: memref<16x32xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : index
    // CHECK-DAG:  %[[C48:.+]] = arith.constant 48 : index
    // CHECK:      %[[CHUNK4:.+]] = arith.xori %[[PLACE:.+]], %[[C32]] : index
    // CHECK:      nvgpu.ldmatrix %{{.+}}[%[[C0]]] {numTiles = 4 : i32, transpose = false}
    // CHECK:      %[[CHUNK6:.+]] = arith.xori %[[PLACE]], %[[C48]] : index
    // CHECK:      nvgpu.ldmatrix %{{.+}}[%[[C0]]] {numTiles = 4 : i32, transpose = false}
    // CHECK-NOT:  nvgpu.ldmatrix
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %tile = fcgpu.read %ring[%c0] column(32)
        {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>}
        : !ring -> vector<16x32xf16>
    vector.transfer_write %tile, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<16x32xf16>, memref<16x32xf16>
    gpu.return
  }
}
