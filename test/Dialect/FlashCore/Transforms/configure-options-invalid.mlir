// What an option forces is never changed: it fits, or it is an error that names
// the value and the limit.

// RUN: not flashcore-opt %s -flashcore-configure="chip=sm_61" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CHIP
// RUN: not flashcore-opt %s -flashcore-configure="query=local" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=QUERY
// RUN: not flashcore-opt %s -flashcore-configure="grid-order=random" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GRID-ORDER
// RUN: not flashcore-opt %s -flashcore-configure="grid=tiles" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GRID
// RUN: not flashcore-opt %s -flashcore-configure="grid=persistent min-blocks=3 block-m=64 num-warps=4 block-n=64" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=RESIDENT
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
// RUN: not flashcore-opt %s -flashcore-configure="head-group=-2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=HEAD-GROUP
// RUN: not flashcore-opt %s -flashcore-configure="head-group=2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=HEADS
// RUN: not flashcore-opt %s -flashcore-configure="key-splits=-2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KEY-SPLITS
// RUN: not flashcore-opt %s -flashcore-configure="key-splits=257" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MANY-SPLITS
// RUN: not flashcore-opt %s -flashcore-configure="num-warps=6 key-warps=4" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KEY-WARPS
// RUN: not flashcore-opt %s -flashcore-configure="block-m=48 num-warps=4 key-warps=2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GROUPS
// RUN: not flashcore-opt %s -flashcore-configure="block-m=16 num-warps=5 key-warps=5 block-n=16" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SHARES
// RUN: not flashcore-opt %s -flashcore-configure="key-warps=4 block-n=64" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KEY-WARPS-SMEM
// RUN: not flashcore-opt %s -flashcore-configure="softmax=two_pass" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SOFTMAX
// RUN: not flashcore-opt %s -flashcore-configure="softmax=one_pass row-max=stale" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ONE-PASS-STALE
// RUN: not flashcore-opt %s -flashcore-configure="softmax=one_pass block-m=64 num-warps=2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ONE-PASS-REGISTERS
// RUN: not flashcore-opt %s -flashcore-configure="num-warps=4 key-warps=4 key-splits=2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KEY-WARPS-SPLITS
// RUN: not flashcore-opt %s -flashcore-configure="softmax=one_pass key-splits=2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ONE-PASS-SPLITS
// RUN: sed 's/%o: !t)/%o: !t, %lse: memref<1x8x512xf32>)/; s/outs(%o : !t)$/& lse(%lse : memref<1x8x512xf32>)/' %s \
// RUN:   | not flashcore-opt - -flashcore-configure="row-sum=mma" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LSE

// CHIP: error: unknown chip 'sm_61': expects one of sm_70, {{.*}}; older chips have no tensor cores{{$}}
// QUERY: error: expects query to be registers, shared or split, but got 'local'{{$}}
// GRID-ORDER: error: expects grid-order to be query_fastest or head_fastest, but got 'random'{{$}}
// GRID: error: expects grid to be full or persistent, but got 'tiles'{{$}}
// RESIDENT: error: 'flashcore.attention' op expects min-blocks of at most 2 with grid persistent, whose blocks run at once: each needs 40960 bytes of shared memory of the 102400 and 4 warps of the 48 that an SM of sm_89 has, but got 3; use smaller blocks or fewer stages{{$}}
// OVERLAP: error: expects overlap to be none, qk or pv, but got 'all'{{$}}
// ROW-MAX: error: expects row-max to be exact, stale, folded or checked, but got 'approximate'{{$}}
// ROW-SUM: error: expects row-sum to be add or mma, but got 'atomic'{{$}}
// LSE: error: 'flashcore.attention' op expects row-sum add with lse, which is the logarithm of a sum of weights that are not rounded, but got mma{{$}}
// NUM-WARPS: error: 'flashcore.attention' op expects num-warps from 1 to 32, but got 33{{$}}
// NEGATIVE-WARPS: error: 'flashcore.attention' op expects num-warps from 1 to 32, but got -1{{$}}
// BLOCK-M: error: 'flashcore.attention' op expects block-m to be a positive multiple of 16 * num-warps = 64, but got 48{{$}}
// BLOCK-N: error: 'flashcore.attention' op expects block-n to be a positive multiple of 16, but got 24{{$}}
// NUM-STAGES: error: 'flashcore.attention' op expects num-stages of at least 2, but got 1{{$}}
// HEAD-GROUP: error: 'flashcore.attention' op expects head-group of at least 1, but got -2{{$}}
// HEADS: error: 'flashcore.attention' op expects head-group to divide heads_q / heads_kv = 1, but got 2{{$}}
// KEY-SPLITS: error: 'flashcore.attention' op expects key-splits from 1 to 256, but got -2{{$}}
// MANY-SPLITS: error: 'flashcore.attention' op expects key-splits from 1 to 256, but got 257{{$}}
// MIN-BLOCKS: error: 'flashcore.attention' op expects min-blocks not to be negative, but got -2{{$}}

// 2 bytes * (64 * 64 + 3 * 128 * (64 + 64)) = 106496 > 99 KiB.

// SMEM: error: 'flashcore.attention' op needs 106496 bytes of shared memory (block-m 64, block-n 128, num-stages 3, head_dim 64), but sm_89 allows 101376; use fewer stages or smaller blocks{{$}}

// A warp of 128 rows: (128 * (64 + 64) + 128 * 64 / 2) / 32 registers.

// REGISTERS: error: 'flashcore.attention' op needs 640 registers a thread for its fragments alone (block-m 128, num-warps 1, block-n 64), but a thread has 255; use more warps or a smaller block-n{{$}}

// KEY-WARPS: error: 'flashcore.attention' op expects key-warps to divide num-warps = 6, but got 4{{$}}
// GROUPS: error: 'flashcore.attention' op expects block-m to be a positive multiple of 16 * num-warps / key-warps = 32, but got 48{{$}}
// SHARES: error: 'flashcore.attention' op expects key-warps to divide the 16 x 64 results of a warp into shares of whole 8x8 cores, but got 5; use fewer key-warps or a larger block-m{{$}}

// 4 warps * 2 bytes * 64 * (32 + 2 * 64 * 2) = 147456.

// KEY-WARPS-SMEM: error: 'flashcore.attention' op needs 147456 bytes of shared memory (block-m 32, block-n 64, num-stages 2, head_dim 64, for each of 4 warps), but sm_89 allows 101376; use fewer stages or smaller blocks{{$}}
// SOFTMAX: error: expects softmax to be online, one_pass or unfused, but got 'two_pass'{{$}}
// KEY-WARPS-SPLITS: error: 'flashcore.attention' op expects key-warps 1 where head-group or key-splits is over 1, but got 4{{$}}
// ONE-PASS-SPLITS: error: 'flashcore.attention' op expects key-splits 1 with softmax one_pass, but got 2{{$}}
// ONE-PASS-STALE: error: 'flashcore.attention' op expects row-max exact with softmax one_pass, which has no earlier maximum, but got stale{{$}}

// S of 32 rows and 512 keys, and Q: (32 * 512 + 32 * 64 / 2) / 32 registers.

// ONE-PASS-REGISTERS: error: 'flashcore.attention' op needs 544 registers a thread for its fragments alone (block-m 64, num-warps 2, block-n 64, softmax one_pass), but a thread has 255; use more warps or softmax online{{$}}

!t = memref<1x8x512x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}
