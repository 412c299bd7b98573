// The ops of a function are one program: what the caller gives, what is there
// while it runs, and views of both.

// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s

!q = memref<2x8x64x64xf16>
!k = memref<2x4x1024x64xf16>
!half0 = memref<2x4x512x64xf16, strided<[262144, 65536, 64, 1]>>
!half1 = memref<2x4x512x64xf16, strided<[262144, 65536, 64, 1], offset: 32768>>
!os = memref<2x2x8x64x64xf16>
!o0 = memref<2x8x64x64xf16, strided<[32768, 4096, 64, 1]>>
!o1 = memref<2x8x64x64xf16, strided<[32768, 4096, 64, 1], offset: 65536>>
!ls = memref<2x2x8x64xf32>
!l0 = memref<2x8x64xf32, strided<[512, 64, 1]>>
!l1 = memref<2x8x64xf32, strided<[512, 64, 1], offset: 1024>>

// CHECK-LABEL: func.func @halves(
// CHECK:         gpu.launch_func @halves_kernels::@attention_f16_d64 blocks
// CHECK:         gpu.launch_func @halves_kernels::@attention_f16_d64_0 blocks
// CHECK:         gpu.launch_func @halves_kernels::@merge_f16_d64 blocks
func.func @halves(%q: !q, %k: !k, %v: !k, %o: !q, %lse: memref<2x8x64xf32>) {
  %os = memref.alloc() : !os
  %ls = memref.alloc() : !ls
  %k0 = memref.subview %k[0, 0, 0, 0] [2, 4, 512, 64] [1, 1, 1, 1] : !k to !half0
  %v0 = memref.subview %v[0, 0, 0, 0] [2, 4, 512, 64] [1, 1, 1, 1] : !k to !half0
  %k1 = memref.subview %k[0, 0, 512, 0] [2, 4, 512, 64] [1, 1, 1, 1] : !k to !half1
  %v1 = memref.subview %v[0, 0, 512, 0] [2, 4, 512, 64] [1, 1, 1, 1] : !k to !half1
  %o0 = memref.subview %os[0, 0, 0, 0, 0] [1, 2, 8, 64, 64] [1, 1, 1, 1, 1] : !os to !o0
  %o1 = memref.subview %os[1, 0, 0, 0, 0] [1, 2, 8, 64, 64] [1, 1, 1, 1, 1] : !os to !o1
  %l0 = memref.subview %ls[0, 0, 0, 0] [1, 2, 8, 64] [1, 1, 1, 1] : !ls to !l0
  %l1 = memref.subview %ls[1, 0, 0, 0] [1, 2, 8, 64] [1, 1, 1, 1] : !ls to !l1
  flashcore.attention ins(%q, %k0, %v0 : !q, !half0, !half0) outs(%o0 : !o0) lse(%l0 : !l0)
  flashcore.attention ins(%q, %k1, %v1 : !q, !half1, !half1) outs(%o1 : !o1) lse(%l1 : !l1)
  flashcore.merge ins(%os, %ls : !os, !ls) outs(%o : !q) lse(%lse : memref<2x8x64xf32>)
  return
}

// What a caller gives keeps its name; a view of the half of an axis has a size
// of its own.

// CHECK:       gpu.module @halves_kernels
// CHECK-SAME:    intermediates = [{alignment = 16 : i64, axes = ["parts", "batch", "heads_q", "seqlen_q", "head_dim_v"], dtype = f16, name = "outputs", offset = 0 : i64, strides = [65536, 32768, 4096, 64, 1]}
// CHECK-SAME:    name = "lses"
// CHECK-SAME:    launches = [{grid = "(seqlen_q ceildiv 16) * heads_q * batch", kernel = "attention_f16_d64", op = 0 : i64}, {grid = "(seqlen_q ceildiv 16) * heads_q * batch", kernel = "attention_f16_d64_0", op = 1 : i64}, {grid = "seqlen_q * heads_q * batch", kernel = "merge_f16_d64", op = 2 : i64}]
// CHECK-SAME:    kernel = "attention_f16_d64_0", op = "attention"
// CHECK-SAME:    {axes = ["batch", "heads_kv", "seqlen_k", "head_dim"], name = "k", role = "input", tensor = "k_2"}
// CHECK-SAME:    sizes = {batch = "batch", head_dim = "head_dim", head_dim_v = "head_dim_v", heads_kv = "heads_kv", heads_q = "heads_q", seqlen_k = "seqlen_k_1", seqlen_q = "seqlen_q"}
// CHECK-SAME:    tensors = [{{.+}} name = "q", {{.+}} name = "k", {{.+}} name = "v", {{.+}} name = "o", offset = 0 : i64, role = "output"
// CHECK-SAME:    views = [
// CHECK-SAME:    {alignment = 16 : i64, axes = ["batch", "heads_kv", "seqlen_k_1", "head_dim"], base_axes = [0, 1, 2, 3], begin = [0, 0, 512, 0], dtype = f16, name = "k_2", of = "k", offset = 32768 : i64, strides = [262144, 65536, 64, 1]}
// CHECK-SAME:    axes = ["batch", "heads_q", "seqlen_q", "head_dim_v"], base_axes = [1, 2, 3, 4], begin = [1, 0, 0, 0, 0]

// -----

// One workspace serves all of them, as large as one of them wants; numbers that
// a call computes have names of their own.

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 32,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0, key_splits = 8, split_count = call>
!t = memref<?x4x?x64xf16>

// CHECK-LABEL: func.func @one_after_another(
// CHECK:       gpu.module @one_after_another_kernels
// CHECK-SAME:    op = "attention", operands = [
// CHECK-SAME:    values = {key_splits = "key_splits"}
// CHECK-SAME:    values = {key_splits = "key_splits_1"}
// CHECK-SAME:    name = "o", offset = 0 : i64, role = "output"
// CHECK-SAME:    values = [{is = "{{.+}}", name = "key_splits"}, {is = "{{.+}}", name = "key_splits_1"}]
// CHECK-SAME:    workspace = [{bytes = "max({{.+}} * key_splits * 256 + {{.+}} * key_splits * 4 + {{.+}} * key_splits * 4, {{.+}} * key_splits_1 * 256 + {{.+}} * key_splits_1 * 4 + {{.+}} * key_splits_1 * 4)"}]
func.func @one_after_another(%q: !t, %k: !t, %v: !t) -> !t {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = memref.dim %q, %c0 : !t
  %rows = memref.dim %q, %c2 : !t
  %between = memref.alloc(%batch, %rows) : !t
  %o = memref.alloc(%batch, %rows) : !t
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%between : !t) {fcgpu.schedule = #schedule}
  flashcore.attention ins(%between, %k, %v : !t, !t, !t) outs(%o : !t) {fcgpu.schedule = #schedule}
  return %o : !t
}

// -----

// With anything else between them, ops are programs of their own.

!t = memref<1x2x64x64xf16>

// CHECK-LABEL: func.func @apart(
// CHECK:         gpu.launch_func @attention_f16_d64::
// CHECK:         gpu.launch_func @attention_f16_d64_causal::
func.func @apart(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  memref.copy %o, %q : !t to !t
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) causal(top_left)
  return
}
