// The chip of kernels beside the attention is that of the attention, too.

// RUN: flashcore-compile %s | FileCheck %s --check-prefix=THEIRS
// RUN: flashcore-compile %s --chip=sm_80 | FileCheck %s --check-prefix=CHOSEN
// RUN: flashcore-compile %examples/attention.mlir | FileCheck %s --check-prefix=DEFAULT
// RUN: sed 's/sm_90/sm_61/' %s > %t.mlir
// RUN: not flashcore-compile %t.mlir 2>&1 | FileCheck %s --check-prefix=OLD

// THEIRS:  .target sm_90
// CHOSEN:  .target sm_80
// DEFAULT: .target sm_89
// OLD:     error: unknown chip 'sm_61': expects one of sm_70, {{.*}}; older chips have no tensor cores
// OLD:     note: the chip comes from the target of this module; the option chip names another

!t = memref<1x8x512x64xf16>
gpu.module @theirs [#nvvm.target<chip = "sm_90">] {}
func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}
