// What an option forces is never changed: it fits, or it is an error that names
// the value and the limit.

// RUN: not flashcore-opt %s -flashcore-configure="chip=sm_75" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CHIP
// RUN: not flashcore-opt %s -flashcore-configure="query=local" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=QUERY
// RUN: not flashcore-opt %s -flashcore-configure="grid-order=random" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GRID-ORDER
// RUN: not flashcore-opt %s -flashcore-configure="overlap=all" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OVERLAP
// RUN: not flashcore-opt %s -flashcore-configure="row-max=approximate" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ROW-MAX
// RUN: not flashcore-opt %s -flashcore-configure="row-sum=atomic" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ROW-SUM
// RUN: not flashcore-opt %s -flashcore-configure="num-warps=33" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NUM-WARPS
// RUN: not flashcore-opt %s -flashcore-configure="num-warps=-1" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NEGATIVE-WARPS
// RUN: not flashcore-opt %s -flashcore-configure="block-m=48 num-warps=4" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BLOCK-M
// RUN: not flashcore-opt %s -flashcore-configure="block-n=24" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BLOCK-N
// RUN: not flashcore-opt %s -flashcore-configure="num-stages=1" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NUM-STAGES
// RUN: not flashcore-opt %s -flashcore-configure="min-blocks=-2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MIN-BLOCKS
// RUN: not flashcore-opt %s -flashcore-configure="block-m=64 num-warps=4 block-n=128 num-stages=3" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SMEM
// RUN: not flashcore-opt %s -flashcore-configure="block-m=128 num-warps=1 block-n=64 query=registers" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REGISTERS

// CHIP: error: unknown chip 'sm_75': expects one of sm_80, sm_86, sm_89, sm_90; older chips lack cp.async and bf16 mma.sync{{$}}
// QUERY: error: expects query to be registers or shared, but got 'local'{{$}}
// GRID-ORDER: error: expects grid-order to be query_fastest or head_fastest, but got 'random'{{$}}
// OVERLAP: error: expects overlap to be none or qk, but got 'all'{{$}}
// ROW-MAX: error: expects row-max to be exact or stale, but got 'approximate'{{$}}
// ROW-SUM: error: expects row-sum to be add or mma, but got 'atomic'{{$}}
// NUM-WARPS: error: 'flashcore.attention' op expects num-warps from 1 to 32, but got 33{{$}}
// NEGATIVE-WARPS: error: 'flashcore.attention' op expects num-warps from 1 to 32, but got -1{{$}}
// BLOCK-M: error: 'flashcore.attention' op expects block-m to be a positive multiple of 16 * num-warps = 64, but got 48{{$}}
// BLOCK-N: error: 'flashcore.attention' op expects block-n to be a positive multiple of 16, but got 24{{$}}
// NUM-STAGES: error: 'flashcore.attention' op expects num-stages of at least 2, but got 1{{$}}
// MIN-BLOCKS: error: 'flashcore.attention' op expects min-blocks not to be negative, but got -2{{$}}

// 2 bytes * (64 * 64 + 3 * 128 * (64 + 64)) = 106496 > 99 KiB.

// SMEM: error: 'flashcore.attention' op needs 106496 bytes of shared memory (block-m 64, block-n 128, num-stages 3, head_dim 64), but sm_89 allows 101376; use fewer stages or smaller blocks{{$}}

// A warp of 128 rows: (128 * (64 + 64) + 128 * 64 / 2) / 32 registers.

// REGISTERS: error: 'flashcore.attention' op needs 640 registers a thread for its fragments alone (block-m 128, num-warps 1, block-n 64), but a thread has 255; use more warps or a smaller block-n{{$}}

!t = memref<1x8x512x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}
