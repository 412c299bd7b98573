// The scale of a head becomes the beginning of the tile's score region, in front
// of a softcap, and of every stage of scores.

// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s

!t = memref<1x8x512x64xf16>

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    {alignment = 4 : i64, axes = ["heads_q"], dtype = f32, name = "head_scales", offset = 0 : i64, role = "input", strides = [1]}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[SCALES:.+]] = memref.reinterpret_cast %{{.+}} : memref<f32> to memref<8xf32
// CHECK:         flashcore.attention_tile
// CHECK-NOT:     head_scale
// CHECK:         score {
// CHECK-NEXT:    ^bb0(%[[SCORE:.+]]: f32, %{{.+}}: index, %[[HEAD:.+]]: index, %{{.+}}: index, %{{.+}}: index):
// CHECK-NEXT:      %[[SCALE:.+]] = memref.load %[[SCALES]][%[[HEAD]]]
// CHECK-NEXT:      %[[SCALED:.+]] = arith.mulf %[[SCORE]], %[[SCALE]]
// CHECK:           %[[RATIO:.+]] = arith.mulf %[[SCALED]]
// CHECK:           math.tanh %[[RATIO]]
func.func @softcap(%q: !t, %o: !t, %scales: memref<8xf32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) head_scale(%scales : memref<8xf32>) outs(%o : !t)
      softcap(2.000000e+01)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32>

// The kernel that writes scores takes the scales, and no bias at this stage.

// CHECK-LABEL: gpu.func @attention_f16_d64_scores
// CHECK:         flashcore.scores_tile
// CHECK:         score {
// CHECK-NEXT:    ^bb0(
// CHECK-NEXT:      memref.load
// CHECK-NEXT:      %[[SCALED:.+]] = arith.mulf
// CHECK-NEXT:      flashcore.yield %[[SCALED]]
func.func @scores(%q: !t, %o: !t, %scales: memref<8xf32>, %bias: memref<1x1x512x512xf32>, %s: !s) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) head_scale(%scales : memref<8xf32>)
      bias(%bias : memref<1x1x512x512xf32>) outs(%o : !t) scores(%s : !s) stage(scaled)
  return
}
