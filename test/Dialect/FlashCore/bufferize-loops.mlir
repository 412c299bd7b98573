// RUN: flashcore-opt %s -flashcore-bufferize | FileCheck %s
// RUN: flashcore-opt %s -flashcore-bufferize -flashcore-lower-to-nvvm \
// RUN:   | FileCheck %s --check-prefix=KERNELS

// What a loop carries is read as query, key and value while the next one is
// written: each pass through a body has a buffer of its own.

// Every attention is launched.
// KERNELS-COUNT-6: gpu.launch_func
// KERNELS-NOT:     gpu.launch_func

!t = tensor<1x2x64x64xf16>

// CHECK-LABEL: func.func @two_in_a_body(
// CHECK:      scf.for {{.+}} iter_args(%[[H:.+]] = %{{.+}}) -> (memref
// CHECK-NEXT:   %[[Y:.+]] = memref.alloc()
// CHECK-NEXT:   flashcore.attention ins(%[[H]], %[[H]], %[[H]] : {{.+}}) outs(%[[Y]] :
// CHECK-NEXT:   %[[Z:.+]] = memref.alloc()
// CHECK-NEXT:   flashcore.attention ins(%[[Y]], %[[H]], %[[H]] : {{.+}}) outs(%[[Z]] :
// CHECK-NEXT:   scf.yield %[[Z]]
func.func @two_in_a_body(%x: !t, %n: index) -> !t {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> !t {
    %y = flashcore.attention ins(%h, %h, %h : !t, !t, !t) outs(%h : !t) -> !t
    %z = flashcore.attention ins(%y, %h, %h : !t, !t, !t) outs(%y : !t) causal(bottom_right) -> !t
    scf.yield %z : !t
  }
  return %r : !t
}

// CHECK-LABEL: func.func @while(
// CHECK:      } do {
// CHECK-NEXT: ^bb0(%[[H:[^:]+]]: memref
// CHECK-NEXT:   %[[Y:.+]] = memref.alloc()
// CHECK-NEXT:   flashcore.attention ins(%[[H]], %[[H]], %[[H]] : {{.+}}) outs(%[[Y]] :
// CHECK:        scf.yield %[[Y]],
func.func @while(%x: !t, %n: index) -> !t {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.while (%h = %x, %i = %c0) : (!t, index) -> (!t, index) {
    %more = arith.cmpi slt, %i, %n : index
    scf.condition(%more) %h, %i : !t, index
  } do {
  ^bb0(%h: !t, %i: index):
    %y = flashcore.attention ins(%h, %h, %h : !t, !t, !t) outs(%h : !t) -> !t
    %next = arith.addi %i, %c1 : index
    scf.yield %y, %next : !t, index
  }
  return %r#0 : !t
}

// The inner loop must not write over what the outer one carries, its key.
// CHECK-LABEL: func.func @nested(
// CHECK:      scf.for {{.+}} iter_args(%[[H:.+]] = %{{.+}}) -> (memref
// CHECK:        %[[S:.+]] = scf.for {{.+}} iter_args(%[[G:.+]] = %{{.+}}) -> (memref
// CHECK-NEXT:     %[[Y:.+]] = memref.alloc()
// CHECK-NEXT:     flashcore.attention ins(%[[G]], %[[H]], %[[H]] : {{.+}}) outs(%[[Y]] :
// CHECK-NEXT:     scf.yield %[[Y]]
// CHECK:        scf.yield %[[S]]
func.func @nested(%x: !t, %n: index) -> !t {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> !t {
    %s = scf.for %j = %c0 to %n step %c1 iter_args(%g = %h) -> !t {
      %y = flashcore.attention ins(%g, %h, %h : !t, !t, !t) outs(%g : !t) -> !t
      scf.yield %y : !t
    }
    scf.yield %s : !t
  }
  return %r : !t
}

// CHECK-LABEL: func.func @if(
// CHECK:      scf.for {{.+}} iter_args(%[[H:.+]] = %{{.+}}) -> (memref
// CHECK:        scf.if
// CHECK-NEXT:     %[[Y:.+]] = memref.alloc()
// CHECK-NEXT:     flashcore.attention ins(%[[H]], %[[H]], %[[H]] : {{.+}}) outs(%[[Y]] :
// CHECK-NEXT:     scf.yield %[[Y]]
// CHECK:        } else {
// CHECK-NEXT:     scf.yield %[[H]]
func.func @if(%x: !t, %n: index) -> !t {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> !t {
    %first = arith.cmpi eq, %i, %c0 : index
    %s = scf.if %first -> !t {
      %y = flashcore.attention ins(%h, %h, %h : !t, !t, !t) outs(%h : !t) -> !t
      scf.yield %y : !t
    } else {
      scf.yield %h : !t
    }
    scf.yield %s : !t
  }
  return %r : !t
}

// Two buffers that change places: what was read last time is written now.
// CHECK-LABEL: func.func @two_buffers(
// CHECK:      scf.for {{.+}} iter_args(%[[H:.+]] = %{{.+}}, %[[O:.+]] = %{{.+}}) -> (memref
// CHECK-NEXT:   flashcore.attention ins(%[[H]], %[[H]], %[[H]] : {{.+}}) outs(%[[O]] :
// CHECK-NOT:    scf.yield %[[O]]
// CHECK:        scf.yield
func.func @two_buffers(%x: !t, %n: index) -> !t {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : !t
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x, %o = %e) -> (!t, !t) {
    %y = flashcore.attention ins(%h, %h, %h : !t, !t, !t) outs(%o : !t) -> !t
    scf.yield %y, %h : !t, !t
  }
  return %r#0 : !t
}
