// RUN: flashcore-opt %s -split-input-file -verify-diagnostics

func.func @rank(%outputs: memref<1x8x3x64xf32>, %lses: memref<2x1x8x3xf32>, %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{expects outputs of rank 5 (parts, batch, heads, seqlen_q, head_dim_v), but got 'memref<1x8x3x64xf32>'}}
  flashcore.merge ins(%outputs, %lses : memref<1x8x3x64xf32>, memref<2x1x8x3xf32>) outs(%o : memref<1x8x3x64xf16>)
  return
}

// -----

func.func @rank_of_output(%outputs: memref<2x1x8x3x64xf32>, %lses: memref<2x1x8x3xf32>, %o: memref<8x3x64xf16>) {
  // expected-error @below {{expects output of rank 4 (batch, heads, seqlen_q, head_dim_v), but got 'memref<8x3x64xf16>'}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf32>, memref<2x1x8x3xf32>) outs(%o : memref<8x3x64xf16>)
  return
}

// -----

func.func @elements(%outputs: memref<2x1x8x3x64xf64>, %lses: memref<2x1x8x3xf32>, %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{expects outputs of f16, bf16 or f32, but got 'f64'}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf64>, memref<2x1x8x3xf32>) outs(%o : memref<1x8x3x64xf16>)
  return
}

// -----

func.func @elements_of_lses(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<2x1x8x3xf16>, %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{expects lses of f32, but got 'f16'}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<2x1x8x3xf16>) outs(%o : memref<1x8x3x64xf16>)
  return
}

// -----

func.func @parts(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<3x1x8x3xf32>, %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{expects lses shape (2, 1, 8, 3), but got (3, 1, 8, 3)}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<3x1x8x3xf32>) outs(%o : memref<1x8x3x64xf16>)
  return
}

// -----

func.func @sink(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<2x1x8x3xf32>, %sink: memref<4xf32>, %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{expects sink_logits shape (8), but got (4)}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<2x1x8x3xf32>) sink(%sink : memref<4xf32>)
      outs(%o : memref<1x8x3x64xf16>)
  return
}

// -----

func.func @lse(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<2x1x8x3xf32>, %o: memref<1x8x3x64xf16>, %lse: memref<1x8x4xf32>) {
  // expected-error @below {{expects lse shape (1, 8, 3), but got (1, 8, 4)}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<2x1x8x3xf32>) outs(%o : memref<1x8x3x64xf16>)
      lse(%lse : memref<1x8x4xf32>)
  return
}

// -----

func.func @head_dim(%outputs: memref<2x1x8x3x?xf16>, %lses: memref<2x1x8x3xf32>, %o: memref<1x8x3x?xf16>) {
  // expected-error @below {{expects a static positive head_dim_v, but got ?}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x?xf16>, memref<2x1x8x3xf32>) outs(%o : memref<1x8x3x?xf16>)
  return
}

// -----

func.func @strides(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<2x1x8x3xf32>,
                   %o: memref<1x8x3x64xf16, strided<[3072, 384, 128, 2]>>) {
  // expected-error @below {{expects output with innermost stride 1, but got 2}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<2x1x8x3xf32>)
      outs(%o : memref<1x8x3x64xf16, strided<[3072, 384, 128, 2]>>)
  return
}

// -----

func.func @results(%outputs: tensor<2x1x8x3x64xf16>, %lses: tensor<2x1x8x3xf32>, %o: tensor<1x8x3x64xf16>) {
  // expected-error @below {{expects 1 results, but got 0}}
  flashcore.merge ins(%outputs, %lses : tensor<2x1x8x3x64xf16>, tensor<2x1x8x3xf32>) outs(%o : tensor<1x8x3x64xf16>)
  return
}

// -----

func.func @tensors_and_memrefs(%outputs: memref<2x1x8x3x64xf16>, %lses: tensor<2x1x8x3xf32>, %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{expects operands to be all tensors or all memrefs, but got 2 memrefs among 3}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, tensor<2x1x8x3xf32>) outs(%o : memref<1x8x3x64xf16>)
  return
}

// -----

func.func @span(%outputs: memref<2x1x8x3x64xf16>, %lses: memref<2x1x8x3xf32, strided<[9000000000000000000, 24, 3, 1]>>,
                %o: memref<1x8x3x64xf16>) {
  // expected-error @below {{expects lses to span less than 2^63 bytes, but got}}
  flashcore.merge ins(%outputs, %lses : memref<2x1x8x3x64xf16>, memref<2x1x8x3xf32, strided<[9000000000000000000, 24, 3, 1]>>)
      outs(%o : memref<1x8x3x64xf16>)
  return
}
