// Registers and spills of upstream's gpu-module-to-binary are those of
// flashcore-compile: the reference shape, causal D 128, D 256.

// REQUIRES: plugin, ptxas
// RUN: split-file %s %t
// RUN: flashcore-compile %t/reference.mlir -o %t/reference.ptx
// RUN: mlir-opt %t/reference.mlir %{plugin} --nvptx-short-ptr \
// RUN:   --pass-pipeline='builtin.module(flashcore-lower-to-nvvm,gpu-module-to-binary{format=isa})' \
// RUN:   | %python %S/Inputs/binary-to-ptx.py > %t/reference-upstream.ptx
// RUN: %python %S/Inputs/same-resources.py %ptxas sm_89 %t/reference.ptx %t/reference-upstream.ptx | FileCheck %s
// RUN: flashcore-compile %t/causal.mlir -o %t/causal.ptx
// RUN: mlir-opt %t/causal.mlir %{plugin} --nvptx-short-ptr \
// RUN:   --pass-pipeline='builtin.module(flashcore-lower-to-nvvm,gpu-module-to-binary{format=isa})' \
// RUN:   | %python %S/Inputs/binary-to-ptx.py > %t/causal-upstream.ptx
// RUN: %python %S/Inputs/same-resources.py %ptxas sm_89 %t/causal.ptx %t/causal-upstream.ptx | FileCheck %s
// RUN: flashcore-compile %t/wide.mlir --chip=sm_90 -o %t/wide.ptx
// RUN: mlir-opt %t/wide.mlir %{plugin} --nvptx-short-ptr \
// RUN:   --pass-pipeline='builtin.module(flashcore-lower-to-nvvm{chip=sm_90},gpu-module-to-binary{format=isa})' \
// RUN:   | %python %S/Inputs/binary-to-ptx.py > %t/wide-upstream.ptx
// RUN: %python %S/Inputs/same-resources.py %ptxas sm_90 %t/wide.ptx %t/wide-upstream.ptx | FileCheck %s

// CHECK: attention_{{.*}} registers, 0 bytes of stack, 0 spilled

//--- reference.mlir
!t = memref<1x8x512x64xf16>
func.func @reference(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

//--- causal.mlir
!t = memref<4x16x2048x128xf16>
func.func @causal(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      causal(bottom_right)
  return
}

//--- wide.mlir
!t = memref<2x16x2048x256xbf16>
func.func @wide(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}
