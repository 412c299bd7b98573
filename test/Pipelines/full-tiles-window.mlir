// Between the partial tiles at both ends of a window, tiles run without mask
// code under an exact maximum: of three loops the second compares no key. It caps the scores all the
// same. Two more walk the tiles that others see at either end.

// RUN: flashcore-compile %s --print-phases --block-m=64 --num-warps=4 --block-n=64 --row-max=exact -o - 2>&1 >/dev/null \
// RUN:   | FileCheck %s

!t = memref<1x8x512x64xf16>

// CHECK-LABEL: // ----- phase 6
// CHECK:         scf.for %
// CHECK:           nvgpu.mma.sync
// CHECK:           math.tanh
// CHECK:           arith.cmpi sge, %{{.+}}, %{{.+}} : i32
// CHECK:           arith.cmpi sle, %{{.+}}, %{{.+}} : i32
// CHECK:           math.exp2
// CHECK:         scf.for %
// CHECK-NOT:       arith.cmpi {{sle|sge}}
// CHECK:           nvgpu.mma.sync
// CHECK-NOT:       arith.cmpi {{sle|sge}}
// CHECK:           math.tanh
// CHECK-NOT:       arith.cmpi {{sle|sge}}
// CHECK:           math.exp2
// CHECK-NOT:       arith.cmpi {{sle|sge}}
// CHECK:         scf.for %
// CHECK:           nvgpu.mma.sync
// CHECK:           math.tanh
// CHECK:           arith.cmpi sge, %{{.+}}, %{{.+}} : i32
// CHECK:           arith.cmpi sle, %{{.+}}, %{{.+}} : i32
// CHECK:           math.exp2
// CHECK:         scf.for %
// CHECK-NOT:       nvgpu.mma.sync
// CHECK:           nvvm.cp.async.commit.group
// CHECK-NOT:     scf.for %
// CHECK:         gpu.return
func.func @window(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      window_left(200) window_right(30) softcap(3.000000e+01)
  return
}
