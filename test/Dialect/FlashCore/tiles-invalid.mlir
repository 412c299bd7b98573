// RUN: flashcore-opt %s -split-input-file -verify-diagnostics

// Names start with the label of the broken constraint in the op's description.

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x64xbf16>

func.func @t1_key(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{'flashcore.attention_tile' op expects key of the element type of query, 'f16', but got 'bf16'}}
  flashcore.attention_tile ins(%q, %x, %q : !q, !x, !q) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x64xbf16>

func.func @t1_output(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{'flashcore.attention_tile' op expects output of the element type of query, 'f16', but got 'bf16'}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) outs(%x : !x) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x?xf16>

func.func @t2_query(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects a static positive number of columns of query, but got ?}}
  flashcore.attention_tile ins(%x, %q, %q : !x, !q, !q) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x32xf16>

func.func @t2_key(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects key of 64 columns, but got 32}}
  flashcore.attention_tile ins(%q, %x, %q : !q, !x, !q) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x72xf16>

func.func @t2_more_columns_of_halves(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects output of 64 columns, but got 72}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) outs(%x : !x) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x56xf32>

func.func @t2_fewer_columns_of_a_part(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects output of 64 columns, but got 56}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) outs(%x : !x) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16xf32>

func.func @t3_rest_alone(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects lse with lse_rest, but got none}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) lse_rest(%x : !x) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x15xf32>

func.func @t3_lse_of_other_rows(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects lse shape (1, 1, 16), but got (1, 1, 15)}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) lse(%x : !x) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x64xf16, strided<[2048, 2048, 128, 2]>>

func.func @t4_columns_apart(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects value with innermost stride 1, but got 2}}
  flashcore.attention_tile ins(%q, %q, %x : !q, !q, !x) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<4xi32>

func.func @t5_rng_alone(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects dropout and rng together, but got only rng}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) rng(%x : !x) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x1xi32>
!y = memref<1x1x1x1xi32>

func.func @t5_counts_without_size(%q: !q, %x: !x, %y: !y, %i: index) {
  // expected-error @below {{expects block_counts, block_indices and block_size together, but got block_counts without block_size}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) block_counts(%x : !x) block_indices(%y : !y) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x1xi32>

func.func @t5_full_counts_alone(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects full_block_counts and full_block_indices together, but got only full_block_counts}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) full_block_counts(%x : !x) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x1xi32>
!y = memref<1x1x1x1xi32>

func.func @t5_full_lists_alone(%q: !q, %x: !x, %y: !y, %i: index) {
  // expected-error @below {{expects block_counts with full_block_counts, but got none}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) full_block_counts(%x : !x) full_block_indices(%y : !y) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125)
  return
}

// -----

!q = memref<1x1x16x64xf16>

func.func @t6_mask_yields_a_score(%q: !q, %i: index) {
  // expected-error @below {{expects the mask region to end with a flashcore.yield of 'i1'}}
  flashcore.attention_tile ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125) mask {
  ^bb0(%score: f32, %b: index, %h: index, %r: index, %c: index):
    flashcore.yield %score : f32
  }
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x64xbf16>
!s = memref<1x1x16x16xf32>

func.func @scores_t1_key(%q: !q, %x: !x, %s: !s, %i: index) {
  // expected-error @below {{'flashcore.scores_tile' op expects key of the element type of query, 'f16', but got 'bf16'}}
  flashcore.scores_tile ins(%q, %x : !q, !x) outs(%s : !s) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125) stage(masked)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!s = memref<1x1x16x16xf32>

func.func @scores_t3_no_lse(%q: !q, %s: !s, %i: index) {
  // expected-error @below {{expects stage probabilities and lse together, but got only stage probabilities}}
  flashcore.scores_tile ins(%q, %q : !q, !q) outs(%s : !s) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125) stage(probabilities)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!s = memref<1x1x16x16xf32>
!l = memref<1x1x16xf32>

func.func @scores_t3_lse_of_scores(%q: !q, %s: !s, %l: !l, %i: index) {
  // expected-error @below {{expects stage probabilities and lse together, but got only lse}}
  flashcore.scores_tile ins(%q, %q : !q, !q) lse(%l : !l) outs(%s : !s) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i) scale(0.125) stage(masked)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x64xbf16>

func.func @values_t1_output(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{'flashcore.values_tile' op expects output of the element type of probabilities, 'f16', but got 'bf16'}}
  flashcore.values_tile ins(%q, %q : !q, !q) outs(%x : !x) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!p = memref<1x1x16x?xf16>

func.func @values_t2_keys(%q: !q, %p: !p, %i: index) {
  // expected-error @below {{expects a static positive number of columns of probabilities, but got ?}}
  flashcore.values_tile ins(%p, %q : !p, !q) outs(%q : !q) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i)
  return
}

// -----

!q = memref<1x1x16x64xf16>
!x = memref<1x1x16x32xf16>

func.func @values_t2_output(%q: !q, %x: !x, %i: index) {
  // expected-error @below {{expects output of 64 columns, but got 32}}
  flashcore.values_tile ins(%q, %q : !q, !q) outs(%x : !x) at(batch %i, head %i, query %i of %i, key %i to %i of %i, block %i)
  return
}
