// P loses elements on its way to V, behind the sum of its rows; what O is scaled
// by for those that are left is a part of its normalisation.

// RUN: flashcore-opt %s -pass-pipeline='builtin.module(flashcore-configure{row-max=exact row-sum=add},flashcore-decompose,flashcore-tile,gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s --check-prefixes=CHECK,ADD
// RUN: flashcore-opt %s -pass-pipeline='builtin.module(flashcore-configure{row-max=stale row-sum=mma},flashcore-decompose,flashcore-tile,gpu.module(gpu.func(flashcore-online-softmax)))' \
// RUN:   | FileCheck %s --check-prefixes=CHECK,MMA
// RUN: flashcore-opt %s -flashcore-configure=key-splits=2 -flashcore-decompose -flashcore-tile | FileCheck %s --check-prefix=SPLIT

!t = memref<4x8x4096x64xf16>

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    dropout = 2.500000e-01 : f32
// CHECK-SAME:    {alignment = 4 : i64, axes = ["rng_0"], dtype = i32, name = "rng", offset = 0 : i64, role = "input", strides = [1]}
// CHECK-LABEL: gpu.func @attention_f16_d64(
// The stream of the head: seed is the key, offset, batch and head the counter.
// CHECK:         %[[RNG:.+]] = memref.reinterpret_cast %{{.+}} : memref<i32> to memref<4xi32
// CHECK:         %[[SEED0:.+]] = memref.load %[[RNG]][%{{.+}}]
// CHECK:         %[[SEED1:.+]] = memref.load %[[RNG]][%{{.+}}]
// CHECK:         %[[OFFSET0:.+]] = memref.load %[[RNG]][%{{.+}}]
// CHECK:         %[[OFFSET1:.+]] = memref.load %[[RNG]][%{{.+}}]
// CHECK:         %[[BATCH:.+]] = arith.index_cast %{{.+}} : index to i32
// CHECK:         %[[HEAD:.+]] = arith.index_cast %{{.+}} : index to i32
// CHECK:         arith.mului_extended %[[OFFSET0]],
// CHECK:         arith.mului_extended %[[BATCH]],
// CHECK-COUNT-18: arith.mului_extended
// CHECK-NOT:     arith.mului_extended
// CHECK:         scf.for
// CHECK:           %[[P:.+]] = math.exp2 %{{.+}} : vector<[[TILE:[0-9]+x[0-9]+]]xf32>
// CHECK:           %[[KEPT:.+]] = fcgpu.dropout %[[P]][%{{.+}}, %{{.+}}] below 16384 of(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}) : vector<[[TILE]]xf32>
// ADD:             %[[HALF:.+]] = arith.truncf %[[KEPT]]
// ADD:             vector.shape_cast %[[P]]
// ADD:             vector.multi_reduction <add>
// ADD:             vector.contract {{.*}} %[[HALF]], %{{.+}}, %{{.+}}
// MMA:             %[[SUMMED:.+]] = arith.truncf %[[P]]
// MMA:             vector.contract {{.*}} %[[SUMMED]], %{{.+}}, %{{.+}} into vector<{{[0-9]+}}x8xf32>
// MMA:             %[[HALF:.+]] = arith.truncf %[[KEPT]]
// MMA:             vector.contract {{.*}} %[[HALF]], %{{.+}}, %{{.+}}
// 4/3 in the place of 1.
// CHECK:         %[[SCALE:.+]] = arith.constant dense<1.33333337>
// CHECK:         arith.divf %[[SCALE]], %{{.+}}

// Each part of the keys scales its own result; the merge weighs it as ever.
// SPLIT-LABEL: gpu.func @attention_f16_d64(
// SPLIT:         flashcore.attention
// SPLIT-SAME:    rng(%{{.+}} dropout(2.500000e-01)
// SPLIT-LABEL: gpu.func @attention_f16_d64_merge
// SPLIT-NOT:     "rng"
func.func @dropout(%q: !t, %o: !t, %rng: memref<4xi32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) rng(%rng : memref<4xi32>) outs(%o : !t) dropout(0.25)
  return
}
