// Kernels carry the #nvvm.target that gpu-module-to-binary wants, with the flags
// and features of other kernels for the same chip, which stay as they are.

// RUN: split-file %s %t
// RUN: flashcore-opt %t/alone.mlir -flashcore-configure=chip=sm_86 -flashcore-decompose -flashcore-tile \
// RUN:   | FileCheck %s --check-prefix=ALONE
// RUN: flashcore-opt %t/beside.mlir -flashcore-configure -flashcore-decompose -flashcore-tile \
// RUN:   | FileCheck %s --check-prefix=BESIDE
// RUN: flashcore-opt %t/beside.mlir -flashcore-configure=chip=sm_80 -flashcore-decompose -flashcore-tile \
// RUN:   | FileCheck %s --check-prefix=OTHER

// ALONE: gpu.module @attention_f16_d64 [#nvvm.target<O = 3, chip = "sm_86", features = "+ptx80">]

// BESIDE: gpu.module @theirs [#nvvm.target<chip = "sm_90a", features = "+ptx83", flags = {"ptxas-cmd-options" = "-lineinfo"}>]
// BESIDE: gpu.module @attention_f16_d64 [#nvvm.target<O = 3, chip = "sm_90", features = "+ptx83", flags = {"ptxas-cmd-options" = "-lineinfo"}>]

// OTHER: gpu.module @theirs [#nvvm.target<chip = "sm_90a",
// OTHER: gpu.module @attention_f16_d64 [#nvvm.target<O = 3, chip = "sm_80", features = "+ptx80">]

//--- alone.mlir
!t = memref<1x8x512x64xf16>
func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

//--- beside.mlir
!t = memref<1x8x512x64xf16>
gpu.module @theirs [#nvvm.target<chip = "sm_90a", features = "+ptx83",
                                 flags = {"ptxas-cmd-options" = "-lineinfo"}>] {}
func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}
