// A maximum that stays as it is makes a factor of exactly 1, in every kernel: both
// products are rounded alike before their difference is taken. And no zero of O has
// a sign, which zeros of hidden keys could give it, in those that ask for it.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s
// RUN: sed 's/, invariance = batch//' %s | flashcore-opt - -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s --check-prefix=FREE

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, invariance = batch>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// CHECK-LABEL: gpu.func @factors
// CHECK:         scf.for {{.+}} iter_args(%[[ACC:.+]] = %{{.+}}, %[[MAX:.+]] = %{{.+}}, %{{.+}} = %{{.+}})
// CHECK:           %[[NEW_MAX:.+]] = vector.multi_reduction <maxnumf>, %{{.+}}, %[[MAX]] [1]
// CHECK:           %[[MINUS_NEW:.+]] = arith.mulf %[[NEW_MAX]], %{{.+}} : vector<16xf32>
// CHECK:           } else {
// CHECK:           %[[OLD:.+]] = arith.mulf %[[MAX]], %{{.+}} : vector<16xf32>
// CHECK:           %[[DIFFERENCE:.+]] = arith.addf %[[OLD]], %[[MINUS_NEW]] : vector<16xf32>
// CHECK:           math.exp2 %[[DIFFERENCE]] : vector<16xf32>
// CHECK:         %[[ZEROS:.+]] = arith.constant dense<0.000000e+00> : vector<16x32xf32>
// CHECK:         %[[O:.+]] = math.fma %{{.+}}, %{{.+}}, %[[ZEROS]] : vector<16x32xf32>
// CHECK:         arith.truncf %[[O]]
// FREE-LABEL:  gpu.func @factors
// FREE:          scf.for {{.+}} iter_args(%{{.+}} = %{{.+}}, %[[MAX:.+]] = %{{.+}}, %{{.+}} = %{{.+}})
// FREE:            %[[NEW_MAX:.+]] = vector.multi_reduction <maxnumf>, %{{.+}}, %[[MAX]] [1]
// FREE:            %[[MINUS_NEW:.+]] = arith.mulf %[[NEW_MAX]], %{{.+}} : vector<16xf32>
// FREE:            } else {
// FREE:            %[[OLD:.+]] = arith.mulf %[[MAX]], %{{.+}} : vector<16xf32>
// FREE:            %[[DIFFERENCE:.+]] = arith.addf %[[OLD]], %[[MINUS_NEW]] : vector<16xf32>
// FREE:            math.exp2 %[[DIFFERENCE]] : vector<16xf32>
// FREE:          vector.multi_reduction <add>, {{.+}} : vector<16x8xf32> to vector<16xf32>
// FREE:          %[[O:.+]] = arith.mulf {{.+}} : vector<16x32xf32>
// FREE-NEXT:     arith.truncf %[[O]]
gpu.module @kernels {
  gpu.func @factors(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692) {fcgpu.schedule = #schedule}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 32, block_n = 64,
  num_warps = 2, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, invariance = batch>
!qo = memref<1x1x16x32xf16, strided<[2048, 2048, 32, 1], offset: ?>>
!kv = memref<1x1x128x32xf16>

// Which products of a score are rounded is not left to LLVM, which sees other code
// around them in each kernel.

// CHECK-LABEL: gpu.func @scores
// CHECK:         fcgpu.map_scores
// CHECK-NOT:     fastmath
// CHECK:         fcgpu.yield
// FREE-LABEL:  gpu.func @scores
// FREE:          fcgpu.map_scores
// FREE:          arith.mulf {{.+}} fastmath<contract>
// FREE:          arith.subf {{.+}} fastmath<contract>
// FREE:          fcgpu.yield
gpu.module @kernels {
  gpu.func @scores(%q: !qo, %k: !kv, %v: !kv, %o: !qo, %row: index) kernel {
    %zero = arith.constant 0 : index
    %seqlen = arith.constant 128 : index
    flashcore.attention_tile ins(%q, %k, %v : !qo, !kv, !kv) outs(%o : !qo)
        at(batch %zero, head %zero, query %row of %seqlen, key %zero to %seqlen of %seqlen, block %row)
        scale(0.176776692)
        score {
        ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
          %one = arith.constant 1.0 : f32
          %r = arith.subf %s, %one : f32
          flashcore.yield %r : f32
        } {fcgpu.schedule = #schedule}
    gpu.return
  }
}
