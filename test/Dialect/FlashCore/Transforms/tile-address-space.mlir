// Global memory by any of its names: kernels take pointers of the default space,
// so attentions that differ in nothing else share one.

// RUN: flashcore-opt %s -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s
// RUN: flashcore-opt %s -flashcore-lower-to-nvvm -o /dev/null

!plain = memref<1x8x512x64xf16>
!global = memref<1x8x512x64xf16, #gpu.address_space<global>>
!number = memref<1x8x512x64xf16, 1>
!lse = memref<1x8x512xf32, #gpu.address_space<global>>

// CHECK-LABEL: func.func @named
// CHECK-SAME:    %[[Q:[^:]+]]: memref<1x8x512x64xf16, #gpu.address_space<global>>
// CHECK:         %[[CAST:.+]] = memref.memory_space_cast %[[Q]] : memref<1x8x512x64xf16, #gpu.address_space<global>> to memref<1x8x512x64xf16>
// CHECK:         memref.extract_strided_metadata %[[CAST]]
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64 {{.+}} args(%{{.+}} : memref<f16>, %{{.+}} : memref<f16>,
func.func @named(%q: !global, %k: !global, %v: !global, %o: !global) {
  flashcore.attention ins(%q, %k, %v : !global, !global, !global)
      outs(%o : !global)
  return
}

// Some operands only.

// CHECK-LABEL: func.func @numbered
// CHECK-COUNT-2: memref.memory_space_cast {{.+}} : memref<1x8x512x64xf16, 1> to memref<1x8x512x64xf16>
// CHECK-NOT:     memref.memory_space_cast
// CHECK:         gpu.launch_func @attention_f16_d64::@attention_f16_d64
func.func @numbered(%q: !plain, %k: !number, %v: !number, %o: !plain) {
  flashcore.attention ins(%q, %k, %v : !plain, !number, !number)
      outs(%o : !plain)
  return
}

// CHECK-LABEL: func.func @with_lse
// CHECK:         memref.memory_space_cast {{.+}} : memref<1x8x512xf32, #gpu.address_space<global>> to memref<1x8x512xf32>
// CHECK:         gpu.launch_func @[[OTHER:.+]]::@attention_f16_d64
func.func @with_lse(%q: !plain, %lse: !lse, %own: !plain) {
  flashcore.attention ins(%q, %q, %q : !plain, !plain, !plain)
      outs(%own : !plain) lse(%lse : !lse)
  return
}

// CHECK:     gpu.module @attention_f16_d64
// CHECK:     gpu.module @[[OTHER]]
// CHECK-NOT: gpu.module
