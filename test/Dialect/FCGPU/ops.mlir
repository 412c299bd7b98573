// RUN: flashcore-opt %s | flashcore-opt | FileCheck %s
// RUN: flashcore-opt %s -mlir-print-op-generic | flashcore-opt | FileCheck %s

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @flag(
// CHECK-SAME:    %[[LOST:.+]]: i1) -> i1
func.func @flag(%lost: i1) -> i1 {
  // CHECK: %[[FLAG:.+]] = fcgpu.alloc_flag : !fcgpu.flag
  // CHECK: fcgpu.raise %[[FLAG]] if %[[LOST]] : !fcgpu.flag
  // CHECK: %[[RAISED:.+]] = fcgpu.test_flag %[[FLAG]] : !fcgpu.flag
  // CHECK: return %[[RAISED]] : i1
  %flag = fcgpu.alloc_flag : !fcgpu.flag
  fcgpu.raise %flag if %lost : !fcgpu.flag
  %raised = fcgpu.test_flag %flag : !fcgpu.flag
  return %raised : i1
}

//===----------------------------------------------------------------------===//
// Results by way of slots
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @store(
// CHECK-SAME:    %[[TILE:[^:]+]]: vector<64x72xf16>, %[[TARGET:[^:]+]]: memref<1x?x72xf16>, %[[ROW:[^:]+]]: index)
func.func @store(%tile: vector<64x72xf16>, %target: memref<1x?x72xf16>, %row: index) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[RING:.+]] = fcgpu.alloc_ring : <2x64x72xf16, panels>
  %ring = fcgpu.alloc_ring : !fcgpu.ring<2x64x72xf16, panels>
  // CHECK: fcgpu.store %[[TILE]] to %[[TARGET]][%{{.+}}, %[[ROW]], %{{.+}}] through %[[RING]][%{{.+}}]
  // CHECK-SAME: : vector<64x72xf16>, memref<1x?x72xf16>, <2x64x72xf16, panels>
  fcgpu.store %tile to %target[%c0, %row, %c0] through %ring[%c0]
      : vector<64x72xf16>, memref<1x?x72xf16>, !fcgpu.ring<2x64x72xf16, panels>
  // CHECK: fcgpu.await_stores
  fcgpu.await_stores
  return
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func private @ring_type(
// CHECK-SAME:    !fcgpu.ring<1x16x16xf16>, !fcgpu.ring<3x64x128xbf16>)
func.func private @ring_type(!fcgpu.ring<1x16x16xf16>,
                             !fcgpu.ring<3x64x128xbf16>)

// CHECK-LABEL: func.func @alloc_ring(
func.func @alloc_ring() -> !fcgpu.ring<2x64x64xf16> {
  // CHECK: %[[RING:.+]] = fcgpu.alloc_ring : <2x64x64xf16>
  // CHECK: return %[[RING]] : !fcgpu.ring<2x64x64xf16>
  %ring = fcgpu.alloc_ring : !fcgpu.ring<2x64x64xf16>
  return %ring : !fcgpu.ring<2x64x64xf16>
}

// CHECK-LABEL: func.func @alloc_ring_by_warp(
func.func @alloc_ring_by_warp() -> !fcgpu.ring<2x64x64xf16> {
  // CHECK: fcgpu.alloc_ring by warp : <2x64x64xf16>
  %ring = fcgpu.alloc_ring by warp : !fcgpu.ring<2x64x64xf16>
  return %ring : !fcgpu.ring<2x64x64xf16>
}

// CHECK-LABEL: func.func @all_to_all(
// CHECK-SAME:    %[[ACC:[^:]+]]: vector<32x64xf32>, %[[MAX:[^:]+]]: vector<32xf32>, %[[PART:[^:]+]]: index)
func.func @all_to_all(%acc: vector<32x64xf32>, %max: vector<32xf32>,
                      %part: index) -> (vector<16x64xf32>, vector<16xf32>) {
  // CHECK: %[[SHARES:.+]]:4 = fcgpu.all_to_all %[[ACC]], %[[MAX]] part %[[PART]] of 2 : vector<32x64xf32>, vector<32xf32>
  // CHECK: return %[[SHARES]]#1, %[[SHARES]]#3 : vector<16x64xf32>, vector<16xf32>
  %o:2, %m:2 = fcgpu.all_to_all %acc, %max part %part of 2
      : vector<32x64xf32>, vector<32xf32>
  return %o#1, %m#1 : vector<16x64xf32>, vector<16xf32>
}

// CHECK-LABEL: func.func @all_to_all_of_columns(
func.func @all_to_all_of_columns(%acc: vector<16x64xf32>, %part: index)
    -> vector<8x32xf32> {
  // CHECK: %[[SHARES:.+]]:4 = fcgpu.all_to_all
  // CHECK: return %[[SHARES]]#0 : vector<8x32xf32>
  %o:4 = fcgpu.all_to_all %acc part %part of 4 : vector<16x64xf32>
  return %o#0 : vector<8x32xf32>
}

// CHECK-LABEL: func.func @view_pages(
// CHECK-SAME:    %[[POOL:[^:]+]]: memref<?x1x16x64xf16>, %[[TABLE:[^:]+]]: memref<1x?xi32>, %[[ROWS:[^:]+]]: index)
func.func @view_pages(%pool: memref<?x1x16x64xf16>, %table: memref<1x?xi32>, %rows: index) -> memref<1x1x?x64xf16, #fcgpu.pages> {
  // CHECK: fcgpu.view_pages %[[POOL]] by %[[TABLE]] rows(%[[ROWS]]) step(16) : memref<?x1x16x64xf16>, memref<1x?xi32> -> memref<1x1x?x64xf16, #fcgpu.pages>
  %k = fcgpu.view_pages %pool by %table rows(%rows) step(16)
      : memref<?x1x16x64xf16>, memref<1x?xi32> -> memref<1x1x?x64xf16, #fcgpu.pages>
  return %k : memref<1x1x?x64xf16, #fcgpu.pages>
}

// CHECK-LABEL: func.func @copy_by_block(
// CHECK-SAME:    %[[K:[^:]+]]: memref<1x1x512x64xf16>, %[[RING:[^:]+]]: !fcgpu.ring<2x64x64xf16>,
// CHECK-SAME:    %[[ZERO:[^:]+]]: index, %[[ROW:[^:]+]]: index, %[[TILE:[^:]+]]: index)
func.func @copy_by_block(%k: memref<1x1x512x64xf16>,
                         %ring: !fcgpu.ring<2x64x64xf16>,
                         %zero: index, %row: index, %tile: index) {
  // CHECK: fcgpu.copy %[[K]][%[[ZERO]], %[[ZERO]], %[[ROW]], %[[ZERO]]] to %[[RING]][%[[TILE]]] by block : memref<1x1x512x64xf16> to <2x64x64xf16>
  fcgpu.copy %k[%zero, %zero, %row, %zero] to %ring[%tile] by block
      : memref<1x1x512x64xf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// CHECK-LABEL: func.func @copy_of_rows_that_exist(
func.func @copy_of_rows_that_exist(%k: memref<512x64xf16>,
                                   %ring: !fcgpu.ring<2x64x64xf16>,
                                   %i: index, %exists: i1) {
  // CHECK: fcgpu.copy {{.+}} by block if %{{.+}} zero_fill in_bounds : memref<512x64xf16> to <2x64x64xf16>
  fcgpu.copy %k[%i, %i] to %ring[%i] by block if %exists zero_fill in_bounds
      : memref<512x64xf16> to !fcgpu.ring<2x64x64xf16>
  // CHECK: fcgpu.copy {{.+}} by warp via_registers in_bounds : memref<512x64xf16> to <2x64x64xf16>
  fcgpu.copy %k[%i, %i] to %ring[%i] by warp via_registers in_bounds
      : memref<512x64xf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// CHECK-LABEL: func.func @copy_by_warp_with_predicate(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<?x64xbf16, strided<[?, 1], offset: ?>>, %[[RING:[^:]+]]: !fcgpu.ring<4x16x64xbf16>,
// CHECK-SAME:    %[[I:[^:]+]]: index, %[[EXISTS:[^:]+]]: i1)
func.func @copy_by_warp_with_predicate(
    %q: memref<?x64xbf16, strided<[?, 1], offset: ?>>,
    %ring: !fcgpu.ring<4x16x64xbf16>, %i: index, %exists: i1) {
  // CHECK: fcgpu.copy %[[Q]][%[[I]], %[[I]]] to %[[RING]][%[[I]]] by warp if %[[EXISTS]] : memref<?x64xbf16, strided<[?, 1], offset: ?>> to <4x16x64xbf16>
  fcgpu.copy %q[%i, %i] to %ring[%i] by warp if %exists
      : memref<?x64xbf16, strided<[?, 1], offset: ?>>
     to !fcgpu.ring<4x16x64xbf16>
  return
}

// CHECK-LABEL: func.func @commit_and_wait(
func.func @commit_and_wait() {
  // CHECK-NEXT: fcgpu.commit_copies
  // CHECK-NEXT: fcgpu.wait_copies in_flight(1)
  // CHECK-NEXT: fcgpu.wait_copies in_flight(0)
  fcgpu.commit_copies
  fcgpu.wait_copies in_flight(1)
  fcgpu.wait_copies in_flight(0)
  return
}

// CHECK-LABEL: func.func @read(
// CHECK-SAME:    %[[RING:[^:]+]]: !fcgpu.ring<2x64x128xf16>, %[[TILE:[^:]+]]: index)
func.func @read(%ring: !fcgpu.ring<2x64x128xf16>, %tile: index)
    -> vector<64x128xf16> {
  // CHECK: fcgpu.read %[[RING]][%[[TILE]]] : <2x64x128xf16> -> vector<64x128xf16>
  %k = fcgpu.read %ring[%tile] : !fcgpu.ring<2x64x128xf16> -> vector<64x128xf16>
  return %k : vector<64x128xf16>
}

// CHECK-LABEL: func.func @read_of_columns(
func.func @read_of_columns(%ring: !fcgpu.ring<2x16x40xf16>, %tile: index) {
  // CHECK: fcgpu.read %{{.+}}[%{{.+}}] : <2x16x40xf16> -> vector<16x16xf16>
  %start = fcgpu.read %ring[%tile] : !fcgpu.ring<2x16x40xf16> -> vector<16x16xf16>
  // CHECK: fcgpu.read %{{.+}}[%{{.+}}] column(16) : <2x16x40xf16> -> vector<16x24xf16>
  %end = fcgpu.read %ring[%tile] column(16)
      : !fcgpu.ring<2x16x40xf16> -> vector<16x24xf16>
  return
}

// CHECK-LABEL: func.func @map_scores(
// CHECK-SAME:    %[[S:[^:]+]]: vector<16x64xf32>, %[[ROW:[^:]+]]: index, %[[COL:[^:]+]]: index, %[[MINUS_INF:[^:]+]]: f32)
func.func @map_scores(%s: vector<16x64xf32>, %row: index, %col: index,
                      %minus_inf: f32) -> vector<16x64xf32> {
  // CHECK-NEXT: %[[MASKED:.+]] = fcgpu.map_scores %[[S]][%[[ROW]], %[[COL]]] : vector<16x64xf32> {
  // CHECK-NEXT: ^{{.+}}(%[[SCORE:[^:]+]]: f32, %[[QUERY:[^:]+]]: index, %[[KEY:[^:]+]]: index):
  // CHECK-NEXT:   %[[VISIBLE:.+]] = arith.cmpi sle, %[[KEY]], %[[QUERY]] : index
  // CHECK-NEXT:   %[[RESULT:.+]] = arith.select %[[VISIBLE]], %[[SCORE]], %[[MINUS_INF]] : f32
  // CHECK-NEXT:   fcgpu.yield %[[RESULT]] : f32
  // CHECK-NEXT: }
  // CHECK-NEXT: return %[[MASKED]]
  %masked = fcgpu.map_scores %s[%row, %col] : vector<16x64xf32> {
  ^bb0(%score: f32, %query: index, %key: index):
    %visible = arith.cmpi sle, %key, %query : index
    %result = arith.select %visible, %score, %minus_inf : f32
    fcgpu.yield %result : f32
  }
  return %masked : vector<16x64xf32>
}

// CHECK-LABEL: func.func @dropout(
// CHECK-SAME:    %[[P:[^:]+]]: vector<16x64xf32>, %[[ROW:[^:]+]]: index, %[[COL:[^:]+]]: index, %[[D:[^:]+]]: i32)
func.func @dropout(%p: vector<16x64xf32>, %row: index, %col: index,
                   %d: i32) -> vector<16x64xf32> {
  // CHECK-NEXT: %[[KEPT:.+]] = fcgpu.dropout %[[P]][%[[ROW]], %[[COL]]] below 6554 of(%[[D]], %[[D]], %[[D]], %[[D]]) : vector<16x64xf32>
  // CHECK-NEXT: return %[[KEPT]]
  %kept = fcgpu.dropout %p[%row, %col] below 6554 of(%d, %d, %d, %d)
      : vector<16x64xf32>
  return %kept : vector<16x64xf32>
}

// CHECK-LABEL: func.func @attributes_of_others_are_kept(
func.func @attributes_of_others_are_kept(%k: memref<512x64xf16>, %i: index,
                                         %s: vector<16x64xf32>) {
  // CHECK: %[[RING:.+]] = fcgpu.alloc_ring {test.note} : <2x64x64xf16>
  %ring = fcgpu.alloc_ring {test.note} : !fcgpu.ring<2x64x64xf16>
  // CHECK-NEXT: fcgpu.copy {{.+}} by block {test.note} : memref<512x64xf16> to <2x64x64xf16>
  fcgpu.copy %k[%i, %i] to %ring[%i] by block {test.note}
      : memref<512x64xf16> to !fcgpu.ring<2x64x64xf16>
  // CHECK-NEXT: fcgpu.commit_copies {test.note}
  fcgpu.commit_copies {test.note}
  // CHECK-NEXT: fcgpu.wait_copies in_flight(0) {test.note}
  fcgpu.wait_copies in_flight(0) {test.note}
  // CHECK-NEXT: fcgpu.read {{.+}} {test.note} : <2x64x64xf16> -> vector<64x64xf16>
  %tile = fcgpu.read %ring[%i] {test.note}
      : !fcgpu.ring<2x64x64xf16> -> vector<64x64xf16>
  // CHECK-NEXT: fcgpu.map_scores {{.+}} {test.note} : vector<16x64xf32> {
  %same = fcgpu.map_scores %s[%i, %i] {test.note} : vector<16x64xf32> {
  ^bb0(%score: f32, %query: index, %key: index):
    // CHECK: fcgpu.yield %{{.+}} {test.note} : f32
    fcgpu.yield %score {test.note} : f32
  }
  return
}

//===----------------------------------------------------------------------===//
// Attributes on ops of other dialects
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func private @schedule_in_registers_by_query()
// CHECK-SAME:    fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2, query = registers, grid_order = query_fastest, min_blocks = 0>
func.func private @schedule_in_registers_by_query() attributes {
    fcgpu.schedule = #fcgpu.schedule<
        chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4,
        num_stages = 2, query = registers, grid_order = query_fastest,
        min_blocks = 0>}

// CHECK-LABEL: func.func private @schedule_of_key_parts()
// CHECK-SAME:    min_blocks = 0, key_warps = 4, softmax = one_pass>
func.func private @schedule_of_key_parts() attributes {
    fcgpu.schedule = #fcgpu.schedule<
        chip = "sm_89", block_m = 32, block_n = 64, num_warps = 4,
        num_stages = 2, query = registers, grid_order = query_fastest,
        min_blocks = 0, key_warps = 4, softmax = one_pass>}

// CHECK-LABEL: func.func private @schedule_of_three_kernels()
// CHECK-SAME:    min_blocks = 1, softmax = unfused, product = wmma, exchange = plain>
func.func private @schedule_of_three_kernels() attributes {
    fcgpu.schedule = #fcgpu.schedule<
        chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4,
        num_stages = 2, query = shared, grid_order = query_fastest,
        min_blocks = 1, softmax = unfused, product = wmma, exchange = plain>}

// CHECK-LABEL: func.func private @schedule_of_a_persistent_grid()
// CHECK-SAME:    min_blocks = 2, grid = persistent>
func.func private @schedule_of_a_persistent_grid() attributes {
    fcgpu.schedule = #fcgpu.schedule<
        chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4,
        num_stages = 2, query = registers, grid_order = query_fastest,
        min_blocks = 2, grid = persistent>}

// CHECK-LABEL: func.func private @schedule_in_shared_memory_by_head()
// CHECK-SAME:    fcgpu.schedule = #fcgpu.schedule<chip = "sm_80", block_m = 1024, block_n = 16, num_warps = 32, num_stages = 5, query = shared, grid_order = head_fastest, min_blocks = 2>
func.func private @schedule_in_shared_memory_by_head() attributes {
    fcgpu.schedule = #fcgpu.schedule<
        min_blocks = 2, grid_order = head_fastest, query = shared,
        num_stages = 5, num_warps = 32, block_n = 16, block_m = 1024,
        chip = "sm_80">}

// CHECK-LABEL: func.func @layout_of_one_result(
func.func @layout_of_one_result(%s: vector<16x64xf32>) {
  // CHECK: arith.addf {{.+}} {fcgpu.home = #x2_row}
  %row = arith.addf %s, %s {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>}
      : vector<16x64xf32>
  // CHECK: arith.addf {{.+}} {fcgpu.home = #x4_column}
  %column = arith.addf %s, %s {fcgpu.home = #fcgpu.layout<register (1, 0) (2, 0), lane (4, 0) (8, 0) (0, 1) (0, 2) (0, 4)>}
      : vector<16x64xf32>
  return
}

// The accumulator of a warpgroup, and a value for each of its columns.

// CHECK-LABEL: func.func @layout_of_a_warpgroup(
func.func @layout_of_a_warpgroup(%s: vector<64x64xf32>, %v: vector<64xf32>) {
  // CHECK: arith.addf {{.+}} {fcgpu.home = #x2_row1}
  %tile = arith.addf %s, %s {fcgpu.home = #fcgpu.layout<register (0, 1) (8, 0), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0), warp (16, 0) (32, 0)>}
      : vector<64x64xf32>
  // CHECK: arith.addf {{.+}} {fcgpu.home = #vector_layout}
  %columns = arith.addf %v, %v {fcgpu.home = #fcgpu.layout<register (1), lane (2) (4) (0) (0) (0), warp (0) (0)>}
      : vector<64xf32>
  return
}

// A result that is no tile has `unit`.

// CHECK-LABEL: func.func @layouts_of_a_loop(
func.func @layouts_of_a_loop(%s: vector<16x64xf32>, %n: index) {
  // CHECK: scf.for
  // CHECK: } {fcgpu.home = [#x2_row, unit]}
  %results:2 = scf.for %i = %n to %n step %n iter_args(%tile = %s, %x = %n)
      -> (vector<16x64xf32>, index) {
    scf.yield %tile, %x : vector<16x64xf32>, index
  } {fcgpu.home = [#fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>, unit]}
  return
}

// CHECK-LABEL: func.func private @kernel_is_a_dictionary()
// CHECK-SAME:    fcgpu.kernel = {shared_memory = 40960 : i64, threads = 128 : i64}
func.func private @kernel_is_a_dictionary() attributes {
    fcgpu.kernel = {threads = 128 : i64, shared_memory = 40960 : i64}}

// Rows of 24 elements are three cores wide.

// CHECK-LABEL: func.func private @ring_of_oddly_many_cores(
// CHECK-SAME:    !fcgpu.ring<2x16x24xbf16>
func.func private @ring_of_oddly_many_cores(!fcgpu.ring<2x16x24xbf16>)

//===----------------------------------------------------------------------===//
// Slots that change hands, and products of what is in them
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func private @ring_of_panels(
// CHECK-SAME:    !fcgpu.ring<2x128x64xf16, panels>)
func.func private @ring_of_panels(!fcgpu.ring<2x128x64xf16, panels>)

// What the last panel has beyond the columns of the tile is in the slot, but not
// in the type.

// CHECK-LABEL: func.func private @ring_of_part_of_a_panel(
// CHECK-SAME:    !fcgpu.ring<2x128x72xf16, panels>)
func.func private @ring_of_part_of_a_panel(!fcgpu.ring<2x128x72xf16, panels>)

// CHECK-LABEL: func.func private @ring_of_groups_of_panels(
// CHECK-SAME:    !fcgpu.ring<2x128x128xf16, panels(8)>, !fcgpu.ring<2x128x136xf16, panels(32)>)
func.func private @ring_of_groups_of_panels(!fcgpu.ring<2x128x128xf16, panels(8)>, !fcgpu.ring<2x128x136xf16, panels(32)>)

// One box brings both panels of a page, of which there may be several groups;
// what else a slot has is behind that of a whole page.

// CHECK-LABEL: func.func @copy_into_groups(
// CHECK-SAME:    %[[RING:[^:]+]]: !fcgpu.ring<2x64x128xf16, panels(8)>, %[[WIDE:[^:]+]]: !fcgpu.ring<2x64x136xf16, panels(16)>,
func.func @copy_into_groups(%ring: !fcgpu.ring<2x64x128xf16, panels(8)>, %wide: !fcgpu.ring<2x64x136xf16, panels(16)>,
                            %pool: memref<?x1x16x128xf16>, %table: memref<1x?xi32>, %i: index) {
  %k = fcgpu.view_pages %pool by %table rows(%i) step(64)
      : memref<?x1x16x128xf16>, memref<1x?xi32> -> memref<1x1x?x128xf16, #fcgpu.pages>
  // CHECK: fcgpu.copy %{{.+}} to %[[RING]]{{.+}} : memref<1x1x?x128xf16, #fcgpu.pages> to <2x64x128xf16, panels(8)>
  fcgpu.copy %k[%i, %i, %i, %i] to %ring[%i] by block
      : memref<1x1x?x128xf16, #fcgpu.pages> to !fcgpu.ring<2x64x128xf16, panels(8)>
  // CHECK: fcgpu.copy %{{.+}} to %[[WIDE]]{{.+}} : memref<1x1x?x128xf16, #fcgpu.pages> to <2x64x136xf16, panels(16)>
  fcgpu.copy %k[%i, %i, %i, %i] to %wide[%i] by block
      : memref<1x1x?x128xf16, #fcgpu.pages> to !fcgpu.ring<2x64x136xf16, panels(16)>
  return
}

// Copies fill the first panels of slots, the others are filled once.

// CHECK-LABEL: func.func @fill(
// CHECK-SAME:    %[[RING:[^:]+]]: !fcgpu.ring<2x128x136xbf16, panels>,
func.func @fill(%ring: !fcgpu.ring<2x128x136xbf16, panels>,
                %v: memref<512x128xbf16>, %i: index) {
  // CHECK: fcgpu.fill %[[RING]] column(128) with 1.000000e+00 : bf16 of <2x128x136xbf16, panels>
  fcgpu.fill %ring column(128) with 1.0 : bf16 of !fcgpu.ring<2x128x136xbf16, panels>
  // CHECK: fcgpu.copy %{{.+}} to %[[RING]]{{.+}} by block : memref<512x128xbf16> to <2x128x136xbf16, panels>
  fcgpu.copy %v[%i, %i] to %ring[%i] by block
      : memref<512x128xbf16> to !fcgpu.ring<2x128x136xbf16, panels>
  return
}

// CHECK-LABEL: func.func @ring_of_rows(
// CHECK-SAME:    !fcgpu.ring<2x128x64xf16>)
func.func @ring_of_rows(%ring: !fcgpu.ring<2x128x64xf16, rows>) {
  return
}

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @hand_over(
// CHECK-SAME:    %[[RING:[^:]+]]: !fcgpu.ring<2x128x64xf16, panels>,
func.func @hand_over(%ring: !fcgpu.ring<2x128x64xf16, panels>,
                     %k: memref<512x64xf16>, %p: vector<64x64xf16>,
                     %zero: index, %tile: index) -> vector<64x128xf32> {
  %none = arith.constant dense<0.0> : vector<64x128xf32>
  // CHECK:      fcgpu.produce {
  // CHECK-NEXT:   fcgpu.acquire %[[RING]][%[[TILE:.+]]] to fill : <2x128x64xf16, panels>
  // CHECK-NEXT:   fcgpu.copy
  // CHECK-NEXT: }
  fcgpu.produce {
    fcgpu.acquire %ring[%tile] to fill : !fcgpu.ring<2x128x64xf16, panels>
    fcgpu.copy %k[%zero, %zero] to %ring[%tile] by block
        : memref<512x64xf16> to !fcgpu.ring<2x128x64xf16, panels>
  }
  // CHECK: fcgpu.acquire %[[RING]][%[[TILE]]] to read : <2x128x64xf16, panels>
  fcgpu.acquire %ring[%tile] to read : !fcgpu.ring<2x128x64xf16, panels>
  // CHECK: fcgpu.read %[[RING]][%[[TILE]]] {fcgpu.home = #fcgpu.shared} : <2x128x64xf16, panels> -> vector<128x64xf16>
  %b = fcgpu.read %ring[%tile] {fcgpu.home = #fcgpu.shared}
      : !fcgpu.ring<2x128x64xf16, panels> -> vector<128x64xf16>
  // CHECK: %[[S:.+]] = vector.contract
  %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
                        iterator_types = ["parallel", "parallel", "reduction"]}
      %p, %b, %none
      : vector<64x64xf16>, vector<128x64xf16> into vector<64x128xf32>
  // CHECK: %[[R:.+]] = fcgpu.await %[[S]] using(%{{.+}} : vector<64x64xf16>) in_flight(0) : vector<64x128xf32>
  %r = fcgpu.await %s using(%p : vector<64x64xf16>) in_flight(0)
      : vector<64x128xf32>
  // CHECK: fcgpu.release %[[RING]][%[[TILE]]] : <2x128x64xf16, panels>
  fcgpu.release %ring[%tile] : !fcgpu.ring<2x128x64xf16, panels>
  return %r : vector<64x128xf32>
}

// CHECK-LABEL: func.func @staging(
func.func @staging(%m: memref<64x64xf16>, %i: index, %zero: f16) {
  // CHECK: fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 4, number = holder, kept = 64>
  %q = vector.transfer_read %m[%i, %i], %zero
      {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 4, number = holder, kept = 64>}
      : memref<64x64xf16>, vector<16x64xf16>
  // CHECK: fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>
  %k = vector.transfer_read %m[%i, %i], %zero
      {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, kept = 0, home = registers>}
      : memref<64x64xf16>, vector<16x64xf16>
  // CHECK: fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, home = shared, layout = padded, via_registers = true>
  %plain = vector.transfer_read %m[%i, %i], %zero
      {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, home = shared, layout = padded, via_registers = true>}
      : memref<64x64xf16>, vector<16x64xf16>
  // CHECK: fcgpu.staging = #fcgpu.staging<copy = warp, ring = warp, slots = 2, number = turn, home = shared>
  %v = vector.transfer_read %m[%i, %i], %zero
      {fcgpu.staging = #fcgpu.staging<copy = warp, ring = warp, slots = 2, number = turn, home = shared>}
      : memref<64x64xf16>, vector<16x64xf16>
  return
}

// CHECK-LABEL: func.func @products(
func.func @products(%a: vector<16x16xf16>, %b: vector<16x16xf16>, %c: vector<16x16xf32>) {
  // CHECK: vector.contract {{.+}} {fcgpu.home = #fcgpu.fragments, fcgpu.product = #fcgpu.product<wmma, wide = true>}
  %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      %a, %b, %c {fcgpu.product = #fcgpu.product<wmma, wide = true>, fcgpu.home = #fcgpu.fragments} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
  // CHECK: vector.contract {{.+}} {fcgpu.product = #fcgpu.product<thread>}
  %t = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      %a, %b, %c {fcgpu.product = #fcgpu.product<thread, wide = false>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
  return
}

// CHECK-LABEL: func.func @loops(
func.func @loops(%n: index) {
  // CHECK: scf.for
  scf.for %round = %n to %n step %n {
    // CHECK: scf.for
    scf.for %i = %n to %n step %n {
    // CHECK: } {fcgpu.overlap = #fcgpu.overlap<qk>}
    } {fcgpu.overlap = #fcgpu.overlap<qk>}
  // CHECK: } {fcgpu.block_tiles}
  } {fcgpu.block_tiles}
  return
}
