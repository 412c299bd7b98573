// A compiler's own kernel says what chip it is for, and attention beside it is
// compiled for the same: nothing is said twice.

// REQUIRES: plugin
// RUN: mlir-opt %s %{plugin} --nvptx-short-ptr --pass-pipeline='builtin.module(flashcore-lower-to-nvvm,gpu-module-to-binary{format=isa})' \
// RUN:   | FileCheck %s

// CHECK: gpu.binary @theirs [#gpu.object<#nvvm.target<chip = "sm_90a", features = "+ptx83">
// CHECK-SAME: .version 8.3{{.*}}.target sm_90a{{.*}}.entry kernel
// CHECK: gpu.binary @attention_f16_d64 [#gpu.object<#nvvm.target<O = 3, chip = "sm_90", features = "+ptx83">
// CHECK-SAME: .version 8.3{{.*}}.target sm_90{{.*}}.entry attention_f16_d64

!t = memref<1x8x512x64xf16>

module attributes {gpu.container_module} {
  gpu.module @theirs [#nvvm.target<chip = "sm_90a", features = "+ptx83">] {
    llvm.func @kernel(%p: !llvm.ptr, %x: i32) attributes {gpu.kernel, nvvm.kernel} {
      llvm.store %x, %p : i32, !llvm.ptr
      llvm.return
    }
  }
  func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
    return
  }
}
