// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>

// Shares of 32 columns are wide, and so is what is computed from them. Those of
// 24 columns are not, nor are the tiles that are handed on.

// CHECK-LABEL: gpu.func @shares_are_wide_where_they_can_be
gpu.module @kernels {
  gpu.func @shares_are_wide_where_they_can_be(
      %acc: vector<32x32xf32>, %other: vector<32x24xf32>, %part: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      arith.mulf {{.+}} {fcgpu.home = #x2_row}
    // CHECK:      fcgpu.all_to_all
    // CHECK-SAME:   fcgpu.home = [#x8_row, #x8_row, #x2_row, #x2_row]
    // CHECK:      arith.addf {{.+}} {fcgpu.home = #x8_row} : vector<16x32xf32>
    // CHECK:      arith.addf {{.+}} {fcgpu.home = #x2_row} : vector<16x24xf32>
    %scaled = arith.mulf %acc, %acc : vector<32x32xf32>
    %a:2, %b:2 = fcgpu.all_to_all %scaled, %other part %part of 2
        : vector<32x32xf32>, vector<32x24xf32>
    %x = arith.addf %a#0, %a#1 : vector<16x32xf32>
    %y = arith.addf %b#0, %b#1 : vector<16x24xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_warps = 2>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

gpu.module @kernels {
  gpu.func @share_is_an_operand(%acc: vector<32x32xf32>, %part: index,
                                %b: vector<32x16xf16>, %a: vector<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %s:2 = fcgpu.all_to_all %acc part %part of 2 : vector<32x32xf32>
    // CHECK-LABEL: gpu.func @share_is_an_operand
    // CHECK:       %[[SHARES:.+]]:2 = fcgpu.all_to_all
    // CHECK-SAME:    fcgpu.home = [#x8_row, #x8_row]
    // CHECK:       %[[ACC:.+]] = fcgpu.convert_layout %[[SHARES]]#0 {fcgpu.home = #x2_row}
    // CHECK:       vector.contract {{.+}}, %[[ACC]] {fcgpu.home = #x2_row
    %o = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %s#0 : vector<16x16xf16>, vector<32x16xf16>
        into vector<16x32xf32>
    gpu.return
  }
}
