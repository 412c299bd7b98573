// Debug information is of the host function: kernels have locations without it,
// which LLVM would crash on, and the launch stays where it was.

// RUN: flashcore-opt %s -flashcore-configure -flashcore-decompose -flashcore-tile -mlir-print-debuginfo \
// RUN:   -mlir-print-local-scope | FileCheck %s
// RUN: flashcore-compile %s | FileCheck %s --check-prefix=PTX

#file = #llvm.di_file<"model.c" in "/">
#unit = #llvm.di_compile_unit<id = distinct[0]<>, sourceLanguage = DW_LANG_C, file = #file, isOptimized = true, emissionKind = Full>
#function = #llvm.di_subprogram<id = distinct[1]<>, compileUnit = #unit, scope = #file, name = "f", file = #file, line = 1, scopeLine = 1, subprogramFlags = "Definition">
#place = loc(fused<#function>["model.c":7:3])

!t = memref<1x8x512x64xf16>

// CHECK-LABEL: func.func @f
// CHECK:         gpu.launch_func {{.+}} loc(callsite("model.c":7:3 at "model.c":9:1))
// CHECK:       } loc(fused<#llvm.di_subprogram
// CHECK:       gpu.module @attention_f16_d64
// CHECK-NOT:   fused<
// CHECK:       gpu.return loc(callsite("model.c":7:3 at "model.c":9:1))
func.func @f(%q: !t, %own: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%own : !t)
      loc(callsite(#place at fused<#function>["model.c":9:1]))
  return
} loc(#place)

// PTX-NOT: {{\.file|\.loc|\.section}}
// PTX: ret;
