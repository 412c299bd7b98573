// Where the maximum is followed in a branch, partial tiles are masked in it: one
// loop walks all tiles that a warp sees something of, and full tiles run without
// mask code. For the tiles before, the warp copies and meets the others.

// RUN: flashcore-compile %s --print-phases --row-max=folded --row-sum=mma -o - 2>&1 >/dev/null \
// RUN:   | FileCheck --check-prefixes=CHECK,FOLDED %s
// RUN: flashcore-compile %s --print-phases --row-max=stale --row-sum=mma -o - 2>&1 >/dev/null \
// RUN:   | FileCheck --check-prefixes=CHECK,STALE %s

!t = memref<4x32x4096x64xf16>

// CHECK-LABEL: // ----- phase 5
// CHECK:         scf.for %{{.+}} = %{{.+}} to %[[FIRST_SEEN:[^ ]+]]
// CHECK-NOT:       fcgpu.read
// CHECK:           gpu.barrier
// CHECK:           fcgpu.copy
// CHECK:           fcgpu.commit_copies
// CHECK-NEXT:    }
// CHECK-NEXT:    %{{.+}} = scf.for %{{.+}} = %[[FIRST_SEEN]] to
// CHECK:           gpu.barrier
// CHECK:           fcgpu.commit_copies
// CHECK:           fcgpu.read
// CHECK:           %[[SCORES:.+]] = vector.contract
// CHECK-NOT:       fcgpu.map_scores
// CHECK:           %[[FOLLOWS:.+]] = vector.multi_reduction <or>, %{{.+}} [0, 1]
// FOLDED:          %{{.+}}:4 = scf.if %[[FOLLOWS]]
// STALE:           %{{.+}}:5 = scf.if %[[FOLLOWS]]
// CHECK:             fcgpu.map_scores %[[SCORES]]
// CHECK:           } else {
// FOLDED-NEXT:       scf.yield {{.+}}, %[[SCORES]] :
// STALE-NEXT:        scf.yield {{.+}}, %[[SCORES]], %[[ADDEND:[^ ,]+]] :
// CHECK-NOT:       fcgpu.map_scores
// CHECK-NOT:     scf.for %
// CHECK:         gpu.return
func.func @causal(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t)
      causal(bottom_right)
  return
}
