// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts,flashcore-distribute,flashcore-simplify-kernel)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "k"},
                        {kind = "pointer", tensor = "o"},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 128, 64], swizzle = 128}]}
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#nk_product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
#kn_product = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x128x128xf16, panels>
!source = memref<1x2x512x128xf16, strided<[131072, 65536, 128, 1]>>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @roles(
  // CHECK-SAME:    %[[MAP:[^:]+]]: !llvm.ptr)
  // CHECK-SAME:    fcgpu.ptx_version = 80 : i64
  // CHECK-DAG:     %[[ONE:.+]] = arith.constant 1 : i32
  // CHECK-DAG:     %[[EIGHT:.+]] = arith.constant 8 : i32
  // CHECK-DAG:     %[[BYTES:.+]] = arith.constant 32768 : i32
  // One thread makes the barriers: one arrival fills a slot, one of each of the
  // eight warps frees it.
  // CHECK:         scf.if
  // CHECK:           nvvm.mbarrier.init %{{.+}}, %[[ONE]] : !llvm.ptr<3>, i32
  // CHECK:           nvvm.mbarrier.init %{{.+}}, %[[EIGHT]] : !llvm.ptr<3>, i32
  // CHECK:           nvvm.mbarrier.init %{{.+}}, %[[ONE]] : !llvm.ptr<3>, i32
  // CHECK:           nvvm.mbarrier.init %{{.+}}, %[[EIGHT]] : !llvm.ptr<3>, i32
  // CHECK-NEXT:    nvvm.fence.mbarrier.init
  // CHECK:         gpu.barrier
  // CHECK:         scf.if
  // CHECK:           nvvm.setmaxregister increase 240
  // Q K^T: eight steps of 16 columns, four of them a panel of 128 rows apart.
  // CHECK:           nvvm.mbarrier.try_wait.parity
  // CHECK:           llvm.inline_asm has_side_effects asm_dialect = att
  // CHECK-SAME:        wgmma.fence.sync.aligned;
  // CHECK-SAME:        add.s64 b, $96, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {$0, {{.*}}$63}, {$64, $65, $66, $67}, b, none, 1, 1, 0;
  // CHECK-SAME:        add.s64 b, $96, 2; wgmma.mma_async{{.*}}, {$68, $69, $70, $71}, b, all, 1, 1, 0;
  // CHECK-SAME:        add.s64 b, $96, 1024; wgmma.mma_async{{.*}}, {$80, $81, $82, $83}, b, all, 1, 1, 0;
  // CHECK-SAME:        wgmma.commit_group.sync.aligned;
  // CHECK-SAME:        =f,{{.*}}r,{{.*}},l"
  // The wait passes on the result, and holds what the product reads.
  // CHECK:           llvm.inline_asm has_side_effects asm_dialect = att "wgmma.wait_group.sync.aligned 0;", "=f,{{.*}}r,{{.*}},0,1,2,{{.*}},63"
  // One lane of a warp arrives.
  // CHECK:           scf.if
  // CHECK-NEXT:        nvvm.mbarrier.arrive %{{.+}} : !llvm.ptr<3>
  // P V: each step 16 rows of the slot further, into the registers given.
  // CHECK:           llvm.inline_asm has_side_effects asm_dialect = att
  // CHECK-SAME:        add.s64 b, $96, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {$0, {{.*}}$63}, {$64, $65, $66, $67}, b, all, 1, 1, 1;
  // CHECK-SAME:        add.s64 b, $96, 128; wgmma.mma_async
  // CHECK-SAME:        =f,{{.*}}r,{{.*}},l,0,1,2,{{.*}},63"
  // CHECK:         } else {
  // CHECK:           nvvm.setmaxregister decrease 24
  // CHECK:           scf.if
  // CHECK:             nvvm.mbarrier.try_wait.parity
  // CHECK:             nvvm.mbarrier.arrive.expect_tx %[[FULL:.+]], %[[BYTES]]
  // Innermost coordinate first.
  // CHECK:             nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[MAP]], %[[FULL]], box[%c0{{.*}}, %{{.+}}, %{{.+}}, %c0{{.*}}]
  // CHECK:             nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[MAP]], %[[FULL]], box[%c64{{.*}}, %{{.+}}, %{{.+}}, %c0{{.*}}]
  // CHECK-NOT:         nvvm.cp.async.bulk
  gpu.func @roles(%k_base: memref<f16>, %o: memref<128x128xf32>, %map: !llvm.ptr)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : vector<64x128xf32>
    %p = arith.constant dense<1.0> : vector<64x128xf16>
    %ring = fcgpu.alloc_ring : !ring
    %k = memref.reinterpret_cast %k_base to offset: [0], sizes: [1, 2, 512, 128], strides: [131072, 65536, 128, 1]
        : memref<f16> to !source
    %head = gpu.block_id x
    fcgpu.produce {
      %view = memref.subview %k[0, %head, 0, 0] [1, 1, 512, 128] [1, 1, 1, 1]
          : !source to memref<1x1x512x128xf16, strided<[131072, 65536, 128, 1], offset: ?>>
      fcgpu.acquire %ring[%c0] to fill : !ring
      fcgpu.copy %view[%c0, %c0, %head, %c0] to %ring[%c0] by block
          : memref<1x1x512x128xf16, strided<[131072, 65536, 128, 1], offset: ?>> to !ring
    }
    scf.forall (%g) in (2) {
      fcgpu.acquire %ring[%c0] to read : !ring
      %b = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<128x128xf16>
      %s = vector.contract #nk_product %p, %b, %zero
          : vector<64x128xf16>, vector<128x128xf16> into vector<64x128xf32>
      %t = fcgpu.await %s using(%p : vector<64x128xf16>) in_flight(0) : vector<64x128xf32>
      fcgpu.release %ring[%c0] : !ring
      %v = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<128x128xf16>
      %u = vector.contract #kn_product %p, %v, %t
          : vector<64x128xf16>, vector<128x128xf16> into vector<64x128xf32>
      %w = fcgpu.await %u using(%p : vector<64x128xf16>) in_flight(0) : vector<64x128xf32>
      %row = affine.apply affine_map<(g) -> (g * 64)>(%g)
      vector.transfer_write %w, %o[%row, %c0] {in_bounds = [true, true]}
          : vector<64x128xf32>, memref<128x128xf32>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, row_max = checked, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "k"},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 128, 64], swizzle = 128}]}
