!t = tensor<1x2x128x64xf16>

func.func @main(%q: !t, %k: !t, %v: !t) -> !t {
  %o = toy.sdpa %q, %k, %v <causal> : !t, !t
  return %o : !t
}
