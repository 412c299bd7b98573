// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-decompose -flashcore-tile -verify-diagnostics

!t = memref<1x8x512x64xf16>

module @outer {
  module @inner {
    func.func @in_a_nested_module(%q: !t, %o: !t) {
      // expected-error @below {{'flashcore.attention' op stands in a nested module; compile that module by itself}}
      flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      return
    }
  }
}

// -----

!t = memref<1x8x512x64xf16>

func.func @in_device_code(%q: !t, %o: !t) {
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    // expected-error @below {{'flashcore.attention' op stands in device code; it is launched from the host}}
    flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
    gpu.terminator
  }
  return
}
