// RUN: flashcore-opt %s -split-input-file -verify-diagnostics

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>

func.func @rank(%n: memref<4x3x64xf16>, %m: !row, %u: memref<2xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects k_new of rank 4 (batch, heads_kv, seqlen_new, dim), but got 'memref<4x3x64xf16>'}}
  flashcore.append ins(%n, %m : memref<4x3x64xf16>, !row) seqused_k(%u : memref<2xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>

func.func @rows(%n: !row, %m: memref<2x4x2x64xf16>, %u: memref<2xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects v_new shape (2, 4, 3, 64), but got (2, 4, 2, 64)}}
  flashcore.append ins(%n, %m : !row, memref<2x4x2x64xf16>) seqused_k(%u : memref<2xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>

func.func @element(%n: memref<2x4x3x64xbf16>, %m: !row, %u: memref<2xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects k_new of 'f16' like key, but got 'bf16'}}
  flashcore.append ins(%n, %m : memref<2x4x3x64xbf16>, !row) seqused_k(%u : memref<2xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

!row = memref<2x4x3x64xf32>
!k = memref<2x4x100x64xf32>

func.func @single(%n: !row, %u: memref<2xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects key of f16 or bf16, but got 'f32'}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<2xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>

func.func @lengths(%n: !row, %u: memref<3xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects seqused_k shape (2), but got (3)}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<3xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<9x4x0x64xf16>

func.func @page(%n: !row, %u: memref<2xi32>, %t: memref<2x4xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects a static page_size of at least 1, but got 0}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<2xi32>) page_table(%t : memref<2x4xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>
!angle = memref<100x33xf16>

func.func @pairs(%n: !row, %u: memref<2xi32>, %c: !angle, %s: !angle, %k: !k, %v: !k) {
  // expected-error @below {{expects rotary_cos of 1 to 32 pairs, but got 33}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<2xi32>) rotary(%c, %s : !angle, !angle) style(half) outs(%k, %v : !k, !k)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>
!angle = memref<100x32xf16>

func.func @heads(%n: !row, %u: memref<2xi32>, %c: !angle, %s: !angle, %q: memref<2x6x1x64xf16>, %k: !k, %v: !k, %r: memref<2x6x1x64xf16>) {
  // expected-error @below {{expects the heads of query to be a multiple of those of key, but got 6 and 4}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<2xi32>) rotary(%c, %s : !angle, !angle) style(half)
      query(%q : memref<2x6x1x64xf16>) outs(%k, %v : !k, !k) turned(%r : memref<2x6x1x64xf16>)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>

func.func @query(%n: !row, %u: memref<2xi32>, %q: !row, %k: !k, %v: !k, %r: !row) {
  // expected-error @below {{expects rotary with query, but got none: there is nothing to turn its rows by}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<2xi32>) query(%q : !row) outs(%k, %v : !k, !k) turned(%r : !row)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>

func.func @turned(%n: !row, %u: memref<2xi32>, %k: !k, %v: !k, %r: !row) {
  // expected-error @below {{expects query and turned together, but got turned alone}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<2xi32>) outs(%k, %v : !k, !k) turned(%r : !row)
  return
}

// -----

!row = memref<2x4x3x?xf16>
!k = memref<2x4x100x?xf16>

func.func @dim(%n: !row, %u: memref<2xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects a static positive dim of k_new, but got ?}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<2xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

!k = memref<2x4x100x64xf16>

func.func @overlap(%u: memref<2xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects key in memory of its own, but got that of k_new}}
  flashcore.append ins(%k, %v : !k, !k) seqused_k(%u : memref<2xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16, strided<[25600, 6400, 64, 2]>>

func.func @stride(%n: !row, %u: memref<2xi32>, %k: !k, %v: !k) {
  // expected-error @below {{expects key with innermost stride 1, but got 2}}
  flashcore.append ins(%n, %n : !row, !row) seqused_k(%u : memref<2xi32>) outs(%k, %v : !k, !k)
  return
}

// -----

// Key and value may lie in one pool of pages.

!row = memref<2x4x3x64xf16>
!k = memref<2x4x100x64xf16>

func.func @pool(%n: !row, %m: !row, %u: memref<2xi32>, %k: !k) {
  flashcore.append ins(%n, %m : !row, !row) seqused_k(%u : memref<2xi32>) outs(%k, %k : !k, !k)
  return
}

// -----

func.func @tensors(%n: tensor<2x4x3x64xf16>, %u: memref<2xi32>, %k: memref<2x4x100x64xf16>) {
  flashcore.append
    // expected-error @below {{invalid kind of type specified: expected builtin.memref, but found 'tensor<2x4x3x64xf16>'}}
    ins(%n, %n : tensor<2x4x3x64xf16>, tensor<2x4x3x64xf16>) seqused_k(%u : memref<2xi32>)
    outs(%k, %k : memref<2x4x100x64xf16>, memref<2x4x100x64xf16>)
  return
}
