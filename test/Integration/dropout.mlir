// One dropout with every size known, by the kernels that are the default of it.
//
// RUN: flashcore-run %s --device=emulator -- --no-cubin | FileCheck %s
// RUN: flashcore-run %s --device=emulator --seed=2 -- --no-cubin --chip=sm_90a --product=warpgroup | FileCheck %s
// CHECK: {{^}}PASS

!t = memref<1x1x256x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %rng: memref<4xi32>, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) rng(%rng : memref<4xi32>) outs(%o : !t) causal(bottom_right) dropout(0.25)
  return
}
