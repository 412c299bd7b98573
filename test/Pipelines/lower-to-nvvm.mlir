// RUN: flashcore-opt %s -split-input-file -flashcore-lower-to-nvvm | FileCheck %s

!t = memref<1x8x512x64xf16>

// CHECK-LABEL: func.func @attention_becomes_a_launch
// CHECK-NOT:     flashcore.attention
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64 blocks
// CHECK:         return
func.func @attention_becomes_a_launch(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

// No op of ours is left, and in the kernel none but LLVM and NVVM ones. The
// attributes say how to launch it.

// CHECK-LABEL: gpu.module @attention_f16_d64
// CHECK-NOT:     {{^ *(%[^ ]+ = )?(flashcore|fcgpu|affine|arith|cf|gpu|math|memref|nvgpu|scf|ub|vector)\.}}
// CHECK:         llvm.func @attention_f16_d64
// CHECK-SAME:      fcgpu.kernel = {arguments = [{kind = "pointer", tensor = "q"},
// CHECK-SAME:      nvvm.kernel
// CHECK-NOT:     {{^ *(%[^ ]+ = )?(flashcore|fcgpu|affine|arith|cf|gpu|math|memref|nvgpu|scf|ub|vector)\.}}
// CHECK:         nvvm.cp.async.shared.global
// CHECK-NOT:     {{^ *(%[^ ]+ = )?(flashcore|fcgpu|affine|arith|cf|gpu|math|memref|nvgpu|scf|ub|vector)\.}}
// CHECK:         nvvm.ldmatrix
// CHECK-NOT:     {{^ *(%[^ ]+ = )?(flashcore|fcgpu|affine|arith|cf|gpu|math|memref|nvgpu|scf|ub|vector)\.}}
// CHECK:         nvvm.mma.sync
// CHECK-NOT:     {{^ *(%[^ ]+ = )?(flashcore|fcgpu|affine|arith|cf|gpu|math|memref|nvgpu|scf|ub|vector)\.}}
// CHECK:         llvm.return

// -----

!f16 = memref<1x8x512x64xf16>
!bf16 = memref<1x8x512x32xbf16>

// CHECK-LABEL: func.func @two_attentions
// CHECK:         gpu.launch_func @[[MODULE:.+]]::@attention_f16_d64 blocks
// CHECK:         gpu.launch_func @[[MODULE]]::@attention_bf16_d32_causal blocks
// CHECK:         return
// CHECK:       gpu.module @[[MODULE]] [#nvvm.target<
// CHECK:         llvm.func @attention_f16_d64(
// CHECK:         llvm.func @attention_bf16_d32_causal(
func.func @two_attentions(%q: !f16, %k: !f16, %v: !f16, %o: !f16,
                          %q2: !bf16, %k2: !bf16, %v2: !bf16, %o2: !bf16) {
  flashcore.attention ins(%q, %k, %v : !f16, !f16, !f16) outs(%o : !f16)
  flashcore.attention ins(%q2, %k2, %v2 : !bf16, !bf16, !bf16)
      outs(%o2 : !bf16) causal(bottom_right)
  return
}

// -----

!t = memref<1x8x512x64xf16>

// Not even what a canonicalizer would fold: the dead constant stays.

// CHECK-LABEL: func.func @foreign_function
// CHECK-SAME:    %[[IN:[^:]+]]: tensor<4xf32>
// CHECK-NEXT:    arith.constant 42 : index
// CHECK-NEXT:    %[[SUM:.+]] = arith.addf %[[IN]], %[[IN]] : tensor<4xf32>
// CHECK-NEXT:    return %[[SUM]]
func.func @foreign_function(%in: tensor<4xf32>) -> tensor<4xf32> {
  %dead = arith.constant 42 : index
  %sum = arith.addf %in, %in : tensor<4xf32>
  return %sum : tensor<4xf32>
}

// CHECK-LABEL: func.func @ops_around_the_attention
// CHECK-SAME:    %[[M:[^:]+]]: memref<4xf32>)
// CHECK:         %[[ZERO:.+]] = arith.constant 0 : index
// CHECK:         %[[BEFORE:.+]] = memref.load %[[M]][%[[ZERO]]]
// CHECK:         gpu.launch_func
// CHECK:         memref.store %[[BEFORE]], %[[M]][%[[ZERO]]]
func.func @ops_around_the_attention(%q: !t, %k: !t, %v: !t, %o: !t,
                                    %m: memref<4xf32>) {
  %zero = arith.constant 0 : index
  %before = memref.load %m[%zero] : memref<4xf32>
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  memref.store %before, %m[%zero] : memref<4xf32>
  return
}

// CHECK-LABEL: gpu.module @foreign_kernels
// CHECK:         gpu.func @foreign_kernel
// CHECK-NEXT:      arith.constant 42 : index
// CHECK-NEXT:      vector.load
// CHECK-NEXT:      gpu.return
gpu.module @foreign_kernels {
  gpu.func @foreign_kernel(%m: memref<64xf16>, %i: index) kernel {
    %dead = arith.constant 42 : index
    %tile = vector.load %m[%i] : memref<64xf16>, vector<16xf16>
    gpu.return
  }
}

// -----

// CHECK-LABEL: func.func @nothing_to_lower
// CHECK-NEXT:    return
// CHECK-NOT:   gpu.module
func.func @nothing_to_lower() {
  return
}
