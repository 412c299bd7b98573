// An append has a kernel of its own in front of the attention's. With a rotary
// embedding it leaves a copy of the query in the workspace, which the kernels
// behind read in the place of the query.

// RUN: flashcore-opt %s -split-input-file -flashcore-configure -flashcore-decompose -flashcore-tile | FileCheck %s
// RUN: flashcore-opt %s -split-input-file -flashcore-configure=key-splits=2 -flashcore-decompose -flashcore-tile | FileCheck --check-prefix=SPLIT %s

!q = memref<2x8x100x64xf16>
!k = memref<2x2x300x64xf16>
!n = memref<2x2x40x64xf16>

// Three blocks of 16 rows for each of two heads of two entries. An entry of a
// negative length is not there.

// CHECK-LABEL: func.func @copies(
// CHECK-NOT:     gpu.alloc
// CHECK:         %[[BLOCKS:.+]] = arith.constant 12 : index
// CHECK:         gpu.launch_func {{.*}}::@attention_f16_d64_append blocks in (%[[BLOCKS]],
// CHECK:         gpu.launch_func {{.*}}::@attention_f16_d64 blocks
// CHECK:         return

// CHECK:       gpu.module @attention_f16_d64
// CHECK-SAME:    grid = "(seqlen_new ceildiv 16) * heads_kv * batch"
// CHECK-SAME:    name = "k", offset = 0 : i64, role = "updated"
// CHECK-SAME:    name = "v", offset = 0 : i64, role = "updated"
// CHECK-SAME:    name = "k_new", offset = 0 : i64, role = "input"
// CHECK-LABEL: gpu.func @attention_f16_d64_append(
// CHECK-SAME:    %[[K_PTR:.+]]: memref<f16> {llvm.align = 16 : i32, llvm.noalias}, %[[V_PTR:.+]]: memref<f16> {llvm.align = 16 : i32, llvm.noalias}, %[[USED_PTR:.+]]: memref<i32> {llvm.align = 4 : i32, llvm.noalias, llvm.readonly},
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "k"}, {kind = "pointer", tensor = "v"}, {kind = "pointer", tensor = "seqused_k"}, {kind = "pointer", tensor = "k_new"}, {kind = "pointer", tensor = "v_new"}]
// CHECK-SAME:    threads = 128
// CHECK:         %[[K:.+]] = memref.reinterpret_cast %[[K_PTR]]
// CHECK:         %[[V:.+]] = memref.reinterpret_cast %[[V_PTR]]
// CHECK:         %[[USED:.+]] = memref.reinterpret_cast %[[USED_PTR]]
// CHECK:         %[[IDS:.+]]:3 = affine.delinearize_index %{{.+}} into (2, 2, 3)
// CHECK:         %[[LOADED:.+]] = memref.load %[[USED]][%[[IDS]]#0]
// CHECK:         %[[LENGTH:.+]] = arith.index_cast %[[LOADED]]
// CHECK:         arith.minsi
// CHECK:         arith.maxsi
// CHECK:         %[[IS_THERE:.+]] = arith.cmpi sge, %[[LENGTH]], %{{.+}}
// CHECK:         %[[ROWS:.+]] = arith.select %[[IS_THERE]]
// CHECK:         arith.muli %[[ROWS]]
// CHECK:         scf.for
// CHECK:           %[[ROW:.+]] = vector.load %[[K_NEW:.+]][%[[IDS]]#0, %[[IDS]]#1, %{{.+}}, %[[COLUMN:.+]]] {alignment = 16 : i64} : {{.+}}, vector<8xf16>
// CHECK-NEXT:      vector.store %[[ROW]], %[[K]][%[[IDS]]#0, %[[IDS]]#1, %{{.+}}, %[[COLUMN]]] {alignment = 16 : i64}
// CHECK:         } else {
// CHECK:           vector.store %{{.+}}, %[[V]][
// CHECK-NOT:     arith.mulf

