// Program: a decoding step of four ops in one call. New rows go behind the keys of a
// cache, two attentions see a half of the keys each, and their results are merged.
// $ flashcore-compile docs/examples/program.mlir --emit=bundle --no-cubin -o program.fcb
// $ flashcore-run --device=emulator program.fcb
!q = memref<2x8x1x64xf16>
!cache = memref<2x4x1024x64xf16>
!rows = memref<2x4x1x64xf16>
!lower = memref<2x4x512x64xf16, strided<[262144, 65536, 64, 1]>>
!upper = memref<2x4x512x64xf16, strided<[262144, 65536, 64, 1], offset: 32768>>
!outputs = memref<2x2x8x1x64xf16>
!first = memref<2x8x1x64xf16, strided<[512, 64, 64, 1]>>
!second = memref<2x8x1x64xf16, strided<[512, 64, 64, 1], offset: 1024>>
!lses = memref<2x2x8x1xf32>
!first_lse = memref<2x8x1xf32, strided<[8, 1, 1]>>
!second_lse = memref<2x8x1xf32, strided<[8, 1, 1], offset: 16>>
!lengths = memref<2xi32>

// Of each sequence `%used` keys are there before, `%used_lower` of the lower half after.
func.func @decode(%q: !q, %k: !cache, %v: !cache, %k_new: !rows, %v_new: !rows, %used: !lengths,
                  %used_lower: !lengths, %used_upper: !lengths, %o: !q) {
  flashcore.append ins(%k_new, %v_new : !rows, !rows) seqused_k(%used : !lengths) outs(%k, %v : !cache, !cache)

  %outputs = memref.alloc() : !outputs
  %lses = memref.alloc() : !lses
  %k0 = memref.subview %k[0, 0, 0, 0] [2, 4, 512, 64] [1, 1, 1, 1] : !cache to !lower
  %v0 = memref.subview %v[0, 0, 0, 0] [2, 4, 512, 64] [1, 1, 1, 1] : !cache to !lower
  %o0 = memref.subview %outputs[0, 0, 0, 0, 0] [1, 2, 8, 1, 64] [1, 1, 1, 1, 1] : !outputs to !first
  %l0 = memref.subview %lses[0, 0, 0, 0] [1, 2, 8, 1] [1, 1, 1, 1] : !lses to !first_lse
  flashcore.attention ins(%q, %k0, %v0 : !q, !lower, !lower) seqused_k(%used_lower : !lengths)
      outs(%o0 : !first) lse(%l0 : !first_lse)
  %k1 = memref.subview %k[0, 0, 512, 0] [2, 4, 512, 64] [1, 1, 1, 1] : !cache to !upper
  %v1 = memref.subview %v[0, 0, 512, 0] [2, 4, 512, 64] [1, 1, 1, 1] : !cache to !upper
  %o1 = memref.subview %outputs[1, 0, 0, 0, 0] [1, 2, 8, 1, 64] [1, 1, 1, 1, 1] : !outputs to !second
  %l1 = memref.subview %lses[1, 0, 0, 0] [1, 2, 8, 1] [1, 1, 1, 1] : !lses to !second_lse
  flashcore.attention ins(%q, %k1, %v1 : !q, !upper, !upper) seqused_k(%used_upper : !lengths)
      outs(%o1 : !second) lse(%l1 : !second_lse)

  flashcore.merge ins(%outputs, %lses : !outputs, !lses) outs(%o : !q)
  memref.dealloc %outputs : !outputs
  memref.dealloc %lses : !lses
  return
}
