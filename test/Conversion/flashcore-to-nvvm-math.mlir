// Math of regions is instructions, where upstream would call libdevice.

// RUN: flashcore-opt %s -flashcore-to-nvvm -canonicalize -cse | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: llvm.func @math
// CHECK-SAME:    %[[X:[^:]+]]: f32
gpu.module @kernels {
  gpu.func @math(%x: f32, %out: memref<12xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[LOG2E:.+]] = llvm.mlir.constant(1.442{{[0-9]+}} : f32)
    // CHECK-DAG:  %[[LN2:.+]] = llvm.mlir.constant(0.693{{[0-9]+}} : f32)
    // CHECK-DAG:  llvm.intr.fabs(%[[X]])
    // CHECK-DAG:  llvm.intr.floor(%[[X]])
    // CHECK-DAG:  llvm.intr.ceil(%[[X]])
    // CHECK-DAG:  %[[SCALED:.+]] = llvm.fmul %[[X]], %[[LOG2E]]
    // CHECK-DAG:  llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[SCALED]])
    // CHECK-DAG:  %[[LG2:.+]] = llvm.call_intrinsic "llvm.nvvm.lg2.approx.ftz.f"(%[[X]])
    // CHECK-DAG:  llvm.fmul %[[LG2]], %[[LN2]]
    // CHECK-DAG:  llvm.call_intrinsic "llvm.nvvm.sqrt.approx.ftz.f"(%[[X]])
    // CHECK-DAG:  llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.ftz.f"(%[[X]])
    // CHECK-DAG:  llvm.call_intrinsic "llvm.nvvm.sin.approx.ftz.f"(%[[X]])
    // CHECK-DAG:  llvm.call_intrinsic "llvm.nvvm.cos.approx.ftz.f"(%[[X]])
    %0 = math.absf %x : f32
    %1 = math.floor %x : f32
    %2 = math.ceil %x : f32
    %3 = math.exp %x : f32
    %4 = math.log %x : f32
    %5 = math.sqrt %x : f32
    %6 = math.rsqrt %x : f32
    %7 = math.sin %x : f32
    %8 = math.cos %x : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c6 = arith.constant 6 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    memref.store %0, %out[%c0] : memref<12xf32>
    memref.store %1, %out[%c1] : memref<12xf32>
    memref.store %2, %out[%c2] : memref<12xf32>
    memref.store %3, %out[%c3] : memref<12xf32>
    memref.store %4, %out[%c4] : memref<12xf32>
    memref.store %5, %out[%c5] : memref<12xf32>
    memref.store %6, %out[%c6] : memref<12xf32>
    memref.store %7, %out[%c7] : memref<12xf32>
    memref.store %8, %out[%c8] : memref<12xf32>
    gpu.return
  }
}
