// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline="builtin.module(flashcore-configure,flashcore-decompose,flashcore-tile,gpu.module(gpu.func(flashcore-online-softmax,canonicalize)))" | FileCheck %s

// Bounds that are data of queries: in front of the loop over warps, the block
// finds the least and the greatest number of its queries, a lane some of them.

!t = memref<1x1x256x64xf16>

// CHECK-DAG:   #[[BEGIN_TILE:.+]] = affine_map<()[s0] -> (s0 floordiv {{[0-9]+}})>

// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-DAG:     %[[GREATEST:.+]] = arith.constant 2147483647 : i32
// CHECK-DAG:     %[[LEAST:.+]] = arith.constant -2147483648 : i32
// CHECK:         %[[FIRST:.+]] = affine.apply
// CHECK:         %[[BEHIND:.+]] = affine.min
// CHECK:         %[[EXISTS:.+]] = arith.cmpi slt, %[[FIRST]], %[[BEHIND]]
// CHECK:         %[[FOUND:.+]]:2 = scf.if %[[EXISTS]]
// CHECK:           %[[THREAD:.+]] = gpu.thread_id x
// CHECK:           %[[LANE:.+]] = arith.remui %[[THREAD]]
// CHECK:           %[[QUERY:.+]] = arith.addi %[[FIRST]], %[[LANE]]
// CHECK:           %[[THERE:.+]] = arith.minsi %[[QUERY]], %{{.+}}
// CHECK:           memref.load %{{.+}}[%[[THERE]]]
// CHECK-COUNT-10:  gpu.shuffle xor
// CHECK:           scf.yield
// CHECK:         } else {
// CHECK:           scf.yield %[[GREATEST]], %[[LEAST]]
// CHECK:         %[[FROM:.+]] = arith.index_cast %[[FOUND]]#0 : i32 to index
// CHECK:         scf.forall
// CHECK:           %[[INSIDE:.+]] = arith.maxsi %[[FROM]]
// CHECK:           affine.apply #[[BEGIN_TILE]]()[%[[INSIDE]]]
// CHECK:           scf.for
func.func @documents(%q: !t, %o: !t, %first: memref<256xi32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %start = memref.load %first[%i] : memref<256xi32>
    %key = arith.index_cast %j : index to i32
    %after = arith.cmpi sge, %key, %start : i32
    %before = arith.cmpi sle, %j, %i : index
    %visible = arith.andi %after, %before : i1
    flashcore.yield %visible : i1
  }
  return
}

// -----

// A persistent block works on what its loop says, inside of that over warps.

!t = memref<1x1x256x64xf16>

// CHECK-LABEL: gpu.func @attention_f16_d64
// CHECK-NOT:     iter_args({{.*}}i32
// CHECK:         scf.forall
// CHECK-NOT:     memref.load
// CHECK:         fcgpu.map_scores
// CHECK:           memref.load
func.func @persistent(%q: !t, %o: !t, %first: memref<256xi32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %start = memref.load %first[%i] : memref<256xi32>
    %key = arith.index_cast %j : index to i32
    %visible = arith.cmpi sge, %key, %start : i32
    flashcore.yield %visible : i1
  } {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 128, block_n = 64, num_warps = 4, num_stages = 2,
       query = registers, grid_order = query_fastest, min_blocks = 1, grid = persistent>}
  return
}
