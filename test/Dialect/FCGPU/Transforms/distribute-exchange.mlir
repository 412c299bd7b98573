// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-distribute,canonicalize,cse)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
#wide = #fcgpu.layout<register (0, 1) (0, 2) (0, 4), lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0)>

// Two warps of 16 x 32 and 16 values of 4 bytes: 2176 bytes each, one row of
// cores for each of them. Cores are 64 elements; row i of core c is in place
// i ^ (c % 4). Reading, a lane takes both halves of a row of core lane % 4, the
// second one first if the row is odd; writing, 16 bytes at once.

// CHECK-LABEL: gpu.func @shares_pass_through_shared_memory
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<8x32xf16>, %[[OUT_ROWS:[^:]+]]: memref<8xf32>
gpu.module @kernels {
  gpu.func @shares_pass_through_shared_memory(%out: memref<8x32xf16>,
                                              %out_rows: memref<8xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : index
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : index
    // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : index
    // CHECK-DAG:  %[[C64:.+]] = arith.constant 64 : index
    // CHECK-DAG:  %[[C256:.+]] = arith.constant 256 : index
    // CHECK-DAG:  %[[C512:.+]] = arith.constant 512 : index
    // CHECK-DAG:  %[[C520:.+]] = arith.constant 520 : index
    // CHECK-DAG:  %[[BYTES:.+]] = arith.constant 2176 : index
    // CHECK:      %[[THREAD:.+]] = gpu.thread_id  x
    // CHECK:      %[[LANE:.+]] = arith.remui %[[THREAD]], %{{.+}}
    // CHECK:      %[[WARP:.+]] = arith.divui %[[THREAD]], %{{.+}}
    // CHECK:      %[[START:.+]] = arith.muli %[[WARP]], %[[BYTES]]
    // CHECK:      %[[MEMORY:.+]] = memref.reinterpret_cast {{.+}} to memref<4352xi8,
    // CHECK:      %[[PART:.+]] = arith.remui %[[WARP]], %[[C2]]

    // CHECK:      %[[OWN:.+]] = memref.view %[[MEMORY]][%[[START]]]
    // CHECK:      %[[PLACE:.+]] = arith.muli %[[LANE]], %[[C2]]
    // CHECK:      vector.store %{{.+}}, %[[OWN]][%[[PLACE]]] {alignment = 8 : i64}
    // CHECK:      %[[PLACE_1:.+]] = arith.xori %[[PLACE]], %[[C8]]
    // CHECK:      %[[CORE_1:.+]] = arith.addi %[[PLACE_1]], %[[C64]]
    // CHECK:      vector.store %{{.+}}, %[[OWN]][%[[CORE_1]]]
    // CHECK-COUNT-6: vector.store
    // CHECK:      %[[QUAD:.+]] = arith.remui %[[LANE]], %[[C4]]
    // CHECK:      %[[IS_FIRST:.+]] = arith.cmpi eq, %[[QUAD]], %[[C0]]
    // CHECK:      scf.if %[[IS_FIRST]] {
    // CHECK:        %[[ROW_0:.+]] = arith.addi %{{.+}}, %[[C512]]
    // CHECK:        memref.store %{{.+}}, %[[OWN]][%[[ROW_0]]]
    // CHECK:        %[[ROW_8:.+]] = arith.addi %{{.+}}, %[[C520]]
    // CHECK:        memref.store %{{.+}}, %[[OWN]][%[[ROW_8]]]
    // CHECK:      }
    // CHECK-NEXT: gpu.barrier

    // CHECK:      %[[BEHIND:.+]] = arith.muli %[[PART]], %[[BYTES]]
    // CHECK:      %[[GROUP:.+]] = arith.subi %[[START]], %[[BEHIND]]
    // CHECK:      %[[PART_0:.+]] = memref.view %[[MEMORY]][%[[GROUP]]]
    // CHECK:      %[[NEXT:.+]] = arith.addi %[[GROUP]], %[[BYTES]]
    // CHECK:      %[[PART_1:.+]] = memref.view %[[MEMORY]][%[[NEXT]]]
    // CHECK:      %[[SHARE:.+]] = arith.muli %[[PART]], %[[C256]]
    // CHECK:      %[[ROW:.+]] = arith.divui %[[LANE]], %[[C4]]
    // CHECK:      arith.xori %[[ROW]], %[[QUAD]]
    // CHECK:      %[[PARITY:.+]] = arith.remui %[[ROW]], %[[C2]]
    // CHECK:      %[[HALF_ADDRESS:.+]] = arith.addi %[[SHARE]], %{{.+}}
    // CHECK:      %[[A:.+]] = vector.load %[[PART_0]][%[[HALF_ADDRESS]]] {alignment = 16 : i64} {{.+}} vector<4xf32>
    // CHECK:      %[[B:.+]] = vector.load %[[PART_0]][%{{.+}}] {alignment = 16 : i64} {{.+}} vector<4xf32>
    // CHECK:      %[[IS_ODD:.+]] = arith.cmpi ne, %[[PARITY]], %[[C0]]
    // CHECK:      arith.select %[[IS_ODD]], %[[B]], %[[A]]
    // CHECK:      arith.select %[[IS_ODD]], %[[A]], %[[B]]
    // CHECK:      vector.load %[[PART_1]]
    // CHECK:      memref.load %[[PART_0]]
    // CHECK:      memref.load %[[PART_1]]

    // CHECK:      %[[COL:.+]] = arith.muli %[[QUAD]], %[[C8]]
    // CHECK:      vector.store %{{.+}}, %[[OUT]][%[[ROW]], %[[COL]]] {alignment = 16 : i64} : memref<8x32xf16>, vector<8xf16>
    // CHECK:      scf.if %[[IS_FIRST]] {
    // CHECK:        memref.store %{{.+}}, %[[OUT_ROWS]][%[[ROW]]]
    %c0 = arith.constant 0 : index
    scf.forall (%rows, %part) in (1, 2) {
      %acc = arith.constant dense<1.0> : vector<16x32xf32>
      %max = arith.constant dense<2.0> : vector<16xf32>
      %o:2, %m:2 = fcgpu.all_to_all %acc, %max part %part of 2
          {fcgpu.home = [#wide, #wide, unit, unit]}
          : vector<16x32xf32>, vector<16xf32>
      %sum = arith.addf %o#0, %o#1 {fcgpu.home = #wide} : vector<8x32xf32>
      %half = arith.truncf %sum {fcgpu.home = #wide}
          : vector<8x32xf32> to vector<8x32xf16>
      %row_sum = arith.addf %m#0, %m#1 : vector<8xf32>
      vector.transfer_write %half, %out[%c0, %c0] {in_bounds = [true, true]}
          : vector<8x32xf16>, memref<8x32xf16>
      vector.transfer_write %row_sum, %out_rows[%c0] {in_bounds = [true]}
          : vector<8xf32>, memref<8xf32>
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 4>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>

// Shares of 8 columns: half of a row of two cores for each warp. They are read
// as they were written, and part of a row is stored.

// CHECK-LABEL: gpu.func @narrow_shares_keep_the_layout
gpu.module @kernels {
  gpu.func @narrow_shares_keep_the_layout(%out: memref<8x64xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : index
    // CHECK-DAG:  %[[C64:.+]] = arith.constant 64 : index
    // CHECK-DAG:  %[[C128:.+]] = arith.constant 128 : index
    // CHECK:      gpu.barrier
    // CHECK-DAG:  %[[ROW_SHARE:.+]] = arith.divui %[[PART:.+]], %[[C2]]
    // CHECK-DAG:  %[[COL_SHARE:.+]] = arith.remui %[[PART]], %[[C2]]
    // CHECK-DAG:  %[[ROW_START:.+]] = arith.muli %[[ROW_SHARE]], %[[C2]]
    // CHECK:      %[[CORE:.+]] = arith.addi %[[ROW_START]], %[[COL_SHARE]]
    // CHECK:      %[[FIRST:.+]] = arith.muli %[[CORE]], %[[C64]]
    // CHECK:      %[[MINE:.+]] = arith.addi %[[FIRST]], %{{.+}}
    // CHECK-COUNT-4: vector.load %{{.+}}[%[[MINE]]] {alignment = 8 : i64} {{.+}} vector<2xf32>
    // CHECK:      vector.store %{{.+}} {alignment = 8 : i64} : memref<8x64xf32>, vector<2xf32>
    %c0 = arith.constant 0 : index
    %c56 = arith.constant 56 : index
    scf.forall (%rows, %part) in (1, 4) {
      %acc = arith.constant dense<1.0> : vector<16x16xf32>
      %o:4 = fcgpu.all_to_all %acc part %part of 4
          {fcgpu.home = [#row, #row, #row, #row]} : vector<16x16xf32>
      %a = arith.addf %o#0, %o#1 {fcgpu.home = #row} : vector<8x8xf32>
      %b = arith.addf %o#2, %o#3 {fcgpu.home = #row} : vector<8x8xf32>
      %c = arith.addf %a, %b {fcgpu.home = #row} : vector<8x8xf32>
      vector.transfer_write %c, %out[%c0, %c56] {in_bounds = [true, true]}
          : vector<8x8xf32>, memref<8x64xf32>
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!block = !fcgpu.ring<2x16x16xf16>
!warp = !fcgpu.ring<3x16x16xf16>

// The block's rings come first (1024 bytes), then the parts of the four warps
// (1536 bytes each).

// CHECK-LABEL: gpu.func @rings_of_a_warp_lie_in_its_part
gpu.module @kernels {
  gpu.func @rings_of_a_warp_lie_in_its_part(%out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[BYTES:.+]] = arith.constant 1536 : index
    // CHECK-DAG:  %[[OF_BLOCK:.+]] = arith.constant 1024 : index
    // CHECK:      %[[WARP:.+]] = arith.divui %{{.+}}, %{{.+}}
    // CHECK:      %[[OFFSET:.+]] = arith.muli %[[WARP]], %[[BYTES]]
    // CHECK:      %[[START:.+]] = arith.addi %[[OFFSET]], %[[OF_BLOCK]]
    // CHECK:      %[[MEMORY:.+]] = memref.reinterpret_cast {{.+}} to memref<7168xi8,
    // CHECK:      memref.view %[[MEMORY]][%[[PLACE:.+]]][] {{.+}} to memref<1024xi8,
    // CHECK:      %[[IN_PART:.+]] = arith.addi %[[START]], %[[PLACE]]
    // CHECK:      memref.view %[[MEMORY]][%[[IN_PART]]][] {{.+}} to memref<1536xi8,
    %c0 = arith.constant 0 : index
    %of_block = fcgpu.alloc_ring : !block
    %of_warp = fcgpu.alloc_ring by warp : !warp
    scf.forall (%rows, %part) in (2, 2) {
      %a = fcgpu.read %of_block[%c0] {fcgpu.home = #row}
          : !block -> vector<16x16xf16>
      %b = fcgpu.read %of_warp[%c0] {fcgpu.home = #row}
          : !warp -> vector<16x16xf16>
      %c = arith.addf %a, %b {fcgpu.home = #row} : vector<16x16xf16>
      vector.transfer_write %c, %out[%c0, %c0] {in_bounds = [true, true]}
          : vector<16x16xf16>, memref<16x16xf16>
    } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
