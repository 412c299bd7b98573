// RUN: flashcore-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expects a ring of stages x rows x cols, but got 2 dimensions}}
func.func private @ring_without_stages(!fcgpu.ring<64x64xf16>)

// -----

// expected-error @below {{expected static shape}}
func.func private @ring_of_dynamic_rows(!fcgpu.ring<2x?x64xf16>)

// -----

// expected-error @below {{expects a ring of f16 or bf16, but got 'f32'}}
func.func private @ring_of_f32(!fcgpu.ring<2x64x64xf32>)

// -----

// expected-error @below {{expects at least one stage, but got 0}}
func.func private @ring_of_no_stages(!fcgpu.ring<0x64x64xf16>)

// -----

// expected-error @below {{expects rows to be a positive multiple of 16, but got 8}}
func.func private @ring_rows_not_a_multiple(!fcgpu.ring<2x8x64xf16>)

// -----

// expected-error @below {{expects cols to be a multiple of 8 from 16 on, but got 68}}
func.func private @ring_cols_not_a_multiple(!fcgpu.ring<2x64x68xf16>)

// -----

// expected-error @below {{expects rows to be a positive multiple of 16, but got 0}}
func.func private @ring_of_no_rows(!fcgpu.ring<2x0x64xf16>)

// -----

// expected-error @below {{expects cols to be a multiple of 8 from 16 on, but got 8}}
func.func private @ring_of_one_column_of_cores(!fcgpu.ring<2x64x8xf16>)

// -----

func.func @copy_of_another_element_type(%k: memref<512x64xbf16>, %i: index,
                                        %ring: !fcgpu.ring<2x64x64xf16>) {
  // expected-error @below {{'fcgpu.copy' op expects source and ring of one element type, but got 'bf16' and 'f16'}}
  fcgpu.copy %k[%i, %i] to %ring[%i] by block
      : memref<512x64xbf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// -----

func.func @copy_with_too_few_indices(%k: memref<1x512x64xf16>, %i: index,
                                     %ring: !fcgpu.ring<2x64x64xf16>) {
  // expected-error @below {{'fcgpu.copy' op expects 3 indices, but got 2}}
  fcgpu.copy %k[%i, %i] to %ring[%i] by block
      : memref<1x512x64xf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// -----

func.func @copy_of_rank_one(%k: memref<64xf16>, %i: index,
                            %ring: !fcgpu.ring<2x64x64xf16>) {
  // expected-error @below {{'fcgpu.copy' op expects a source of rank 2 or more, but got 1}}
  fcgpu.copy %k[%i] to %ring[%i] by block
      : memref<64xf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// -----

func.func @copy_of_wider_rows(%k: memref<512x128xf16>, %i: index,
                              %ring: !fcgpu.ring<2x64x64xf16>) {
  // expected-error @below {{'fcgpu.copy' op expects source rows of 64 columns, but got 128}}
  fcgpu.copy %k[%i, %i] to %ring[%i] by block
      : memref<512x128xf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// -----

// A row of 50 columns has tiles of 56.

func.func @copy_of_narrower_rows(%k: memref<512x50xf16>, %i: index,
                                 %ring: !fcgpu.ring<2x64x64xf16>) {
  // expected-error @below {{'fcgpu.copy' op expects source rows of 64 columns, but got 50}}
  fcgpu.copy %k[%i, %i] to %ring[%i] by block
      : memref<512x50xf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// -----

func.func @copy_of_dynamic_rows(%k: memref<512x?xf16>, %i: index,
                                %ring: !fcgpu.ring<2x64x64xf16>) {
  // expected-error @below {{'fcgpu.copy' op expects source rows of 64 columns, but got ?}}
  fcgpu.copy %k[%i, %i] to %ring[%i] by block
      : memref<512x?xf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// -----

func.func @copy_by_unknown_scope(%k: memref<512x64xf16>, %i: index,
                                 %ring: !fcgpu.ring<2x64x64xf16>) {
  // expected-error @below {{expected string or keyword containing one of the following enum values for attribute 'scope' [block, warp]}}
  fcgpu.copy %k[%i, %i] to %ring[%i] by thread
      : memref<512x64xf16> to !fcgpu.ring<2x64x64xf16>
  return
}

// -----

func.func @wait_for_a_negative_count() {
  // expected-error @below {{'fcgpu.wait_copies' op attribute 'in_flight' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  fcgpu.wait_copies in_flight(-1)
  return
}

// -----

func.func @read_of_part_of_a_tile(%ring: !fcgpu.ring<2x64x64xf16>, %i: index) {
  // expected-error @below {{'fcgpu.read' op expects result type 'vector<64x64xf16>', but got 'vector<16x64xf16>'}}
  %k = fcgpu.read %ring[%i] : !fcgpu.ring<2x64x64xf16> -> vector<16x64xf16>
  return
}

// -----

func.func @read_of_half_a_step(%ring: !fcgpu.ring<2x64x64xf16>, %i: index) {
  // expected-error @below {{'fcgpu.read' op expects result type 'vector<64x48xf16>', but got 'vector<64x24xf16>'}}
  %k = fcgpu.read %ring[%i] column(16)
      : !fcgpu.ring<2x64x64xf16> -> vector<64x24xf16>
  return
}

// -----

func.func @read_past_the_last_column(%ring: !fcgpu.ring<2x64x64xf16>, %i: index) {
  // expected-error @below {{'fcgpu.read' op expects result type 'vector<64x16xf16>', but got 'vector<64x32xf16>'}}
  %k = fcgpu.read %ring[%i] column(48)
      : !fcgpu.ring<2x64x64xf16> -> vector<64x32xf16>
  return
}

// -----

func.func @read_from_within_a_step(%ring: !fcgpu.ring<2x64x64xf16>, %i: index) {
  // expected-error @below {{'fcgpu.read' op expects the first column to be a multiple of 16 below 64, but got 8}}
  %k = fcgpu.read %ring[%i] column(8)
      : !fcgpu.ring<2x64x64xf16> -> vector<64x56xf16>
  return
}

// -----

func.func @read_behind_the_tile(%ring: !fcgpu.ring<2x64x64xf16>, %i: index) {
  // expected-error @below {{'fcgpu.read' op expects the first column to be a multiple of 16 below 64, but got 64}}
  %k = fcgpu.read %ring[%i] column(64)
      : !fcgpu.ring<2x64x64xf16> -> vector<64x16xf16>
  return
}

// -----

func.func @map_scores_of_f16(%s: vector<16x64xf16>, %i: index) {
  // expected-error @below {{'fcgpu.map_scores' op operand #0 must be vector of 32-bit float values of ranks 2, but got 'vector<16x64xf16>'}}
  %r = fcgpu.map_scores %s[%i, %i] : vector<16x64xf16> {
  ^bb0(%score: f32, %query: index, %key: index):
    fcgpu.yield %score : f32
  }
  return
}

// -----

func.func @map_scores_changes_the_shape(%s: vector<16x64xf32>, %i: index) {
  // expected-error @below {{'fcgpu.map_scores' op failed to verify that all of {scores, result} have same type}}
  %r = "fcgpu.map_scores"(%s, %i, %i) ({
  ^bb0(%score: f32, %query: index, %key: index):
    fcgpu.yield %score : f32
  }) : (vector<16x64xf32>, index, index) -> vector<16x32xf32>
  return
}

// -----

func.func @map_scores_without_key_coordinate(%s: vector<16x64xf32>, %i: index) {
  // expected-error @below {{'fcgpu.map_scores' op expects a region of (score: f32, query: index, key: index)}}
  %r = fcgpu.map_scores %s[%i, %i] : vector<16x64xf32> {
  ^bb0(%score: f32, %query: index):
    fcgpu.yield %score : f32
  }
  return
}

// -----

func.func @map_scores_ends_with_another_op(%s: vector<16x64xf32>, %i: index) {
  // expected-error @below {{'fcgpu.map_scores' op expects the region to end with fcgpu.yield}}
  %r = fcgpu.map_scores %s[%i, %i] : vector<16x64xf32> {
  ^bb0(%score: f32, %query: index, %key: index):
    llvm.unreachable
  }
  return
}

// -----

func.func @map_scores_with_control_flow(%s: vector<16x64xf32>, %i: index) {
  // expected-error @below {{'fcgpu.map_scores' op expects region #0 to have 0 or 1 blocks}}
  %r = fcgpu.map_scores %s[%i, %i] : vector<16x64xf32> {
  ^bb0(%score: f32, %query: index, %key: index):
    cf.br ^bb1
  ^bb1:
    fcgpu.yield %score : f32
  }
  return
}

// -----

func.func @map_scores_without_region(%s: vector<16x64xf32>, %i: index) {
  // expected-error @below {{'fcgpu.map_scores' op region #0 ('body') failed to verify constraint: region with 1 blocks}}
  %r = "fcgpu.map_scores"(%s, %i, %i) ({})
      : (vector<16x64xf32>, index, index) -> vector<16x64xf32>
  return
}

// -----

func.func @yield_outside_of_map_scores(%score: f32) {
  // expected-error @below {{'fcgpu.yield' op expects parent op 'fcgpu.map_scores'}}
  fcgpu.yield %score : f32
}

// -----

//===----------------------------------------------------------------------===//
// #fcgpu.schedule
//===----------------------------------------------------------------------===//

// expected-error @below {{expects num_warps from 1 to 32, but got 0}}
#no_warps = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 0, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects num_warps from 1 to 32, but got 33}}
#too_many_warps = #fcgpu.schedule<
    chip = "sm_89", block_m = 528, block_n = 64, num_warps = 33, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects block_m to be a positive multiple of 16 * num_warps = 64, but got 96}}
#block_m_not_a_multiple = #fcgpu.schedule<
    chip = "sm_89", block_m = 96, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects block_m to be a positive multiple of 16 * num_warps = 64, but got 0}}
#block_m_of_zero = #fcgpu.schedule<
    chip = "sm_89", block_m = 0, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects key_warps to divide num_warps = 4, but got 3}}
