// RUN: flashcore-opt %s \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-distribute)))' \
// RUN:   | FileCheck %s --check-prefixes=CHECK,AMPERE
// RUN: sed s/sm_80/sm_90/ %s | flashcore-opt \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-distribute)))' \
// RUN:   | FileCheck %s --check-prefixes=CHECK,HOPPER

#schedule = #fcgpu.schedule<chip = "sm_80", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = wmma, copies = producer, exchange = padded>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#product = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"], fcgpu.product = #fcgpu.product<wmma>}
!ring = !fcgpu.ring<2x16x16xf16, padded>

gpu.module @kernels {
  // All lanes of the third warp copy, and each says so when what it copied has
  // arrived: 32 of them. Those of the two others say each that they have read. No
  // registers change hands, and no proxy is fenced.

  // CHECK-LABEL: gpu.func @a_warp_copies(
  // CHECK:         scf.if
  // CHECK:           %[[LANES:.+]] = arith.constant 32 : i32
  // CHECK-NEXT:      nvvm.mbarrier.init %{{.+}}, %[[LANES]]
  // CHECK:           %[[READERS:.+]] = arith.constant 64 : i32
  // CHECK-NEXT:      nvvm.mbarrier.init %{{.+}}, %[[READERS]]
  // CHECK-NOT:       nvvm.fence.mbarrier.init
  // CHECK:         gpu.barrier
  // CHECK:         scf.if
  // CHECK-NOT:       nvvm.setmaxregister
  // AMPERE:          scf.while
  // AMPERE:            nvvm.mbarrier.test.wait
  // HOPPER:          nvvm.mbarrier.try_wait.parity
  // CHECK:           gpu.subgroup_mma_compute
  // CHECK:           nvvm.bar.warp.sync
  // CHECK-NOT:       scf.if
  // CHECK:           nvvm.mbarrier.arrive
  // CHECK:         } else {
  // CHECK-NOT:       scf.if
  // CHECK:           scf.for
  // AMPERE:            scf.while
  // AMPERE:              nvvm.mbarrier.test.wait
  // HOPPER:            nvvm.mbarrier.try_wait.parity
  // CHECK:             nvgpu.device_async_copy
  // CHECK:             nvvm.cp.async.mbarrier.arrive %{{.+}} {noinc = true}
  gpu.func @a_warp_copies(%k: memref<512x16xf16>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %ring = fcgpu.alloc_ring : !ring
    fcgpu.produce {
      scf.for %i = %c0 to %n step %c1 {
        %key = affine.apply affine_map<(i) -> (i * 16)>(%i)
        fcgpu.acquire %ring[%i] to fill : !ring
        fcgpu.copy %k[%key, %c0] to %ring[%i] by block in_bounds : memref<512x16xf16> to !ring
      }
    }
    scf.forall (%warp) in (2) {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring[%i] to read : !ring
        %b = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared} : !ring -> vector<16x16xf16>
        %s = vector.contract #product %b, %b, %zero {fcgpu.home = #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>} : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
        fcgpu.release %ring[%i] : !ring
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
