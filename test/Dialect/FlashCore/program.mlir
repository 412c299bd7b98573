// The program of an attention: kernels, and what they leave one another.
// RUN: flashcore-opt %s -split-input-file | FileCheck %s
// RUN: flashcore-opt %s -split-input-file | flashcore-opt -split-input-file | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -mlir-print-op-generic | flashcore-opt -split-input-file | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -canonicalize -cse | FileCheck %s --check-prefix=KEPT

// CHECK-LABEL: @split
// CHECK:         flashcore.attention ins(
// CHECK-SAME:      {note = 1 : i32} program {
// CHECK-NEXT:      %[[Q:.+]] = flashcore.workspace turned_query : memref<1x8x1x64xf16>
// CHECK-NEXT:      %[[O:.+]] = flashcore.workspace partial_outputs : memref<4x1x8x1x64xf32>
// CHECK-NEXT:      %[[L:.+]] = flashcore.workspace partial_lses : memref<4x1x8x1xf32>
// CHECK-NEXT:      %[[R:.+]] = flashcore.workspace partial_lse_rests : memref<4x1x8x1xf32>
// CHECK-NEXT:      flashcore.append_kernel writes(%[[Q]] : memref<1x8x1x64xf16>)
// CHECK-NEXT:      flashcore.attention_kernel reads(%[[Q]] : memref<1x8x1x64xf16>)
// CHECK-SAME:        writes(%[[O]], %[[L]], %[[R]] : memref<4x1x8x1x64xf32>, memref<4x1x8x1xf32>, memref<4x1x8x1xf32>)
// CHECK-NEXT:      flashcore.merge_kernel reads(%[[O]], %[[L]], %[[R]] : memref<4x1x8x1x64xf32>, memref<4x1x8x1xf32>, memref<4x1x8x1xf32>)
// CHECK-NEXT:    }
// KEPT-LABEL:  @split
// KEPT:          flashcore.append_kernel
// KEPT-NEXT:     flashcore.attention_kernel
// KEPT-NEXT:     flashcore.merge_kernel
func.func @split(%q: memref<1x8x1x64xf16>, %k: memref<1x8x512x64xf16>, %v: memref<1x8x512x64xf16>, %o: memref<1x8x1x64xf16>) {
  flashcore.attention ins(%q, %k, %v : memref<1x8x1x64xf16>, memref<1x8x512x64xf16>, memref<1x8x512x64xf16>)
      outs(%o : memref<1x8x1x64xf16>) {note = 1 : i32} program {
    %turned = flashcore.workspace turned_query : memref<1x8x1x64xf16>
    %outputs = flashcore.workspace partial_outputs : memref<4x1x8x1x64xf32>
    %lses = flashcore.workspace partial_lses : memref<4x1x8x1xf32>
    %rests = flashcore.workspace partial_lse_rests : memref<4x1x8x1xf32>
    flashcore.append_kernel writes(%turned : memref<1x8x1x64xf16>)
    flashcore.attention_kernel reads(%turned : memref<1x8x1x64xf16>)
        writes(%outputs, %lses, %rests : memref<4x1x8x1x64xf32>, memref<4x1x8x1xf32>, memref<4x1x8x1xf32>)
    flashcore.merge_kernel
        reads(%outputs, %lses, %rests : memref<4x1x8x1x64xf32>, memref<4x1x8x1xf32>, memref<4x1x8x1xf32>)
  }
  return
}

// -----

// CHECK-LABEL: @unfused
// CHECK:         program {
// CHECK:           flashcore.scores_kernel writes(%[[S:.+]] : memref<1x8x64x64xf32>)
// CHECK-NEXT:      flashcore.softmax_kernel reads(%[[S]] : memref<1x8x64x64xf32>) writes(%[[P:.+]], %[[R:.+]] : memref<1x8x64x64xf16>, memref<1x8x64xf32>)
// CHECK-NEXT:      flashcore.values_kernel reads(%[[P]] : memref<1x8x64x64xf16>)
// CHECK-NEXT:      flashcore.scores_kernel reads(%[[R]] : memref<1x8x64xf32>)
// KEPT-LABEL:  @unfused
// KEPT:          flashcore.values_kernel
// KEPT-NEXT:     flashcore.scores_kernel
!t = memref<1x8x64x64xf16>
func.func @unfused(%q: !t, %k: !t, %v: !t, %o: !t, %lse: memref<1x8x64xf32>, %p: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) lse(%lse : memref<1x8x64xf32>)
      scores(%p : !t) stage(probabilities) program {
    %rest = flashcore.workspace lse_rest : memref<1x8x64xf32>
    %scores = flashcore.workspace scores : memref<1x8x64x64xf32>
    %probabilities = flashcore.workspace probabilities : !t
    flashcore.scores_kernel writes(%scores : memref<1x8x64x64xf32>)
    flashcore.softmax_kernel reads(%scores : memref<1x8x64x64xf32>) writes(%probabilities, %rest : !t, memref<1x8x64xf32>)
    flashcore.values_kernel reads(%probabilities : !t)
    flashcore.scores_kernel reads(%rest : memref<1x8x64xf32>)
  }
  return
}

// -----

// CHECK-LABEL: @few_queries
// CHECK:         program {
// CHECK-NEXT:      %[[FEW:.+]] = flashcore.few_queries at_most(16)
// CHECK-NEXT:      scf.if %[[FEW]] {
// CHECK-NEXT:        flashcore.attention_kernel
// CHECK-NEXT:      } else {
// CHECK-NEXT:        flashcore.attention_kernel
// KEPT-LABEL:  @few_queries
// KEPT:          scf.if
// KEPT:          } else {
!q = memref<1x8x?x64xf16>
!k = memref<1x8x64x64xf16>
func.func @few_queries(%q: !q, %k: !k, %v: !k, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !k) outs(%o : !q) program {
    %is_few = flashcore.few_queries at_most(16)
    scf.if %is_few {
      flashcore.attention_kernel
    } else {
      flashcore.attention_kernel
    }
  }
  return
}
