// Regions go into the kernel with the constants that they use; what they read
// becomes an argument with axes of its own, and the manifest has their program.

// RUN: flashcore-opt %s -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s

!t = memref<1x8x512x64xf16>
!table = memref<8x?xbf16, strided<[?, 1]>>

// CHECK-LABEL: func.func @region
// CHECK-SAME:    %[[Q:.+]]: memref<1x8x512x64xf16>, %[[O:.+]]: memref<1x8x512x64xf16>, %[[TABLE:.+]]: memref<8x?xbf16, strided<[?, 1]>>, %[[LIMIT:.+]]: memref<i32>
// CHECK:         %[[TABLE_BASE:[^,]+]], %{{.+}}, %[[TABLE_SIZES:.+]]:2, %[[TABLE_STRIDES:.+]]:2 = memref.extract_strided_metadata %[[TABLE]]
// CHECK:         %[[LIMIT_BASE:[^,]+]], %{{.+}} = memref.extract_strided_metadata %[[LIMIT]]
// CHECK:         gpu.launch_func {{.+}} args(%{{.+}} : memref<f16>, %{{.+}} : memref<f16>, %{{.+}} : memref<f16>, %{{.+}} : memref<f16>, %[[TABLE_BASE]] : memref<bf16>, %[[LIMIT_BASE]] : memref<i32>, %[[TABLE_SIZES]]#1 : index, %[[TABLE_STRIDES]]#0 : index)
func.func @region(%q: !t, %o: !t, %table: !table, %limit: memref<i32>) {
  %two = arith.constant 2.0 : f32
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %bias = memref.load %table[%head, %key] : !table
    %wide = arith.extf %bias : bf16 to f32
    %result = math.fma %wide, %two, %score : f32
    flashcore.yield %result : f32
  } mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %last = memref.load %limit[] : memref<i32>
    %key32 = arith.index_cast %key : index to i32
    %visible = arith.cmpi sle, %key32, %last : i32
    flashcore.yield %visible : i1
  }
  return
}

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    mask = {result = 7 : i64, values = [{op = "load", operands = [], tensor = "capture1", type = i32}, {op = "arith.index_cast", operands = [4], type = i32}, {op = "arith.cmpi", operands = [6, 5], predicate = "sle", type = i1}]}
// CHECK-SAME:    score = {result = 8 : i64, values = [{op = "load", operands = [2, 4], tensor = "capture0", type = bf16}, {op = "arith.extf", operands = [5], type = f32}, {bits = 1073741824 : i64, op = "constant", type = f32}, {op = "math.fma", operands = [6, 7, 0], type = f32}]}
// CHECK-SAME:    sizes = {batch = 1 : i64, capture0_0 = 8 : i64, capture0_1,
// CHECK-SAME:    {alignment = 2 : i64, axes = ["capture0_0", "capture0_1"], dtype = bf16, name = "capture0", offset = 0 : i64, role = "input", strides = [unit, 1]}
// CHECK-SAME:    {alignment = 4 : i64, axes = [], dtype = i32, name = "capture1", offset = 0 : i64, role = "input", strides = []}
// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK:         %[[OF_TABLE:.+]] = memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [8, %{{.+}}], strides: [%{{.+}}, 1] : memref<bf16>
// CHECK:         %[[OF_LIMIT:.+]] = memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [], strides: [] : memref<i32>
// CHECK:         flashcore.attention
// CHECK:         score {
// CHECK:           arith.constant 2.000000e+00 : f32
// CHECK:           memref.load %[[OF_TABLE]]
// CHECK:         } mask {
// CHECK:           memref.load %[[OF_LIMIT]][]
