// RUN: flashcore-compile %s --print-phases --block-m=64 --num-warps=4 --block-n=64 -o - 2>&1 >/dev/null \
// RUN:   | FileCheck %s

!t = memref<1x8x512x64xf16>

// What each phase is for can be seen after it, and what the next one is for not
// yet.

// CHECK-LABEL: // ----- phase 0: entry -----
// CHECK-NOT:     fcgpu.schedule
// CHECK:         flashcore.attention

// CHECK-LABEL: // ----- phase 1: what
// CHECK:         flashcore.attention
// CHECK-SAME:      fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4,
// CHECK-NOT:     gpu.func

// CHECK-LABEL: // ----- phase 2: blocks and warps -----
// CHECK:         gpu.launch_func
// CHECK:         gpu.func @attention_f16_d64_causal
// CHECK:           gpu.block_id
// CHECK-NOT:       vector.contract
// CHECK:           scf.forall (%{{.+}}) in (4)
// CHECK:             flashcore.attention_tile {{.+}} at(

// CHECK-LABEL: // ----- phase 3: algorithm
// CHECK:         gpu.func
// CHECK-NOT:       flashcore.attention
// CHECK:           scf.forall
// CHECK:             vector.transfer_read
// CHECK:             scf.for %
// CHECK:               vector.contract {{.+}} vector<16x64xf16>, vector<64x64xf16> into vector<16x64xf32>
// CHECK:               fcgpu.map_scores
// CHECK:               vector.multi_reduction <maxnumf>
// CHECK:               math.exp2
// CHECK:               vector.multi_reduction <add>
// CHECK:               vector.contract
// CHECK-NOT:       fcgpu.copy
// CHECK:           vector.transfer_write

// CHECK-LABEL: // ----- phase 4: memory
// CHECK:         fcgpu.alloc_ring
// CHECK-NOT:     vector.transfer_read
// CHECK:         fcgpu.copy {{.+}} by warp
// CHECK:         scf.for %
// CHECK:           fcgpu.copy {{.+}} by block
// CHECK:           fcgpu.read
// CHECK:           vector.contract
// CHECK-NOT:     gpu.barrier

// CHECK-LABEL: // ----- phase 5: schedule
// CHECK:         fcgpu.copy {{.+}} by block
// CHECK:         fcgpu.commit_copies
// CHECK:         scf.for %
// CHECK:           fcgpu.wait_copies
// CHECK:           gpu.barrier
// CHECK:           fcgpu.copy {{.+}} by block if
// CHECK:           fcgpu.map_scores
// CHECK:         scf.for %
// CHECK:           gpu.barrier
// CHECK-NOT:       fcgpu.map_scores
// CHECK:         gpu.return

// CHECK-LABEL: // ----- phase 6: threads
// CHECK:         gpu.thread_id
// CHECK:         gpu.dynamic_shared_memory
// CHECK-NOT:     {{fcgpu\.(copy|read|alloc_ring|map_scores)|vector\.contract}}
// CHECK:         nvgpu.device_async_copy
// CHECK:         nvvm.cp.async.commit.group
// CHECK:         nvgpu.ldmatrix
// CHECK:         nvgpu.mma.sync
// CHECK:         gpu.shuffle
// CHECK-NOT:     {{fcgpu\.(copy|read|alloc_ring|map_scores)|vector\.contract}}
// CHECK:         gpu.return

// CHECK-LABEL: // ----- phase 7: target
// CHECK:         gpu.launch_func
// CHECK:         llvm.func @attention_f16_d64_causal
// CHECK-SAME:      nvvm.reqntid = array<i32: 128, 1, 1>
// CHECK:           nvvm.cp.async.shared.global
// CHECK:           nvvm.ldmatrix
// CHECK:           nvvm.mma.sync
// CHECK:           nvvm.shfl.sync
// CHECK:           llvm.return
// CHECK-NOT:     // ----- phase
func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      causal(bottom_right)
  return
}
