// RUN: flashcore-opt %s -split-input-file -verify-diagnostics

func.func @rank(%do: memref<8x3x64xf16>, %o: memref<1x8x3x64xf16>, %d: memref<1x8x3xf32>) {
  // expected-error @below {{expects output_gradient of rank 4 (batch, heads, seqlen_q, head_dim_v), but got 'memref<8x3x64xf16>'}}
  flashcore.delta ins(%do, %o : memref<8x3x64xf16>, memref<1x8x3x64xf16>) outs(%d : memref<1x8x3xf32>)
  return
}

// -----

func.func @types(%do: memref<1x8x3x64xbf16>, %o: memref<1x8x3x64xf16>, %d: memref<1x8x3xf32>) {
  // expected-error @below {{expects output_gradient of 'f16' like output, but got 'bf16'}}
  flashcore.delta ins(%do, %o : memref<1x8x3x64xbf16>, memref<1x8x3x64xf16>) outs(%d : memref<1x8x3xf32>)
  return
}

// -----

func.func @half(%o: memref<1x8x3x64xf16>, %d: memref<1x8x3xf16>) {
  // expected-error @below {{expects delta of f32, but got 'f16'}}
  flashcore.delta ins(%o, %o : memref<1x8x3x64xf16>, memref<1x8x3x64xf16>) outs(%d : memref<1x8x3xf16>)
  return
}

// -----

func.func @rows(%o: memref<1x8x3x64xf16>, %d: memref<1x8x4xf32>) {
  // expected-error @below {{expects delta shape (1, 8, 3), but got (1, 8, 4)}}
  flashcore.delta ins(%o, %o : memref<1x8x3x64xf16>, memref<1x8x3x64xf16>) outs(%d : memref<1x8x4xf32>)
  return
}

// -----

func.func @columns(%o: memref<1x8x3x?xf16>, %d: memref<1x8x3xf32>) {
  // expected-error @below {{expects a static positive head_dim_v, but got ?}}
  flashcore.delta ins(%o, %o : memref<1x8x3x?xf16>, memref<1x8x3x?xf16>) outs(%d : memref<1x8x3xf32>)
  return
}

// -----

func.func @stride(%o: memref<1x8x3x64xf16, strided<[3072, 384, 128, 2]>>, %d: memref<1x8x3xf32>) {
  // expected-error @below {{expects output with innermost stride 1, but got 2}}
  flashcore.delta ins(%o, %o : memref<1x8x3x64xf16, strided<[3072, 384, 128, 2]>>, memref<1x8x3x64xf16, strided<[3072, 384, 128, 2]>>)
      outs(%d : memref<1x8x3xf32>)
  return
}

// -----

func.func @result(%o: tensor<1x8x3x64xf16>, %d: tensor<1x8x3xf32>) {
  // expected-error @below {{expects 1 results, but got 0}}
  flashcore.delta ins(%o, %o : tensor<1x8x3x64xf16>, tensor<1x8x3x64xf16>) outs(%d : tensor<1x8x3xf32>)
  return
}
