// RUN: flashcore-opt %s -flashcore-configure -split-input-file -verify-diagnostics

// Views that certainly have an element in common; those that may not are for
// the runtime, which knows addresses.

!t = memref<1x2x64x64xf16>
!any = memref<1x2x?x64xf16>

func.func @a_cast_of_key(%q: !t, %k: !any, %v: !any) {
  %o = memref.cast %k : !any to !t
  // expected-error @below {{'flashcore.attention' op expects output in memory of its own, but got that of key: some blocks write it while others still read; use another buffer, or a copy}}
  flashcore.attention ins(%q, %k, %v : !t, !any, !any) outs(%o : !t)
  return
}

// -----

!t = memref<1x2x64x64xf16>

func.func @one_memory_transposed_twice(%q: memref<64x2x1x64xf16>) {
  %a = memref.transpose %q (b, h, s, d) -> (s, h, b, d) : memref<64x2x1x64xf16> to memref<1x2x64x64xf16, strided<[64, 64, 128, 1]>>
  %b = memref.transpose %q (b, h, s, d) -> (s, h, b, d) : memref<64x2x1x64xf16> to memref<1x2x64x64xf16, strided<[64, 64, 128, 1]>>
  // expected-error @below {{expects output in memory of its own, but got that of query}}
  flashcore.attention ins(%a, %a, %a : memref<1x2x64x64xf16, strided<[64, 64, 128, 1]>>, memref<1x2x64x64xf16, strided<[64, 64, 128, 1]>>, memref<1x2x64x64xf16, strided<[64, 64, 128, 1]>>)
      outs(%b : memref<1x2x64x64xf16, strided<[64, 64, 128, 1]>>)
  return
}

// -----

// (batch, seqlen, part, head, dim): o is the part of v.
!packed = memref<1x4x64x64xf16>
!part = memref<1x1x64x64xf16, strided<[16384, 4096, 64, 1]>>
!part1 = memref<1x1x64x64xf16, strided<[16384, 4096, 64, 1], offset: 4096>>

func.func @one_part_twice(%x: !packed) {
  %q = memref.subview %x[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !packed to !part
  %v = memref.subview %x[0, 1, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !packed to !part1
  %o = memref.subview %x[0, 1, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !packed to !part1
  // expected-error @below {{expects output in memory of its own, but got that of value}}
  flashcore.attention ins(%q, %q, %v : !part, !part, !part1) outs(%o : !part1)
  return
}

// -----

!packed = memref<1x4x64x64xf16>
!part = memref<1x1x64x64xf16, strided<[16384, 4096, 64, 1]>>
!part1 = memref<1x1x64x64xf16, strided<[16384, 4096, 64, 1], offset: 4096>>
!rows = memref<1x1x64x64xf16, strided<[16384, 4096, 64, 1], offset: ?>>

func.func @parts_beside_each_other(%x: !packed, %i: index) {
  %q = memref.subview %x[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !packed to !part
  %o = memref.subview %x[0, 1, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !packed to !part1
  flashcore.attention ins(%q, %q, %q : !part, !part, !part) outs(%o : !part1)
  // Which one is not known.
  %p = memref.subview %x[0, %i, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !packed to !rows
  flashcore.attention ins(%q, %q, %q : !part, !part, !part) outs(%p : !rows)
  return
}

// -----

!t = memref<1x4x64x64xf16>
!part = memref<1x1x64x64xf16, strided<[16384, 4096, 64, 1]>>

func.func @a_part_of_query(%x: !t, %k: !part, %i: index) {
  %q = memref.subview %x[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : !t to !part
  %whole = memref.subview %x[0, 0, 0, 0] [1, 2, 64, 64] [1, 1, 1, 1] : !t to memref<1x2x64x64xf16, strided<[16384, 4096, 64, 1]>>
  %o = memref.subview %whole[0, 0, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : memref<1x2x64x64xf16, strided<[16384, 4096, 64, 1]>> to !part
  // Of parts of parts nothing is said.
  flashcore.attention ins(%q, %k, %k : !part, !part, !part) outs(%o : !part)
  return
}

// -----

!parts = memref<2x1x2x64x16xf32>
!part = memref<1x2x64x16xf32, strided<[2048, 1024, 16, 1]>>

func.func @merged_into_a_part(%outs: !parts, %lses: memref<2x1x2x64xf32>) {
  %o = memref.subview %outs[0, 0, 0, 0, 0] [1, 1, 2, 64, 16] [1, 1, 1, 1, 1] : !parts to !part
  // expected-error @below {{'flashcore.merge' op expects output in memory of its own, but got that of outputs}}
  flashcore.merge ins(%outs, %lses : !parts, memref<2x1x2x64xf32>) outs(%o : !part)
  return
}
