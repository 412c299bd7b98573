// Sliding window: a query sees its own key and the 63 before it. Key tiles outside
// of the window are not read, so the time follows the window, not the length.
// $ flashcore-run docs/examples/window.mlir
!t = memref<1x2x512x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      causal(bottom_right) window_left(63)
  return
}
