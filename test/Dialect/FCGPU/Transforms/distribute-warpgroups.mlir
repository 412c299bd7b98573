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
      %b = fcgpu.read %ring[%c0] in_place : !ring -> vector<128x128xf16>
      %s = vector.contract #nk_product %p, %b, %zero
          : vector<64x128xf16>, vector<128x128xf16> into vector<64x128xf32>
      %t = fcgpu.await %s using(%p : vector<64x128xf16>) in_flight(0) : vector<64x128xf32>
      fcgpu.release %ring[%c0] : !ring
      %v = fcgpu.read %ring[%c0] in_place : !ring -> vector<128x128xf16>
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
    // expected-error @below {{'scf.forall' op expects one loop over the 2 warpgroups of the schedule}}
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
      %b = fcgpu.read %ring[%c0] in_place : !ring -> vector<128x128xf16>
      // expected-error @below {{'vector.contract' op multiplies 'f16' by 'f16' into 'f32', for which sm_90 has no instruction that is known here}}
      %s = vector.contract {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
          %p, %b, %zero : vector<64x128xf16>, vector<128x128xf16> into vector<64x128xf32>
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}
