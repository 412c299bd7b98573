// Prefix LM: a query sees its own past, and all of the prompt, whose length is
// data. Tiles behind both are skipped.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --chip=sm_90a --product=warpgroup --grid=persistent | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --block-m=64 --block-n=16 --num-warps=4 --key-splits=3 \
// RUN:   | FileCheck %s
// RUN: flashcore-run %s --device=emulator -- --no-cubin --grid=persistent | FileCheck %s
// RUN: flashcore-compile %s --explain --emit=ptx -o /dev/null 2>&1 | FileCheck --check-prefix=PROOF %s
// CHECK: PASS
// PROOF: mask region 2 ranges of keys, some by lengths of a batch entry: tiles between them are skipped, full tiles have no mask

!q = memref<3x4x250x64xf16>
!kv = memref<3x2x330x64xf16>

func.func @attention(%query: !q, %key: !kv, %value: !kv, %o: !q, %prefix: memref<3xi32>) {
  flashcore.attention ins(%query, %key, %value : !q, !kv, !kv) outs(%o : !q) mask {
  ^bb0(%score: f32, %b: index, %h: index, %q: index, %k: index):
    // The table of a random run holds small numbers.
    %c83 = arith.constant 83 : i32
    %entry = arith.index_cast %b : index to i32
    %mean = arith.muli %entry, %c83 : i32
    %more = memref.load %prefix[%b] : memref<3xi32>
    %length = arith.addi %mean, %more : i32
    %end = arith.index_cast %length : i32 to index
    %of_prompt = arith.cmpi slt, %k, %end : index
    %is_past = arith.cmpi sle, %k, %q : index
    %visible = arith.ori %of_prompt, %is_past : i1
    flashcore.yield %visible : i1
  }
  return
}
