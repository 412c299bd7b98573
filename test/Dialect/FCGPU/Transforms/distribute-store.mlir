// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts,flashcore-distribute,flashcore-simplify-kernel)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup, output = bulk>
#kernel = {arguments = [{kind = "pointer", tensor = "o"},
                        {kind = "tensor_map", tensor = "o", box = [1, 1, 16, 64], swizzle = 128}]}
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x72xf16, panels>
!out = !fcgpu.ring<1x64x72xf16, panels>
!target = memref<1x2x512x72xf16, strided<[73728, 36864, 72, 1]>>

gpu.module @kernels {
  // Each warp waits for its own earlier copies, writes its 16 rows, four cores at
  // a time and the last two alone, and lets two boxes be copied: the last panel
  // has fewer columns than a box, which the tensor ends with.

  // CHECK-LABEL: gpu.func @store(
  // CHECK-SAME:    %[[MAP:[^:]+]]: !llvm.ptr)
  // CHECK-SAME:    fcgpu.ptx_version = 80 : i64
  // CHECK:         wgmma.wait_group
  // CHECK:         %[[IS_FIRST:.+]] = arith.cmpi eq
  // CHECK:         scf.if %[[IS_FIRST]] {
  // CHECK-NEXT:      nvvm.cp.async.bulk.wait_group 0{{$}}
  // CHECK-NEXT:    }
  // CHECK-NEXT:    nvvm.bar.warp.sync
  // CHECK-COUNT-4: nvvm.stmatrix {{.*}}: !llvm.ptr<3>, i32, i32, i32, i32
  // CHECK:         nvvm.stmatrix {{.*}}: !llvm.ptr<3>, i32, i32{{$}}
  // CHECK-NEXT:    nvvm.fence.proxy
  // CHECK-NEXT:    nvvm.bar.warp.sync
  // CHECK-NEXT:    scf.if %[[IS_FIRST]] {
  // CHECK:           nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %{{.+}}, box[%c0
  // CHECK:           nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %{{.+}}, box[%c64
  // CHECK-NEXT:      nvvm.cp.async.bulk.commit.group
  // CHECK:         scf.if %[[IS_FIRST]] {
  // CHECK-NEXT:      nvvm.cp.async.bulk.wait_group 0 {read}
  // CHECK-NEXT:    }
  gpu.func @store(%o: memref<f16>, %map: !llvm.ptr)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<64x72xf32>
    %p = arith.constant dense<1.0> : vector<64x64xf16>
    %whole = memref.reinterpret_cast %o to offset: [0], sizes: [1, 2, 512, 72], strides: [73728, 36864, 72, 1]
        : memref<f16> to !target
    %ring = fcgpu.alloc_ring : !ring
    %slots = fcgpu.alloc_ring : !out
    fcgpu.produce {
    }
    scf.forall (%g) in (1) {
      %b = fcgpu.read %ring[%c0] {fcgpu.home = #fcgpu.shared} : !ring -> vector<64x72xf16>
      %s = vector.contract #product %p, %b, %zero
          : vector<64x64xf16>, vector<64x72xf16> into vector<64x72xf32>
      %t = fcgpu.await %s using(%p : vector<64x64xf16>) in_flight(0) : vector<64x72xf32>
      %h = arith.truncf %t : vector<64x72xf32> to vector<64x72xf16>
      fcgpu.store %h to %whole[%c0, %c0, %c0, %c0] through %slots[%g]
          : vector<64x72xf16>, !target, !out
      fcgpu.await_stores
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup, output = bulk>
!out = !fcgpu.ring<1x64x64xf16, panels>

gpu.module @kernels {
  gpu.func @store_without_a_map(%o: memref<1x1x64x64xf16>)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %tile = arith.constant dense<1.0> : vector<64x64xf16>
    %slots = fcgpu.alloc_ring : !out
    fcgpu.produce {
    }
    scf.forall (%g) in (1) {
      // expected-error @below {{failed to legalize operation 'fcgpu.store' that was explicitly marked illegal}}
      fcgpu.store %tile to %o[%c0, %c0, %c0, %c0] through %slots[%g]
          : vector<64x64xf16>, memref<1x1x64x64xf16>, !out
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}
