// Without the option, the chip is that of the #nvvm.target on kernels beside the
// attention; the option wins over them.

// RUN: split-file %s %t
// RUN: flashcore-opt %t/one.mlir -flashcore-configure | FileCheck %s --check-prefix=ONE
// RUN: flashcore-opt %t/one.mlir -flashcore-configure=chip=sm_80 | FileCheck %s --check-prefix=CHOSEN
// RUN: flashcore-opt %t/two.mlir -flashcore-configure=chip=sm_80 | FileCheck %s --check-prefix=CHOSEN
// RUN: flashcore-opt %t/none.mlir -flashcore-configure | FileCheck %s --check-prefix=NONE
// RUN: flashcore-opt %t/two.mlir -flashcore-configure -verify-diagnostics
// RUN: flashcore-opt %t/old.mlir -flashcore-configure -verify-diagnostics

// ONE:    #fcgpu.schedule<chip = "sm_90",
// CHOSEN: #fcgpu.schedule<chip = "sm_80",
// NONE:   #fcgpu.schedule<chip = "sm_89",

//--- one.mlir
!t = memref<1x8x512x64xf16>
gpu.module @first [#nvvm.target<chip = "sm_90">] {}
gpu.module @second [#nvvm.target<O = 3, chip = "sm_90a", features = "+ptx83">] {}
gpu.module @third {}
func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

//--- none.mlir
!t = memref<1x8x512x64xf16>
gpu.module @foreign {}
func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

//--- two.mlir
!t = memref<1x8x512x64xf16>
// expected-error @below {{expects the option chip, or one chip in all #nvvm.target, but got sm_80 and sm_90}}
module {
  // expected-note @below {{sm_80 stands here}}
  gpu.module @first [#nvvm.target<chip = "sm_80">] {}
  // expected-note @below {{sm_90 stands here}}
  gpu.module @second [#nvvm.target<chip = "sm_80">, #nvvm.target<chip = "sm_90">] {}
  func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
    return
  }
}

//--- old.mlir
!t = memref<1x8x512x64xf16>
// expected-error-re @below {{unknown chip 'sm_50': expects one of sm_70, {{.*}}; older chips have no tensor cores}}
module {
  // expected-note @below {{the chip comes from the target of this module; the option chip names another}}
  gpu.module @first [#nvvm.target] {}
  func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
    return
  }
}