// The new keys are among those that the attention sees.

// CHECK-LABEL: gpu.func @attention_f16_d64(
// CHECK-SAME:    {kind = "pointer", tensor = "q"}
// CHECK:         %[[OLD:.+]] = arith.index_cast
// CHECK:         %[[NEW:.+]] = arith.constant 40 : index
// CHECK:         arith.addi %{{.+}}, %[[NEW]] : index
// CHECK-NEXT:    %[[MOST:.+]] = arith.constant 300 : index
// CHECK-NEXT:    %[[KEYS:.+]] = arith.minsi %{{.+}}, %[[MOST]]
// CHECK:         %[[IS_THERE:.+]] = arith.cmpi sge, %[[OLD]], %{{.+}}
// CHECK-NEXT:    arith.select %[[IS_THERE]], %[[KEYS]], %{{.+}}
func.func @copies(%q: !q, %k: !k, %v: !k, %n: !n, %used: memref<2xi32>, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !k) seqused_k(%used : memref<2xi32>) append(%n, %n : !n, !n) outs(%o : !q)
  return
}

// -----

// Seven blocks of 16 queries, and one a new row, which takes as many as there
// are; the first kernel writes the copy and others read it.

!q = memref<2x8x100x40xf16>
!k = memref<2x2x300x40xf16>
!n = memref<2x2x40x40xf16>
!c = memref<400x10xf16>

// CHECK-LABEL: func.func @turned(
// CHECK:         %[[BYTES:.+]] = arith.constant 128000 : index
// CHECK:         %[[WORKSPACE:.+]] = gpu.alloc (%[[BYTES]]) : memref<?xi8>
// CHECK:         %[[COPY:.+]] = memref.view %[[WORKSPACE]]{{.+}} to memref<?xf16>
// CHECK:         %[[BASE:.+]], %{{.+}}, %{{.+}}, %{{.+}} = memref.extract_strided_metadata %[[COPY]]
// CHECK:         %[[BLOCKS:.+]] = arith.constant 188 : index
// CHECK:         gpu.launch_func {{.*}}::@attention_f16_d40_causal_append blocks in (%[[BLOCKS]],
// CHECK-SAME:      %[[BASE]] : memref<f16>)
// CHECK:         gpu.launch_func {{.*}}::@attention_f16_d40_causal blocks
// CHECK-SAME:      %[[BASE]] : memref<f16>)
// CHECK:         gpu.dealloc %[[WORKSPACE]]

// CHECK:       gpu.module @attention_f16_d40_causal
// CHECK-SAME:    grid = "((seqlen_q ceildiv 16) + seqlen_new) * heads_kv * batch"
// CHECK-SAME:    rotary = "half"
// CHECK-SAME:    workspace = [{bytes = "seqlen_q * heads_q * batch * 80"}]
// CHECK-LABEL: gpu.func @attention_f16_d40_causal_append(
// CHECK-SAME:    %[[COPY_PTR:[a-z0-9]+]]: memref<f16> {llvm.align = 16 : i32, llvm.noalias}) kernel
// CHECK-SAME:    {copy_of = "q", kind = "pointer", row = 40 : i64, tensor = "workspace"}]
// CHECK:         %[[Q_COPY:.+]] = memref.reinterpret_cast %[[COPY_PTR]] to offset: [0], sizes: [2, 8, 100, 40], strides: [32000, 4000, 40, 1]
// CHECK:         %[[X:.+]] = arith.mulf %{{.+}} : vector<2xf32>
// CHECK:         %[[Y:.+]] = arith.mulf %{{.+}} : vector<2xf32>
// CHECK:         %[[FIRST:.+]] = arith.subf %[[X]], %[[Y]] : vector<2xf32>
// CHECK:         %[[SECOND:.+]] = arith.addf
// CHECK:         vector.store %{{.+}}, %[[Q_COPY]]

