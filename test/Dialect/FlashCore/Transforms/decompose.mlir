// The kernels of an attention, and what they leave one another. Which those are
// is unittests/Schedule/ProgramChoiceTest.cpp.
// RUN: flashcore-opt %s -split-input-file -flashcore-configure=chip=sm_89 -flashcore-decompose | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -flashcore-configure=chip=sm_89 -flashcore-decompose -flashcore-decompose | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -flashcore-configure='chip=sm_89 few-queries=16' -flashcore-decompose | FileCheck %s --check-prefix=FEW

// One kernel leaves nothing.
// CHECK-LABEL: @plain
// CHECK:         flashcore.attention ins(
// CHECK-SAME:      fcgpu.schedule = #fcgpu.schedule<
// CHECK-SAME:      program {
// CHECK-NEXT:      flashcore.attention_kernel{{$}}
// CHECK-NEXT:    }
!t = memref<4x32x4096x64xf16>
func.func @plain(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
  return
}

// -----

// Types have what is known of sizes: here neither the rows of query nor the
// number of parts.
// CHECK-LABEL: @open_sizes
// CHECK:         program {
// CHECK-NEXT:      flashcore.workspace partial_outputs : memref<?x?x8x?x128xf32>
// CHECK-NEXT:      flashcore.workspace partial_lses : memref<?x?x8x?xf32>
// CHECK-NEXT:      flashcore.workspace partial_lse_rests : memref<?x?x8x?xf32>
!q = memref<?x8x?x128xf16>
!k = memref<?x2x?x128xf16>
func.func @open_sizes(%q: !q, %k: !k, %v: !k, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !k) outs(%o : !q)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 64, num_warps = 1, num_stages = 2,
       query = registers, grid_order = query_fastest, min_blocks = 0, key_splits = 8, split_count = call>}
  return
}

// -----

// FEW-LABEL:   @few_queries
// FEW:           program {
// FEW-NEXT:        %[[FEW:.+]] = flashcore.few_queries at_most(16)
// FEW-NEXT:        scf.if %[[FEW]] {
// FEW:               flashcore.attention_kernel writes(
// FEW-NEXT:          flashcore.merge_kernel reads(
// FEW-NEXT:        } else {
// FEW-NEXT:          flashcore.attention_kernel{{$}}
// FEW-NEXT:        }
!q = memref<?x8x?x128xf16>
!k = memref<?x2x?x128xf16>
func.func @few_queries(%q: !q, %k: !k, %v: !k, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !k) outs(%o : !q)
  return
}

// -----

// Rows of scores are filled up to whole tiles, and those of LSE to 16 bytes.
// CHECK-LABEL: @unfused
// CHECK:         %[[R:.+]] = flashcore.workspace lse_rest : memref<1x8x104xf32>
// CHECK-NEXT:    %[[S:.+]] = flashcore.workspace scores : memref<1x8x101x128xf32>
// CHECK-NEXT:    %[[P:.+]] = flashcore.workspace probabilities : memref<1x8x101x128xbf16>
// CHECK-NEXT:    flashcore.scores_kernel writes(%[[S]] : memref<1x8x101x128xf32>)
// CHECK-NEXT:    flashcore.softmax_kernel reads(%[[S]] : memref<1x8x101x128xf32>) writes(%[[P]], %[[R]] :
// CHECK-NEXT:    flashcore.values_kernel reads(%[[P]] : memref<1x8x101x128xbf16>)
// CHECK-NEXT:    flashcore.scores_kernel reads(%[[R]] : memref<1x8x104xf32>)
!t = memref<1x8x101x64xbf16>
func.func @unfused(%q: !t, %k: !t, %v: !t, %o: !t, %lse: memref<1x8x101xf32>, %p: memref<1x8x101x101xbf16>) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) lse(%lse : memref<1x8x101xf32>)
      scores(%p : memref<1x8x101x101xbf16>) stage(probabilities)
      {fcgpu.schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4, num_stages = 2,
       query = registers, grid_order = query_fastest, min_blocks = 0, softmax = unfused>}
  return
}

// -----

// CHECK-LABEL: @append
// CHECK:         %[[Q:.+]] = flashcore.workspace turned_query : memref<2x8x1x64xf16>
// CHECK:         flashcore.append_kernel writes(%[[Q]] : memref<2x8x1x64xf16>)
// CHECK-NEXT:    flashcore.attention_kernel reads(%[[Q]] : memref<2x8x1x64xf16>)
!q = memref<2x8x1x64xf16>
!k = memref<2x8x512x64xf16>
!n = memref<2x8x1x64xf16>
!r = memref<512x32xf16>
func.func @append(%q: !q, %k: !k, %v: !k, %o: !q, %used: memref<2xi32>, %kn: !n, %vn: !n, %cos: !r, %sin: !r) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !k) seqused_k(%used : memref<2xi32>) append(%kn, %vn : !n, !n)
      rotary(%cos, %sin : !r, !r) outs(%o : !q) style(half)
  return
}

// -----

// Other ops that become kernels have one each.
// CHECK-LABEL: @merge
// CHECK:         flashcore.merge
// CHECK-NOT:     program
func.func @merge(%os: memref<4x1x8x64x64xf32>, %lses: memref<4x1x8x64xf32>, %o: memref<1x8x64x64xf16>) {
  flashcore.merge ins(%os, %lses : memref<4x1x8x64x64xf32>, memref<4x1x8x64xf32>) outs(%o : memref<1x8x64x64xf16>)
  return
}
