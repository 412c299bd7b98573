// Key tiles that every query of a block sees whole run without mask code: of the
// two loops of a causal kernel only the first compares keys with queries.

// RUN: flashcore-compile %s --print-phases --block-m=64 --num-warps=4 --block-n=64 -o - 2>&1 >/dev/null \
// RUN:   | FileCheck %s

!t = memref<1x8x512x64xf16>

// CHECK-LABEL: // ----- phase 6
// CHECK:         scf.for %
// CHECK:           nvgpu.mma.sync
// CHECK:           arith.cmpi sge, %{{.+}}, %{{.+}} : i32
// CHECK:           math.exp2
// CHECK:         scf.for %
// CHECK-NOT:       arith.cmpi sge
// CHECK:           nvgpu.mma.sync
// CHECK-NOT:       arith.cmpi sge
// CHECK:           scf.yield
// CHECK-NOT:     scf.for %
// CHECK:         gpu.return
func.func @causal(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      causal(bottom_right)
  return
}
