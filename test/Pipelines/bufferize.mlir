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

// Slices of one tensor stay views: nothing is copied.

!packed = tensor<1x24x512x64xf16>

// CHECK-LABEL: func.func @packed_qkv
// CHECK-NOT:     memref.copy
// CHECK-NOT:     memref.alloc
// CHECK:         memref.subview %{{.+}}[0, 8, 0, 0]
// CHECK:         memref.alloc() {{.+}} : memref<1x8x512x64xf16>
// CHECK-NOT:     memref.alloc
// CHECK:         gpu.launch_func
// CHECK-NOT:     memref.copy
// CHECK:         return
func.func @packed_qkv(%qkv: !packed) -> !t {
  %q = tensor.extract_slice %qkv[0, 0, 0, 0] [1, 8, 512, 64] [1, 1, 1, 1] : !packed to !t
  %k = tensor.extract_slice %qkv[0, 8, 0, 0] [1, 8, 512, 64] [1, 1, 1, 1] : !packed to !t
  %v = tensor.extract_slice %qkv[0, 16, 0, 0] [1, 8, 512, 64] [1, 1, 1, 1] : !packed to !t
  %init = tensor.empty() : !t
  %o = flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%init : !t) -> !t
  return %o : !t
}
