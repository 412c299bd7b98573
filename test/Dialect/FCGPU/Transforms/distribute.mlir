// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-distribute)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<1x16x16xf16>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

// Q K^T of 16 x 16 x 16 is two m16n8k16. For Q, ldmatrix.x4 brings the cores
// (0, 0), (1, 0), (0, 1), (1, 1), in this order A; for K (0, 0), (0, 1), (1, 0),
// (1, 1), so that the two cores of each B (8 keys, both halves of head_dim) come
// in neighbouring registers: lane l names key l mod 8 + 8 (l / 16) and chunk
// l / 8 mod 2.

// CHECK-LABEL: gpu.func @contraction_with_key
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<16x16xf32>
// CHECK-SAME:    fcgpu.ptx_version = 70 : i64
gpu.module @kernels {
  gpu.func @contraction_with_key(%out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : vector<2xf32>
    // CHECK:      %[[Q:.+]] = nvgpu.ldmatrix %{{.+}} {numTiles = 4 : i32, transpose = false}
    // CHECK-DAG:  %[[Q00:.+]] = vector.extract %[[Q]][0]
    // CHECK-DAG:  %[[Q10:.+]] = vector.extract %[[Q]][1]
    // CHECK-DAG:  %[[Q01:.+]] = vector.extract %[[Q]][2]
    // CHECK-DAG:  %[[Q11:.+]] = vector.extract %[[Q]][3]
    // CHECK:      %[[HALF:.+]] = arith.divui %[[LANE:.+]], %{{c16.*}} : index
    // CHECK:      arith.xori %[[HALF]]
    // CHECK:      %[[KEY_OF_8:.+]] = arith.remui %[[LANE]], %{{c8.*}} : index
    // CHECK:      %[[UPPER:.+]] = arith.muli %[[HALF]], %{{c8.*}} : index
    // CHECK:      %[[KEY:.+]] = arith.addi %[[KEY_OF_8]], %[[UPPER]] : index
    // CHECK:      %[[CORE:.+]] = arith.divui %[[LANE]], %{{c8.*}} : index
    // CHECK:      %[[CHUNK:.+]] = arith.remui %[[CORE]], %{{c2.*}} : index
    // CHECK:      %[[KEY_START:.+]] = arith.muli %[[KEY]], %{{c16.*}} : index
    // CHECK:      %[[SWIZZLED:.+]] = arith.xori %[[CHUNK]], %{{.+}} : index
    // CHECK:      %[[COL:.+]] = arith.muli %[[SWIZZLED]], %{{c8.*}} : index
    // CHECK:      %[[LANE_PART:.+]] = arith.addi %[[KEY_START]], %[[COL]] : index
    // CHECK:      %[[LANE_BYTES:.+]] = arith.muli %[[LANE_PART]], %{{c2.*}} : index
    // CHECK:      %[[SHIFT:.+]] = arith.addi %{{.+}}, %[[LANE_BYTES]] : index
    // CHECK:      %[[ADDRESS:.+]] = memref.view %{{.+}}[%[[SHIFT]]][]
    // CHECK:      %[[K:.+]] = nvgpu.ldmatrix %[[ADDRESS]][%{{.+}}] {numTiles = 4 : i32, transpose = false}
    // CHECK-DAG:  %[[K00:.+]] = vector.extract %[[K]][0]
    // CHECK-DAG:  %[[K01:.+]] = vector.extract %[[K]][1]
    // CHECK-DAG:  %[[K10:.+]] = vector.extract %[[K]][2]
    // CHECK-DAG:  %[[K11:.+]] = vector.extract %[[K]][3]
    // CHECK:      %[[A0:.+]] = vector.insert %[[Q00]], %{{.+}} [0]
    // CHECK-NEXT: %[[A1:.+]] = vector.insert %[[Q10]], %[[A0]] [1]
    // CHECK-NEXT: %[[A2:.+]] = vector.insert %[[Q01]], %[[A1]] [2]
    // CHECK-NEXT: %[[A:.+]] = vector.insert %[[Q11]], %[[A2]] [3]
    // CHECK:      %[[B0:.+]] = vector.insert %[[K00]], %{{.+}} [0]
    // CHECK-NEXT: %[[B:.+]] = vector.insert %[[K01]], %[[B0]] [1]
    // CHECK:      %[[C0:.+]] = vector.insert %[[ZERO]], %{{.+}} [0]
    // CHECK-NEXT: %[[C:.+]] = vector.insert %[[ZERO]], %[[C0]] [1]
    // CHECK:      %[[LEFT:.+]] = nvgpu.mma.sync(%[[A]], %[[B]], %[[C]]) {mmaShape = [16, 8, 16]}
    // CHECK:      %[[B2:.+]] = vector.insert %[[K10]], %{{.+}} [0]
    // CHECK-NEXT: %[[B3:.+]] = vector.insert %[[K11]], %[[B2]] [1]
    // CHECK:      %[[RIGHT:.+]] = nvgpu.mma.sync(%[[A]], %[[B3]], %{{.+}}) {mmaShape = [16, 8, 16]}
    // CHECK-NOT:  nvgpu.mma.sync
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !acc
    %q_ring = fcgpu.alloc_ring : !ring
    %k_ring = fcgpu.alloc_ring : !ring
    %q = fcgpu.read %q_ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %k = fcgpu.read %k_ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %q, %k, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : !tile, !tile into !acc
    vector.transfer_write %s, %out[%c0, %c0] {in_bounds = [true, true]}
        : !acc, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#column = #fcgpu.layout<register (1, 0), lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4)>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<1x16x16xf16>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

// P V: V is stored (k, n), so ldmatrix transposes, and both halves of the keys
// (first index) at one half of head_dim are one B.

// CHECK-LABEL: gpu.func @contraction_with_value
gpu.module @kernels {
  gpu.func @contraction_with_value(%out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[V:.+]] = nvgpu.ldmatrix %{{.+}} {numTiles = 4 : i32, transpose = true}
    // CHECK-DAG:  %[[V00:.+]] = vector.extract %[[V]][0]
    // CHECK-DAG:  %[[V10:.+]] = vector.extract %[[V]][1]
    // CHECK-DAG:  %[[V01:.+]] = vector.extract %[[V]][2]
    // CHECK-DAG:  %[[V11:.+]] = vector.extract %[[V]][3]
    // CHECK:      %[[B0:.+]] = vector.insert %[[V00]], %{{.+}} [0]
    // CHECK-NEXT: %[[B1:.+]] = vector.insert %[[V10]], %[[B0]] [1]
    // CHECK:      nvgpu.mma.sync(%{{.+}}, %[[B1]], %{{.+}}) {mmaShape = [16, 8, 16]}
    // CHECK:      %[[B2:.+]] = vector.insert %[[V01]], %{{.+}} [0]
    // CHECK-NEXT: %[[B3:.+]] = vector.insert %[[V11]], %[[B2]] [1]
    // CHECK:      nvgpu.mma.sync(%{{.+}}, %[[B3]], %{{.+}}) {mmaShape = [16, 8, 16]}
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !acc
    %p = arith.constant dense<1.0> : !tile
    %v_ring = fcgpu.alloc_ring : !ring
    %v = fcgpu.read %v_ring[%c0] {fcgpu.home = #column} : !ring -> !tile
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : !tile, !tile into !acc
    vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]}
        : !acc, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
#column = #fcgpu.layout<register (1, 0), lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4)>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<1x16x16xf16>
!tile = vector<16x16xf16>
!acc = vector<16x16xf32>

// The accumulator of S, rounded, is the A operand of P V register for register.

// CHECK-LABEL: gpu.func @probabilities_stay_in_registers
gpu.module @kernels {
  gpu.func @probabilities_stay_in_registers(%out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[LEFT:.+]] = nvgpu.mma.sync
    // CHECK-DAG:  %[[S00:.+]] = vector.extract %[[LEFT]][0]
    // CHECK-DAG:  %[[S10:.+]] = vector.extract %[[LEFT]][1]
    // CHECK:      %[[RIGHT:.+]] = nvgpu.mma.sync
    // CHECK-DAG:  %[[S01:.+]] = vector.extract %[[RIGHT]][0]
    // CHECK-DAG:  %[[S11:.+]] = vector.extract %[[RIGHT]][1]
    // CHECK-DAG:  %[[P00:.+]] = arith.truncf %[[S00]] : vector<2xf32> to vector<2xf16>
    // CHECK-DAG:  %[[P01:.+]] = arith.truncf %[[S01]] : vector<2xf32> to vector<2xf16>
    // CHECK-DAG:  %[[P10:.+]] = arith.truncf %[[S10]] : vector<2xf32> to vector<2xf16>
    // CHECK-DAG:  %[[P11:.+]] = arith.truncf %[[S11]] : vector<2xf32> to vector<2xf16>
    // CHECK-NOT:  memref.store
    // CHECK-NOT:  gpu.shuffle
    // CHECK:      %[[A0:.+]] = vector.insert %[[P00]], %{{.+}} [0]
    // CHECK-NEXT: %[[A1:.+]] = vector.insert %[[P10]], %[[A0]] [1]
    // CHECK-NEXT: %[[A2:.+]] = vector.insert %[[P01]], %[[A1]] [2]
    // CHECK-NEXT: %[[A:.+]] = vector.insert %[[P11]], %[[A2]] [3]
    // CHECK:      nvgpu.mma.sync(%[[A]],
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !acc
    %k_ring = fcgpu.alloc_ring : !ring
    %v_ring = fcgpu.alloc_ring : !ring
    %k = fcgpu.read %k_ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %v = fcgpu.read %v_ring[%c0] {fcgpu.home = #column} : !ring -> !tile
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %k, %k, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : !tile, !tile into !acc
    %p = arith.truncf %s : !acc to !tile
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : !tile, !tile into !acc
    vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]}
        : !acc, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// 32 rows: both halves of A meet one B.

// CHECK-LABEL: gpu.func @warp_of_32_rows_uses_b_twice
gpu.module @kernels {
  gpu.func @warp_of_32_rows_uses_b_twice(%out: memref<32x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK: nvgpu.mma.sync(%[[TOP:.+]], %[[B0:.+]], %{{.+}}) {mmaShape
    // CHECK: nvgpu.mma.sync(%[[BOTTOM:.+]], %[[B0]], %{{.+}}) {mmaShape
    // CHECK: nvgpu.mma.sync(%[[TOP]], %[[B1:.+]], %{{.+}}) {mmaShape
    // CHECK: nvgpu.mma.sync(%[[BOTTOM]], %[[B1]], %{{.+}}) {mmaShape
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<32x16xf32>
    %a = arith.constant dense<1.0> : vector<32x16xf16>
    %b = arith.constant dense<2.0> : vector<16x16xf16>
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %b, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<32x16xf16>, vector<16x16xf16> into vector<32x16xf32>
    vector.transfer_write %s, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<32x16xf32>, memref<32x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// head_dim 32: the second step adds to the first.

// CHECK-LABEL: gpu.func @k_steps_accumulate
gpu.module @kernels {
  gpu.func @k_steps_accumulate(%out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[STEP0:.+]] = nvgpu.mma.sync
    // CHECK-DAG:  %[[TOP:.+]] = vector.extract %[[STEP0]][0]
    // CHECK-DAG:  %[[BOTTOM:.+]] = vector.extract %[[STEP0]][1]
    // CHECK:      nvgpu.mma.sync
    // CHECK:      %[[C0:.+]] = vector.insert %[[TOP]], %{{.+}} [0]
    // CHECK-NEXT: %[[C:.+]] = vector.insert %[[BOTTOM]], %[[C0]] [1]
    // CHECK:      nvgpu.mma.sync(%{{.+}}, %{{.+}}, %[[C]])
    // CHECK:      nvgpu.mma.sync
    // CHECK-NOT:  nvgpu.mma.sync
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %a = arith.constant dense<1.0> : vector<16x32xf16>
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %a, %a, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<16x32xf16>, vector<16x32xf16> into vector<16x16xf32>
    vector.transfer_write %s, %out[%c0, %c0] {in_bounds = [true, true]}
        : vector<16x16xf32>, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<1x16x16xf16>
!tile = vector<16x16xf16>
!wide = vector<16x16xf32>
!rows = vector<16xf32>

// Core by core, then the two elements of the lane, then the other three lanes of
// the row's quad, for each group of eight rows.

// CHECK-LABEL: gpu.func @row_max_ends_in_two_shuffles
gpu.module @kernels {
  gpu.func @row_max_ends_in_two_shuffles(%out: memref<16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[OLD_MAX:.+]] = arith.constant 0xFF800000 : f32
    // CHECK:      %[[CORE:.+]] = arith.maxnumf %{{.+}}, %{{.+}} : vector<2xf32>
    // CHECK-DAG:  %[[LO:.+]] = vector.extract %[[CORE]][0]
    // CHECK-DAG:  %[[HI:.+]] = vector.extract %[[CORE]][1]
    // CHECK:      %[[LANE:.+]] = arith.maxnumf %[[LO]], %[[HI]] : f32
    // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : i32
    // CHECK-DAG:  %[[WIDTH:.+]] = arith.constant 32 : i32
    // CHECK:      %[[NEIGHBOR:.+]], %{{.+}} = gpu.shuffle xor %[[LANE]], %[[C1]], %[[WIDTH]] : f32
    // CHECK-NEXT: %[[PAIR:.+]] = arith.maxnumf %[[LANE]], %[[NEIGHBOR]] : f32
    // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : i32
    // CHECK:      %[[OTHER_PAIR:.+]], %{{.+}} = gpu.shuffle xor %[[PAIR]], %[[C2]], %{{.+}} : f32
    // CHECK-NEXT: %[[QUAD:.+]] = arith.maxnumf %[[PAIR]], %[[OTHER_PAIR]] : f32
    // CHECK-NEXT: arith.maxnumf %[[OLD_MAX]], %[[QUAD]] : f32
    // CHECK:      gpu.shuffle
    // CHECK:      gpu.shuffle
    // CHECK-NOT:  gpu.shuffle
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %old_max = arith.constant dense<0xFF800000> : !rows
    %ring = fcgpu.alloc_ring : !ring
    %half = fcgpu.read %ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %s = arith.extf %half {fcgpu.home = #row} : !tile to !wide
    %max = vector.multi_reduction <maxnumf>, %s, %old_max [1] : !wide to !rows
    vector.transfer_write %max, %out[%c0] {in_bounds = [true]}
        : !rows, memref<16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<1x16x32xf16>
!tile = vector<16x32xf16>
!wide = vector<16x32xf32>
!groups = vector<16x4x8xf32>
!sums = vector<16x8xf32>

// Columns eight apart belong to one lane: their sum needs no other lane.

// CHECK-LABEL: gpu.func @row_sum_of_groups_stays_in_the_lane
gpu.module @kernels {
  gpu.func @row_sum_of_groups_stays_in_the_lane(%out: memref<16x8xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG: %[[OLD_SUM:.+]] = arith.constant dense<0.000000e+00> : vector<2xf32>
    // CHECK-NOT: gpu.shuffle
    // CHECK:     %[[LEFT:.+]] = arith.addf %{{.+}}, %{{.+}} : vector<2xf32>
    // CHECK:     %[[RIGHT:.+]] = arith.addf %{{.+}}, %{{.+}} : vector<2xf32>
    // CHECK:     %[[ALL:.+]] = arith.addf %[[LEFT]], %[[RIGHT]] : vector<2xf32>
    // CHECK-NEXT: arith.addf %[[OLD_SUM]], %[[ALL]] : vector<2xf32>
    // CHECK-NOT: gpu.shuffle
    // CHECK:     gpu.return
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !sums
    %ring = fcgpu.alloc_ring : !ring
    %half = fcgpu.read %ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %p = arith.extf %half {fcgpu.home = #row} : !tile to !wide
    %groups = vector.shape_cast %p : !wide to !groups
    %sum = vector.multi_reduction <add>, %groups, %zero [1] : !groups to !sums
    vector.transfer_write %sum, %out[%c0, %c0] {in_bounds = [true, true]}
        : !sums, memref<16x8xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<1x16x16xf16>
!half = vector<16x16xf16>
!rows = vector<16xf16>
!column = vector<16x1xf16>

// A row's value is a scalar of its lanes: one for rows 0 to 7, one for 8 to 15.

// CHECK-LABEL: gpu.func @row_values_are_broadcast_to_cores
gpu.module @kernels {
  gpu.func @row_values_are_broadcast_to_cores(%out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[TOP:.+]] = math.exp2 %{{.+}} : f16
    // CHECK:      %[[BOTTOM:.+]] = math.exp2 %{{.+}} : f16
    // CHECK-DAG:  %[[TOP_CORE:.+]] = vector.broadcast %[[TOP]] : f16 to vector<2xf16>
    // CHECK-DAG:  %[[BOTTOM_CORE:.+]] = vector.broadcast %[[BOTTOM]] : f16 to vector<2xf16>
    // CHECK:      vector.store %[[TOP_CORE]],
    // CHECK:      vector.store %[[TOP_CORE]],
    // CHECK:      vector.store %[[BOTTOM_CORE]],
    // CHECK:      vector.store %[[BOTTOM_CORE]],
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !rows
    %ring = fcgpu.alloc_ring : !ring
    %tile = fcgpu.read %ring[%c0] {fcgpu.home = #row} : !ring -> !half
    %sum = vector.multi_reduction <add>, %tile, %zero [1] : !half to !rows
    %exp = math.exp2 %sum : !rows
    %column = vector.shape_cast %exp : !rows to !column
    %result = vector.broadcast %column : !column to !half
    vector.transfer_write %result, %out[%c0, %c0] {in_bounds = [true, true]}
        : !half, memref<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<1x16x16xf16>
!tile = vector<16x16xf16>

// CHECK-LABEL: gpu.func @elementwise_ops_keep_their_attributes
gpu.module @kernels {
  gpu.func @elementwise_ops_keep_their_attributes(%out: memref<16x16xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[CORE:.+]] = vector.extract %{{.+}}[0] : vector<2xf16>
    // CHECK-NOT:  fcgpu.home
    // CHECK:      %[[SUM:.+]] = arith.addf %[[CORE]], %[[CORE]] fastmath<nnan> : vector<2xf16>
    // CHECK-NOT:  fcgpu.home
    // CHECK:      vector.store %[[SUM]]
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %tile = fcgpu.read %ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %sum = arith.addf %tile, %tile fastmath<nnan> {fcgpu.home = #row} : !tile
    vector.transfer_write %sum, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf32>
!rows = vector<16xf32>

// CHECK-LABEL: gpu.func @loop_carries_cores_and_scalars
gpu.module @kernels {
  gpu.func @loop_carries_cores_and_scalars(%out: memref<16x16xf32>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK: %[[STATE:.+]]:6 = scf.for %{{.+}} -> (vector<2xf32>, vector<2xf32>, vector<2xf32>, vector<2xf32>, f32, f32)
    // CHECK: vector.store %[[STATE]]#0
    // CHECK: vector.store %[[STATE]]#1
    // CHECK: vector.store %[[STATE]]#2
    // CHECK: vector.store %[[STATE]]#3
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant dense<1.0> : !tile
    %ones = arith.constant dense<1.0> : !rows
    %state:2 = scf.for %i = %c0 to %n step %c1
        iter_args(%acc = %one, %max = %ones) -> (!tile, !rows) {
      %new_acc = arith.addf %acc, %one : !tile
      %new_max = arith.addf %max, %ones : !rows
      scf.yield %new_acc, %new_max : !tile, !rows
    }
    vector.transfer_write %state#0, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf32>
    gpu.return
  }
}

// -----

// CHECK-LABEL: gpu.func @kernel_without_schedule_is_left_alone
gpu.module @kernels {
  gpu.func @kernel_without_schedule_is_left_alone(%in: vector<16x16xf32>)
      kernel {
    // CHECK-NEXT: "use"
    // CHECK-NEXT: gpu.return
    %0 = "use"(%in) : (vector<16x16xf32>) -> vector<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<1x16x24xf16>
!tile = vector<16x24xf16>
!acc = vector<16x16xf32>

// Three cores along k: an m16n8k16 on the first two and an m16n8k8 on the last,
// whose A is one column of cores and whose B is one core.

// CHECK-LABEL: gpu.func @contraction_with_an_odd_number_of_cores_along_k
gpu.module @kernels {
  gpu.func @contraction_with_an_odd_number_of_cores_along_k(
      %out: memref<16x16xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      nvgpu.ldmatrix %{{.+}} {numTiles = 4 : i32, transpose = false}
    // CHECK:      %[[Q:.+]] = nvgpu.ldmatrix %{{.+}} {numTiles = 2 : i32, transpose = false}
    // CHECK-DAG:  %[[Q02:.+]] = vector.extract %[[Q]][0]
    // CHECK-DAG:  %[[Q12:.+]] = vector.extract %[[Q]][1]
    // CHECK:      nvgpu.ldmatrix %{{.+}} {numTiles = 4 : i32, transpose = false}
    // CHECK:      %[[K:.+]] = nvgpu.ldmatrix %{{.+}} {numTiles = 2 : i32, transpose = false}
    // CHECK-DAG:  %[[K02:.+]] = vector.extract %[[K]][0]
    // CHECK-DAG:  %[[K12:.+]] = vector.extract %[[K]][1]
    // CHECK:      %[[LEFT:.+]] = nvgpu.mma.sync({{.+}}) {mmaShape = [16, 8, 16]}
    // CHECK-DAG:  %[[LEFT_TOP:.+]] = vector.extract %[[LEFT]][0]
    // CHECK-DAG:  %[[LEFT_BOTTOM:.+]] = vector.extract %[[LEFT]][1]
    // CHECK:      %[[RIGHT:.+]] = nvgpu.mma.sync({{.+}}) {mmaShape = [16, 8, 16]}
    // CHECK-DAG:  %[[RIGHT_TOP:.+]] = vector.extract %[[RIGHT]][0]
    // CHECK-DAG:  %[[RIGHT_BOTTOM:.+]] = vector.extract %[[RIGHT]][1]
    // CHECK:      %[[A0:.+]] = vector.insert %[[Q02]], %{{.+}} [0]
    // CHECK-NEXT: %[[A:.+]] = vector.insert %[[Q12]], %[[A0]] [1]
    // CHECK:      %[[B:.+]] = vector.insert %[[K02]], %{{.+}} [0] : vector<2xf16> into vector<1x2xf16>
    // CHECK:      %[[C0:.+]] = vector.insert %[[LEFT_TOP]], %{{.+}} [0]
    // CHECK-NEXT: %[[C:.+]] = vector.insert %[[LEFT_BOTTOM]], %[[C0]] [1]
    // CHECK:      nvgpu.mma.sync(%[[A]], %[[B]], %[[C]]) {mmaShape = [16, 8, 8]} : (vector<2x2xf16>, vector<1x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
    // CHECK:      %[[B_RIGHT:.+]] = vector.insert %[[K12]], %{{.+}} [0]
    // CHECK:      %[[D0:.+]] = vector.insert %[[RIGHT_TOP]], %{{.+}} [0]
    // CHECK-NEXT: %[[D:.+]] = vector.insert %[[RIGHT_BOTTOM]], %[[D0]] [1]
    // CHECK:      nvgpu.mma.sync(%[[A]], %[[B_RIGHT]], %[[D]]) {mmaShape = [16, 8, 8]}
    // CHECK-NOT:  nvgpu.mma.sync
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !acc
    %q_ring = fcgpu.alloc_ring : !ring
    %k_ring = fcgpu.alloc_ring : !ring
    %q = fcgpu.read %q_ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %k = fcgpu.read %k_ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %s = vector.contract {indexing_maps = [#mk, #nk, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %q, %k, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : !tile, !tile into !acc
    vector.transfer_write %s, %out[%c0, %c0] {in_bounds = [true, true]}
        : !acc, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#column = #fcgpu.layout<register (1, 0), lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4)>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<1x16x24xbf16>
!acc = vector<16x24xf32>

// Three cores along n are three products, all of them m16n8k16.

// CHECK-LABEL: gpu.func @contraction_with_an_odd_number_of_cores_along_n
gpu.module @kernels {
  gpu.func @contraction_with_an_odd_number_of_cores_along_n(
      %out: memref<16x24xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      nvgpu.ldmatrix %{{.+}} {numTiles = 4 : i32, transpose = true}
    // CHECK:      %[[V:.+]] = nvgpu.ldmatrix %{{.+}} {numTiles = 2 : i32, transpose = true}
    // CHECK-DAG:  %[[V02:.+]] = vector.extract %[[V]][0]
    // CHECK-DAG:  %[[V12:.+]] = vector.extract %[[V]][1]
    // CHECK:      nvgpu.mma.sync({{.+}}) {mmaShape = [16, 8, 16]}
    // CHECK:      nvgpu.mma.sync({{.+}}) {mmaShape = [16, 8, 16]}
    // CHECK:      %[[B0:.+]] = vector.insert %[[V02]], %{{.+}} [0]
    // CHECK-NEXT: %[[B:.+]] = vector.insert %[[V12]], %[[B0]] [1]
    // CHECK:      nvgpu.mma.sync(%{{.+}}, %[[B]], %{{.+}}) {mmaShape = [16, 8, 16]}
    // CHECK-NOT:  nvgpu.mma.sync
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !acc
    %p = arith.constant dense<1.0> : vector<16x16xbf16>
    %v_ring = fcgpu.alloc_ring : !ring
    %v = fcgpu.read %v_ring[%c0] {fcgpu.home = #column}
        : !ring -> vector<16x24xbf16>
    %o = vector.contract {indexing_maps = [#mk, #kn, #mn],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %p, %v, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<16x16xbf16>, vector<16x24xbf16> into !acc
    vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [true, true]}
        : !acc, memref<16x24xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<2x16x32xf16>
!tile = vector<16x32xf16>

// Whether any element holds is one answer for the whole warp: the lanes vote.
// What they have in common goes into it.

// CHECK-LABEL: gpu.func @any_is_a_vote
// CHECK-SAME:    %[[BEFORE:[^:]+]]: i1
gpu.module @kernels {
  gpu.func @any_is_a_vote(%out: memref<i1>, %before: i1)
      kernel attributes {fcgpu.schedule = #schedule} {
    // Two rows of four cores of two elements.
    // CHECK-COUNT-8: arith.cmpf ogt, %{{.+}}, %{{.+}} : vector<2xf16>
    // CHECK-COUNT-7: arith.ori %{{.+}}, %{{.+}} : vector<2xi1>
    // CHECK:         %[[MINE:.+]] = arith.ori %{{.+}}, %{{.+}} : i1
    // CHECK-NEXT:    %[[EITHER:.+]] = arith.ori %[[MINE]], %[[BEFORE]] : i1
    // CHECK-NEXT:    %[[ALL:.+]] = arith.constant -1 : i32
    // CHECK-NEXT:    %[[ANY:.+]] = nvvm.vote.sync any %[[ALL]], %[[EITHER]] -> i1
    // CHECK-NEXT:    memref.store %[[ANY]]
    %c0 = arith.constant 0 : index
    %limit = arith.constant dense<1.0> : !tile
    %ring = fcgpu.alloc_ring : !ring
    %s = fcgpu.read %ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %exceeds = arith.cmpf ogt, %s, %limit : !tile
    %any = vector.multi_reduction <or>, %exceeds, %before [0, 1]
        : vector<16x32xi1> to i1
    memref.store %any, %out[] : memref<i1>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<1x16x32xf16>
!tile = vector<16x32xf16>

// Which groups of columns hold a true: the lane's own, without other lanes.

// CHECK-LABEL: gpu.func @or_of_groups_stays_in_the_lane
gpu.module @kernels {
  gpu.func @or_of_groups_stays_in_the_lane()
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-NOT: gpu.shuffle
    // CHECK:     %[[LEFT:.+]] = arith.ori %{{.+}}, %{{.+}} : vector<2xi1>
    // CHECK:     %[[RIGHT:.+]] = arith.ori %{{.+}}, %{{.+}} : vector<2xi1>
    // CHECK:     %[[ALL:.+]] = arith.ori %[[LEFT]], %[[RIGHT]] : vector<2xi1>
    // CHECK-NEXT: arith.ori %{{.+}}, %[[ALL]] : vector<2xi1>
    // CHECK:     nvvm.vote.sync any
    // CHECK-NOT: gpu.shuffle
    // CHECK:     gpu.return
    %c0 = arith.constant 0 : index
    %no = arith.constant false
    %zero = arith.constant dense<0.0> : !tile
    %flags0 = arith.constant dense<false> : vector<16x8xi1>
    %ring = fcgpu.alloc_ring : !ring
    %half = fcgpu.read %ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    %flags = arith.cmpf ogt, %half, %zero {fcgpu.home = #row} : !tile
    %groups = vector.shape_cast %flags {fcgpu.home = #row}
        : vector<16x32xi1> to vector<16x4x8xi1>
    %any8 = vector.multi_reduction <or>, %groups, %flags0
        {fcgpu.home = #row} [1] : vector<16x4x8xi1> to vector<16x8xi1>
    %any = vector.multi_reduction <or>, %any8, %no [0, 1]
        : vector<16x8xi1> to i1
    scf.if %any {
      gpu.barrier
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
#row = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
!ring = !fcgpu.ring<1x16x40xf16>
!tile = vector<16x40xf16>

// The lanes of a quad transpose their columns of four cores, in two exchanges
// of two words each, whether their row exists or not. The fifth core is stored
// as it is.

// CHECK-LABEL: gpu.func @quads_store_16_bytes_a_lane
// CHECK-SAME:    %[[OUT:[^:]+]]: memref<?x40xf16>
gpu.module @kernels {
  gpu.func @quads_store_16_bytes_a_lane(%out: memref<?x40xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:         nvgpu.ldmatrix
    // CHECK-COUNT-4: gpu.shuffle xor {{.+}} : i32
    // CHECK-NOT:     gpu.shuffle
    // CHECK:         scf.if
    // CHECK:           vector.store %{{.+}}, %[[OUT]][%[[ROW:.+]], %{{.+}}] {alignment = 16 : i64} : memref<?x40xf16>, vector<8xf16>
    // CHECK-NOT:       vector.store {{.+}} vector<8xf16>
    // CHECK:           vector.store %{{.+}}, %[[OUT]][%[[ROW]], %{{.+}}] {alignment = 4 : i64} : memref<?x40xf16>, vector<2xf16>
    // CHECK-COUNT-4: gpu.shuffle xor {{.+}} : i32
    // CHECK-NOT:     gpu.shuffle
    // CHECK:         gpu.return
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %o = fcgpu.read %ring[%c0] {fcgpu.home = #row} : !ring -> !tile
    vector.transfer_write %o, %out[%c0, %c0] {in_bounds = [false, true]}
        : !tile, memref<?x40xf16>
    gpu.return
  }
}
