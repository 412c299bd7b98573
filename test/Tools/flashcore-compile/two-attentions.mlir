// PTX, and all that is made of it, holds one kernel.
// RUN: rm -f %t.ptx
// RUN: not flashcore-compile %s --emit=ptx -o %t.ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ERROR
// RUN: not ls %t.ptx
// ERROR: two-attentions.mlir:{{.*}}: error: expects one kernel for --emit=llvm, ptx, cubin or bundle, but got 2; use --emit=mlir

// RUN: flashcore-compile %s --emit=mlir | FileCheck %s

!t = memref<1x8x512x64xf16>

// CHECK-LABEL: func.func @two(
func.func @two(%q: !t, %o: !t) {
  // CHECK:     gpu.launch_func @[[FIRST:.+]]::@[[FIRST]] blocks
  // CHECK:     gpu.launch_func @[[SECOND:.+]]::@[[SECOND]] blocks
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      causal(top_left)
  return
}
// CHECK: gpu.module @[[FIRST]]
// CHECK: llvm.func @[[FIRST]](
// CHECK: gpu.module @[[SECOND]]
// CHECK: llvm.func @[[SECOND]](
