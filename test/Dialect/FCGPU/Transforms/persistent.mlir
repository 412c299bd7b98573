// The loop of a persistent kernel over block tiles is none over key tiles: the
// passes work on what is inside.

// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-promote-shared,flashcore-pipeline-loops,canonicalize)))' \
// RUN:   | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -allow-unregistered-dialect \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-promote-shared,flashcore-pipeline-loops,canonicalize,flashcore-start-next-tile,canonicalize,flashcore-hand-over-slots,flashcore-insert-barriers)))' \
// RUN:   | FileCheck %s --check-prefix=SYNC

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 16,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Q is copied by each warp, into its slot, in front of the key loop. A block
// barrier an iteration, and one behind the key loop, where the copies of the next
// tile overwrite what other warps may still read.

// CHECK-LABEL: gpu.func @copies
// CHECK:         %[[RING_K:.+]] = fcgpu.alloc_ring : <2x16x16xf16>
// CHECK:         %[[RING_Q:.+]] = fcgpu.alloc_ring : <2x16x16xf16>
// CHECK:         scf.forall (%[[WARP:.+]]) in (2) {
// CHECK-NEXT:      scf.for %[[ROUND:.+]] =
// CHECK:             fcgpu.copy {{.+}} to %[[RING_Q]][%[[WARP]]] by warp :
// CHECK:             fcgpu.copy {{.+}} to %[[RING_K]][%c0] by block if
// CHECK:             fcgpu.read %[[RING_Q]][%[[WARP]]]
// CHECK-NEXT:        scf.for %[[I:.+]] =
// CHECK:               fcgpu.copy {{.+}} to %[[RING_K]][%{{.+}}] by block if
// CHECK:               fcgpu.read %[[RING_K]][%[[I]]]
// CHECK:             "write"

// SYNC-LABEL: gpu.func @copies
// SYNC:         %[[RING_K:.+]] = fcgpu.alloc_ring : <2x16x16xf16>
// SYNC:         %[[RING_Q:.+]] = fcgpu.alloc_ring : <2x16x16xf16>
// SYNC:         scf.forall
// SYNC-NOT:       barrier
// SYNC:           fcgpu.copy {{.+}} to %[[RING_Q]]{{.+}} by warp if
// SYNC:           fcgpu.commit_copies
// SYNC-NOT:       barrier
// SYNC:           fcgpu.copy {{.+}} to %[[RING_K]]{{.+}} by block if
// SYNC-NEXT:      fcgpu.commit_copies
// SYNC-NOT:       barrier
// SYNC:           scf.for
// SYNC:             fcgpu.wait_copies in_flight(1)
// SYNC:             nvvm.bar.warp.sync
// SYNC-NEXT:        fcgpu.read %[[RING_Q]]
// SYNC-NEXT:        scf.for
// SYNC:               fcgpu.wait_copies in_flight(0)
// SYNC-NEXT:          gpu.barrier
// SYNC-NEXT:          fcgpu.copy {{.+}} to %[[RING_K]]{{.+}} by block
// SYNC-NEXT:          fcgpu.commit_copies
// SYNC-NOT:           barrier
// SYNC:               fcgpu.read %[[RING_K]]
// SYNC-NOT:         barrier
// SYNC:             fcgpu.copy {{.+}} to %[[RING_Q]]{{.+}} by warp if
// SYNC:             fcgpu.commit_copies
// SYNC:             fcgpu.wait_copies in_flight(1)
// SYNC-NEXT:        gpu.barrier
// SYNC-NEXT:        fcgpu.copy {{.+}} to %[[RING_K]]{{.+}} by block if
// SYNC-NEXT:        fcgpu.commit_copies
// SYNC-NEXT:        "write"
gpu.module @kernels {
  gpu.func @copies(%query: memref<64x16xf16>, %key: memref<128x16xf16>,
                   %n: index, %rounds: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f16
    scf.forall (%warp) in (2) {
      scf.for %round = %c0 to %rounds step %c1 {
        %row = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1 * 16)>
            (%round, %warp)
        %q = vector.transfer_read %query[%row, %c0], %zero
            {fcgpu.staging = #fcgpu.staging<copy = warp, ring = block, slots = 2, number = holder, kept = 16>,
             in_bounds = [false, true]} : memref<64x16xf16>, vector<16x16xf16>
        scf.for %i = %c0 to %n step %c1 {
          %k_row = affine.apply affine_map<(d0) -> (d0 * 16)>(%i)
          %k = vector.transfer_read %key[%k_row, %c0], %zero
              {fcgpu.staging = #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>,
               in_bounds = [false, true]}
              : memref<128x16xf16>, vector<16x16xf16>
          "use"(%q, %k) : (vector<16x16xf16>, vector<16x16xf16>) -> ()
        }
        "write"(%row) : (index) -> ()
      } {fcgpu.block_tiles}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.return
  }
}
