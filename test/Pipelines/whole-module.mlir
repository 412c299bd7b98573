// A compiler hands over its whole module. What is not ours comes back as it was:
// other dialects, unregistered ops, kernels of others and their launches.

// REQUIRES: plugin
// RUN: mlir-opt %s %{plugin} -allow-unregistered-dialect \
// RUN:   -mlir-print-local-scope -o %t.before.mlir
// RUN: mlir-opt %s %{plugin} -allow-unregistered-dialect \
// RUN:   -mlir-print-local-scope -o %t.after.mlir \
// RUN:   --pass-pipeline='builtin.module(flashcore-lower-to-nvvm)'
// RUN: %python %S/Inputs/foreign-parts.py %t.before.mlir %t.after.mlir \
// RUN:   | FileCheck %s --check-prefix=FOREIGN
// RUN: FileCheck %s --input-file %t.after.mlir

// FOREIGN: 9 identical, 3 with attention
// FOREIGN-NEXT: new: @attention_f16_d64_0 @attention_bf16_d128_causal{{$}}

!t = memref<1x8x512x64xf16>
!dynamic = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>

module attributes {gpu.container_module, foreign.note = "kept"} {
  memref.global "private" constant @table : memref<4xf32> = dense<1.5>
  func.func private @external(memref<*xf32>) attributes {llvm.emit_c_interface}
  // The name that our kernel would have: it gets another one.
  func.func private @attention_f16_d64()

  // Not even what a canonicalizer would fold, nor what nobody knows.
  func.func @tensors(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>, %n: index)
      -> tensor<?x4xf32> {
    %dead = arith.constant 42 : index
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<8x4xf32>
    %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x4xf32>)
        -> tensor<8x4xf32>
    %product = linalg.matmul
        ins(%a, %b : tensor<8x16xf32>, tensor<16x4xf32>)
        outs(%filled : tensor<8x4xf32>) -> tensor<8x4xf32>
    %slice = tensor.extract_slice %product[0, 0] [%n, 4] [1, 1]
        : tensor<8x4xf32> to tensor<?x4xf32>
    return %slice : tensor<?x4xf32>
  }

  func.func @loops(%m: memref<?xf32>, %flag: i1) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %size = memref.dim %m, %c0 : memref<?xf32>
    scf.for %i = %c0 to %size step %c1 {
      scf.if %flag {
        %x = memref.load %m[%i] : memref<?xf32>
        %y = arith.addf %x, %x : f32
        memref.store %y, %m[%i] : memref<?xf32>
      }
    }
    return
  }

  func.func @generic(%m: memref<?x?xf32, strided<[?, 1], offset: ?>>) {
    linalg.generic {
        indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>],
        iterator_types = ["parallel", "parallel"]}
        outs(%m : memref<?x?xf32, strided<[?, 1], offset: ?>>) {
    ^bb0(%out: f32):
      %twice = arith.addf %out, %out : f32
      linalg.yield %twice : f32
    }
    return
  }

  "foreign.symbol"() ({
    %c = "foreign.op"() {cost = 3 : i8} : () -> !foreign.thing
    "foreign.yield"(%c) : (!foreign.thing) -> ()
  }) {sym_name = "region", note = @unregistered} : () -> ()

  // A kernel of others, with its launch.
  gpu.module @other_kernels {
    gpu.func @other(%m: memref<64xf16>, %i: index) kernel {
      %dead = arith.constant 42 : index
      %tile = vector.load %m[%i] : memref<64xf16>, vector<16xf16>
      gpu.return
    }
    gpu.func @helper(%x: f32) -> f32 {
      gpu.return %x : f32
    }
  }
  gpu.module @lowered_kernels [#nvvm.target<chip = "sm_80">] {
    llvm.func @lowered(%p: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
      llvm.return
    }
  }

  // Two equal attentions share a kernel.
  // CHECK-LABEL: func.func @layer(
  // CHECK:         "foreign.before"
  // CHECK:         gpu.launch_func @attention_f16_d64_0::@attention_f16_d64 blocks
  // CHECK:         gpu.launch_func @other_kernels::@other blocks
  // CHECK:         gpu.launch_func @attention_f16_d64_0::@attention_f16_d64 blocks
  // CHECK:         "foreign.after"
  func.func @layer(%q: !t, %k: !t, %v: !t, %o: !t, %m: memref<64xf16>) {
    %c1 = arith.constant 1 : index
    %c7 = arith.constant 7 : index
    "foreign.before"(%q, %c7) {order = 1 : i64} : (!t, index) -> ()
    flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
    gpu.launch_func @other_kernels::@other blocks in (%c1, %c1, %c1)
        threads in (%c1, %c1, %c1) args(%m : memref<64xf16>, %c7 : index)
    flashcore.attention ins(%o, %k, %v : !t, !t, !t) outs(%q : !t)
    "foreign.after"(%o) : (!t) -> ()
    return
  }

  // CHECK-LABEL: func.func @decoder(
  // CHECK:         scf.for
  // CHECK:           scf.if
  // CHECK:             gpu.launch_func @attention_bf16_d128_causal::@attention_bf16_d128_causal blocks
  // CHECK:           func.call @decoder
  func.func @decoder(%q: !dynamic, %k: !dynamic, %v: !dynamic, %o: !dynamic,
                     %flag: i1) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %layers = memref.dim %q, %c0 : !dynamic
    scf.for %layer = %c0 to %layers step %c1 {
      scf.if %flag {
        flashcore.attention ins(%q, %k, %v : !dynamic, !dynamic, !dynamic)
            outs(%o : !dynamic) causal(bottom_right)
      }
      func.call @decoder(%o, %k, %v, %q, %flag)
          : (!dynamic, !dynamic, !dynamic, !dynamic, i1) -> ()
    }
    return
  }

  // An equal one in another function, of the same kernel.
  // CHECK-LABEL: func.func @second_layer(
  // CHECK:         gpu.launch_func @attention_f16_d64_0::@attention_f16_d64 blocks
  // CHECK-NOT:   flashcore.attention
  func.func @second_layer(%q: !t, %o: !t) {
    flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
    return
  }
}
