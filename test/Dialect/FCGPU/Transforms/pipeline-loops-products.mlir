// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-pipeline-loops)))' | FileCheck %s

// With overlap = pv, P V of a tile is started behind Q K^T of the next; what
// depends on its result comes last. The last P V follows the loop.

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#qk = {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
#pv = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @products(
  // CHECK-SAME:    %[[RING_Q:[^:]+]]: !fcgpu.ring<2x64x64xf16, panels>, %[[RING_K:[^:]+]]: !fcgpu.ring<2x64x64xf16, panels>,
  gpu.func @products(%ring_q: !ring, %ring_k: !ring, %ring_v: !ring, %factors: !tile)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant dense<0.0> : !tile
    // CHECK:      scf.forall
    // CHECK:        fcgpu.read %{{.*}}[%c0] {fcgpu.home = #fcgpu.shared}
    // CHECK:        %[[S0:.+]] = vector.contract
    // CHECK:        %[[P0:.+]] = arith.truncf %[[S0]]
    // CHECK:        %[[ACC0:.+]] = arith.mulf
    // CHECK:        %[[R:.+]]:2 = scf.for %[[I:.+]] = %c0 to %c3 step %c1{{.*}} iter_args(%[[P:.+]] = %[[P0]], %[[ACC:.+]] = %[[ACC0]])
    // CHECK:          %[[NEXT:.+]] = arith.addi %[[I]], %{{.+}} : index
    // CHECK-NEXT:     fcgpu.read %[[RING_Q]][%{{.+}}] {fcgpu.home = #fcgpu.shared}
    // CHECK-NEXT:     fcgpu.read %[[RING_K]][%[[NEXT]]] {fcgpu.home = #fcgpu.shared}
    // CHECK-NEXT:     %[[S:.+]] = vector.contract
    // CHECK-NEXT:     %[[V:.+]] = fcgpu.read %{{.*}}[%[[I]]] {fcgpu.home = #fcgpu.shared}
    // CHECK-NEXT:     %[[O:.+]] = vector.contract {{.*}} %[[P]], %[[V]], %[[ACC]]
    // CHECK-NEXT:     %[[PN:.+]] = arith.truncf %[[S]]
    // CHECK-NEXT:     %[[SCALED:.+]] = arith.mulf %[[O]]
    // CHECK-NEXT:     scf.yield %[[PN]], %[[SCALED]]
    // CHECK:        %[[VL:.+]] = fcgpu.read %{{.*}}[%c3{{.*}}] {fcgpu.home = #fcgpu.shared}
    // CHECK-NOT:    fcgpu.overlap
    // CHECK:        vector.contract {{.*}} %[[R]]#0, %[[VL]], %[[R]]#1
    scf.forall (%g) in (1) {
      %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (!tile) {
        %q = fcgpu.read %ring_q[%g] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %k = fcgpu.read %ring_k[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %s = vector.contract #qk %q, %k, %zero : !half, !half into !tile
        %scaled = arith.mulf %acc, %factors : !tile
        %p = arith.truncf %s : !tile to !half
        %v = fcgpu.read %ring_v[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %o = vector.contract #pv %p, %v, %scaled : !half, !half into !tile
        scf.yield %o : !tile
      } {fcgpu.overlap = #fcgpu.overlap<pv>}
      gpu.printf "%f\0A", %c0 : index
      %use = vector.extract %r[0, 0] : f32 from !tile
      gpu.printf "%f\0A", %use : f32
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }

  // How often the loop runs is not known, but that it does.

  // CHECK-LABEL: gpu.func @at_least_once(
  // CHECK-SAME:    %[[N:[^:]+]]: index)
  gpu.func @at_least_once(%ring_v: !ring, %p: !half, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    // CHECK: %[[COUNT:.+]] = affine.max
    %count = affine.max affine_map<()[s0] -> (s0, 1)>()[%n]
    // CHECK:      scf.forall
    // CHECK:        %[[LAST:.+]] = arith.subi %[[COUNT]], %c1
    // CHECK:        %[[R:.+]]:2 = scf.for %[[I:.+]] = %c0 to %[[LAST]] step %c1 iter_args(%[[A:.+]] = %{{.+}}, %[[ACC:.+]] = %{{.+}})
    // CHECK:          %[[V:.+]] = fcgpu.read %{{.+}}[%[[I]]] {fcgpu.home = #fcgpu.shared}
    // CHECK-NEXT:     %[[O:.+]] = vector.contract {{.*}}, %[[V]], %{{.+}}
    // CHECK:        %[[VL:.+]] = fcgpu.read %{{.+}}[%[[LAST]]] {fcgpu.home = #fcgpu.shared}
    // CHECK-NEXT:   vector.contract {{.*}}, %[[VL]], %[[R]]#{{.}}
    scf.forall (%g) in (1) {
      %r:2 = scf.for %i = %c0 to %count step %c1
          iter_args(%acc = %zero, %half = %p) -> (!tile, !half) {
        %next = arith.addf %half, %p : !half
        %v = fcgpu.read %ring_v[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %o = vector.contract #pv %next, %v, %acc : !half, !half into !tile
        scf.yield %o, %next : !tile, !half
      } {fcgpu.overlap = #fcgpu.overlap<pv>}
      %use = vector.extract %r#0[0, 0] : f32 from !tile
      gpu.printf "%f\0A", %use : f32
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }

  // Products of tiles in registers are not delayed.

  // CHECK-LABEL: gpu.func @in_registers(
  // CHECK:         scf.for
  // CHECK:           vector.contract
  // CHECK-NEXT:      scf.yield
  // CHECK-NOT:     vector.contract
  gpu.func @in_registers(%p: !half, %v: !half, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    scf.forall (%g) in (1) {
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) {
        %o = vector.contract #pv %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      } {fcgpu.overlap = #fcgpu.overlap<pv>}
      %use = vector.extract %r[0, 0] : f32 from !tile
      gpu.printf "%f\0A", %use : f32
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#pv = {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!half = vector<64x64xf16>
!tile = vector<64x64xf32>

gpu.module @kernels {
  gpu.func @unknown_trip_count(%ring_v: !ring, %p: !half, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !tile
    scf.forall (%g) in (1) {
      // expected-error @below {{'scf.for' op expects to run at least once, in steps of 1, with overlap = pv; use overlap = none}}
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!tile) {
        %v = fcgpu.read %ring_v[%i] {fcgpu.home = #fcgpu.shared} : !ring -> !half
        %o = vector.contract #pv %p, %v, %acc : !half, !half into !tile
        scf.yield %o : !tile
      } {fcgpu.overlap = #fcgpu.overlap<pv>}
      %use = vector.extract %r[0, 0] : f32 from !tile
      gpu.printf "%f\0A", %use : f32
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}
