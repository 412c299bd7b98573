// RUN: flashcore-opt %s -canonicalize -cse | FileCheck %s

!m = memref<1x8x512x64xf16>
!t = tensor<1x8x512x64xf16>

// CHECK-LABEL: func.func @unused_result_on_tensors_is_removed(
func.func @unused_result_on_tensors_is_removed(%q: !t, %o: !t) {
  // CHECK-NEXT: return
  %unused = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) -> !t
  return
}

// CHECK-LABEL: func.func @output_on_memrefs_is_a_write(
func.func @output_on_memrefs_is_a_write(%q: !m, %o: !m) {
  // CHECK-NEXT: flashcore.attention
  // CHECK-NEXT: return
  flashcore.attention ins(%q, %q, %q : !m, !m, !m) outs(%o : !m)
  return
}

// CHECK-LABEL: func.func @load_of_output_is_repeated(
func.func @load_of_output_is_repeated(%q: !m, %o: !m, %i: index) -> (f16, f16) {
  // CHECK:      %[[BEFORE:.+]] = memref.load
  // CHECK-NEXT: flashcore.attention
  // CHECK-NEXT: %[[AFTER:.+]] = memref.load
  // CHECK-NEXT: return %[[BEFORE]], %[[AFTER]]
  %before = memref.load %o[%i, %i, %i, %i] : !m
  flashcore.attention ins(%q, %q, %q : !m, !m, !m) outs(%o : !m)
  %after = memref.load %o[%i, %i, %i, %i] : !m
  return %before, %after : f16, f16
}

// CHECK-LABEL: func.func @scores_are_a_write(
func.func @scores_are_a_write(%q: !m, %o: !m, %s: memref<1x8x512x512xf32>, %i: index) -> (f32, f32) {
  // CHECK:      %[[BEFORE:.+]] = memref.load
  // CHECK-NEXT: flashcore.attention
  // CHECK-NEXT: %[[AFTER:.+]] = memref.load
  // CHECK-NEXT: return %[[BEFORE]], %[[AFTER]]
  %before = memref.load %s[%i, %i, %i, %i] : memref<1x8x512x512xf32>
  flashcore.attention ins(%q, %q, %q : !m, !m, !m) outs(%o : !m) scores(%s : memref<1x8x512x512xf32>) stage(masked)
  %after = memref.load %s[%i, %i, %i, %i] : memref<1x8x512x512xf32>
  return %before, %after : f32, f32
}

// CHECK-LABEL: func.func @append_is_a_write_of_key_and_value(
func.func @append_is_a_write_of_key_and_value(
    %q: !m, %k: !m, %v: !m, %n: !m, %u: memref<1xi32>, %o: !m, %i: index) -> (f16, f16, f16, f16) {
  // CHECK:      %[[K:.+]] = memref.load
  // CHECK-NEXT: %[[V:.+]] = memref.load
  // CHECK-NEXT: flashcore.attention
  // CHECK-NEXT: %[[NEW_K:.+]] = memref.load
  // CHECK-NEXT: %[[NEW_V:.+]] = memref.load
  // CHECK-NEXT: return %[[K]], %[[V]], %[[NEW_K]], %[[NEW_V]]
  %k_before = memref.load %k[%i, %i, %i, %i] : !m
  %v_before = memref.load %v[%i, %i, %i, %i] : !m
  flashcore.attention ins(%q, %k, %v : !m, !m, !m) seqused_k(%u : memref<1xi32>) append(%n, %n : !m, !m) outs(%o : !m)
  %k_after = memref.load %k[%i, %i, %i, %i] : !m
  %v_after = memref.load %v[%i, %i, %i, %i] : !m
  return %k_before, %v_before, %k_after, %v_after : f16, f16, f16, f16
}
