// Host code and kernels by upstream's route alone, run by mlir-runner with the
// emulator as the GPU: one kernel, and two with a workspace.

// REQUIRES: plugin
// DEFINE: %{options} =
// DEFINE: %{pointers} = use-bare-pointers-for-kernels
// DEFINE: %{lower} = mlir-opt %s %{plugin} --nvptx-short-ptr --pass-pipeline='builtin.module(flashcore-lower-to-nvvm{%{options}},gpu-module-to-binary{format=isa},lower-affine,func.func(gpu-async-region),expand-strided-metadata,convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,convert-cf-to-llvm,convert-arith-to-llvm,gpu-to-llvm{%{pointers}},convert-func-to-llvm,reconcile-unrealized-casts)'
// DEFINE: %{run} = mlir-runner %t.mlir -e main -entry-point-result=void %{gpu-on-emulator}

// RUN: %{lower} -o %t.mlir && %{run} | FileCheck %s
// REDEFINE: %{options} = key-splits=2
// RUN: %{lower} -o %t.mlir && %{run} | FileCheck %s
// CHECK: {{^}}0{{$}}

// Descriptors of memrefs are not what the kernels take.

// REDEFINE: %{options} =
// REDEFINE: %{pointers} =
// RUN: %{lower} -o %t.mlir
// RUN: not %{run} 2>&1 | FileCheck %s --check-prefix=DESCRIPTORS
// DESCRIPTORS: emulated GPU: error: expects 4 arguments for attention_f16_d64_causal, but got 12

// Queries and keys are arbitrary; all values of a head's column are the same, so
// whatever the weights are, that is the output.
!t = memref<1x2x128x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) causal(bottom_right)
  return
}

func.func private @fill(%t: !t, %heads: f32, %rows: f32, %columns: f32) {
  affine.for %h = 0 to 2 {
    affine.for %s = 0 to 128 {
      affine.for %d = 0 to 64 {
        %hi = arith.index_cast %h : index to i32
        %si = arith.index_cast %s : index to i32
        %di = arith.index_cast %d : index to i32
        %hf = arith.sitofp %hi : i32 to f32
        %sf = arith.sitofp %si : i32 to f32
        %df = arith.sitofp %di : i32 to f32
        %a = arith.mulf %hf, %heads : f32
        %b = arith.mulf %sf, %rows : f32
        %c = arith.mulf %df, %columns : f32
        %ab = arith.addf %a, %b : f32
        %abc = arith.addf %ab, %c : f32
        %x = arith.truncf %abc : f32 to f16
        affine.store %x, %t[0, %h, %s, %d] : !t
      }
    }
  }
  return
}

func.func @main() {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f32
  %small = arith.constant 0.0078125 : f32
  %q = memref.alloc() : !t
  %k = memref.alloc() : !t
  %v = memref.alloc() : !t
  %o = memref.alloc() : !t
  call @fill(%q, %zero, %small, %small) : (!t, f32, f32, f32) -> ()
  call @fill(%k, %small, %small, %zero) : (!t, f32, f32, f32) -> ()
  call @fill(%v, %c1, %zero, %small) : (!t, f32, f32, f32) -> ()
  %dq = gpu.alloc() : !t
  %dk = gpu.alloc() : !t
  %dv = gpu.alloc() : !t
  %do = gpu.alloc() : !t
  gpu.memcpy %dq, %q : !t, !t
  gpu.memcpy %dk, %k : !t, !t
  gpu.memcpy %dv, %v : !t, !t
  call @attention(%dq, %dk, %dv, %do) : (!t, !t, !t, !t) -> ()
  gpu.memcpy %o, %do : !t, !t
  gpu.dealloc %dq : !t
  gpu.dealloc %dk : !t
  gpu.dealloc %dv : !t
  gpu.dealloc %do : !t
  // The largest difference of any element of O from V.
  %worst = memref.alloca() : memref<f32>
  affine.store %zero, %worst[] : memref<f32>
  affine.for %h = 0 to 2 {
    affine.for %s = 0 to 128 {
      affine.for %d = 0 to 64 {
        %got = affine.load %o[0, %h, %s, %d] : !t
        %want = affine.load %v[0, %h, %s, %d] : !t
        %difference = arith.subf %got, %want : f16
        %size = math.absf %difference : f16
        %error = arith.extf %size : f16 to f32
        %before = affine.load %worst[] : memref<f32>
        %after = arith.maximumf %before, %error : f32
        affine.store %after, %worst[] : memref<f32>
      }
    }
  }
  %error = affine.load %worst[] : memref<f32>
  vector.print %error : f32
  return
}
