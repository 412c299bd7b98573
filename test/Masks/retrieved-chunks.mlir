// Chunks (RETRO): each query sees the 24 keys of the chunk that is retrieved for
// it, and of one chunk more. Which one is data.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 -- --no-cubin --key-splits=2 | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=3 -- --no-cubin --grid=persistent | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=4 -- --no-cubin --key-warps=2 --num-warps=2 --block-m=16 --block-n=32 \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup \
// RUN:   | FileCheck %s
// CHECK: PASS
//
// RUN: flashcore-compile %s --explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=PROOF
// PROOF: mask region bounds of keys, some by data of the queries: tiles outside are skipped, full tiles have no mask
// RUN: flashcore-compile %s --explain --grid=persistent -o /dev/null 2>&1 | FileCheck %s --check-prefix=PERSISTENT
// PERSISTENT: mask region bounds of keys by data of the queries, for which blocks of a persistent grid do not look: each tile evaluates it

!q = memref<2x2x190x64xf16>
!kv = memref<2x1x700x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %chunk: memref<2x190xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    %keys = arith.constant 24 : index
    %two = arith.constant 48 : index
    %number = memref.load %chunk[%b, %q] : memref<2x190xi32>
    %index = arith.index_cast %number : i32 to index
    %begin = arith.muli %index, %keys : index
    %end = arith.addi %begin, %two : index
    %isBehind = arith.cmpi sge, %k, %begin : index
    %isBefore = arith.cmpi slt, %k, %end : index
    %visible = arith.andi %isBehind, %isBefore : i1
    flashcore.yield %visible : i1
  }
  return
}