// CHECK-LABEL: gpu.func @attention_f16_d40_causal(
// CHECK-SAME:    %[[COPY_PTR:[a-z0-9]+]]: memref<f16> {llvm.align = 16 : i32, llvm.noalias, llvm.readonly}) kernel
// CHECK-SAME:    arguments = [{kind = "pointer", tensor = "k"}, {kind = "pointer", tensor = "v"}, {kind = "pointer", tensor = "o"}, {kind = "pointer", tensor = "seqused_k"}, {copy_of = "q", kind = "pointer", row = 40 : i64, tensor = "workspace"}]
// CHECK:         %[[Q:.+]] = memref.reinterpret_cast %[[COPY_PTR]]
// CHECK:         memref.subview %[[Q]]

// Partial results lie behind the copy: 64,000 elements are 32,000 of f32.

// SPLIT-LABEL: func.func @turned(
// SPLIT:         %[[WORKSPACE:.+]] = gpu.alloc (%{{.+}}) : memref<?xi8>
// SPLIT:         gpu.launch_func {{.*}}_append blocks
// SPLIT:         gpu.launch_func {{.*}}::@attention_f16_d40_causal blocks
// SPLIT:         gpu.launch_func {{.*}}_merge blocks
// SPLIT:         gpu.dealloc %[[WORKSPACE]]
// SPLIT-LABEL: gpu.func @attention_f16_d40_causal_merge(
// SPLIT:         memref.reinterpret_cast %{{.+}} to offset: [32000]
func.func @turned(%q: !q, %k: !k, %v: !k, %n: !n, %c: !c, %used: memref<2xi32>, %o: !q) {
  flashcore.attention ins(%q, %k, %v : !q, !k, !k) seqused_k(%used : memref<2xi32>) append(%n, %n : !n, !n)
      rotary(%c, %c : !c, !c) outs(%o : !q) causal(bottom_right) style(half)
  return
}

// -----

// A row goes to the page that has its place, if there is such a page; columns
// side by side are one access and are mixed again; rows of no 16 bytes take
// narrower ones.

!q = memref<?x2x?x36xf16>
!k = memref<?x2x16x36xf16>
!c = memref<?x4xf16>

// CHECK-LABEL: gpu.func @attention_f16_d36_append(
// CHECK:         memref.load %{{.+}} : memref<?x?xi32
// CHECK:         %[[EXISTS:.+]] = arith.cmpi ult
// CHECK:         scf.if %[[EXISTS]] {
// CHECK:           vector.load %{{.+}} {alignment = 8 : i64} : {{.+}}, vector<4xf16>
// CHECK:           vector.load %{{.+}} {alignment = 8 : i64} : {{.+}}, vector<4xf16>
// CHECK:           vector.shuffle %{{.+}} [0, 2, 4, 6] : vector<8xf32>, vector<8xf32>
// CHECK:           vector.shuffle %{{.+}} [1, 3, 5, 7] : vector<8xf32>, vector<8xf32>
// CHECK:           vector.shuffle %{{.+}} [0, 4, 1, 5, 2, 6, 3, 7] : vector<4xf32>, vector<4xf32>
func.func @pages(%q: !q, %k: !k, %n: !q, %c: !c, %used: memref<?xi32>, %table: memref<?x?xi32>, %o: !q) {
  flashcore.attention ins(%q, %k, %k : !q, !k, !k) seqused_k(%used : memref<?xi32>) page_table(%table : memref<?x?xi32>)
      append(%n, %n : !q, !q) rotary(%c, %c : !c, !c) outs(%o : !q) style(interleaved)
  return
}

// -----

// Without an append there is no such kernel.

!t = memref<2x8x100x64xf16>

// CHECK-LABEL: func.func @no_append(
// CHECK-NOT:     _append
func.func @no_append(%q: !t, %used: memref<2xi32>, %o: !t) {
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) seqused_k(%used : memref<2xi32>) outs(%o : !t)
  return
}
