// The sink is the tile's, or where keys are split over blocks the merge's. Its
// distance from the row's maximum is rounded once, and from an LSE of parts it is
// that of both its numbers; which of the two is above the
// other keeps its weight, so neither weight exceeds 1. One of -inf weighs nothing
// even in a row without a maximum.

// RUN: flashcore-opt %s -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s
// RUN: flashcore-opt %s -flashcore-configure=key-splits=2 -flashcore-decompose -flashcore-tile | FileCheck --check-prefix=SPLIT %s
// RUN: flashcore-opt %s -pass-pipeline='builtin.module(flashcore-configure,flashcore-decompose,flashcore-tile,gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck --check-prefix=SOFTMAX %s

!t = memref<4x8x4096x64xf16>

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    {alignment = 4 : i64, axes = ["heads_q"], dtype = f32, name = "sink_logits", offset = 0 : i64, role = "input", strides = [1]}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[LOGITS:.+]] = memref.reinterpret_cast %{{.+}} : memref<f32> to memref<8xf32
// CHECK:         flashcore.attention
// CHECK-SAME:    sink(%[[LOGITS]] :

// SPLIT-LABEL: gpu.func @attention_f16_d64(
// SPLIT:         flashcore.attention
// SPLIT-NOT:     sink(
// SPLIT-LABEL: gpu.func @attention_f16_d64_merge
// SPLIT:         %[[LOGITS:.+]] = memref.reinterpret_cast %{{.+}} : memref<f32> to memref<8xf32
// SPLIT:         %[[SINK:.+]] = memref.load %[[LOGITS]][%{{.+}}]
// SPLIT:         %[[FROM_LSE:.+]] = math.fma %[[ROW_MAX:.+]], %[[MINUS_ONE:.+]], %[[SINK]]
// SPLIT-NEXT:    %[[DISTANCE:.+]] = arith.subf %[[FROM_LSE]], %[[REST:.+]] :
// SPLIT:         %[[IS_NONE:.+]] = arith.cmpf oeq, %[[SINK]],
// SPLIT:         %[[ABOVE:.+]] = arith.select %[[IS_NONE]], %[[SINK]], %[[DISTANCE]]
// SPLIT:         %[[IS_MAX:.+]] = arith.cmpf ogt, %[[ABOVE]],
// SPLIT:         arith.select %[[IS_MAX]], %[[SINK]],
// SPLIT-NEXT:    arith.select %[[IS_MAX]], %{{.+}}, %[[REST]]

// SOFTMAX-LABEL: gpu.func @attention_f16_d64
// SOFTMAX:         scf.for
// SOFTMAX:         %[[LOGIT:.+]] = memref.load %{{.+}}[%{{.+}}] : memref<8xf32
// SOFTMAX:         %[[SINK:.+]] = vector.broadcast %[[LOGIT]] : f32 to vector<{{[0-9]+}}xf32>
// SOFTMAX:         %[[MINUS_SCALE:.+]] = arith.constant dense<-1.250000e-01>
// SOFTMAX:         %[[DISTANCE:.+]] = math.fma %[[ROW_MAX:.+]], %[[MINUS_SCALE]], %[[SINK]]
// SOFTMAX:         %[[MINUS_INF:.+]] = arith.constant dense<0xFF800000>
// SOFTMAX:         %[[IS_NONE:.+]] = arith.cmpf oeq, %[[SINK]], %[[MINUS_INF]]
// SOFTMAX:         %[[ABOVE:.+]] = arith.select %[[IS_NONE]], %[[SINK]], %[[DISTANCE]]
// SOFTMAX:         %[[IS_MAX:.+]] = arith.cmpf ogt, %[[ABOVE]], %[[ZERO:.+]] : vector
// SOFTMAX:         %[[SCALED:.+]] = arith.mulf %[[ROW_MAX]],
// SOFTMAX:         %[[MAX:.+]] = arith.select %[[IS_MAX]], %[[SINK]], %[[SCALED]]
// SOFTMAX:         arith.select %[[IS_MAX]], %[[ABOVE]], %[[ZERO]]
// SOFTMAX:         %[[FACTOR:.+]] = math.exp2
// SOFTMAX:         arith.select %[[IS_MAX]], %[[ZERO]], %[[ABOVE]]
// SOFTMAX:         %[[WEIGHT:.+]] = math.exp2
// SOFTMAX:         %[[SUM:.+]] = math.fma %{{.+}}, %[[FACTOR]], %[[WEIGHT]]
// SOFTMAX:         arith.divf %[[FACTOR]], %[[SUM]]
func.func @sink(%q: !t, %o: !t, %logits: memref<8xf32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) sink(%logits : memref<8xf32>) outs(%o : !t)
  return
}
