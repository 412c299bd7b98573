// ALiBi becomes the beginning of the tile's score region; its own follows.

// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s

!t = memref<1x8x512x64xf16>

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    {alignment = 4 : i64, axes = ["heads_q"], dtype = f32, name = "alibi_slopes", offset = 0 : i64, role = "input", strides = [1]}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[SLOPES:.+]] = memref.reinterpret_cast %{{.+}} : memref<f32> to memref<8xf32
// CHECK:         flashcore.attention
// CHECK-NOT:     alibi
// CHECK:         score {
// CHECK-NEXT:    ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %[[HEAD:.+]]: index, %[[QUERY:.+]]: index, %[[KEY:.+]]: index):
// CHECK:           %[[DISTANCE:.+]] = arith.subi %{{.+}}, %{{.+}} : i32
// CHECK:           %[[SIZE:.+]] = math.absi %[[DISTANCE]] : i32
// CHECK:           %[[REAL:.+]] = arith.sitofp %[[SIZE]] : i32 to f32
// CHECK:           %[[SLOPE:.+]] = memref.load %[[SLOPES]][%[[HEAD]]]
// CHECK:           %[[FALL:.+]] = arith.negf %[[SLOPE]]
// CHECK:           %[[BIASED:.+]] = math.fma %[[FALL]], %[[REAL]], %[[SCORE]]
// CHECK:           %[[TWICE:.+]] = arith.addf %[[BIASED]], %[[BIASED]]
// CHECK:           flashcore.yield %[[TWICE]]
func.func @alibi(%q: !t, %o: !t, %slopes: memref<8xf32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) alibi(%slopes : memref<8xf32>) outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %result = arith.addf %score, %score : f32
    flashcore.yield %result : f32
  }
  return
}

// -----

!t = memref<1x8x512x64xf16>

// A causal mask leaves no key behind the query's position.

// CHECK-LABEL: gpu.func @attention_f16_d64_causal
// CHECK:         score {
// CHECK-NOT:       math.absi
// CHECK:           flashcore.yield
func.func @causal(%q: !t, %o: !t, %slopes: memref<8xf32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) alibi(%slopes : memref<8xf32>) outs(%o : !t) causal(bottom_right)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!n = memref<1x8x4xi32>
!i = memref<1x8x4x4xi32>

// But full blocks are not asked for it.

// CHECK-LABEL: gpu.func @attention_f16_d64_causal
// CHECK:         score {
// CHECK:           math.absi
// CHECK:           flashcore.yield
func.func @full_blocks(%q: !t, %o: !t, %slopes: memref<8xf32>, %n: !n, %i: !i) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) alibi(%slopes : memref<8xf32>)
      block_counts(%n : !n) block_indices(%i : !i) full_block_counts(%n : !n) full_block_indices(%i : !i)
      outs(%o : !t) causal(bottom_right) block_size(128, 128)
  return
}
