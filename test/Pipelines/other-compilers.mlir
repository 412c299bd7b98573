// A module as other compilers leave it: linalg, tensor and friends around the
// attention. It parses, bufferizes with it, and comes out with a launch.

// RUN: flashcore-opt %s | flashcore-opt | FileCheck %s --check-prefix=PARSED
// RUN: flashcore-opt %s -flashcore-bufferize -flashcore-lower-to-nvvm \
// RUN:   | FileCheck %s --check-prefix=LOWERED
// RUN: flashcore-compile %s | FileCheck %s --check-prefix=PTX

// Dialects that nobody knows: on request, in generic form.

// RUN: sed 's/^    func.return %o/"other.use"() : () -> ()\n func.return %o/' %s > %t.mlir
// RUN: not flashcore-compile %t.mlir 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: flashcore-compile %t.mlir --allow-unregistered-dialect \
// RUN:   | FileCheck %s --check-prefix=PTX
// UNKNOWN: error: operation being parsed with an unregistered dialect. If this is intended, please use -allow-unregistered-dialect

// PARSED-DAG: dlti.dl_spec
// PARSED-DAG: ml_program.global
// PARSED-DAG: linalg.generic
// PARSED-DAG: linalg.matmul
// PARSED-DAG: complex.re
// PARSED-DAG: index.add
// PARSED-DAG: shape.shape_of
// PARSED-DAG: affine.apply
// PARSED-DAG: cf.assert
// PARSED-DAG: math.exp
// PARSED-DAG: bufferization.alloc_tensor
// PARSED-DAG: ub.poison
// PARSED-DAG: flashcore.attention

// LOWERED-LABEL: func.func @layer(
// LOWERED-SAME:    memref<1x8x512x64xf32>
// LOWERED-NOT:     tensor<
// LOWERED:         linalg.generic
// LOWERED-NOT:     tensor<
// LOWERED:         gpu.launch_func @attention_f16_d64::@attention_f16_d64
// LOWERED-NOT:     flashcore.attention
// LOWERED:         return %{{.+}} : memref<1x8x512x64xf16>
// LOWERED:       gpu.module @attention_f16_d64

// PTX: mma.sync

!t = tensor<1x8x512x64xf16>
!f32 = tensor<1x8x512x64xf32>
#id = affine_map<(b, h, s, d) -> (b, h, s, d)>

module attributes {dlti.dl_spec = #dlti.dl_spec<index = 64 : i32>} {
  ml_program.global private @state(dense<0> : tensor<4xi64>) : tensor<4xi64>

  func.func @layer(%input: !f32, %k: !t, %v: !t) -> !t {
    %empty = tensor.empty() : !t
    %q = linalg.generic {indexing_maps = [#id, #id],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%input : !f32) outs(%empty : !t) {
      ^bb0(%in: f32, %out: f16):
        %half = arith.truncf %in : f32 to f16
        linalg.yield %half : f16
    } -> !t
    %init = bufferization.alloc_tensor() : !t
    %o = flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%init : !t) -> !t
    func.return %o : !t
  }

  func.func @friends(%a: tensor<4x4xf32>, %c: complex<f32>, %n: index, %ok: i1,
                     %m: memref<4x4xf32>) -> tensor<4x4xf32> {
    %re = complex.re %c : complex<f32>
    %exp = math.exp %re : f32
    %sum = index.add %n, %n
    %twice = affine.apply affine_map<(d0) -> (d0 * 2)>(%sum)
    %shape = shape.shape_of %m : memref<4x4xf32> -> tensor<2xindex>
    cf.assert %ok, "expects a flag"
    %poison = ub.poison : f32
    %empty = tensor.empty() : tensor<4x4xf32>
    %zero = linalg.fill ins(%exp : f32) outs(%empty : tensor<4x4xf32>)
        -> tensor<4x4xf32>
    %product = linalg.matmul ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>)
        outs(%zero : tensor<4x4xf32>) -> tensor<4x4xf32>
    return %product : tensor<4x4xf32>
  }
}