#key_warps_not_a_divisor = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0,
    key_warps = 3>

// -----

// expected-error @below {{expects key_warps to divide num_warps = 4, but got 0}}
#no_key_warps = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0,
    key_warps = 0>

// -----

// expected-error @below {{expects block_m to be a positive multiple of 16 * num_warps / key_warps = 32, but got 48}}
#block_m_not_a_multiple_of_groups = #fcgpu.schedule<
    chip = "sm_89", block_m = 48, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0,
    key_warps = 2>

// -----

// expected-error @below {{expects block_n to be a positive multiple of 16, but got 72}}
#block_n_not_a_multiple = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 72, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects block_n to be a positive multiple of 16, but got -16}}
#negative_block_n = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = -16, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects num_stages of at least 2, but got 1}}
#one_stage = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 1,
    query = registers, grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects num_stages of at most 1024, but got 1152921504606846976}}
#absurdly_many_stages = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4,
    num_stages = 1152921504606846976, query = registers,
    grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects query_steps from 1 to 1024 with query split, but got 0}}
#split_without_steps = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = split, grid_order = query_fastest, min_blocks = 0>

// -----

// expected-error @below {{expects query_steps 0 unless query is split, but got 2 with query shared}}
#steps_of_no_split = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = shared, grid_order = query_fastest, min_blocks = 0, query_steps = 2>

// -----

// expected-error @below {{expects row_sum mma with row_max folded, but got add}}
#folded_with_added_sums = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = shared, grid_order = query_fastest, min_blocks = 0,
    row_max = folded>

// -----

// expected-error @below {{expects overlap none with row_max folded, which needs the maximum of all earlier tiles before a product, but got qk}}
#folded_with_overlap = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = shared, grid_order = query_fastest, min_blocks = 0, overlap = qk,
    row_max = folded, row_sum = mma>

// -----

