// Passes say what they decide, each under its own name, where the tools are built
// with assertions.
//
// REQUIRES: debug-output
// RUN: flashcore-compile %s -o /dev/null --debug-only=flashcore-mask-region 2>&1 | FileCheck %s --check-prefix=MASK
// RUN: flashcore-compile %s -o /dev/null --debug-only=flashcore-online-softmax,flashcore-infer-in-bounds 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COPIES --implicit-check-not=mask-region
// RUN: flashcore-compile %s -o /dev/null --chip=sm_90a --product=warpgroup --debug-only=flashcore-hand-over-slots 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SLOTS
// RUN: flashcore-compile %s -o /dev/null 2>&1 | count 0

// MASK: [flashcore-mask-region MaskRegion.cpp:{{.*}}] keys (d1) that query d0 sees: from [] to [d0], all of them
// COPIES-DAG: [flashcore-online-softmax KeyWalk.cpp:{{.*}}] #fcgpu.staging<copy = warp, ring = block, slots = 4, number = holder, kept = 64>
// COPIES-DAG: [flashcore-infer-in-bounds InferInBounds.cpp:{{.*}}] all rows lie inside: fcgpu.copy
// SLOTS: [flashcore-hand-over-slots HandOverSlots.cpp:{{.*}}] acquired in front of {{.*}}, released behind
// SLOTS: the roles hand their slots over rightly

!t = memref<1x8x4096x64xf16>

func.func @attention(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) mask {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %visible = arith.cmpi sle, %j, %i : index
    flashcore.yield %visible : i1
  }
  return
}
