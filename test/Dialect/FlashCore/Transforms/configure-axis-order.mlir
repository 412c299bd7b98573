// Heads that look like tokens are pointed out, and nothing else is.

// RUN: flashcore-opt %s -flashcore-configure=chip=sm_89 -split-input-file -verify-diagnostics

!t = memref<1x4096x32x128xf16>

func.func @tokens_as_heads(%q: !t, %o: !t) {
  // expected-warning @below {{query of type 'memref<1x4096x32x128xf16>' has 4096 heads of 32 rows: its axes are (batch, heads, seqlen, head_dim); where the memory is (batch, seqlen, heads, head_dim), write 'memref<1x32x4096x128xf16, strided<[16777216, 128, 4096, 1]>>'}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!t = memref<?x1024x16x64xbf16, strided<[?, ?, ?, 1], offset: ?>>

func.func @dynamic_batch_and_strides(%q: !t, %o: !t) {
  // expected-warning @below {{has 1024 heads of 16 rows}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!q = memref<2x2048x32x64xf16>
!kv = memref<2x2048x8x64xf16>

func.func @grouped_heads(%q: !q, %kv: !kv, %o: !q) {
  // expected-warning @below {{has 2048 heads of 32 rows}}
  flashcore.attention ins(%q, %kv, %kv : !q, !kv, !kv) outs(%o : !q)
  return
}

// -----

!t = memref<1x77x12x64xf16>

func.func @tokens_of_a_text(%q: !t, %o: !t) {
  // expected-warning @below {{has 77 heads of 12 rows}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!t = memref<1x197x16x64xf16>

func.func @tokens_of_an_image(%q: !t, %o: !t) {
  // expected-warning @below {{has 197 heads of 16 rows}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!q = memref<1x50x12x64xf16>
!kv = memref<1x50x1x64xf16>

func.func @few_tokens_of_one_kv_head(%q: !q, %kv: !kv, %o: !q) {
  // expected-warning @below {{has 50 heads of 12 rows}}
  flashcore.attention ins(%q, %kv, %kv : !q, !kv, !kv) outs(%o : !q)
  return
}

// -----

!t = memref<1x256x12x64xf16>

func.func @round_number_of_tokens(%q: !t, %o: !t) {
  // expected-warning @below {{has 256 heads of 12 rows}}
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

// The same memory as in the first, as it should be written.
!t = memref<1x32x4096x128xf16, strided<[16777216, 128, 4096, 1]>>

func.func @rows_of_all_heads(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

// Strides say that somebody knows which axis is which.
!t = memref<1x4096x32x128xf16, strided<[16777216, 128, 524288, 1]>>

func.func @many_heads_in_another_order(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!q = memref<1x128x1x128xf16>
!kv = memref<1x8x65536x128xf16>

func.func @one_query_of_many_heads(%q: !q, %kv: !kv, %o: !q) {
  flashcore.attention ins(%q, %kv, %kv : !q, !kv, !kv) outs(%o : !q)
  return
}

// -----

!q = memref<1x512x1x64xf16>
!kv = memref<1x512x1024x64xf16>

func.func @a_batch_of_decodes_folded_into_heads(%q: !q, %kv: !kv, %o: !q) {
  flashcore.attention ins(%q, %kv, %kv : !q, !kv, !kv) outs(%o : !q)
  return
}

// -----

!t = memref<4x256x64x64xf16>

func.func @many_heads_of_few_rows(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!t = memref<1x?x32x128xf16>

func.func @unknown_heads(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!t = memref<1x128x16x128xf16>

func.func @most_heads_of_few_rows(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!t = memref<1x71x18x64xf16>

func.func @odd_heads_of_more_rows(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!t = memref<2x25x4x64xf16>

func.func @small_odd_heads_of_few_rows(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!t = memref<1x71x1x64xf16>

func.func @one_query_and_key_of_odd_heads(%q: !t, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  return
}

// -----

!q = memref<1x71x4x64xf16>
!kv = memref<1x71x1024x64xf16>

func.func @few_queries_of_odd_heads(%q: !q, %kv: !kv, %o: !q) {
  flashcore.attention ins(%q, %kv, %kv : !q, !kv, !kv) outs(%o : !q)
  return
}