// expected-error @below {{expects grid_heads from 0 to 1048576, but got -1}}
#negative_grid_heads = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = shared, grid_order = head_fastest, min_blocks = 0, grid_heads = -1>

// -----

// expected-error @below {{expects grid_order head_fastest and key_splits 1 with grid_heads 4, but got query_fastest and 1}}
#turns_of_query_blocks = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = shared, grid_order = query_fastest, min_blocks = 0, grid_heads = 4>

// -----

// expected-error @below {{expects min_blocks not to be negative, but got -1}}
#negative_min_blocks = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = -1>

// -----

// expected-error @below {{expects head_group of at least 1, but got 0}}
#no_heads = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0,
    head_group = 0>

// -----

// expected-error @below {{expects num_warps to be a multiple of head_group = 3, but got 4}}
#warps_of_no_head = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0,
    head_group = 3>

// -----

// expected-error @below {{expects block_m to be a positive multiple of 16 * num_warps / head_group = 32, but got 48}}
#block_m_not_a_multiple_in_a_group = #fcgpu.schedule<
    chip = "sm_89", block_m = 48, block_n = 64, num_warps = 8, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0,
    head_group = 4>

// -----

// expected-error @below {{expects key_splits from 1 to 256, but got 0}}
#no_splits = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0,
    key_splits = 0>

// -----

// expected-error @below {{expects key_splits from 1 to 256, but got 257}}
#too_many_splits = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = registers, grid_order = query_fastest, min_blocks = 0,
    key_splits = 257>

// -----

#unknown_query_placement = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    // expected-error @+2 {{expected ::mlir::fcgpu::QueryPlacement to be one of: registers, shared}}
    // expected-error @+1 {{failed to parse FCGPU_ScheduleAttr parameter 'query' which is to be a `::mlir::fcgpu::QueryPlacement`}}
    query = global, grid_order = query_fastest, min_blocks = 0>

// -----

#unknown_grid_order = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    // expected-error @+2 {{expected ::mlir::fcgpu::GridOrder to be one of: query_fastest, head_fastest}}
    // expected-error @+1 {{failed to parse FCGPU_ScheduleAttr parameter 'grid_order' which is to be a `::mlir::fcgpu::GridOrder`}}
    query = shared, grid_order = batch_fastest, min_blocks = 0>

// -----

#unknown_softmax = #fcgpu.schedule<
    chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
    query = shared, grid_order = query_fastest, min_blocks = 0,
    // expected-error @+2 {{expected one of [online, one_pass, unfused] for How often exponentials are taken anew, got: two_pass}}
    // expected-error @+1 {{failed to parse FCGPU_ScheduleAttr parameter 'softmax' which is to be a `::mlir::fcgpu::Softmax`}}
    softmax = two_pass>

// -----

//===----------------------------------------------------------------------===//
// fcgpu.all_to_all
//===----------------------------------------------------------------------===//

func.func @shares_of_half_a_core(%acc: vector<16x72xf32>, %part: index) {
  // expected-error @below {{'fcgpu.all_to_all' op expects tiles of whole 8x8 cores that 4 parts can share evenly, but got 'vector<16x72xf32>'}}
  %o:4 = fcgpu.all_to_all %acc part %part of 4 : vector<16x72xf32>
  return
}

// -----

func.func @tiles_of_different_rows(%acc: vector<32x64xf32>,
                                   %max: vector<16xf32>, %part: index) {
  // expected-error @below {{'fcgpu.all_to_all' op expects tiles of equally many rows, but got 32 and 16}}
  %o:2, %m:2 = fcgpu.all_to_all %acc, %max part %part of 2
      : vector<32x64xf32>, vector<16xf32>
  return
}

// -----

func.func @no_tiles(%part: index) {
  // expected-error @below {{'fcgpu.all_to_all' op expects at least one tile}}
  "fcgpu.all_to_all"(%part) {parts = 2} : (index) -> ()
  return
}

// -----

