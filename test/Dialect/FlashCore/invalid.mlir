// RUN: flashcore-opt %s -split-input-file -verify-diagnostics

// Names start with the label of the broken constraint in the op's description.

!t = memref<2x8x512xf16>

func.func @c1_rank_is_not_four(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects query of rank 4 (batch, heads_q, seqlen_q, head_dim), but got 'memref<2x8x512xf16>'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf32>

func.func @c1_elements_are_f32(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects query of f16 or bf16, but got 'f32'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!other = memref<2x8x512x64xbf16>

func.func @c2_key_of_another_type(%q: !t, %other: !other) {
  // expected-error @below {{'flashcore.attention' op expects key of query's element type 'f16', but got 'bf16'}}
  flashcore.attention ins(%q, %other, %q : !t, !other, !t) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!other = memref<2x8x512x64xbf16>

func.func @c2_value_of_another_type(%q: !t, %other: !other) {
  // expected-error @below {{'flashcore.attention' op expects value of query's element type 'f16', but got 'bf16'}}
  flashcore.attention ins(%q, %q, %other : !t, !t, !other) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!other = memref<2x8x512x64xbf16>

func.func @c2_output_of_another_type(%q: !t, %other: !other) {
  // expected-error @below {{'flashcore.attention' op expects output of query's element type 'f16', but got 'bf16'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%other : !other)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!other = memref<2x8x512x64xf32>

func.func @c2_f32_output_of_a_whole_attention(%q: !t, %other: !other) {
  // expected-error @below {{'flashcore.attention' op expects output of f16 or bf16, but got 'f32'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%other : !other)
  return
}

// -----

!t = memref<2x8x512x?xf16, strided<[?, ?, ?, 1]>>

func.func @c3_dynamic_head_dim(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects a static positive head_dim, but got ?}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x0xf16>

func.func @c3_head_dim_of_zero(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects a static positive head_dim, but got 0}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!v = memref<2x8x512x?xf16, strided<[?, ?, ?, 1]>>

func.func @c3_dynamic_head_dim_v(%q: !t, %v: !v) {
  // expected-error @below {{'flashcore.attention' op expects a static positive head_dim_v, but got ?}}
  flashcore.attention ins(%q, %q, %v : !t, !t, !v) outs(%v : !v)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!k = memref<2x8x512x128xf16>

func.func @c3_head_dims_of_query_and_key_differ(%q: !t, %k: !k) {
  // expected-error @below {{'flashcore.attention' op expects key to have query's head_dim 64, but got 128}}
  flashcore.attention ins(%q, %k, %q : !t, !k, !t) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!k = memref<2x8x512x?xf16, strided<[?, ?, ?, 1]>>

func.func @c3_key_with_dynamic_head_dim(%q: !t, %k: !k) {
  // expected-error @below {{'flashcore.attention' op expects key to have query's head_dim 64, but got ?}}
  flashcore.attention ins(%q, %k, %q : !t, !k, !t) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!v = memref<1x8x512x64xf16>

func.func @c4_value_with_another_batch(%q: !t, %v: !v) {
  // expected-error @below {{'flashcore.attention' op expects key and value to agree in batch, but got 2 and 1}}
  flashcore.attention ins(%q, %q, %v : !t, !t, !v) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!v = memref<2x4x512x64xf16>

func.func @c4_value_with_other_heads(%q: !t, %v: !v) {
  // expected-error @below {{'flashcore.attention' op expects key and value to agree in heads_kv, but got 8 and 4}}
  flashcore.attention ins(%q, %q, %v : !t, !t, !v) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!v = memref<2x8x256x64xf16>

func.func @c4_value_with_another_seqlen(%q: !t, %v: !v) {
  // expected-error @below {{'flashcore.attention' op expects key and value to agree in seqlen_k, but got 512 and 256}}
  flashcore.attention ins(%q, %q, %v : !t, !t, !v) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!kv = memref<1x8x512x64xf16>

func.func @c4_key_with_another_batch(%q: !t, %k: !kv) {
  // expected-error @below {{'flashcore.attention' op expects query and key to agree in batch, but got 2 and 1}}
  flashcore.attention ins(%q, %k, %k : !t, !kv, !kv) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!kv = memref<2x3x512x64xf16>

func.func @c4_heads_not_a_multiple(%q: !t, %k: !kv) {
  // expected-error @below {{'flashcore.attention' op expects heads_q to be a multiple of heads_kv, but got 8 and 3}}
  flashcore.attention ins(%q, %k, %k : !t, !kv, !kv) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!kv = memref<2x0x512x64xf16>

func.func @c4_no_heads_kv(%q: !t, %k: !kv) {
  // expected-error @below {{'flashcore.attention' op expects heads_q to be a multiple of heads_kv, but got 8 and 0}}
  flashcore.attention ins(%q, %k, %k : !t, !kv, !kv) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!o = memref<2x8x256x64xf16>

func.func @c5_output_with_another_seqlen(%q: !t, %o: !o) {
  // expected-error @below {{'flashcore.attention' op expects output shape (2, 8, 512, 64), but got (2, 8, 256, 64)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !o)
  return
}

// -----

!q = memref<?x8x512x64xf16>
!v = memref<?x8x512x128xf16>

func.func @c5_output_has_head_dim_of_query(%q: !q, %v: !v) {
  // expected-error @below {{'flashcore.attention' op expects output shape (?, 8, 512, 128), but got (?, 8, 512, 64)}}
  flashcore.attention ins(%q, %q, %v : !q, !q, !v) outs(%q : !q)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!o = memref<2x8x512x?xf16, strided<[?, ?, ?, 1]>>

func.func @c5_output_with_dynamic_head_dim(%q: !t, %o: !o) {
  // expected-error @below {{'flashcore.attention' op expects output shape (2, 8, 512, 64), but got (2, 8, 512, ?)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !o)
  return
}

// -----

!q = memref<2x8x512x64xf16>
!kv = memref<2x8x128x64xf16>
!lse = memref<2x8x128xf32>

func.func @c5_lse_has_key_length(%q: !q, %k: !kv, %lse: !lse) {
  // expected-error @below {{'flashcore.attention' op expects lse shape (2, 8, 512), but got (2, 8, 128)}}
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) outs(%q : !q)
      lse(%lse : !lse)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!lse = memref<2x8x512xf16>

func.func @c1_lse_is_not_f32(%q: !t, %lse: !lse) {
  // expected-error @below {{'flashcore.attention' op expects lse of f32, but got 'f16'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      lse(%lse : !lse)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c6_scale_of_zero(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects a finite positive softmax_scale, but got 0.000000e+00}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scale(0.0)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c6_infinite_scale(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects a finite positive softmax_scale, but got INF}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      scale(0x7F800000)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c6_scale_is_not_a_number(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects a finite positive softmax_scale, but got nan}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      scale(0x7FC00000)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c6_negative_softcap(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects a finite positive softcap, but got -1.500000e+00}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) softcap(-1.5)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c6_negative_window_left(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects window_left not to be negative, but got -1}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      window_left(-1)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c6_negative_window_right(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects window_right not to be negative, but got -2}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      window_left(0) window_right(-2)
  return
}

// -----

!q = memref<2x8x512x64xf16>
!kv = memref<2x8x256x64xf16>
!bias = memref<1x1x512x512xf32>

func.func @c7_bias_has_query_length_twice(%q: !q, %k: !kv, %bias: !bias) {
  // expected-error @below {{'flashcore.attention' op expects each axis of bias to be 1 or that of (2, 8, 512, 256), but got (1, 1, 512, 512)}}
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) bias(%bias : !bias)
      outs(%q : !q)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!bias = memref<512x512xf32>

func.func @c1_bias_of_rank_two(%q: !t, %bias: !bias) {
  // expected-error @below {{'flashcore.attention' op expects bias of rank 4 (batch, heads_q, seqlen_q, seqlen_k), but got 'memref<512x512xf32>'; add axes of size 1, which are broadcast (memref.expand_shape)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%bias : !bias)
      outs(%q : !t)
  return
}

// -----

!q = memref<2x8x512x64xf16>
!kv = memref<2x2x512x64xf16>
!scales = memref<2xf32>

func.func @c7_head_scales_of_heads_kv(%q: !q, %k: !kv, %scales: !scales) {
  // expected-error @below {{'flashcore.attention' op expects head_scales of heads_q = 8 elements, but got 2}}
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) head_scale(%scales : !scales)
      outs(%q : !q)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!scales = memref<8xf16>

func.func @c1_head_scales_of_f16(%q: !t, %scales: !scales) {
  // expected-error @below {{'flashcore.attention' op expects head_scales of f32, but got 'f16'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) head_scale(%scales : !scales)
      outs(%q : !t)
  return
}

// -----

!q = memref<2x8x512x64xf16>
!kv = memref<2x2x512x64xf16>
!slopes = memref<2xf32>

func.func @c7_alibi_slopes_of_heads_kv(%q: !q, %k: !kv, %slopes: !slopes) {
  // expected-error @below {{'flashcore.attention' op expects alibi_slopes of heads_q = 8 elements, but got 2}}
  flashcore.attention ins(%q, %k, %k : !q, !kv, !kv) alibi(%slopes : !slopes)
      outs(%q : !q)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!sink = memref<1xf32>

func.func @c7_one_sink_logit(%q: !t, %sink: !sink) {
  // expected-error @below {{'flashcore.attention' op expects sink_logits of heads_q = 8 elements, but got 1}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) sink(%sink : !sink)
      outs(%q : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!cu = memref<5xi32>

func.func @c8_only_cu_seqlens_q(%q: !t, %cu: !cu) {
  // expected-error @below {{'flashcore.attention' op expects cu_seqlens_q and cu_seqlens_k together, but got only cu_seqlens_q}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) cu_seqlens_q(%cu : !cu)
      outs(%q : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!cu = memref<5xi32>

func.func @c8_only_cu_seqlens_k(%q: !t, %cu: !cu) {
  // expected-error @below {{'flashcore.attention' op expects cu_seqlens_q and cu_seqlens_k together, but got only cu_seqlens_k}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) cu_seqlens_k(%cu : !cu)
      outs(%q : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!cu_q = memref<5xi32>
!cu_k = memref<4xi32>

func.func @c8_cu_seqlens_of_two_lengths(%q: !t, %cu_q: !cu_q, %cu_k: !cu_k) {
  // expected-error @below {{'flashcore.attention' op expects cu_seqlens_q and cu_seqlens_k of one length, but got 5 and 4}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      cu_seqlens_q(%cu_q : !cu_q) cu_seqlens_k(%cu_k : !cu_k) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!cu = memref<5xi32>

func.func @c8_cu_seqlens_with_a_batch(%q: !t, %cu: !cu) {
  // expected-error @below {{'flashcore.attention' op expects a batch of 1 with cu_seqlens, but got 2}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      cu_seqlens_q(%cu : !cu) cu_seqlens_k(%cu : !cu) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!cu = memref<5xi32>
!table = memref<1x4xi32>

func.func @c8_cu_seqlens_k_with_page_table(%q: !t, %cu: !cu, %table: !table) {
  // expected-error @below {{'flashcore.attention' op expects seqused_k in the place of cu_seqlens_k with page_table, but got cu_seqlens_k}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      cu_seqlens_q(%cu : !cu) cu_seqlens_k(%cu : !cu)
      page_table(%table : !table) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!used = memref<8xi32>

func.func @c9_seqused_k_of_heads(%q: !t, %used: !used) {
  // expected-error @below {{'flashcore.attention' op expects seqused_k of batch = 2 rows, but got 8}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%used : !used)
      outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!table = memref<16x2xi32>

func.func @c8_cu_seqlens_q_with_page_table_alone(%q: !t, %cu: memref<3xi32>, %table: !table) {
  // expected-error @below {{'flashcore.attention' op expects seqused_k in the place of cu_seqlens_k with page_table, but got neither}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      cu_seqlens_q(%cu : memref<3xi32>) page_table(%table : !table) outs(%q : !t)
  return
}

// -----

!q = memref<2x8x512x64xf16>
!k = memref<2x8x0x64xf16>

func.func @c9_pages_of_no_keys(%q: !q, %k: !k, %table: memref<2x3xi32>) {
  // expected-error @below {{'flashcore.attention' op expects pages of a static number of keys, at least 1, but got 0}}
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) page_table(%table : memref<2x3xi32>) outs(%q : !q)
  return
}

// -----

!q = memref<2x8x512x64xf16>
!k = memref<2x8x?x64xf16>

func.func @c9_pages_of_a_size_at_run_time(%q: !q, %k: !k, %table: memref<2x3xi32>) {
  // expected-error @below {{'flashcore.attention' op expects pages of a static number of keys, at least 1, but got ?}}
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) page_table(%table : memref<2x3xi32>) outs(%q : !q)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c9_no_pages(%q: !t, %table: memref<2x0xi32>) {
  // expected-error @below {{'flashcore.attention' op expects a page_table with a page of each entry or more, but got none}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) page_table(%table : memref<2x0xi32>) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!table = memref<16x2xi32>

func.func @c9_transposed_page_table(%q: !t, %table: !table) {
  // expected-error @below {{'flashcore.attention' op expects page_table of batch = 2 rows, but got 16}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) page_table(%table : !table)
      outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!k = memref<2x8x512x64xf16, strided<[524288, 65536, 128, 2]>>

func.func @c10_innermost_stride_of_two(%q: !t, %k: !k) {
  // expected-error @below {{'flashcore.attention' op expects key with innermost stride 1, but got 2}}
  flashcore.attention ins(%q, %k, %q : !t, !k, !t) outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16, strided<[?, ?, ?, ?]>>

func.func @c10_dynamic_innermost_stride(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects query with innermost stride 1, but got ?}}
  // expected-note @below {{one-shot-bufferize leaves such layouts at the boundaries of functions; function-boundary-type-conversion=identity-layout-map does not}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
  return
}

// -----

!t = memref<1x4x16x64xf16>
!slopes = memref<4xf32, affine_map<(h) -> (h floordiv 2)>>

func.func @c10_layout_of_a_vector_is_not_strided(%q: !t, %slopes: !slopes, %o: !t) {
  // expected-error @below {{'flashcore.attention' op expects alibi_slopes with a strided layout, but got 'memref<4xf32, affine_map<(d0) -> (d0 floordiv 2)>>'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) alibi(%slopes : !slopes) outs(%o : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!o = memref<2x8x512x64xf16, affine_map<(b, h, s, d) -> (s floordiv 4, b, h, d)>>

func.func @c10_layout_is_not_strided(%q: !t, %o: !o) {
  // expected-error @below {{'flashcore.attention' op expects output with a strided layout, but got 'memref<2x8x512x64xf16, affine_map<(d0, d1, d2, d3) -> (d2 floordiv 4, d0, d1, d3)>>'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !o)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c11_score_region_without_coordinates(%q: !t, %own: !t) {
  // expected-error @below {{'flashcore.attention' op expects the score region to take (score: f32, batch, head, query, key: index)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t) score {
  ^bb0(%score: f32):
    flashcore.yield %score : f32
  }
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c11_mask_region_without_score(%q: !t, %own: !t) {
  // expected-error @below {{'flashcore.attention' op expects the mask region to take (score: f32, batch, head, query, key: index)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t) mask {
  ^bb0(%batch: index, %head: index, %query: index, %key: index):
    %visible = arith.cmpi sle, %key, %query : index
    flashcore.yield %visible : i1
  }
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c11_score_region_yields_i1(%q: !t, %own: !t) {
  // expected-error @below {{'flashcore.attention' op expects the score region to end with a flashcore.yield of 'f32'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %visible = arith.cmpi sle, %key, %query : index
    flashcore.yield %visible : i1
  }
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c11_mask_region_yields_f32(%q: !t, %own: !t) {
  // expected-error @below {{'flashcore.attention' op expects the mask region to end with a flashcore.yield of 'i1'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t) mask {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    flashcore.yield %score : f32
  }
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c11_score_region_ends_with_another_op(%q: !t, %own: !t) {
  // expected-error @below {{'flashcore.attention' op expects the score region to end with a flashcore.yield of 'f32'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    llvm.unreachable
  }
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c11_score_region_with_control_flow(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects region #0 to have 0 or 1 blocks}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) score {
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    cf.br ^bb1
  ^bb1:
    flashcore.yield %score : f32
  }
  return
}

// -----

!m = memref<2x8x512x64xf16>
!t = tensor<2x8x512x64xf16>

func.func @c12_tensor_inputs_and_memref_output(%q: !t, %o: !m) {
  // expected-error @below {{'flashcore.attention' op expects operands to be all tensors or all memrefs, but got 1 memrefs among 4}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !m)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c12_result_on_memrefs(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects 0 results on memrefs, but got 1}}
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      -> tensor<2x8x512x64xf16>
  return
}

// -----

!t = tensor<2x8x512x64xf16>
!lse = tensor<2x8x512xf32>

func.func @c12_no_result_for_lse(%q: !t, %lse: !lse) {
  // expected-error @below {{'flashcore.attention' op expects 2 results, but got 1}}
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      lse(%lse : !lse) -> !t
  return
}

// -----

!t = tensor<2x8x512x64xf16>

func.func @c12_result_type_differs_from_output(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects result type 'tensor<2x8x512x64xf16>' like its init, but got 'tensor<?x8x512x64xf16>'}}
  %result = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      -> tensor<?x8x512x64xf16>
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @unknown_causal_alignment(%q: !t) {
  // expected-error @below {{expects causal to be bottom_right or top_left, but got left}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) causal(left)
  return
}

// -----

func.func @yield_outside_of_an_attention(%score: f32) {
  // expected-error @below {{'flashcore.yield' op expects parent op to be one of 'flashcore.attention, flashcore.attention_tile, flashcore.scores_tile'}}
  flashcore.yield %score : f32
}

// -----

!q = memref<1x?x16x16xf16>
!k = memref<1x0x16x16xf16>

func.func @c4_no_key_heads(%q: !q, %k: !k) {
  // expected-error @below {{'flashcore.attention' op expects heads_q to be a multiple of heads_kv, but got ? and 0}}
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) outs(%q : !q)
  return
}

// -----

!t = memref<1x8x16x16xf16>

func.func @c6_subnormal_scale(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects softmax_scale from 2^-126 to 2^126, but got 1.000000e-39}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scale(1.0e-39)
  return
}

// -----

!t = memref<1x1x16x16xf16, strided<[256, 256, -16, 1], offset: 240>>

func.func @c10_negative_stride(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects the strides of query not to be negative, but got -16}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
  return
}

// -----

!t = memref<1x1x16x16xf16>
!bias = memref<1x1x16x16xf32, strided<[256, 256, -16, 1], offset: 240>>

func.func @c10_negative_stride_of_bias(%q: !t, %bias: !bias) {
  // expected-error @below {{'flashcore.attention' op expects the strides of bias not to be negative, but got -16}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%bias : !bias)
      outs(%q : !t)
  return
}

// -----

!t = memref<1x1x16x16xf16>
!bias = memref<1x1x16x16xf16, affine_map<(b, h, i, j) -> (i floordiv 4, b, h, j)>>

func.func @c10_layout_of_bias_is_not_strided(%q: !t, %bias: !bias) {
  // expected-error @below {{'flashcore.attention' op expects bias with a strided layout, but got 'memref<1x1x16x16xf16, affine_map<(d0, d1, d2, d3) -> (d2 floordiv 4, d0, d1, d3)>>'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%bias : !bias)
      outs(%q : !t)
  return
}

// -----

!t = tensor<2x8x512x64xf16>
!bias = tensor<8x512x512xf32>

func.func @c1_bias_tensor_of_rank_three(%q: !t, %bias: !bias) -> !t {
  // expected-error @below {{'flashcore.attention' op expects bias of rank 4 (batch, heads_q, seqlen_q, seqlen_k), but got 'tensor<8x512x512xf32>'; add axes of size 1, which are broadcast (tensor.expand_shape)}}
  %o = flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%bias : !bias)
      outs(%q : !t) -> !t
  return %o : !t
}

// -----

!t = memref<2x8x512x64xf16>
!mask = memref<1x1x512x512xi1>

func.func @c1_boolean_mask_as_bias(%q: !t, %mask: !mask) {
  // expected-error @below {{'flashcore.attention' op expects bias of f16, bf16 or f32, but got 'i1'; a boolean mask becomes a bias that is 0 where the key is visible and -inf where it is hidden}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%mask : !mask)
      outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!mask = memref<512x512xi8>

func.func @c1_mask_of_bytes_and_rank_two(%q: !t, %mask: !mask) {
  // expected-error @below {{'flashcore.attention' op expects bias of rank 4 (batch, heads_q, seqlen_q, seqlen_k), but got 'memref<512x512xi8>'; a boolean mask becomes a bias that is 0 where the key is visible and -inf where it is hidden}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%mask : !mask)
      outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>
!bias = memref<1x1x512x512xf64>

func.func @c1_bias_of_doubles(%q: !t, %bias: !bias) {
  // expected-error @below {{'flashcore.attention' op expects bias of f16, bf16 or f32, but got 'f64'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) bias(%bias : !bias)
      outs(%q : !t)
  return
}

// -----

!t = memref<2x8x512x64xf16>

func.func @c1_page_table_of_long_integers(%q: !t, %pages: memref<2x4xi64>) {
  // expected-error @below {{'flashcore.attention' op expects page_table of i32, but got 'i64'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      page_table(%pages : memref<2x4xi64>) outs(%q : !t)
  return
}

// -----

func.func @query_is_a_number(%x: f16) {
  // expected-error @below {{'flashcore.attention' op operand #0 must be tensor or memref of rank 4 of f16 or bf16, but got 'f16'}}
  flashcore.attention ins(%x, %x, %x : f16, f16, f16) outs(%x : f16)
  return
}

// -----

!t = memref<1x8x4611686018427387904x64xf16>

func.func @c10_sizes_overflow(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects query to span less than 2^63 bytes, but got 'memref<1x8x4611686018427387904x64xf16>'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
  return
}

// -----

!t = tensor<1x8x4611686018427387904x64xf16>

func.func @c10_tensor_sizes_overflow(%q: !t) -> !t {
  // expected-error @below {{'flashcore.attention' op expects query to span less than 2^63 bytes, but got 'tensor<1x8x4611686018427387904x64xf16>'}}
  %o = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) -> !t
  return %o : !t
}

// -----

!q = memref<1x8x16x64xf16>
!k = memref<1x8x16x64xf16, strided<[?, 1317624576693539400, 64, 1]>>

func.func @c10_strides_overflow(%q: !q, %k: !k) {
  // expected-error @below {{'flashcore.attention' op expects key to span less than 2^63 bytes, but got 'memref<1x8x16x64xf16, strided<[?, 1317624576693539400, 64, 1]>>'}}
  flashcore.attention ins(%q, %k, %q : !q, !k, !q) outs(%q : !q)
  return
}

// -----

!q = memref<1x8x16x64xf16>
!k = memref<1x8x16x64xf16, strided<[?, ?, 64, 1], offset: 9223372036854775800>>

func.func @c10_offset_overflows(%q: !q, %k: !k) {
  // expected-error @below {{'flashcore.attention' op expects key to span less than 2^63 bytes, but got 'memref<1x8x16x64xf16, strided<[?, ?, 64, 1], offset: 9223372036854775800>>'}}
  flashcore.attention ins(%q, %k, %q : !q, !k, !q) outs(%q : !q)
  return
}

// -----

// One query of 32 heads over 4096 keys of 8, as (batch, seqlen, heads, head_dim).
!q = memref<1x1x32x128xf16>
!k = memref<1x4096x8x128xf16>

func.func @c4_tokens_written_as_heads(%q: !q, %k: !k) {
  // expected-error @below {{'flashcore.attention' op expects heads_q to be a multiple of heads_kv, but got 1 and 4096}}
  // expected-note @below {{key of type 'memref<1x4096x8x128xf16>' has 4096 heads of 8 rows: its axes are (batch, heads, seqlen, head_dim); where the memory is (batch, seqlen, heads, head_dim), write 'memref<1x8x4096x128xf16, strided<[4194304, 128, 1024, 1]>>'}}
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) outs(%q : !q)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x511xf32>

func.func @c5_scores_of_other_keys(%q: !t, %s: !s) {
  // expected-error @below {{'flashcore.attention' op expects scores shape (1, 8, 512, 512), but got (1, 8, 512, 511)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scores(%s : !s) stage(masked)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512xf32>

func.func @c1_rank_of_scores(%q: !t, %s: !s) {
  // expected-error @below {{'flashcore.attention' op expects scores of rank 4 (batch, heads_q, seqlen_q, seqlen_k), but got 'memref<1x8x512xf32>'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scores(%s : !s) stage(masked)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf64>

func.func @c1_type_of_scores(%q: !t, %s: !s) {
  // expected-error @below {{'flashcore.attention' op expects scores of f16, bf16 or f32, but got 'f64'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scores(%s : !s) stage(masked)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32, strided<[4194304, 524288, 1024, 2]>>

func.func @c10_scores_apart(%q: !t, %s: !s) {
  // expected-error @below {{'flashcore.attention' op expects scores with innermost stride 1, but got 2}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scores(%s : !s) stage(masked)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32>

func.func @c13_scores_without_stage(%q: !t, %s: !s) {
  // expected-error @below {{'flashcore.attention' op expects stage(scaled, capped, changed, masked or probabilities) with scores, but got none}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scores(%s : !s)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32>

func.func @c13_stage_without_scores(%q: !t, %s: !s) {
  // expected-error @below {{'flashcore.attention' op expects scores with stage, but got stage(capped) alone}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) stage(capped)
  return
}

// -----

!t = memref<1x8x512x64xf16>
!s = memref<1x8x512x512xf32>

func.func @c13_probabilities_without_lse(%q: !t, %s: !s) {
  // expected-error @below {{'flashcore.attention' op expects lse with stage(probabilities), which are exp(score - lse), but got none; add lse(%lse : type)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scores(%s : !s) stage(probabilities)
  return
}

// -----

!t = tensor<1x8x512x64xf16>
!s = tensor<1x8x512x512xf32>

func.func @c12_scores_without_a_result(%q: !t, %s: !s) -> !t {
  // expected-error @below {{'flashcore.attention' op expects 2 results, but got 1}}
  %o = flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) scores(%s : !s) stage(masked) -> !t
  return %o : !t
}

// -----

!t = memref<1x8x16x64xf16>

func.func @c14_dropout_without_rng(%q: !t) {
  // expected-error @below {{'flashcore.attention' op expects dropout and rng together, but got only dropout}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) dropout(0.1)
  return
}

// -----

!t = memref<1x8x16x64xf16>

func.func @c14_rng_without_dropout(%q: !t, %rng: memref<4xi32>) {
  // expected-error @below {{'flashcore.attention' op expects dropout and rng together, but got only rng}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) rng(%rng : memref<4xi32>) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>

func.func @c14_dropout_of_nothing(%q: !t, %rng: memref<4xi32>) {
  // expected-error @below {{'flashcore.attention' op expects dropout from 2^-17 to below 1 - 2^-17, but got 0.000000e+00; without dropout leave out the clause}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) rng(%rng : memref<4xi32>) outs(%q : !t) dropout(0.0)
  return
}

// -----

!t = memref<1x8x16x64xf16>

func.func @c14_dropout_of_all(%q: !t, %rng: memref<4xi32>) {
  // expected-error @below {{'flashcore.attention' op expects dropout from 2^-17 to below 1 - 2^-17, but got 1.000000e+00; without dropout leave out the clause}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) rng(%rng : memref<4xi32>) outs(%q : !t) dropout(1.0)
  return
}

// -----

!t = memref<1x8x16x64xf16>

func.func @c14_dropout_is_no_number(%q: !t, %rng: memref<4xi32>) {
  // expected-error @below {{'flashcore.attention' op expects dropout from 2^-17 to below 1 - 2^-17, but got nan; without dropout leave out the clause}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) rng(%rng : memref<4xi32>) outs(%q : !t) dropout(0x7FC00000)
  return
}

// -----

!t = memref<1x8x16x64xf16>

func.func @c14_rng_of_two_words(%q: !t, %rng: memref<2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects rng of 4 words (seed and offset, the lower half of each first), but got 2}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) rng(%rng : memref<2xi32>) outs(%q : !t) dropout(0.1)
  return
}

// -----

!t = memref<1x8x16x64xf16>

func.func @c1_rng_of_long_integers(%q: !t, %rng: memref<2xi64>) {
  // expected-error @below {{'flashcore.attention' op expects rng of i32, but got 'i64'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) rng(%rng : memref<2xi64>) outs(%q : !t) dropout(0.1)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c15_rows_of_another_type(%q: !t, %n: !n, %b: memref<1x8x4x64xbf16>, %u: !u) {
  // expected-error @below {{'flashcore.attention' op expects v_new of query's element type 'f16', but got 'bf16'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %b : !n, memref<1x8x4x64xbf16>) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c15_rows_of_another_head_dim(%q: !t, %n: !n, %b: memref<1x8x4x32xf16>, %u: !u) {
  // expected-error @below {{'flashcore.attention' op expects k_new of shape (1, 8, 4, 64), but got (1, 8, 4, 32)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%b, %n : memref<1x8x4x32xf16>, !n) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c15_rows_of_other_heads(%q: !t, %n: !n, %b: memref<1x4x4x64xf16>, %u: !u) {
  // expected-error @below {{'flashcore.attention' op expects k_new of shape (1, 8, 4, 64), but got (1, 4, 4, 64)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%b, %n : memref<1x4x4x64xf16>, !n) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c15_other_numbers_of_rows(%q: !t, %n: !n, %b: memref<1x8x5x64xf16>, %u: !u) {
  // expected-error @below {{'flashcore.attention' op expects v_new of shape (1, 8, 4, 64), but got (1, 8, 5, 64)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %b : !n, memref<1x8x5x64xf16>) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c1_rows_of_rank_3(%q: !t, %n: memref<8x4x64xf16>, %u: !u) {
  // expected-error @below {{'flashcore.attention' op expects k_new of rank 4 (batch, heads_kv, seqlen_new, head_dim), but got 'memref<8x4x64xf16>'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : memref<8x4x64xf16>, memref<8x4x64xf16>) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c10_rows_apart(%q: !t, %n: memref<1x8x4x64xf16, strided<[4096, 512, 128, 2]>>, %u: !u) {
  // expected-error @below {{'flashcore.attention' op expects k_new with innermost stride 1, but got 2}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : memref<1x8x4x64xf16, strided<[4096, 512, 128, 2]>>, memref<1x8x4x64xf16, strided<[4096, 512, 128, 2]>>) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c15_append_without_lengths(%q: !t, %n: !n, %u: !u) {
  // expected-error @below {{'flashcore.attention' op expects seqused_k with k_new, but got none; it is the number of keys before it}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) append(%n, %n : !n, !n) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c15_append_to_sequences(%q: !t, %n: !n, %u: !u, %e: memref<2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects no cu_seqlens_q with k_new, but got both; entries of a batch have their own rows}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) cu_seqlens_q(%e : memref<2xi32>) cu_seqlens_k(%e : memref<2xi32>) seqused_k(%u : !u) append(%n, %n : !n, !n) outs(%q : !t)
  return
}

// -----

!t = tensor<1x8x16x64xf16>
!n = tensor<1x8x4x64xf16>

func.func @c15_append_to_tensors(%q: !t, %n: !n, %u: tensor<1xi32>) -> !t {
  // expected-error @below {{'flashcore.attention' op expects memrefs with append, which writes to key and value, but got tensors}}
  %o = flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : tensor<1xi32>) append(%n, %n : !n, !n) outs(%q : !t) -> !t
  return %o : !t
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_rotary_without_style(%q: !t, %n: !n, %u: !u, %c: !c) {
  // expected-error @below {{'flashcore.attention' op expects rotary_cos, rotary_sin and style(interleaved or half) together, but got rotary_cos without style}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : !n, !n) rotary(%c, %c : !c, !c) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_style_without_rotary(%q: !t, %n: !n, %u: !u) {
  // expected-error @below {{'flashcore.attention' op expects rotary_cos, rotary_sin and style(interleaved or half) together, but got style without rotary_cos}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : !n, !n) outs(%q : !t) style(half)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_rotary_without_append(%q: !t, %n: !n, %u: !u, %c: !c) {
  // expected-error @below {{'flashcore.attention' op expects k_new with rotary_cos, but got none; keys that are there were turned when they were written}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) rotary(%c, %c : !c, !c) outs(%q : !t) style(half)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_angles_of_another_type(%q: !t, %n: !n, %u: !u, %c: !c, %s: memref<32x16xbf16>) {
  // expected-error @below {{'flashcore.attention' op expects rotary_sin of query's element type 'f16', but got 'bf16'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : !n, !n) rotary(%c, %s : !c, memref<32x16xbf16>) outs(%q : !t) style(half)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_too_many_pairs(%q: !t, %n: !n, %u: !u, %c: memref<32x33xf16>) {
  // expected-error @below {{'flashcore.attention' op expects rotary_cos of a static number of pairs of columns, 1 to 32 (head_dim / 2), but got 33}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : !n, !n) rotary(%c, %c : memref<32x33xf16>, memref<32x33xf16>) outs(%q : !t) style(half)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_open_pairs(%q: !t, %n: !n, %u: !u, %c: memref<32x?xf16>) {
  // expected-error @below {{'flashcore.attention' op expects rotary_cos of a static number of pairs of columns, 1 to 32 (head_dim / 2), but got ?}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : !n, !n) rotary(%c, %c : memref<32x?xf16>, memref<32x?xf16>) outs(%q : !t) style(half)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_no_pairs(%q: !t, %n: !n, %u: !u, %c: memref<32x0xf16>) {
  // expected-error @below {{'flashcore.attention' op expects rotary_cos of a static number of pairs of columns, 1 to 32 (head_dim / 2), but got 0}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : !n, !n) rotary(%c, %c : memref<32x0xf16>, memref<32x0xf16>) outs(%q : !t) style(half)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_no_positions(%q: !t, %n: !n, %u: !u, %c: memref<0x16xf16>) {
  // expected-error @below {{'flashcore.attention' op expects rotary_cos and rotary_sin of a position or more, but got none}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : !n, !n) rotary(%c, %c : memref<0x16xf16>, memref<0x16xf16>) outs(%q : !t) style(half)
  return
}

// -----

!t = memref<1x8x16x64xf16>
!n = memref<1x8x4x64xf16>
!u = memref<1xi32>
!c = memref<32x16xf16>

func.func @c16_angles_of_other_shapes(%q: !t, %n: !n, %u: !u, %c: !c, %s: memref<32x8xf16>) {
  // expected-error @below {{'flashcore.attention' op expects rotary_cos and rotary_sin of one shape, but got (32, 16) and (32, 8)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%u : !u) append(%n, %n : !n, !n) rotary(%c, %s : !c, memref<32x8xf16>) outs(%q : !t) style(half)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c17_indices_without_counts(%q: !t, %indices: memref<1x1x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects block_counts and block_indices together, but got only block_indices}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) block_indices(%indices : memref<1x1x2x2xi32>) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c17_lists_without_size(%q: !t, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects block_counts, block_indices and block_size together, but got block_counts without block_size}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x2xi32>) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c17_full_counts_alone(%q: !t, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects full_block_counts and full_block_indices together, but got only full_block_counts}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x2xi32>)
      full_block_counts(%counts : memref<1x1x2xi32>) outs(%q : !t) block_size(128, 128)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c17_full_lists_alone(%q: !t, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects block_counts with full_block_counts, but got none; lists without blocks have counts of 0}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      full_block_counts(%counts : memref<1x1x2xi32>) full_block_indices(%indices : memref<1x1x2x2xi32>) outs(%q : !t)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c17_size_is_no_multiple(%q: !t, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects block_size to be two multiples of 16 (queries, keys), from 16 to 65536, but got (128, 100)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x2xi32>)
      outs(%q : !t) block_size(128, 100)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c17_one_size(%q: !t, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects block_size to be two multiples of 16 (queries, keys), from 16 to 65536, but got (128)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x2xi32>)
      outs(%q : !t) block_size(128)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c18_heads_of_lists(%q: !t, %counts: memref<1x4x2xi32>, %indices: memref<1x4x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects the heads_q of block_counts to be 1 or 8, but got 4}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : memref<1x4x2xi32>) block_indices(%indices : memref<1x4x2x2xi32>)
      outs(%q : !t) block_size(128, 128)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c18_too_few_blocks(%q: !t, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x3xi32>) {
  // expected-error @below {{'flashcore.attention' op expects key_blocks of block_indices of at least 4, but got 3}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x3xi32>)
      outs(%q : !t) block_size(128, 64)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c18_lists_differ(%q: !t, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>, %others: memref<1x8x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects full_block_indices shape (1, 1, 2, 2), but got (1, 8, 2, 2)}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x2xi32>)
      full_block_counts(%counts : memref<1x1x2xi32>) full_block_indices(%others : memref<1x8x2x2xi32>)
      outs(%q : !t) block_size(128, 128)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c19_scores(%q: !t, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>, %s: memref<1x8x256x256xf32>) {
  // expected-error @below {{'flashcore.attention' op expects no block_counts with scores, but got both; write the mask as a mask region}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x2xi32>)
      outs(%q : !t) scores(%s : memref<1x8x256x256xf32>) block_size(128, 128) stage(masked)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c19_pages(%q: !t, %pages: memref<9x8x16x64xf16>, %table: memref<1x4xi32>, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects no block_counts with page_table, but got both; write the mask as a mask region}}
  flashcore.attention ins(%q, %pages, %pages : !t, memref<9x8x16x64xf16>, memref<9x8x16x64xf16>)
      page_table(%table : memref<1x4xi32>)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x2xi32>)
      outs(%q : !t) block_size(128, 128)
  return
}

// -----

!t = memref<1x8x256x64xf16>

func.func @c19_sequences(%q: !t, %cu: memref<3xi32>, %counts: memref<1x1x2xi32>, %indices: memref<1x1x2x2xi32>) {
  // expected-error @below {{'flashcore.attention' op expects no block_counts with cu_seqlens_q, but got both; write the mask as a mask region}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      cu_seqlens_q(%cu : memref<3xi32>) cu_seqlens_k(%cu : memref<3xi32>)
      block_counts(%counts : memref<1x1x2xi32>) block_indices(%indices : memref<1x1x2x2xi32>)
      outs(%q : !t) block_size(128, 128)
  return
}
