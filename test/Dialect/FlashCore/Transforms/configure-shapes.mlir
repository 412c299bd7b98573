// What can be lowered has a default schedule on every chip.

// RUN: flashcore-opt %s -flashcore-configure="chip=sm_80" | FileCheck %s -DCHIP=sm_80
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_86" | FileCheck %s -DCHIP=sm_86
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_89" | FileCheck %s -DCHIP=sm_89
// RUN: flashcore-opt %s -flashcore-configure="chip=sm_90" | FileCheck %s -DCHIP=sm_90

!t = memref<1x8x512x64xf16>
!odd = memref<1x8x512x24xf16>
!wide = memref<1x8x512x256xf16>

// CHECK-LABEL: func.func @head_dims_are_multiples_of_8_up_to_256
// CHECK:         flashcore.attention
// CHECK-SAME:      fcgpu.schedule = #fcgpu.schedule<chip = "[[CHIP]]",
func.func @head_dims_are_multiples_of_8_up_to_256(%q: !odd, %v: !wide, %own: !wide) {
  flashcore.attention ins(%q, %q, %v : !odd, !odd, !wide) outs(%own : !wide)
  return
}

// CHECK-LABEL: func.func @score_changes_and_windows_are_configured_too
// CHECK:         flashcore.attention
// CHECK-SAME:      fcgpu.schedule = #fcgpu.schedule<chip = "[[CHIP]]",
func.func @score_changes_and_windows_are_configured_too(
    %q: !t, %bias: memref<1x1x512x512xf16>, %own: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t)
      bias(%bias : memref<1x1x512x512xf16>) outs(%own : !t)
      window_left(64) window_right(0) softcap(3.000000e+01)
  return
}
