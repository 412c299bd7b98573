// Tensors first become memrefs; the pipeline proper starts there.

// RUN: flashcore-opt %s -flashcore-bufferize -flashcore-lower-to-nvvm | FileCheck %s

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @attention_on_tensors
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16>
// CHECK:         memref.extract_strided_metadata %[[Q]]
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64 blocks
// CHECK-NOT:     flashcore.attention
// CHECK:         return
func.func @attention_on_tensors(%q: !t, %k: !t, %v: !t) -> !t {
  %init = tensor.empty() : !t
  %o = flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%init : !t) -> !t
  return %o : !t
}