!ring = !fcgpu.ring<2x128x128xf16, panels>
!source = memref<1x2x512x128xf16, strided<[131072, 65536, 128, 1]>>

gpu.module @kernels {
  // What stands behind the first loop over warpgroups is done on both sides of
  // the branch of the roles; the second ring has the memory of the first, but
  // barriers of its own, behind which (at 65536 + 2 * 32) the flag is. They meet
  // at an mbarrier of eight warps and the one that fills rings.
  // CHECK-LABEL: gpu.func @two_walks(
  // CHECK-SAME:    %[[LOST:[^:]+]]: i1)
  // CHECK-DAG:     %[[FLAG:.+]] = arith.constant 65600 : index
  // CHECK-DAG:     %[[MEETING:.+]] = arith.constant 288 : i32
  // CHECK:         nvvm.mbarrier.init %{{.+}}, %[[MEETING]]
  // CHECK-COUNT-8: nvvm.mbarrier.init
  // CHECK-NOT:     nvvm.mbarrier.init
  // CHECK:         gpu.barrier
  // CHECK-NOT:     gpu.barrier
  // CHECK:         scf.if
  // CHECK:           nvvm.setmaxregister increase 240
  // CHECK:           nvvm.mbarrier.try_wait.parity
  // CHECK:           scf.if %[[LOST]] {
  // CHECK-NEXT:        %[[WORD:.+]] = memref.view %{{.+}}[%[[FLAG]]][]
  // CHECK:             memref.store %{{.+}}, %[[WORD]]
  // CHECK:           nvvm.mbarrier.arrive
  // CHECK:           nvvm.mbarrier.try_wait.parity
  // CHECK-NEXT:      memref.view %{{.+}}[%[[FLAG]]][]
  // CHECK-NEXT:      %[[RAISED:.+]] = memref.load
  // CHECK:           %[[AGAIN:.+]] = arith.cmpi ne, %[[RAISED]],
  // CHECK-NEXT:      scf.if %[[AGAIN]] {
  // CHECK:             nvvm.mbarrier.try_wait.parity
  // CHECK-NOT:         nvvm.cp.async.bulk
  // CHECK:         } else {
  // CHECK:           nvvm.setmaxregister decrease 24
  // CHECK:           %[[WARP:.+]] = arith.cmpi eq
  // CHECK-NEXT:      scf.if %[[WARP]] {
  // CHECK-NEXT:      %[[FIRST:.+]] = arith.cmpi eq
  // CHECK-NEXT:      scf.if %[[FIRST]] {
  // CHECK:             nvvm.cp.async.bulk
  // CHECK:           nvvm.mbarrier.arrive
  // CHECK:           nvvm.mbarrier.try_wait.parity
  // CHECK:           %[[ALSO:.+]] = arith.cmpi ne
  // CHECK-NEXT:      %[[FILLS:.+]] = arith.andi %[[ALSO]], %[[FIRST]]
  // CHECK-NEXT:      scf.if %[[FILLS]] {
  // CHECK:             nvvm.cp.async.bulk
  // CHECK-NOT:     nvvm.setmaxregister
  gpu.func @two_walks(%k_base: memref<f16>, %map: !llvm.ptr, %lost: i1)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %k = memref.reinterpret_cast %k_base to offset: [0], sizes: [1, 2, 512, 128], strides: [131072, 65536, 128, 1]
        : memref<f16> to !source
    %ring = fcgpu.alloc_ring : !ring
    %flag = fcgpu.alloc_flag : !fcgpu.flag
    fcgpu.produce {
      fcgpu.acquire %ring[%c0] to fill : !ring
      fcgpu.copy %k[%c0, %c0, %c0, %c0] to %ring[%c0] by block : !source to !ring
    }
    scf.forall (%g) in (2) {
      fcgpu.acquire %ring[%c0] to read : !ring
      fcgpu.release %ring[%c0] : !ring
      fcgpu.raise %flag if %lost : !fcgpu.flag
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    %again = fcgpu.test_flag %flag : !fcgpu.flag
    scf.if %again {
      %ring_again = fcgpu.alloc_ring : !ring
      fcgpu.produce {
        fcgpu.acquire %ring_again[%c0] to fill : !ring
        fcgpu.copy %k[%c0, %c0, %c0, %c0] to %ring_again[%c0] by block : !source to !ring
      }
      scf.forall (%g) in (2) {
        fcgpu.acquire %ring_again[%c0] to read : !ring
        fcgpu.release %ring_again[%c0] : !ring
      } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    }
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
!ring = !fcgpu.ring<2x128x128xf16, panels>

gpu.module @kernels {
  // The kernel says of no argument that it is a tensor map.
  gpu.func @no_tensor_map(%k: memref<512x128xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      fcgpu.acquire %ring[%c0] to fill : !ring
      // expected-error @below {{failed to legalize operation 'fcgpu.copy'}}
      fcgpu.copy %k[%c0, %c0] to %ring[%c0] by block : memref<512x128xf16> to !ring
    }
    scf.forall (%g) in (2) {
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>

gpu.module @kernels {
  gpu.func @another_number_of_warpgroups() kernel attributes {fcgpu.schedule = #schedule} {
    fcgpu.produce {
    }
    // expected-error @below {{'scf.forall' op expects a loop of one or two dimensions over the 2 warpgroups of the launch, but got 8}}
    scf.forall (%g) in (8) {
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90", block_m = 128, block_n = 128,
  num_warps = 8, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
!ring = !fcgpu.ring<2x128x128xf16, panels>

gpu.module @kernels {
  gpu.func @chip_without_wgmma(%p: vector<64x128xf16>) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<64x128xf32>
    %ring = fcgpu.alloc_ring : !ring
    scf.forall (%g) in (2) {
      %b = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<128x128xf16>
      // expected-error @below {{'vector.contract' op multiplies 'f16' by 'f16' into 'f32', for which sm_90 has no instruction that is known here}}
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
          %p, %b, %zero : vector<64x128xf16>, vector<128x128xf16> into vector<64x128xf32>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, row_sum = mma, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "v"},
                        {kind = "pointer", tensor = "o"},
                        {kind = "tensor_map", tensor = "v", box = [1, 1, 64, 64], swizzle = 128}]}
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#kn_product = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x72xf16, panels>
!source = memref<1x1x512x64xf16, strided<[32768, 32768, 64, 1]>>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @columns_of_ones(
  // CHECK-SAME:    %[[MAP:[^:]+]]: !llvm.ptr)
  // All threads write the second panel of both slots, one chunk of 8 columns a
  // row; products see it by the other proxy.
  // CHECK-DAG:     %[[ONES:.+]] = arith.constant dense<1.000000e+00> : vector<8xf16>
  // CHECK-DAG:     %[[PANEL:.+]] = arith.constant 8192 : i32
  // CHECK:         %[[THREAD:.+]] = gpu.thread_id x
  // CHECK:         scf.for %[[I:.+]] = %[[THREAD]] to %c128 step %c256 {
  // CHECK-NEXT:      %[[ROW:.+]] = arith.remui %[[I]], %c64
  // CHECK-NEXT:      %[[SLOT:.+]] = arith.divui %[[I]], %c64
  // CHECK-NEXT:      arith.muli %[[SLOT]], %c16384
  // CHECK-NEXT:      %[[OF_ROW:.+]] = arith.muli %[[ROW]], %c128
  // CHECK-NEXT:      arith.addi %[[OF_ROW]], %c8192
  // CHECK:           arith.remui %[[ROW]], %c8
  // CHECK:           llvm.store %[[ONES]], %{{.+}} {alignment = 16 : i64} : vector<8xf16>, !llvm.ptr<3>
  // CHECK-NEXT:    }
  // CHECK-NEXT:    nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  // CHECK-NEXT:    gpu.barrier
  // One product has both, and the columns are some of its registers.
  // CHECK:         wgmma.mma_async.sync.aligned.m64n72k16
  // CHECK:         %[[O:.+]] = llvm.inline_asm {{.+}} "wgmma.wait_group.sync.aligned 0;"
  // CHECK-DAG:     %[[A:.+]] = llvm.extractvalue %[[O]][0]
  // CHECK-DAG:     %[[B:.+]] = llvm.extractvalue %[[O]][1]
  // CHECK-DAG:     %[[C:.+]] = llvm.extractvalue %[[O]][32]
  // CHECK-DAG:     %[[D:.+]] = llvm.extractvalue %[[O]][33]
  // CHECK-DAG:     %[[FIRST:.+]] = vector.from_elements %[[A]], %[[B]]
  // CHECK-DAG:     %[[SUMS:.+]] = vector.from_elements %[[C]], %[[D]]
  // CHECK:         vector.store %[[FIRST]], %{{.+}}[%[[LANE_ROW:.+]], %[[LANE_COL:.+]]] {
  // CHECK:         vector.store %[[SUMS]], %{{.+}}[%[[LANE_ROW]], %[[LANE_COL]]] {
  // The copy brings the first panel alone.
  // CHECK:         nvvm.mbarrier.arrive.expect_tx %{{.+}}, %[[PANEL]]
  // CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[MAP]],
  // CHECK-NOT:     nvvm.cp.async.bulk
  // CHECK:         gpu.return
  gpu.func @columns_of_ones(%v_base: memref<f16>, %o: memref<64x64xf32>, %map: !llvm.ptr)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<64x72xf32>
    %p = arith.constant dense<1.0> : vector<64x64xf16>
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.fill %ring column(64) with 1.0 : f16 of !ring
    %v = memref.reinterpret_cast %v_base to offset: [0], sizes: [1, 1, 512, 64], strides: [32768, 32768, 64, 1]
        : memref<f16> to !source
    fcgpu.produce {
      fcgpu.acquire %ring[%c0] to fill : !ring
      fcgpu.copy %v[%c0, %c0, %c0, %c0] to %ring[%c0] by block : !source to !ring
    }
    scf.forall (%g) in (1) {
      fcgpu.acquire %ring[%c0] to read : !ring
      %b = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<64x72xf16>
      %s = vector.contract #kn_product %p, %b, %zero
          : vector<64x64xf16>, vector<64x72xf16> into vector<64x72xf32>
      %t = fcgpu.await %s using(%p : vector<64x64xf16>) in_flight(0) : vector<64x72xf32>
      fcgpu.release %ring[%c0] : !ring
      %w = vector.extract_strided_slice %t {offsets = [0, 0], sizes = [64, 64], strides = [1, 1]}
          : vector<64x72xf32> to vector<64x64xf32>
      %sums = vector.extract_strided_slice %t {offsets = [0, 64], sizes = [64, 8], strides = [1, 1]}
          : vector<64x72xf32> to vector<64x8xf32>
      vector.transfer_write %w, %o[%c0, %c0] {in_bounds = [true, true]}
          : vector<64x64xf32>, memref<64x64xf32>
      vector.transfer_write %sums, %o[%c0, %c0] {in_bounds = [true, true]}
          : vector<64x8xf32>, memref<64x64xf32>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, row_sum = mma, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#kn_product = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x72xf16, panels>

gpu.module @kernels {
  // Columns that begin between those of a core are other lanes'.

  gpu.func @slice_inside_of_a_core(%o: memref<64x64xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<64x72xf32>
    %p = arith.constant dense<1.0> : vector<64x64xf16>
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
    }
    scf.forall (%g) in (1) {
      %b = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<64x72xf16>
      %s = vector.contract #kn_product %p, %b, %zero
          : vector<64x64xf16>, vector<64x72xf16> into vector<64x72xf32>
      %t = fcgpu.await %s using(%p : vector<64x64xf16>) in_flight(0) : vector<64x72xf32>
      // expected-error @below {{failed to legalize operation 'vector.extract_strided_slice'}}
      %w = vector.extract_strided_slice %t {offsets = [0, 4], sizes = [64, 8], strides = [1, 1]}
          : vector<64x72xf32> to vector<64x8xf32>
      vector.transfer_write %w, %o[%c0, %c0] {in_bounds = [true, true]}
          : vector<64x8xf32>, memref<64x64xf32>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, row_sum = mma, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#kn_product = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x72xf16, panels>

gpu.module @kernels {
  // Rows that begin elsewhere are other warps'.

  gpu.func @slice_of_rows(%o: memref<64x64xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<64x72xf32>
    %p = arith.constant dense<1.0> : vector<64x64xf16>
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
    }
    scf.forall (%g) in (1) {
      %b = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<64x72xf16>
      %s = vector.contract #kn_product %p, %b, %zero
          : vector<64x64xf16>, vector<64x72xf16> into vector<64x72xf32>
      %t = fcgpu.await %s using(%p : vector<64x64xf16>) in_flight(0) : vector<64x72xf32>
      // expected-error @below {{failed to legalize operation 'vector.extract_strided_slice'}}
      %w = vector.extract_strided_slice %t {offsets = [16, 0], sizes = [16, 64], strides = [1, 1]}
          : vector<64x72xf32> to vector<16x64xf32>
      vector.transfer_write %w, %o[%c0, %c0] {in_bounds = [true, true]}
          : vector<16x64xf32>, memref<64x64xf32>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, row_sum = mma, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "k"},
                        {kind = "pointer", tensor = "v"}]}
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#nk_product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
#kn_product = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!k_ring = !fcgpu.ring<2x64x128xf16, panels(8)>
!v_ring = !fcgpu.ring<2x64x136xf16, panels(16)>

gpu.module @kernels {
  // In groups of 8 rows panels are 1024 bytes apart, and eight rows are two of
  // them. In groups of 16 rows with a panel of ones, panels are 2048 bytes
  // apart, eight rows 1024, and 16 rows take 3 * 2048 bytes: 384 units of 16.
  // CHECK-LABEL: gpu.func @groups_of_panels(
  // CHECK-DAG:     arith.constant 4611686568187396096 : i64
  // CHECK-DAG:     arith.constant 4611686293313683456 : i64
  // CHECK:         scf.for
  // CHECK:           arith.divui %{{.+}}, %c16
  // CHECK:           arith.muli %{{.+}}, %c6144
  // CHECK:           arith.remui %{{.+}}, %c16
  // CHECK:           arith.muli %{{.+}}, %c128
  // CHECK:           arith.addi %{{.+}}, %c4096
  // CHECK:           llvm.store
  // CHECK:         add.s64 b, $64, 0; wgmma.mma_async.sync.aligned.m64n64k16
  // CHECK-SAME:    add.s64 b, $64, 6; wgmma
  // CHECK-SAME:    add.s64 b, $64, 64; wgmma
  // CHECK:         add.s64 b, ${{[0-9]+}}, 0; wgmma.mma_async.sync.aligned.m64n136k16
  // CHECK-SAME:    add.s64 b, ${{[0-9]+}}, 384; wgmma
  // CHECK-SAME:    add.s64 b, ${{[0-9]+}}, 768; wgmma
  // CHECK-SAME:    add.s64 b, ${{[0-9]+}}, 1152; wgmma
  gpu.func @groups_of_panels(%k: memref<f16>, %v: memref<f16>, %o: memref<64x136xf32>, %s_out: memref<64x64xf32>)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %none_o = arith.constant dense<0.0> : vector<64x136xf32>
    %q = arith.constant dense<1.0> : vector<64x128xf16>
    %p = arith.constant dense<1.0> : vector<64x64xf16>
    %v_ring = fcgpu.alloc_ring : !v_ring
    fcgpu.fill %v_ring column(128) with 1.0 : f16 of !v_ring
    %k_ring = fcgpu.alloc_ring : !k_ring
    fcgpu.produce {
    }
    scf.forall (%g) in (1) {
      %b = fcgpu.read %k_ring[%c0] {fcgpu.home = #fcgpu.shared} : !k_ring -> vector<64x128xf16>
      %s = vector.contract #nk_product %q, %b, %none
          : vector<64x128xf16>, vector<64x128xf16> into vector<64x64xf32>
      %t = fcgpu.await %s using(%q : vector<64x128xf16>) in_flight(0) : vector<64x64xf32>
      %w = fcgpu.read %v_ring[%c0] {fcgpu.home = #fcgpu.shared} : !v_ring -> vector<64x136xf16>
      %r = vector.contract #kn_product %p, %w, %none_o
          : vector<64x64xf16>, vector<64x136xf16> into vector<64x136xf32>
      %u = fcgpu.await %r using(%p : vector<64x64xf16>) in_flight(0) : vector<64x136xf32>
      vector.transfer_write %t, %s_out[%c0, %c0] {in_bounds = [true, true]} : vector<64x64xf32>, memref<64x64xf32>
      vector.transfer_write %u, %o[%c0, %c0] {in_bounds = [true, true]} : vector<64x136xf32>, memref<64x136xf32>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#nk_product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!k_ring = !fcgpu.ring<2x64x128xf16, panels(16)>

gpu.module @kernels {
  // A descriptor has one distance for all eight rows of K.
  gpu.func @uneven_rows_of_k(%s_out: memref<64x64xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %q = arith.constant dense<1.0> : vector<64x128xf16>
    %k_ring = fcgpu.alloc_ring : !k_ring
    fcgpu.produce {
    }
    scf.forall (%g) in (1) {
      %b = fcgpu.read %k_ring[%c0] {fcgpu.home = #fcgpu.shared} : !k_ring -> vector<64x128xf16>
      // expected-error @below {{failed to legalize operation 'vector.contract'}}
      %s = vector.contract #nk_product %q, %b, %none
          : vector<64x128xf16>, vector<64x128xf16> into vector<64x64xf32>
      %t = fcgpu.await %s using(%q : vector<64x128xf16>) in_flight(0) : vector<64x64xf32>
      vector.transfer_write %t, %s_out[%c0, %c0] {in_bounds = [true, true]} : vector<64x64xf32>, memref<64x64xf32>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}
