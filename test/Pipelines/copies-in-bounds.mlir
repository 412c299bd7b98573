// Of sizes known at run time only, no row of the copies in the loops over key
// tiles is compared with the end of the sequence: only the first tile, copied in
// front of them, may end past it. Of sizes that end with a tile, no copy at all.

// RUN: flashcore-compile %s --print-phases --emit=mlir -o - 2>&1 >/dev/null \
// RUN:   | FileCheck %s

!dynamic = memref<?x?x?x64xf16>
!static = memref<4x8x4096x64xf16>

// CHECK-LABEL: // ----- phase 5
// CHECK-LABEL: gpu.func @attention_f16_d64_causal(
// CHECK:         fcgpu.copy {{.+}} by warp :
// CHECK-COUNT-2: fcgpu.copy {{.+}} by block if %{{[^ ]+}} :
// CHECK:         scf.for
// CHECK-NOT:     fcgpu.copy {{.+}} by block if %{{[^ ]+}} :
// CHECK:         fcgpu.copy {{.+}} by block if %{{[^ ]+}} in_bounds :
// CHECK-NOT:     fcgpu.copy {{.+}} by block if %{{[^ ]+}} :
// CHECK:         gpu.return
func.func @sizes_at_run_time(%q: !dynamic, %k: !dynamic, %v: !dynamic,
                             %o: !dynamic) {
  flashcore.attention ins(%q, %k, %v : !dynamic, !dynamic, !dynamic)
      outs(%o : !dynamic) causal(bottom_right)
  return
}

// CHECK-LABEL: gpu.func @attention_f16_d64_causal(
// CHECK:         fcgpu.copy {{.+}} by warp in_bounds :
// CHECK-NOT:     fcgpu.copy {{.+}} by block {{.*}}%{{[^ ]+}} :
// CHECK:         fcgpu.copy {{.+}} by block if %{{[^ ]+}} in_bounds :
// CHECK:         gpu.return
func.func @whole_tiles(%q: !static, %k: !static, %v: !static, %o: !static) {
  flashcore.attention ins(%q, %k, %v : !static, !static, !static)
      outs(%o : !static) causal(bottom_right)
  return
}
