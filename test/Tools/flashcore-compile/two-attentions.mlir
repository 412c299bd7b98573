// PTX, and all that is made of it but bundles, holds one program: an attention,
// where anything else stands between them (program.mlir has one of several).
// RUN: rm -rf %t && mkdir %t
// RUN: not flashcore-compile %s --emit=ptx -o %t/a.ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ERROR
// RUN: not ls %t/a.ptx
// ERROR: two-attentions.mlir:{{.*}}: error: expects one attention for --emit=ptx, but got 4 (two.0, two.1, one, three); choose one with --function, or use --emit=bundle or mlir

// One is chosen by its function, and by its number where there are several.
// RUN: flashcore-compile %s --function=one | FileCheck %s --check-prefix=ONE
// ONE: .entry attention_f16_d64_causal(
// RUN: flashcore-compile %s --function=two.0 | FileCheck %s --check-prefix=DENSE
// DENSE: .entry attention_f16_d64(
// RUN: flashcore-compile %s --function=two.1 --explain 2>&1 -o %t/b.ptx \
// RUN:   | FileCheck %s --check-prefix=CAUSAL --implicit-check-not="attention "
// RUN: FileCheck %s --check-prefix=ONE < %t/b.ptx
// CAUSAL: attention on sm_89: {{.+}}, causal
// RUN: not flashcore-compile %s --function=two 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BOTH
// BOTH: error: expects one attention for --emit=ptx, but got 2 (two.0, two.1); choose
// RUN: not flashcore-compile %s --function=zero 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NONE
// NONE: error: expects --function to be one of two.0, two.1, one, three, but got 'zero'

// What the others hold does not matter.
// RUN: sed 's/lse(%%lse : .*)$/& score {^bb0(%%s: f32, %%b: index, %%h: index, %%i: index, %%j: index): %%y = math.erf %%s : f32 flashcore.yield %%y : f32}/' %s > %t/mask.mlir
// RUN: not flashcore-compile %t/mask.mlir --function=three
// RUN: flashcore-compile %t/mask.mlir --function=one | FileCheck %s --check-prefix=ONE

// A bundle for each, in a directory.
// RUN: flashcore-compile %s --emit=bundle --no-cubin -o %t/all --explain 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EXPLAIN
// EXPLAIN: attention two.0 on sm_89:
// EXPLAIN: attention two.1 on sm_89:
// EXPLAIN: attention one on sm_89:
// EXPLAIN: attention three on sm_89:
// RUN: ls %t/all | FileCheck %s --check-prefix=ALL --implicit-check-not={{.}}
// ALL:      one.fcb
// ALL-NEXT: three.fcb
// ALL-NEXT: two.0.fcb
// ALL-NEXT: two.1.fcb
// RUN: FileCheck %s --check-prefix=ONE < %t/all/one.fcb/kernels.ptx
// RUN: FileCheck %s --check-prefix=DENSE < %t/all/two.0.fcb/kernels.ptx
// RUN: diff -r %t/all/one.fcb %t/all/two.1.fcb
// Again, over the first ones.
// RUN: flashcore-compile %s --emit=bundle --no-cubin --function=two -o %t/all
// RUN: ls %t/all | FileCheck %s --check-prefix=ALL --implicit-check-not={{.}}

// A bundle of one is no directory for many.
// RUN: flashcore-compile %s --emit=bundle --no-cubin --function=one -o %t/one.fcb
// RUN: not flashcore-compile %s --emit=bundle --no-cubin -o %t/one.fcb 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BUNDLE -DDIR=%t
// BUNDLE: flashcore-compile: error: expects -o to name a directory for the bundles of 4 attentions, but '[[DIR]]/one.fcb' is a bundle; name another, or choose one attention with --function

// Names that name no file.
// RUN: sed 's,@three,@"a/b",' %s > %t/slash.mlir
// RUN: not flashcore-compile %t/slash.mlir --emit=bundle --no-cubin -o %t/slash 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SLASH
// RUN: not ls %t/slash
// SLASH: error: expects functions whose names can name a bundle, but got 'a/b'; rename it
// RUN: sed 's,@three,@"two.1",' %s > %t/twins.mlir
// RUN: not flashcore-compile %t/twins.mlir --emit=bundle --no-cubin -o %t/twins 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TWINS
// TWINS: error: expects attentions to have names of their own, but two are called 'two.1'; rename a function

// RUN: flashcore-compile %s --emit=mlir | FileCheck %s

!t = memref<1x8x512x64xf16>

// CHECK-LABEL: func.func @two(
func.func @two(%q: !t, %o: !t) {
  // CHECK:     gpu.launch_func @[[FIRST:.+]]::@[[FIRST]] blocks
  // CHECK:     gpu.launch_func @[[SECOND:.+]]::@[[SECOND]] blocks
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
  memref.copy %o, %q : !t to !t
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      causal(top_left)
  return
}
// CHECK-LABEL: func.func @one(
func.func @one(%q: !t, %o: !t) {
  // CHECK:     gpu.launch_func @[[SECOND]]::@[[SECOND]] blocks
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      causal(top_left)
  return
}
func.func @three(%q: !t, %o: !t, %lse: memref<1x8x512xf32>) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)
      causal(top_left) lse(%lse : memref<1x8x512xf32>)
  return
}
// CHECK: gpu.module @[[FIRST]]
// CHECK: llvm.func @[[FIRST]](
// CHECK: gpu.module @[[SECOND]]
// CHECK: llvm.func @[[SECOND]](
