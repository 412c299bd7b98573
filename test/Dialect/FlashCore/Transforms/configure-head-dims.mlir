// Bulk copies take rows of whole chunks, 16 elements or more. Other rows are for
// kernels of single warps, and where products of warpgroups are asked for, the
// reason names what the rows are.

// RUN: flashcore-opt %s -flashcore-configure=chip=sm_90a | FileCheck %s
// RUN: not flashcore-opt %s -flashcore-configure='chip=sm_90a product=warpgroup' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FORCED --implicit-check-not=error:

!d64 = memref<4x16x2048x64xf16>
!d60 = memref<4x16x2048x60xf16>
!d8 = memref<4x16x2048x8xf16>
!apart = memref<4x16x2048x64xf16, strided<[2228224, 139264, 68, 1]>>

// CHECK-LABEL: func.func @whole_chunks
// CHECK:         product = warpgroup
func.func @whole_chunks(%q: !d64, %own: !d64) {
  flashcore.attention ins(%q, %q, %q : !d64, !d64, !d64) outs(%own : !d64)
  return
}

// CHECK-LABEL: func.func @half_a_chunk_is_left
// CHECK-NOT:     product
// CHECK:         return
// FORCED: error: 'flashcore.attention' op expects product warp with rows of head_dim 60 and head_dim_v 60 that begin at multiples of 8 bytes, since bulk copies take rows of 16 elements or more that begin at multiples of 16, but got warpgroup
func.func @half_a_chunk_is_left(%q: !d60, %own: !d60) {
  flashcore.attention ins(%q, %q, %q : !d60, !d60, !d60) outs(%own : !d60)
  return
}

// CHECK-LABEL: func.func @one_chunk
// CHECK-NOT:     product
// CHECK:         return
// FORCED: error: 'flashcore.attention' op expects product warp with rows of head_dim 64 and head_dim_v 8 that begin at multiples of 16 bytes, since bulk copies take rows of 16 elements or more that begin at multiples of 16, but got warpgroup
func.func @one_chunk(%q: !d64, %v: !d8, %own: !d8) {
  flashcore.attention ins(%q, %q, %v : !d64, !d64, !d8) outs(%own : !d8)
  return
}

// CHECK-LABEL: func.func @rows_apart
// CHECK-NOT:     product
// CHECK:         return
// FORCED: error: 'flashcore.attention' op expects product warp with rows of head_dim 64 and head_dim_v 64 that begin at multiples of 8 bytes, since bulk copies take rows of 16 elements or more that begin at multiples of 16, but got warpgroup
func.func @rows_apart(%q: !d64, %v: !apart, %own: !d64) {
  flashcore.attention ins(%q, %q, %v : !d64, !d64, !apart) outs(%own : !d64)
  return
}
