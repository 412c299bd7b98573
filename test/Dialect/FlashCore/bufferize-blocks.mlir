// RUN: flashcore-opt %s -flashcore-bufferize | FileCheck %s

// Results are of output and lse, which are written in place; lists of blocks
// in front of them are read.

!t = tensor<1x8x256x64xf16>
!lse = tensor<1x8x256xf32>
!counts = tensor<1x1x2xi32>
!indices = tensor<1x1x2x2xi32>

// CHECK-LABEL: func.func @lists(
// CHECK-SAME:    %[[COUNTS:[^:]+]]: memref<1x1x2xi32>, %[[INDICES:[^:]+]]: memref<1x1x2x2xi32>
// CHECK:         %[[O:.+]] = memref.alloc() {{.*}}: memref<1x8x256x64xf16>
// CHECK:         %[[LSE:.+]] = memref.alloc() {{.*}}: memref<1x8x256xf32>
// CHECK-NOT:     memref.copy
// CHECK:         flashcore.attention
// CHECK:         block_counts(%[[COUNTS]] : {{.+}}) block_indices(%[[INDICES]] :
// CHECK:         outs(%[[O]] : {{.+}}) lse(%[[LSE]] :
// CHECK:         return %[[O]], %[[LSE]]
func.func @lists(%counts: !counts, %indices: !indices, %q: !t) -> (!t, !lse) {
  %o = tensor.empty() : !t
  %lse = tensor.empty() : !lse
  %r:2 = flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : !counts) block_indices(%indices : !indices)
      outs(%o : !t) lse(%lse : !lse) block_size(128, 128) -> !t, !lse
  return %r#0, %r#1 : !t, !lse
}