func.func @one_part(%acc: vector<32x64xf32>, %part: index) {
  // expected-error @below {{'fcgpu.all_to_all' op attribute 'parts' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 2}}
  %o = fcgpu.all_to_all %acc part %part of 1 : vector<32x64xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// #fcgpu.layout
//===----------------------------------------------------------------------===//

// expected-error @below {{expects a basis for each of the 5 bits of a lane's number, but got 2}}
#four_lanes = #fcgpu.layout<register (0, 1), lane (0, 2) (1, 0)>

// -----

// expected-error @below {{expects registers to hold different places, but one bit of their number changes none}}
#copies_in_registers = #fcgpu.layout<register (0, 0), lane (0, 1) (0, 2) (1, 0) (2, 0) (4, 0)>

// -----

// expected-error @below {{once (or, with a basis of zeros, the same places), but 6 bits are for a box of 2^7 places}}
#hole = #fcgpu.layout<register (0, 1), lane (0, 4) (0, 8) (1, 0) (2, 0) (4, 0)>

// -----

// expected-error @below {{once (or, with a basis of zeros, the same places), but 6 bits are for a box of 2^5 places}}
#twice_the_same = #fcgpu.layout<register (0, 1), lane (0, 1) (0, 2) (1, 0) (2, 0) (4, 0)>

// -----

// expected-error @below {{expects places from 0 to 1048575, but got -1}}
#negative = #fcgpu.layout<register (0, -1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>

// -----

// expected-error @below {{expects a basis of 2 coordinates, as the first has, but got 1}}
#two_ranks = #fcgpu.layout<register (0, 1), lane (1) (2) (4) (8) (16)>

// -----

// expected-error @below {{expects places of 1 or 2 coordinates, but got 3}}
#three_axes = #fcgpu.layout<lane (0, 0, 1) (0, 0, 2) (0, 1, 0) (0, 2, 0) (1, 0, 0)>

// -----

// expected-error @below {{expects register, lane or warp, but got 'thread'}}
#unknown_input = #fcgpu.layout<thread (0, 1)>

// -----

//===----------------------------------------------------------------------===//
// Attributes on ops of other dialects
//===----------------------------------------------------------------------===//

// expected-error @below {{expects fcgpu.schedule to be a #fcgpu.schedule, but got "fast"}}
func.func private @schedule_is_a_string() attributes {fcgpu.schedule = "fast"}

// -----

func.func @block_tiles_is_a_number(%n: index) {
  // expected-error @below {{expects fcgpu.block_tiles to be unit, but got 2 : i64}}
  scf.for %i = %n to %n step %n {
  } {fcgpu.block_tiles = 2}
  return
}

// -----

func.func @overlap_is_a_word(%n: index) {
  // expected-error @below {{expects fcgpu.overlap to be an #fcgpu.overlap, but got "qk"}}
  scf.for %i = %n to %n step %n {
  } {fcgpu.overlap = "qk"}
  return
}

// -----

// expected-error @below {{has fcgpu.overlap, but is no scf.for}}
func.func private @overlap_of_no_loop() attributes {fcgpu.overlap = #fcgpu.overlap<pv>}

// -----

func.func @paired_is_a_number(%m: memref<8xf16>, %i: index) {
  // expected-error @below {{expects fcgpu.paired to be unit, but got 2 : i64}}
  %x = memref.load %m[%i] {fcgpu.paired = 2} : memref<8xf16>
  return
}

// -----

func.func @paired_of_no_score(%m: memref<8xf16>, %i: index) {
  // expected-error @below {{has fcgpu.paired, but is no memref.load of innermost stride 1 in an fcgpu.map_scores}}
  %x = memref.load %m[%i] {fcgpu.paired} : memref<8xf16>
  return
}

// -----

func.func @paired_with_a_stride(%s: vector<16x16xf32>, %m: memref<8xf32, strided<[2]>>, %i: index) {
  %r = fcgpu.map_scores %s[%i, %i] : vector<16x16xf32> {
  ^bb0(%score: f32, %query: index, %key: index):
    // expected-error @below {{has fcgpu.paired, but is no memref.load of innermost stride 1 in an fcgpu.map_scores}}
    %x = memref.load %m[%key] {fcgpu.paired} : memref<8xf32, strided<[2]>>
    fcgpu.yield %x : f32
  }
  return
}

// -----

// expected-error @below {{expects fcgpu.kernel to be a dictionary, but got 128 : i64}}
func.func private @kernel_is_a_number() attributes {fcgpu.kernel = 128}

// -----

// expected-error @below {{expects fcgpu.ptx_version to be a PTX version times ten, but got "8.4"}}
func.func private @ptx_version_is_a_string() attributes {fcgpu.ptx_version = "8.4"}

// -----

// expected-error @below {{expects fcgpu.ptx_version to be a PTX version times ten, but got 0 : i64}}
func.func private @ptx_version_is_zero() attributes {fcgpu.ptx_version = 0}

// -----

// expected-error @below {{has an unknown attribute fcgpu.ptx: expects fcgpu.schedule, fcgpu.few_queries, fcgpu.chip, fcgpu.staging, fcgpu.block_tiles, fcgpu.overlap, fcgpu.paired, fcgpu.home, fcgpu.product, fcgpu.ptx_version, fcgpu.program or fcgpu.kernel}}
func.func private @unknown_attribute() attributes {fcgpu.ptx = 80}

// -----

func.func @staging_is_a_string(%m: memref<64x40xf16>, %i: index, %zero: f16) {
  // expected-error @below {{expects fcgpu.staging to be a #fcgpu.staging, but got "block"}}
  %tile = vector.transfer_read %m[%i, %i], %zero {fcgpu.staging = "block"}
      : memref<64x40xf16>, vector<16x40xf16>
  return
}

// -----

func.func @keeps_more_than_all_columns(%m: memref<64x40xf16>, %i: index, %zero: f16) {
  // expected-error @below {{expects kept to be all of 40 columns or fewer in a multiple of 16, but got 48}}
  %tile = vector.transfer_read %m[%i, %i], %zero {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 48>}
      : memref<64x40xf16>, vector<16x40xf16>
  return
}

// -----

func.func @keeps_half_a_step(%m: memref<64x40xf16>, %i: index, %zero: f16) {
  // expected-error @below {{expects kept to be all of 40 columns or fewer in a multiple of 16, but got 24}}
  %tile = vector.transfer_read %m[%i, %i], %zero {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 24>}
      : memref<64x40xf16>, vector<16x40xf16>
  return
}

// -----

func.func @staging_of_another_op(%s: vector<16x64xf16>) {
  // expected-error @below {{has an fcgpu.staging, but is no vector.transfer_read of a 16-bit tile of a memref}}
  %r = arith.addf %s, %s {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>} : vector<16x64xf16>
  return
}

// -----

func.func @staging_of_an_f32_tile(%m: memref<64x40xf32>, %i: index, %zero: f32) {
  // expected-error @below {{has an fcgpu.staging, but is no vector.transfer_read of a 16-bit tile of a memref}}
  %tile = vector.transfer_read %m[%i, %i], %zero {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>}
      : memref<64x40xf32>, vector<16x40xf32>
  return
}

// -----

// expected-error @below {{expects slots of 1 to 1024, but got 0}}
#no_slots = #fcgpu.staging<copy = block, ring = block, slots = 0, number = turn>

// -----

// expected-error @below {{expects copy = warp with ring = warp, which others cannot reach, but got block}}
#ring_out_of_reach = #fcgpu.staging<copy = block, ring = warp, slots = 2, number = turn>

// -----

// expected-error @below {{expects kept to be 0 or more, but got -16}}
#keeps_less_than_nothing = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = -16>

// -----

// expected-error @below {{expects kept = 0 with number = turn, but got 16}}
#keeps_what_passes_by = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, kept = 16>

// -----

// expected-error @below {{expects kept = 0 of a tile in place, but got 16}}
#keeps_what_stays_in_place = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16, home = shared>

// -----

// expected-error @below {{expects group = 0 of a tile that is not in place, but got 8}}
#group_of_what_is_read = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, group = 8>

// -----

// expected-error @below {{expects layout = panels, plain or padded, in which products can take a tile, but got rows}}
#products_of_a_swizzle = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, home = shared, layout = rows>

// -----

// expected-error @below {{expects home = shared and group = 0 with layout = padded, but got home = registers and group = 0}}
#padded_and_read = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn, layout = padded>

// -----

func.func @layout_is_a_number(%s: vector<16x64xf32>) {
  // expected-error @below {{expects fcgpu.home to be a #fcgpu.layout, #fcgpu.fragments or, of an fcgpu.read, #fcgpu.shared, or an array with one for each of 1 results, but got 2 : i64}}
  %r = arith.addf %s, %s {fcgpu.home = 2} : vector<16x64xf32>
  return
}

// -----

func.func @in_place_of_no_ring(%s: vector<16x64xf32>) {
  // expected-error @below {{expects fcgpu.home to be a #fcgpu.layout, #fcgpu.fragments or, of an fcgpu.read, #fcgpu.shared, or an array with one for each of 1 results, but got #fcgpu.shared}}
  %r = arith.addf %s, %s {fcgpu.home = #fcgpu.shared} : vector<16x64xf32>
  return
}

// -----

func.func @product_of_no_contraction(%s: vector<16x64xf32>) {
  // expected-error @below {{has an fcgpu.product, but is no vector.contract}}
  %r = arith.addf %s, %s {fcgpu.product = #fcgpu.product<wmma>} : vector<16x64xf32>
  return
}

// -----

func.func @product_is_a_word(%s: vector<16x64xf32>) {
  // expected-error @below {{expects fcgpu.product to be a #fcgpu.product, but got "wmma"}}
  %r = arith.addf %s, %s {fcgpu.product = "wmma"} : vector<16x64xf32>
  return
}

// -----

// expected-error @below {{expects product wmma or thread, of tiles in plain rows, but got warp}}
#product_that_a_ring_tells = #fcgpu.product<warp>

// -----

// expected-error @below {{expects wide = false of product thread, of which nothing goes through memory, but got true}}
#product_without_memory = #fcgpu.product<thread, wide = true>

// -----

func.func @layouts_of_the_wrong_count(%s: vector<16x64xf32>, %n: index) {
  // expected-error @below {{expects fcgpu.home to be a #fcgpu.layout, #fcgpu.fragments or, of an fcgpu.read, #fcgpu.shared, or an array with one for each of 2 results, but got [#fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>]}}
  %results:2 = scf.for %i = %n to %n step %n iter_args(%tile = %s, %x = %n)
      -> (vector<16x64xf32>, index) {
    scf.yield %tile, %x : vector<16x64xf32>, index
  } {fcgpu.home = [#fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>]}
  return
}

// -----

func.func @layouts_hold_a_number(%s: vector<16x64xf32>, %n: index) {
  // expected-error @below {{expects fcgpu.home to be a #fcgpu.layout, #fcgpu.fragments or, of an fcgpu.read, #fcgpu.shared, or an array with one for each of 2 results, but got [#fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>, 1]}}
  %results:2 = scf.for %i = %n to %n step %n iter_args(%tile = %s, %x = %n)
      -> (vector<16x64xf32>, index) {
    scf.yield %tile, %x : vector<16x64xf32>, index
  } {fcgpu.home = [#fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>, 1]}
  return
}

// -----

// expected-error @below {{expected one of [rows, panels, plain, padded] for Where the elements of a slot lie, got: diagonals}}
func.func private @ring_of_unknown_layout(!fcgpu.ring<2x64x96xf16, diagonals>)

// -----

// expected-error @below {{expects panels in groups of a power of two of rows from 8 on that divides the 64 of a slot, but got rows(8)}}
func.func private @rows_in_groups(!fcgpu.ring<2x64x96xf16, rows(8)>)

// -----

// expected-error @below {{expects panels in groups of a power of two of rows from 8 on that divides the 64 of a slot, but got panels(4)}}
func.func private @groups_of_less_than_a_swizzle(!fcgpu.ring<2x64x96xf16, panels(4)>)

// -----

// expected-error @below {{expects panels in groups of a power of two of rows from 8 on that divides the 96 of a slot, but got panels(24)}}
func.func private @groups_of_no_power_of_two(!fcgpu.ring<2x96x96xf16, panels(24)>)

// -----

// expected-error @below {{expects panels in groups of a power of two of rows from 8 on that divides the 80 of a slot, but got panels(32)}}
func.func private @groups_that_do_not_divide(!fcgpu.ring<2x80x96xf16, panels(32)>)

// -----

// expected-error @below {{expects panels in groups of a power of two of rows from 8 on that divides the 64 of a slot, but got panels(64)}}
func.func private @groups_of_all_rows(!fcgpu.ring<2x64x96xf16, panels(64)>)

// -----

// expected-error @below {{expects panels in groups of a power of two of rows from 8 on that divides the 64 of a slot, but got panels(-8)}}
func.func private @groups_of_less_than_nothing(!fcgpu.ring<2x64x96xf16, panels(-8)>)

// -----

func.func @fill_without_panels(%ring: !fcgpu.ring<2x64x136xf16>) {
  // expected-error @below {{'fcgpu.fill' op expects a ring of panels, and a column that begins one behind the first, but got '!fcgpu.ring<2x64x136xf16>' and 128}}
  fcgpu.fill %ring column(128) with 1.0 : f16 of !fcgpu.ring<2x64x136xf16>
  return
}

// -----

func.func @fill_of_the_first_panel(%ring: !fcgpu.ring<2x64x136xf16, panels>) {
  // expected-error @below {{'fcgpu.fill' op expects a ring of panels, and a column that begins one behind the first, but got '!fcgpu.ring<2x64x136xf16, panels>' and 0}}
  fcgpu.fill %ring column(0) with 1.0 : f16 of !fcgpu.ring<2x64x136xf16, panels>
  return
}

// -----

func.func @fill_inside_of_a_panel(%ring: !fcgpu.ring<2x64x136xf16, panels>) {
  // expected-error @below {{'fcgpu.fill' op expects a ring of panels, and a column that begins one behind the first, but got '!fcgpu.ring<2x64x136xf16, panels>' and 72}}
  fcgpu.fill %ring column(72) with 1.0 : f16 of !fcgpu.ring<2x64x136xf16, panels>
  return
}

// -----

func.func @fill_behind_the_ring(%ring: !fcgpu.ring<2x64x128xf16, panels>) {
  // expected-error @below {{'fcgpu.fill' op expects a ring of panels, and a column that begins one behind the first, but got '!fcgpu.ring<2x64x128xf16, panels>' and 128}}
  fcgpu.fill %ring column(128) with 1.0 : f16 of !fcgpu.ring<2x64x128xf16, panels>
  return
}

// -----

func.func @fill_of_another_type(%ring: !fcgpu.ring<2x64x136xf16, panels>) {
  // expected-error @below {{'fcgpu.fill' op expects a value of type 'f16', but got 1.000000e+00 : bf16}}
  fcgpu.fill %ring column(128) with 1.0 : bf16 of !fcgpu.ring<2x64x136xf16, panels>
  return
}

// -----

func.func @copy_ends_inside_of_a_panel(%v: memref<512x72xf16>,
                                       %ring: !fcgpu.ring<2x64x136xf16, panels>, %i: index) {
  // expected-error @below {{'fcgpu.copy' op expects source rows of 136 columns, but got 72}}
  fcgpu.copy %v[%i, %i] to %ring[%i] by block
      : memref<512x72xf16> to !fcgpu.ring<2x64x136xf16, panels>
  return
}

// -----

func.func @copy_of_fewer_columns_without_panels(%v: memref<512x64xf16>,
                                                %ring: !fcgpu.ring<2x64x136xf16>, %i: index) {
  // expected-error @below {{'fcgpu.copy' op expects source rows of 136 columns, but got 64}}
  fcgpu.copy %v[%i, %i] to %ring[%i] by block
      : memref<512x64xf16> to !fcgpu.ring<2x64x136xf16>
  return
}

// -----

func.func @copy_is_wider_than_the_ring(%v: memref<512x128xf16>,
                                       %ring: !fcgpu.ring<2x64x64xf16, panels>, %i: index) {
  // expected-error @below {{'fcgpu.copy' op expects source rows of 64 columns, but got 128}}
  fcgpu.copy %v[%i, %i] to %ring[%i] by block
      : memref<512x128xf16> to !fcgpu.ring<2x64x64xf16, panels>
  return
}

// -----

func.func @in_place_without_panels(%ring: !fcgpu.ring<2x64x64xf16>, %i: index) {
  // expected-error @below {{'fcgpu.read' op reads a tile in place of a ring whose rows have a swizzle}}
  %t = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !fcgpu.ring<2x64x64xf16> -> vector<64x64xf16>
  return
}

// -----

func.func @in_place_for_arithmetic(%ring: !fcgpu.ring<2x64x64xf16, panels>, %i: index) {
  // expected-error @below {{'fcgpu.read' op reads a tile in place, which only products can use, but arith.negf does}}
  %t = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !fcgpu.ring<2x64x64xf16, panels> -> vector<64x64xf16>
  %n = arith.negf %t : vector<64x64xf16>
  return
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

func.func @await_of_what_is_there(%a: vector<16x16xf16>, %b: vector<8x16xf16>, %c: vector<16x8xf32>) {
  %d = vector.contract {indexing_maps = [#mk, #nk, #mn],
                        iterator_types = ["parallel", "parallel", "reduction"]}
      %a, %b, %c : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
  // expected-error @below {{'fcgpu.await' op waits for a product that reads no tile in place}}
  %e = fcgpu.await %d in_flight(0) : vector<16x8xf32>
  return
}

// -----

// expected-error @below {{expects num_warps to be a multiple of 4 up to 28 with product warpgroup, but got 2}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 2, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>

// -----

// expected-error @below {{expects block_m to be 128 with 8 warps of product warpgroup, 64 rows for each 4, but got 256}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 256, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>

// -----

// expected-error @below {{expects block_n of at most 256 with product warpgroup, but got 320}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 320,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>

// -----

// expected-error @below {{expects query shared with product warpgroup, but got registers; use product warp}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = registers, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>

// -----

// expected-error @below {{expects row_max exact, stale or checked with product warpgroup, but got folded; use product warp}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, row_max = folded, row_sum = mma, product = warpgroup>

// -----

// expected-error @below {{expects head_group 1 with softmax unfused, but got 2; use softmax online}}
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, head_group = 2, softmax = unfused>

// -----

// expected-error @below {{expects softmax online with product warpgroup, but got unfused; use product warp}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, softmax = unfused, product = warpgroup>

// -----

// expected-error @below {{expects overlap none or qk with product warp, but got pv; use product warpgroup}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, overlap = pv>

// -----

// expected-error @below {{expects row_max exact, stale or folded with product warp, but got checked; use product warpgroup}}
#checked_of_warps = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers, grid_order = query_fastest,
  min_blocks = 1, row_max = checked>

// -----

func.func @store_without_panels(%tile: vector<64x64xf16>, %target: memref<64x64xf16>, %i: index) {
  %ring = fcgpu.alloc_ring : !fcgpu.ring<2x64x64xf16>
  // expected-error @below {{expects a ring with panels, but got '!fcgpu.ring<2x64x64xf16>'}}
  fcgpu.store %tile to %target[%i, %i] through %ring[%i]
      : vector<64x64xf16>, memref<64x64xf16>, !fcgpu.ring<2x64x64xf16>
  return
}

// -----

func.func @store_through_groups(%tile: vector<64x128xf16>, %target: memref<64x128xf16>, %i: index) {
  %ring = fcgpu.alloc_ring : !fcgpu.ring<2x64x128xf16, panels(8)>
  // expected-error @below {{expects panels of all rows, but got '!fcgpu.ring<2x64x128xf16, panels(8)>'}}
  fcgpu.store %tile to %target[%i, %i] through %ring[%i]
      : vector<64x128xf16>, memref<64x128xf16>, !fcgpu.ring<2x64x128xf16, panels(8)>
  return
}

// -----

func.func @store_of_another_type(%tile: vector<64x64xf16>, %target: memref<64x64xbf16>, %i: index) {
  %ring = fcgpu.alloc_ring : !fcgpu.ring<2x64x64xf16, panels>
  // expected-error @below {{expects target and ring of one element type, but got 'bf16' and 'f16'}}
  fcgpu.store %tile to %target[%i, %i] through %ring[%i]
      : vector<64x64xf16>, memref<64x64xbf16>, !fcgpu.ring<2x64x64xf16, panels>
  return
}

// -----

func.func @store_with_too_few_indices(%tile: vector<64x64xf16>, %target: memref<64x64xf16>, %i: index) {
  %ring = fcgpu.alloc_ring : !fcgpu.ring<2x64x64xf16, panels>
  // expected-error @below {{expects 2 indices, but got 1}}
  fcgpu.store %tile to %target[%i] through %ring[%i]
      : vector<64x64xf16>, memref<64x64xf16>, !fcgpu.ring<2x64x64xf16, panels>
  return
}

// -----

func.func @store_of_another_tile(%tile: vector<64x32xf16>, %target: memref<64x64xf16>, %i: index) {
  %ring = fcgpu.alloc_ring : !fcgpu.ring<2x64x64xf16, panels>
  // expected-error @below {{expects a tile of type 'vector<64x64xf16>', but got 'vector<64x32xf16>'}}
  fcgpu.store %tile to %target[%i, %i] through %ring[%i]
      : vector<64x32xf16>, memref<64x64xf16>, !fcgpu.ring<2x64x64xf16, panels>
  return
}

// -----

func.func @staging_of_a_write(%tile: vector<64x64xf16>, %target: memref<64x64xf16>, %i: index) {
  // expected-error @below {{expects an fcgpu.staging with number = holder and home = shared of a tile that is written}}
  vector.transfer_write %tile, %target[%i, %i]
      {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = turn>,
       in_bounds = [true, true]} : vector<64x64xf16>, memref<64x64xf16>
  return
}

// -----

// expected-error @below {{expects output direct with product warp, but got bulk; use product warpgroup}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, output = bulk>

// -----

// expected-error @below {{expects output direct with key_splits 2, whose results are partial, but got bulk}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, key_splits = 2, product = warpgroup, output = bulk>

// -----

// expected-error @below {{expects num_warps to be a multiple of 4 * head_group = 12, but got 8}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, head_group = 3, product = warpgroup>

// -----

// More parts than warpgroups.
// expected-error @below {{expects key_warps 1 with product warpgroup, but got 4; use product warp}}
#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, key_warps = 4, product = warpgroup>

// -----

func.func @pages_of_unknown_rows(%pool: memref<?x1x?x64xf16>, %table: memref<1x?xi32>, %rows: index) {
  // expected-error @below {{'fcgpu.view_pages' op expects a pool (pages, heads, rows, columns) with a static number of rows, but got 'memref<?x1x?x64xf16>'}}
  %k = fcgpu.view_pages %pool by %table rows(%rows) step(16)
      : memref<?x1x?x64xf16>, memref<1x?xi32> -> memref<1x1x?x64xf16, #fcgpu.pages>
  return
}

// -----

func.func @pages_by_the_table_of_a_batch(%pool: memref<?x1x16x64xf16>, %table: memref<4x?xi32>, %rows: index) {
  // expected-error @below {{'fcgpu.view_pages' op expects a table (1, pages) of i32, but got 'memref<4x?xi32>'}}
  %k = fcgpu.view_pages %pool by %table rows(%rows) step(16)
      : memref<?x1x16x64xf16>, memref<4x?xi32> -> memref<1x1x?x64xf16, #fcgpu.pages>
  return
}

// -----

func.func @pages_as_plain_memory(%pool: memref<?x1x16x64xf16>, %table: memref<1x?xi32>, %rows: index) {
  // expected-error @below {{'fcgpu.view_pages' op expects a result of type 'memref<1x1x?x64xf16, #fcgpu.pages>', but got 'memref<1x1x?x64xf16>'}}
  %k = fcgpu.view_pages %pool by %table rows(%rows) step(16)
      : memref<?x1x16x64xf16>, memref<1x?xi32> -> memref<1x1x?x64xf16>
  return
}

// -----

func.func @bulk_copy_of_small_pages(%pool: memref<?x1x4x64xf16>, %table: memref<1x?xi32>, %ring: !fcgpu.ring<2x64x64xf16, panels>,
                                    %i: index) {
  %k = fcgpu.view_pages %pool by %table rows(%i) step(64)
      : memref<?x1x4x64xf16>, memref<1x?xi32> -> memref<1x1x?x64xf16, #fcgpu.pages>
  // expected-error @below {{'fcgpu.copy' op expects a ring of rows for pages of 4 rows, of which no 8 of a slot are in one, but got '!fcgpu.ring<2x64x64xf16, panels>'}}
  fcgpu.copy %k[%i, %i, %i, %i] to %ring[%i] by block
      : memref<1x1x?x64xf16, #fcgpu.pages> to !fcgpu.ring<2x64x64xf16, panels>
  return
}

// -----

func.func @copy_of_no_pages_into_groups(%k: memref<512x128xf16>, %ring: !fcgpu.ring<2x64x128xf16, panels(8)>, %i: index) {
  // expected-error @below {{'fcgpu.copy' op expects pages of rows of whole panels for '!fcgpu.ring<2x64x128xf16, panels(8)>', but got 'memref<512x128xf16>'}}
  fcgpu.copy %k[%i, %i] to %ring[%i] by block : memref<512x128xf16> to !fcgpu.ring<2x64x128xf16, panels(8)>
  return
}

// -----

func.func @copy_of_part_of_a_panel_into_groups(%pool: memref<?x1x16x96xf16>, %table: memref<1x?xi32>,
                                               %ring: !fcgpu.ring<2x64x96xf16, panels(8)>, %i: index) {
  %k = fcgpu.view_pages %pool by %table rows(%i) step(64)
      : memref<?x1x16x96xf16>, memref<1x?xi32> -> memref<1x1x?x96xf16, #fcgpu.pages>
  // expected-error @below {{'fcgpu.copy' op expects pages of rows of whole panels for '!fcgpu.ring<2x64x96xf16, panels(8)>', but got 'memref<1x1x?x96xf16, #fcgpu.pages>'}}
  fcgpu.copy %k[%i, %i, %i, %i] to %ring[%i] by block
      : memref<1x1x?x96xf16, #fcgpu.pages> to !fcgpu.ring<2x64x96xf16, panels(8)>
  return
}

// -----

func.func @copy_of_small_pages_into_groups(%pool: memref<?x1x16x128xf16>, %table: memref<1x?xi32>,
                                           %ring: !fcgpu.ring<2x64x128xf16, panels(32)>, %i: index) {
  %k = fcgpu.view_pages %pool by %table rows(%i) step(64)
      : memref<?x1x16x128xf16>, memref<1x?xi32> -> memref<1x1x?x128xf16, #fcgpu.pages>
  // expected-error @below {{'fcgpu.copy' op expects groups of a divisor of the 16 rows that are in one page, but got '!fcgpu.ring<2x64x128xf16, panels(32)>'}}
  fcgpu.copy %k[%i, %i, %i, %i] to %ring[%i] by block
      : memref<1x1x?x128xf16, #fcgpu.pages> to !fcgpu.ring<2x64x128xf16, panels(32)>
  return
}

// -----

// One box writes its panels without a gap.
func.func @copy_beside_a_panel_of_each_group(%pool: memref<?x1x16x128xf16>, %table: memref<1x?xi32>,
                                             %ring: !fcgpu.ring<2x64x136xf16, panels(8)>, %i: index) {
  %k = fcgpu.view_pages %pool by %table rows(%i) step(64)
      : memref<?x1x16x128xf16>, memref<1x?xi32> -> memref<1x1x?x128xf16, #fcgpu.pages>
  // expected-error @below {{'fcgpu.copy' op expects groups of the 16 rows that are in one page, but got '!fcgpu.ring<2x64x136xf16, panels(8)>'}}
  fcgpu.copy %k[%i, %i, %i, %i] to %ring[%i] by block
      : memref<1x1x?x128xf16, #fcgpu.pages> to !fcgpu.ring<2x64x136xf16, panels(8)>
  return
}

// -----

// expected-error @below {{expects row_max exact with invariance batch, since any other follows what other rows need, but got stale}}
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers, grid_order = query_fastest,
  min_blocks = 1, row_max = stale, invariance = batch>

// -----

// expected-error @below {{expects grid full and grid_heads 0 with split_keys 128, but got persistent and 0}}
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers, grid_order = query_fastest,
  min_blocks = 1, grid = persistent, invariance = batch, split_keys = 128>

// -----

// expected-error @below {{expects key_splits over 1, the most that a call may have, with split_count call, but got 1}}
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers, grid_order = query_fastest,
  min_blocks = 1, split_count = call>

// -----

// expected-error @below {{expects expected_queries from 0 to}}
#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers, grid_order = query_fastest,
  min_blocks = 1, expected_queries = -1>

// -----

#few = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers, grid_order = query_fastest,
  min_blocks = 1>

// expected-error @below {{expects fcgpu.few_queries to have expected_queries of at least 1, but got 0}}
func.func @few_of_unknown_number() attributes {fcgpu.few_queries = #few} {
  return
}

// -----

#few = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = registers, grid_order = query_fastest,
  min_blocks = 1, expected_queries = 4>

// expected-error @below {{expects fcgpu.schedule beside fcgpu.few_queries, for other calls}}
func.func @few_alone() attributes {fcgpu.few_queries = #few} {
  return
}

// -----

// expected-error @below {{expects fcgpu.chip to be the name of a chip, but got 89}}
func.func @chip_as_a_number() attributes {fcgpu.chip = 89} {
  return
}

// -----

// expected-error @below {{expects fcgpu.few_queries to be a #fcgpu.schedule, but got 16}}
func.func @few_as_a_number() attributes {fcgpu.few_queries = 16} {
  return
}

// -----

func.func @dropout_of_f16(%p: vector<16x64xf16>, %i: index, %d: i32) {
  // expected-error @below {{'fcgpu.dropout' op operand #0 must be vector of 32-bit float values of ranks 2, but got 'vector<16x64xf16>'}}
  %r = fcgpu.dropout %p[%i, %i] below 1 of(%d, %d, %d, %d) : vector<16x64xf16>
  return
}

// -----

func.func @dropout_of_all(%p: vector<16x64xf32>, %i: index, %d: i32) {
  // expected-error @below {{'fcgpu.dropout' op attribute 'threshold' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 1 whose maximum value is 65535}}
  %r = fcgpu.dropout %p[%i, %i] below 65536 of(%d, %d, %d, %d) : vector<16x64xf32>
  return
}

// -----

func.func @dropout_of_eight_columns(%p: vector<16x8xf32>, %i: index, %d: i32) {
  // expected-error @below {{'fcgpu.dropout' op expects a tile of a multiple of 16 columns, but got 8}}
  %r = fcgpu.dropout %p[%i, %i] below 1 of(%d, %d, %d, %d) : vector<16x8xf32>
  return
}

// -----

func.func @dropout_of_two_words(%p: vector<16x64xf32>, %i: index, %d: i32) {
  // expected-error @below {{'fcgpu.dropout' op expects a stream of 4 words, but got 2}}
  %r = fcgpu.dropout %p[%i, %i] below 1 of(%d, %d) : vector<16x64xf32>
  return
}
