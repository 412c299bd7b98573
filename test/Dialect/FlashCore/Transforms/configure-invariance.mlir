// With an invariant batch, all that is in the bits of a row depends on head dims
// alone: the same tiles of keys for one query and for many, an exact maximum,
// sums that are added, and each row's keys in one warp. Without it, nothing changes.

// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90a invariance=batch" | FileCheck %s
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90a" | FileCheck %s --check-prefix=FREE
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90a invariance=none" | FileCheck %s --check-prefix=FREE
// RUN: not flashcore-opt %s -flashcore-configure="invariance=rows" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not flashcore-opt %s -flashcore-configure="invariance=batch row-max=stale row-sum=mma" 2>&1 | FileCheck %s --check-prefix=MAX
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90a invariance=batch product=warpgroup" | FileCheck %s --check-prefix=GROUPS

// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90a invariance=batch split-keys=1024" | FileCheck %s --check-prefix=SPLIT
// RUN: not flashcore-opt %s -flashcore-configure="invariance=batch split-keys=1000" 2>&1 | FileCheck %s --check-prefix=TILES
// RUN: not flashcore-opt %s -flashcore-configure="split-keys=1024" 2>&1 | FileCheck %s --check-prefix=ALONE

// SPLIT-COUNT-3: invariance = batch, split_keys = 1024>
// TILES:   'flashcore.attention' op expects split-keys to be 0 or a multiple of block-n = 32 up to 1048576, but got 1000
// ALONE:   'flashcore.attention' op expects invariance batch with split-keys 1024, but got none; use key-splits
// WORD:    expects invariance to be none or batch, but got 'rows'
// MAX:     'flashcore.attention' op expects row-max exact with invariance batch, since any other follows what other rows need, but got stale

// Products of warpgroups are there for whoever asks for them.

// GROUPS-COUNT-3: block_n = 128, {{.*}}overlap = pv, {{.*}}product = warpgroup, invariance = batch>

!one = memref<1x32x1x128xf16>
!cache = memref<1x8x8192x128xf16>

// CHECK-LABEL: func.func @decode
// CHECK:         block_m = 16, block_n = 32, num_warps = 4, num_stages = 3, query = registers, grid_order = query_fastest, min_blocks = 1, head_group = 4, invariance = batch>
// FREE-LABEL:  func.func @decode
// FREE:          key_splits =
// FREE-NOT:      invariance
// FREE:          return
func.func @decode(%q: !one, %k: !cache, %v: !cache, %o: !one) {
  flashcore.attention ins(%q, %k, %v : !one, !cache, !cache) outs(%o : !one)
  return
}

!all = memref<4x32x8192x128xf16>
!all_keys = memref<4x8x8192x128xf16>

// CHECK-LABEL: func.func @prefill
// CHECK:         block_m = 128, block_n = 32, num_warps = 4, num_stages = 2, query = shared, grid_order = head_fastest, min_blocks = 1, invariance = batch>
// FREE-LABEL:  func.func @prefill
// FREE:          product = warpgroup
// FREE-NOT:      invariance
// FREE:          return
func.func @prefill(%q: !all, %k: !all_keys, %v: !all_keys, %o: !all) {
  flashcore.attention ins(%q, %k, %v : !all, !all_keys, !all_keys) outs(%o : !all) causal(bottom_right)
  return
}

!small = memref<1x8x512x64xf16>

// CHECK-LABEL: func.func @small
// CHECK:         block_n = 64,
// CHECK-NOT:     key_warps
// CHECK-NOT:     one_pass
// CHECK:         invariance = batch>
// FREE-LABEL:  func.func @small
// FREE:          key_warps = 4, softmax = one_pass>
func.func @small(%q: !small, %k: !small, %v: !small, %o: !small) {
  flashcore.attention ins(%q, %k, %v : !small, !small, !small) outs(%o : !small)
  return
}
