// Tensors are bufferized first: the output is an allocation of the host
// function, the kernel sees memrefs with identity layouts.

// RUN: flashcore-compile %s --emit=mlir | FileCheck %s
// RUN: flashcore-compile %s --emit=ptx | FileCheck %s --check-prefix=PTX

!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @attention(
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16>, %[[K:[^:]+]]: memref<1x8x512x64xf16>,
// CHECK-SAME:    %[[V:[^:]+]]: memref<1x8x512x64xf16>) -> memref<1x8x512x64xf16>
func.func @attention(%q: !t, %k: !t, %v: !t) -> !t {
  // CHECK: %[[O:.+]] = memref.alloc()
  // CHECK: %[[Q_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[Q]]
  // CHECK: %[[K_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[K]]
  // CHECK: %[[V_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[V]]
  // CHECK: %[[O_BASE:.+]], %{{.+}}, %{{.+}}:4, %{{.+}}:4 = memref.extract_strided_metadata %[[O]]
  // CHECK: gpu.launch_func @attention_f16_d64::@attention_f16_d64
  // CHECK-SAME: args(%[[Q_BASE]] : memref<f16>, %[[K_BASE]] : memref<f16>, %[[V_BASE]] : memref<f16>, %[[O_BASE]] : memref<f16>)
  // CHECK: return %[[O]]
  %o = tensor.empty() : !t
  %result = flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) -> !t
  return %result : !t
}

// PTX: .visible .entry attention_f16_d64(
