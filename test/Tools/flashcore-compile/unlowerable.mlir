// Everything the op can say and no phase lowers yet is an error at the op that
// names the feature. All ops of a module are reported in one run.

// RUN: not flashcore-compile %s 2>&1 | FileCheck %s

!t = memref<2x4x128x64xf16>

func.func @cu_seqlens_with_bias(%q: memref<1x4x128x64xf16>, %cu: memref<3xi32>, %bias: memref<1x1x1x128xf32>, %own: memref<1x4x128x64xf16>) {
  // CHECK: :[[#@LINE+1]]:3: error: 'flashcore.attention' op uses bias with cu_seqlens_q, which this version cannot lower yet{{$}}
  flashcore.attention ins(%q, %q, %q : memref<1x4x128x64xf16>,
                          memref<1x4x128x64xf16>, memref<1x4x128x64xf16>)
      bias(%bias : memref<1x1x1x128xf32>)
      cu_seqlens_q(%cu : memref<3xi32>) cu_seqlens_k(%cu : memref<3xi32>)
      outs(%own : memref<1x4x128x64xf16>)
  return
}

func.func @page_table_with_bias(%q: !t, %table: memref<2x8xi32>, %bias: memref<1x1x1x1xf32>, %own: !t) {
  // CHECK: :[[#@LINE+1]]:3: error: 'flashcore.attention' op uses bias with page_table, which this version cannot lower yet{{$}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      bias(%bias : memref<1x1x1x1xf32>) page_table(%table : memref<2x8xi32>) outs(%own : !t)
  return
}

func.func @score_region(%q: !t, %own: !t) {
  // CHECK: :[[#@LINE+1]]:3: error: 'flashcore.attention' op has a score region with 'math.erf', which this version cannot lower there: docs/Op.md lists the ops of regions{{$}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    // CHECK: :[[#@LINE+1]]:15: note: the region has it here
    %result = math.erf %score : f32
    flashcore.yield %result : f32
  }
  return
}

func.func @head_dim_too_large(%q: memref<2x4x128x264xf16>, %own: memref<2x4x128x264xf16>) {
  // CHECK: :[[#@LINE+1]]:3: error: 'flashcore.attention' op has head_dim 264, but this version lowers 1 to 256{{$}}
  flashcore.attention ins(%q, %q, %q : memref<2x4x128x264xf16>,
                          memref<2x4x128x264xf16>, memref<2x4x128x264xf16>)
      outs(%own : memref<2x4x128x264xf16>)
  return
}

func.func @head_dim_v_too_large(%q: !t, %v: memref<2x4x128x264xf16>, %own: memref<2x4x128x264xf16>) {
  // CHECK: :[[#@LINE+1]]:3: error: 'flashcore.attention' op has head_dim_v 264, but this version lowers 1 to 256{{$}}
  flashcore.attention ins(%q, %q, %v : !t, !t, memref<2x4x128x264xf16>)
      outs(%own : memref<2x4x128x264xf16>)
  return
}

// CHECK-NOT: error:
func.func @lowerable(%q: !t, %bias: memref<1x1x128x128xf32>, %own: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      bias(%bias : memref<1x1x128x128xf32>) outs(%own : !t)
      window_left(64) window_right(0) softcap(5.000000e+01)
  return
}
