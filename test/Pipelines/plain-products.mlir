// Products that take tiles in place of plain rows, through the phases. A slot is
// acquired by the read and released behind the product, which takes the tile from
// there, so that the barrier in front of the next copy into it is behind both.

// RUN: flashcore-compile %s --chip=sm_89 --schedule=+async --print-phases=memory,schedule -o %t.ptx 2>&1 \
// RUN:   | FileCheck %s
// RUN: FileCheck %s --check-prefix=PTX < %t.ptx
// RUN: flashcore-compile %s --chip=sm_70 -o %t.70.ptx && FileCheck %s --check-prefix=OLD < %t.70.ptx
// RUN: flashcore-compile %s --chip=sm_75 -o %t.75.ptx && FileCheck %s --check-prefix=TURING < %t.75.ptx

// CHECK-LABEL: phase 4
// CHECK:         %[[V:.+]] = fcgpu.alloc_ring : <2x64x64xf16, plain>
// CHECK:         %[[K:.+]] = fcgpu.alloc_ring : <2x64x64xf16, plain>
// CHECK:         %[[Q:.+]] = fcgpu.alloc_ring : <4x16x64xf16, plain>
// CHECK:         scf.for
// CHECK:           %[[KT:.+]] = fcgpu.read %[[K]][%{{.+}}] {fcgpu.home = #fcgpu.shared}
// CHECK-NEXT:      %[[QT:.+]] = fcgpu.read %[[Q]][%{{.+}}] {fcgpu.home = #fcgpu.shared}
// CHECK:           vector.contract {{.+}} %[[QT]], %[[KT]]
// CHECK:           fcgpu.read %[[V]][%{{.+}}] {fcgpu.home = #fcgpu.shared}
// CHECK-LABEL: phase 5
// CHECK:         scf.for %
// CHECK:           fcgpu.wait_copies in_flight(0)
// CHECK-NEXT:      gpu.barrier
// CHECK-NOT:       gpu.barrier
// CHECK:           scf.yield

// PTX:     cp.async.cg.shared.global
// PTX:     wmma.load.a.sync.aligned.row.m16n16k16.shared.f16
// PTX:     wmma.load.b.sync.aligned.col.m16n16k16.shared.f16
// PTX:     wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32
// PTX:     wmma.store.d.sync.aligned.row.m16n16k16.shared.f32
// PTX-NOT: m16n8k

// Chips without cp.async, and without tanh.approx, which a softcap takes of newer
// ones.

// OLD:     .target sm_70
// OLD-NOT: cp.async
// OLD-NOT: ldmatrix
// OLD:     wmma.mma.sync
// OLD:     ex2.approx
// OLD-NOT: tanh.approx
// TURING:     .target sm_75
// TURING-NOT: cp.async
// TURING:     ldmatrix
// TURING:     mma.sync.aligned.m16n8k8
// TURING:     tanh.approx
// TURING-NOT: m16n8k16

!qkv = memref<1x2x512x64xf16>
func.func @attention(%q: !qkv, %k: !qkv, %v: !qkv, %o: !qkv) {
  flashcore.attention ins(%q, %k, %v : !qkv, !qkv, !qkv) outs(%o : !qkv) softcap(20.0)
  return
}
