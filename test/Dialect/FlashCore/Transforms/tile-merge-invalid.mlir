// RUN: flashcore-opt %s -split-input-file -verify-diagnostics -flashcore-decompose -flashcore-tile

func.func @no_chip(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<2x1x8x3xf32>, %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{has no fcgpu.chip; run flashcore-configure first}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<2x1x8x3xf32>) outs(%o : memref<1x8x3x64xf16>)
  return
}

// -----

func.func @unknown_chip(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<2x1x8x3xf32>, %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{is for an unknown chip}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<2x1x8x3xf32>) outs(%o : memref<1x8x3x64xf16>)
      {fcgpu.chip = "sm_1"}
  return
}

// -----

func.func @tensors(%outputs: tensor<2x1x8x3x64xf16>, %lses: tensor<2x1x8x3xf32>, %o: tensor<1x8x3x64xf16>) -> tensor<1x8x3x64xf16> {
  // expected-error @below {{is on tensors; bufferize it first (one-shot-bufferize)}}
  %r = flashcore.merge ins(%outputs, %lses : tensor<2x1x8x3x64xf16>, tensor<2x1x8x3xf32>) outs(%o : tensor<1x8x3x64xf16>)
      {fcgpu.chip = "sm_89"} -> tensor<1x8x3x64xf16>
  return %r : tensor<1x8x3x64xf16>
}

// -----

gpu.module @kernels {
  gpu.func @device(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<2x1x8x3xf32>, %o: memref<1x8x3x64xf16>) kernel {
    // expected-error @below {{stands in device code; it is launched from the host}}
    flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<2x1x8x3xf32>) outs(%o : memref<1x8x3x64xf16>)
        {fcgpu.chip = "sm_89"}
    gpu.return
  }
}
