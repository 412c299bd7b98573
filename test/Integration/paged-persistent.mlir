// A block that goes from tile to tile looks up the pages of the next one, and
// behind the last tile those of an entry that exists.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin --num-warps=8 --overlap=qk --key-warps=1 --softmax=online --grid=persistent | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 --emu-multiprocessors=2 -- --no-cubin --grid=persistent | FileCheck %s
// CHECK: PASS

!q = memref<2x6x38x168xbf16>
!k = memref<26x3x4x168xbf16>
!v = memref<26x3x4x248xbf16>
!o = memref<2x6x38x248xbf16>

func.func @attention(%q: !q, %k: !k, %v: !v, %o: !o, %used: memref<2xi32>, %table: memref<2x13xi32>) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !v) seqused_k(%used : memref<2xi32>) page_table(%table : memref<2x13xi32>)
      outs(%o : !o) causal(bottom_right)
  return
}
