// The op takes part in the bufferization of mlir-opt itself, not only in ours.

// REQUIRES: plugin
// RUN: mlir-opt %s %{plugin} \
// RUN:   --one-shot-bufferize='bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map' \
// RUN:   | FileCheck %s
// RUN: mlir-opt %s %{plugin} --pass-pipeline='builtin.module(flashcore-bufferize)' \
// RUN:   | FileCheck %s
// RUN: mlir-opt %s %{plugin} \
// RUN:   --pass-pipeline='builtin.module(flashcore-bufferize,flashcore-lower-to-nvvm)' \
// RUN:   | FileCheck %s --check-prefix=LOWERED

// Without identity layouts the boundaries of functions get dynamic strides, which
// no kernel can take; the error says so.

// RUN: not mlir-opt %s %{plugin} --one-shot-bufferize=bufferize-function-boundaries 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LAYOUT
// LAYOUT: error: 'flashcore.attention' op expects query with innermost stride 1, but got ?{{$}}
// LAYOUT: note: one-shot-bufferize leaves such layouts at the boundaries of functions; function-boundary-type-conversion=identity-layout-map does not{{$}}

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @tensors(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16>
// CHECK:         %[[O:.+]] = memref.alloc
// CHECK:         flashcore.attention ins(%[[Q]], {{.+}} outs(%[[O]] :
// CHECK:         return %[[O]]
// LOWERED:       gpu.launch_func @attention_f16_d64::@attention_f16_d64
func.func @tensors(%q: !t, %k: !t, %v: !t) -> !t {
  %empty = tensor.empty() : !t
  %o = flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%empty : !t) -> !t
  return %o : !t
}
