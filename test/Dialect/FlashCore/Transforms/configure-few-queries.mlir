// A second schedule for calls of few queries, where seqlen_q is known at run time
// only; and the queries that are expected there.

// RUN: flashcore-opt %s -flashcore-configure="few-queries=16" | FileCheck %s
// RUN: flashcore-opt %s -flashcore-configure="expected-queries=8" | FileCheck %s --check-prefix=EXPECTED
// RUN: flashcore-opt %s -flashcore-configure | FileCheck %s --check-prefix=NONE
// RUN: flashcore-opt %s -flashcore-configure="few-queries=16 invariance=batch" | FileCheck %s --check-prefix=INVARIANT
// RUN: not flashcore-opt %s -flashcore-configure="few-queries=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not flashcore-opt %s -flashcore-configure="expected-queries=99999999999" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not flashcore-opt %s -flashcore-configure="few-queries=16 block-m=24" 2>&1 | FileCheck %s --check-prefix=ROWS

// NONE-NOT:  few_queries
// NONE-NOT:  expected_queries
// NEGATIVE:  expects few-queries from 0 to {{[0-9]+}}, but got -1
// MANY:      expects expected-queries from 0 to {{[0-9]+}}, but got 99999999999
// ROWS:      expects block-m to be a positive multiple of {{.+}} (for few-queries = 16)

!q = memref<?x32x?x128xf16>
!kv = memref<?x8x?x128xf16>

// CHECK-LABEL:     func.func @open
// CHECK:             fcgpu.few_queries = #fcgpu.schedule<chip = "sm_89", block_m = 16,
// CHECK-SAME:          head_group = 4, key_splits = 32, split_count = call, expected_queries = 16>
// CHECK-SAME:        fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 128,
// EXPECTED-LABEL:  func.func @open
// EXPECTED:          fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16,
// EXPECTED-SAME:       split_count = call, expected_queries = 8>
// INVARIANT-LABEL: func.func @open
// INVARIANT:         fcgpu.few_queries
// INVARIANT-NOT:     split_count
func.func @open(%q: !q, %k: !kv, %v: !kv, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
  return
}

!known = memref<?x32x4096x128xf16>

// CHECK-LABEL:    func.func @known
// CHECK-NOT:        few_queries
// CHECK:            fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 128,
// EXPECTED-LABEL: func.func @known
// EXPECTED:         fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 128,
func.func @known(%q: !known, %k: !kv, %v: !kv, %o: !known) {
  flashcore.attention ins(%q, %k, %v : !known, !kv, !kv) outs(%o : !known)
  return
}

!row = memref<1x8x?x64xf16>

// CHECK-LABEL:    func.func @back_to_back
// CHECK:            fcgpu.few_queries = #fcgpu.schedule<{{.+}}, block_m = 16, {{.+}} split_count = call, expected_queries = 16>
func.func @back_to_back(%q: !row, %k: !row, %v: !row, %o: !row, %ends: memref<?xi32>) {
  flashcore.attention ins(%q, %k, %v : !row, !row, !row) cu_seqlens_q(%ends : memref<?xi32>) cu_seqlens_k(%ends : memref<?xi32>) outs(%o : !row)
  return
}
