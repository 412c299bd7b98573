// RUN: flashcore-opt %s | flashcore-opt | FileCheck %s
// RUN: flashcore-opt %s -flashcore-bufferize | FileCheck %s --check-prefix=BUFFERS

// CHECK-LABEL: func.func @memrefs
// CHECK:         flashcore.merge ins(%arg0, %arg1 : memref<?x2x8x?x64xf32>, memref<?x2x8x?xf32>) sink(%arg2 : memref<8xf32>) outs(%arg3 : memref<2x8x?x64xf16>) lse(%arg4 : memref<2x8x?xf32>){{$}}
func.func @memrefs(%outputs: memref<?x2x8x?x64xf32>, %lses: memref<?x2x8x?xf32>,
                   %sink: memref<8xf32>, %o: memref<2x8x?x64xf16>, %lse: memref<2x8x?xf32>) {
  flashcore.merge ins(%outputs, %lses : memref<?x2x8x?x64xf32>, memref<?x2x8x?xf32>)
      sink(%sink : memref<8xf32>) outs(%o : memref<2x8x?x64xf16>) lse(%lse : memref<2x8x?xf32>)
  return
}

// The outputs of parts may be of the type of the result.

// CHECK-LABEL: func.func @tensors
// CHECK:         %{{.+}}:2 = flashcore.merge ins(%{{.+}}) outs(%{{.+}}) lse(%{{.+}}) -> tensor<1x2x3x5xbf16>, tensor<1x2x3xf32>
// BUFFERS-LABEL: func.func @tensors
// BUFFERS:         flashcore.merge ins(%[[OUTPUTS:.+]], %[[LSES:.+]] : memref<4x1x2x3x5xbf16>, memref<4x1x2x3xf32>) outs(%[[O:.+]] : memref<1x2x3x5xbf16>) lse(%[[LSE:.+]] : memref<1x2x3xf32>)
// BUFFERS-NEXT:    return %[[O]], %[[LSE]]
func.func @tensors(%outputs: tensor<4x1x2x3x5xbf16>, %lses: tensor<4x1x2x3xf32>)
    -> (tensor<1x2x3x5xbf16>, tensor<1x2x3xf32>) {
  %o = tensor.empty() : tensor<1x2x3x5xbf16>
  %lse = tensor.empty() : tensor<1x2x3xf32>
  %r:2 = flashcore.merge ins(%outputs, %lses : tensor<4x1x2x3x5xbf16>, tensor<4x1x2x3xf32>)
      outs(%o : tensor<1x2x3x5xbf16>) lse(%lse : tensor<1x2x3xf32>) -> tensor<1x2x3x5xbf16>, tensor<1x2x3xf32>
  return %r#0, %r#1 : tensor<1x2x3x5xbf16>, tensor<1x2x3xf32>
}
