// A user wrote one op; the error shows its line, not what became of the module.

// RUN: not flashcore-compile %s 2>&1 \
// RUN:   | FileCheck %s --implicit-check-not='see current operation'

!t = memref<1x8x512x64xf16>

func.func @two(%q: !t, %o: !t) {
  // CHECK: error: expects one attention
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  memref.copy %o, %q : !t to !t
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      causal(top_left)
  return
}
