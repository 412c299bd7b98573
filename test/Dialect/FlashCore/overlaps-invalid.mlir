// RUN: flashcore-opt %s -split-input-file -verify-diagnostics

// What an op writes is no memory that it reads.

!t = memref<1x2x300x64xf16>

func.func @c32_output_is_value(%q: !t, %k: !t, %v: !t) {
  // expected-error @below {{'flashcore.attention' op expects output in memory of its own, but got that of value: some blocks write it while others still read; use another buffer, or a copy}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%v : !t)
  return
}

// -----

!t = memref<1x2x300x64xf16>

func.func @c32_output_is_query(%q: !t, %k: !t) {
  // expected-error @below {{expects output in memory of its own, but got that of query}}
  flashcore.attention ins(%q, %k, %k : !t, !t, !t) outs(%q : !t)
  return
}

// -----

!t = memref<1x2x300x64xf16>
!s = memref<1x2x300xf32>

func.func @c32_scores_are_bias(%q: !t, %o: !t, %b: memref<1x2x300x300xf32>, %l: !s) {
  // expected-error @below {{expects scores in memory of its own, but got that of bias}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%b : memref<1x2x300x300xf32>)
      outs(%o : !t) lse(%l : !s) scores(%b : memref<1x2x300x300xf32>) stage(scaled)
  return
}

// -----

!q = memref<1x4x8x16xf16>
!cache = memref<1x2x64x16xf16>
!new = memref<1x2x64x16xf16>

func.func @c32_new_rows_are_the_cache(%q: !q, %k: !cache, %v: !cache, %n: memref<1xi32>, %o: !q) {
  // expected-error @below {{expects key in memory of its own, but got that of k_new}}
  flashcore.attention ins(%q, %k, %v : !q, !cache, !cache) seqused_k(%n : memref<1xi32>)
      append(%k, %v : !new, !new) outs(%o : !q)
  return
}

// -----

!t = memref<1x2x64x64xf32>

func.func @c32_a_region_reads_the_output(%q: memref<1x1x64x64xf16>, %o: memref<1x1x64x64xf16>) {
  // expected-error @below {{expects output in memory of its own, but got that of a tensor that a region reads}}
  flashcore.attention ins(%q, %q, %q : memref<1x1x64x64xf16>, memref<1x1x64x64xf16>, memref<1x1x64x64xf16>)
      outs(%o : memref<1x1x64x64xf16>) score {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %x = memref.load %o[%b, %h, %i, %j] : memref<1x1x64x64xf16>
    %y = arith.extf %x : f16 to f32
    %z = arith.addf %s, %y : f32
    flashcore.yield %z : f32
  }
  return
}
