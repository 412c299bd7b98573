// RUN: flashcore-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts,flashcore-distribute,flashcore-simplify-kernel)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "k"},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 64, 64], swizzle = 128},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 1, 64, 64], ragged = 2, swizzle = 128}]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!source = memref<1x2x512x64xf16, strided<[65536, 32768, 64, 1]>>
!keys = memref<1x1x?x64xf16, strided<[65536, 32768, 64, 1], offset: ?>>

gpu.module @kernels {
  // A tile of which all rows are in the sequence is a box of the plain map.
  // Otherwise the ragged one ends with the sequence; a box with nothing in it
  // reads behind the tensor.
  // CHECK-LABEL: gpu.func @sequence(
  // CHECK-SAME:    %[[PLAIN:[^:]+]]: !llvm.ptr, %[[RAGGED:[^:]+]]: !llvm.ptr, %[[FIRST:[^:]+]]: index, %[[COUNT:[^:]+]]: index, %[[ROW:[^:]+]]: index)
  // CHECK-DAG:     %[[BEHIND:.+]] = arith.constant 513 : i32
  // CHECK:         nvvm.mbarrier.arrive.expect_tx
  // CHECK:         %[[END_OF_TILE:.+]] = arith.addi %[[ROW]], %c64
  // CHECK:         %[[WHOLE:.+]] = arith.cmpi sle, %[[END_OF_TILE]], %[[COUNT]]
  // CHECK:         scf.if %[[WHOLE]] {
  // CHECK:           %[[AT:.+]] = arith.addi %[[ROW]], %[[FIRST]]
  // CHECK:           %[[AT32:.+]] = arith.index_cast %[[AT]] : index to i32
  // CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[PLAIN]], %{{.+}}, box[%c0{{[^,]*}}, %[[AT32]], %c0{{[^,]*}}, %c0{{[^,]*}}] :
  // CHECK:         } else {
  // CHECK:           %[[END:.+]] = arith.addi %[[COUNT]], %[[FIRST]]
  // CHECK:           %[[LEFT:.+]] = arith.subi %[[END]], %{{.+}}
  // CHECK-DAG:       %[[IS_INSIDE:.+]] = arith.cmpi sgt, %[[LEFT]], %c0
  // CHECK-DAG:       %[[LAST:.+]] = arith.addi %[[END]], %c-1
  // CHECK-DAG:       %[[X:.+]] = arith.subi %c512, %[[LEFT]]
  // CHECK:           scf.if %[[IS_INSIDE]] {
  // CHECK-DAG:         %[[X32:.+]] = arith.index_cast %[[X]] : index to i32
  // CHECK-DAG:         %[[LAST32:.+]] = arith.index_cast %[[LAST]] : index to i32
  // CHECK:             nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[RAGGED]], %{{.+}}, box[%c0{{[^,]*}}, %[[X32]], %c0{{[^,]*}}, %c0{{[^,]*}}, %[[LAST32]]] :
  // CHECK:           } else {
  // CHECK:             nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[PLAIN]], %{{.+}}, box[%c0{{[^,]*}}, %[[BEHIND]], %c0{{[^,]*}}, %c0{{[^,]*}}] :
  // CHECK-NOT:     nvvm.cp.async.bulk
  gpu.func @sequence(%base: memref<f16>, %plain: !llvm.ptr, %ragged: !llvm.ptr, %first: index, %count: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %k = memref.reinterpret_cast %base to offset: [0], sizes: [1, 2, 512, 64], strides: [65536, 32768, 64, 1]
        : memref<f16> to !source
    %keys = memref.subview %k[0, 0, %first, 0] [1, 1, %count, 64] [1, 1, 1, 1] : !source to !keys
    fcgpu.produce {
      fcgpu.acquire %ring[%c0] to fill : !ring
      fcgpu.copy %keys[%c0, %c0, %row, %c0] to %ring[%c0] by block : !keys to !ring
    }
    scf.forall (%g) in (1) {
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "k"},
                        {kind = "pointer", tensor = "page_table"},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 32, 64], swizzle = 128},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 1, 32, 64], ragged = 2, swizzle = 128}]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!pool = memref<?x1x32x64xf16, strided<[2048, 2048, 64, 1]>>

gpu.module @kernels {
  // Two boxes of a page each: of a whole tile the table is asked for both pages
  // before either is copied, of another one page by page and only for those with
  // rows.
  // CHECK-LABEL: gpu.func @pages(
  // CHECK-SAME:    %[[PLAIN:[^:]+]]: !llvm.ptr, %[[RAGGED:[^:]+]]: !llvm.ptr,
  // CHECK-SAME:    %[[ROWS:[^:]+]]: index, %[[ROW:[^:]+]]: index)
  // CHECK:         %[[TABLE:.+]] = memref.reinterpret_cast {{.+}} to memref<1x?xi32
  // CHECK:         scf.if
  // CHECK:         arith.cmpi sle, %{{.+}}, %[[ROWS]]
  // CHECK-NEXT:    scf.if
  // CHECK:           %[[FIRST:.+]] = arith.divui %[[ROW]], %c32
  // CHECK:           memref.load %[[TABLE]][%c0, %[[FIRST]]]
  // CHECK:           %[[SECOND:.+]] = arith.addi %[[FIRST]], %c1
  // CHECK:           memref.load %[[TABLE]][%c0, %[[SECOND]]]
  // CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[PLAIN]]
  // CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[PLAIN]]
  // CHECK:         } else {
  // CHECK-NEXT:      scf.for %[[PART:.+]] = %c0 to %c2 step %c1 {
  // CHECK:           arith.muli %[[PART]], %c32
  // CHECK:           arith.minsi %{{.+}}, %c32
  // CHECK:           %[[PAGE:.+]] = scf.if %{{.+}} -> (index) {
  // CHECK:             memref.load %[[TABLE]]
  // CHECK:           } else {
  // CHECK-NEXT:        scf.yield %c0
  // CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[RAGGED]]
  // CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[PLAIN]]
  // CHECK-NOT:     nvvm.cp.async.bulk
  gpu.func @pages(%base: memref<f16>, %table_base: memref<i32>, %plain: !llvm.ptr, %ragged: !llvm.ptr, %pages: index, %entries: index,
                  %rows: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %pool = memref.reinterpret_cast %base to offset: [0], sizes: [%pages, 1, 32, 64], strides: [2048, 2048, 64, 1]
        : memref<f16> to !pool
    %table = memref.reinterpret_cast %table_base to offset: [0], sizes: [1, %entries], strides: [%entries, 1]
        : memref<i32> to memref<1x?xi32, strided<[?, 1]>>
    %keys = fcgpu.view_pages %pool by %table rows(%rows) step(64)
        : !pool, memref<1x?xi32, strided<[?, 1]>> -> memref<1x1x?x64xf16, #fcgpu.pages>
    fcgpu.produce {
      fcgpu.acquire %ring[%c0] to fill : !ring
      fcgpu.copy %keys[%c0, %c0, %row, %c0] to %ring[%c0] by block : memref<1x1x?x64xf16, #fcgpu.pages> to !ring
    }
    scf.forall (%g) in (1) {
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "k"},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 1, 64, 64], ragged = 2, swizzle = 128}]}
!ring = !fcgpu.ring<2x64x64xf16, panels>
!source = memref<1x2x512x64xf16, strided<[65536, 32768, 64, 1]>>

gpu.module @kernels {
  // Boxes outside of the tensor are loaded by the plain map.
  gpu.func @no_plain_map(%base: memref<f16>, %ragged: !llvm.ptr, %row: index)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %k = memref.reinterpret_cast %base to offset: [0], sizes: [1, 2, 512, 64], strides: [65536, 32768, 64, 1]
        : memref<f16> to !source
    fcgpu.produce {
      fcgpu.acquire %ring[%c0] to fill : !ring
      // expected-error @below {{failed to legalize operation 'fcgpu.copy'}}
      fcgpu.copy %k[%c0, %c0, %row, %c0] to %ring[%c0] by block : !source to !ring
    }
    scf.forall (%g) in (1) {
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "k"},
                        {kind = "pointer", tensor = "page_table"},
                        {kind = "tensor_map", tensor = "k", box = [1, 4, 2, 8, 64], group = 8, swizzle = 128},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 2, 8, 64], group = 8, swizzle = 128},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 2, 8, 64], group = 8, ragged = 2, swizzle = 128}]}
!ring = !fcgpu.ring<2x64x128xf16, panels(8)>
!pool = memref<?x2x32x128xf16, strided<[?, 4096, 128, 1]>>
!head = memref<?x1x32x128xf16, strided<[?, 4096, 128, 1], offset: ?>>

gpu.module @kernels {
  // One box a page, of all panels. Its first coordinate counts what divides the
  // distances of pages and of heads, if there are several. The tile that a
  // sequence ends in is copied in groups of 8 rows; what is behind is a group
  // outside of the tensor.
  // CHECK-LABEL: gpu.func @pages_in_groups(
  // CHECK-SAME:    %[[PLAIN:[^:]+]]: !llvm.ptr, %[[GROUP:[^:]+]]: !llvm.ptr, %[[RAGGED:[^:]+]]: !llvm.ptr, %[[PAGES:[^:]+]]: index,
  // CHECK-SAME:    %[[STRIDE:[^:]+]]: index, %[[HEAD:[^:]+]]: index, %[[ROWS:[^:]+]]: index, %[[ROW:[^:]+]]: index)
  // CHECK:         nvvm.mbarrier.arrive.expect_tx
  // CHECK:         scf.if
  // CHECK:           %[[PAGE:.+]] = memref.load
  // CHECK:           %[[ARE_SEVERAL:.+]] = arith.cmpi sgt, %[[PAGES]], %c1
  // CHECK:           %[[OF_PAGES:.+]] = arith.select %[[ARE_SEVERAL]], %[[STRIDE]], %c0
  // CHECK:           %[[BOTH:.+]] = arith.ori %[[OF_PAGES]], %c4096
  // CHECK:           %[[LIMITED:.+]] = arith.ori %[[BOTH]], %c1048576
  // CHECK:           %[[SHIFT:.+]] = math.cttz %[[LIMITED]]
  // CHECK:           %[[STEP:.+]] = arith.shrui %[[OF_PAGES]], %[[SHIFT]]
  // CHECK:           %[[STEP32:.+]] = arith.index_cast %[[STEP]] : index to i32
  // CHECK:           %[[OF_PAGE:.+]] = arith.muli %[[PAGE]], %[[STEP32]] : i32
  // CHECK:           %[[ENTRY:.+]] = arith.addi %[[OF_PAGE]], %{{.+}} : i32
  // CHECK:           memref.load
  // CHECK-NOT:       memref.load
  // CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[PLAIN]], %{{.+}}, box[%c0{{[^,]*}}, %c0{{[^,]*}}, %c0{{[^,]*}}, %c0{{[^,]*}}, %[[ENTRY]]] :
  // CHECK:           arith.addi %{{.+}}, %c8192
  // CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[PLAIN]],
  // CHECK:         } else {
  // CHECK-NEXT:      scf.for %[[PART:.+]] = %c0 to %c8 step %c1 {
  // CHECK:             arith.muli %[[PART]], %c8
  // CHECK:             arith.muli %[[PART]], %c2048
  // CHECK:             scf.if
  // CHECK:               nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[RAGGED]], %{{.+}}, box[%c0{{[^,]*}}, %{{[^,]+}}, %c0{{[^,]*}}, %{{[^,]+}}, %{{[^,]+}}] :
  // CHECK:             } else {
  // CHECK:               nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[GROUP]], %{{.+}}, box[%c0{{[^,]*}}, %c0{{[^,]*}}, %c0{{[^,]*}}, %c33{{[^,]*}}, %c0{{[^,]*}}] :
  // CHECK-NOT:     nvvm.cp.async.bulk
  gpu.func @pages_in_groups(%base: memref<f16>, %table_base: memref<i32>, %plain: !llvm.ptr, %group: !llvm.ptr, %ragged: !llvm.ptr,
                            %pages: index, %entries: index, %stride: index, %head: index, %rows: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %pool = memref.reinterpret_cast %base to offset: [0], sizes: [%pages, 2, 32, 128], strides: [%stride, 4096, 128, 1]
        : memref<f16> to !pool
    %of_head = memref.subview %pool[0, %head, 0, 0] [%pages, 1, 32, 128] [1, 1, 1, 1] : !pool to !head
    %table = memref.reinterpret_cast %table_base to offset: [0], sizes: [1, %entries], strides: [%entries, 1]
        : memref<i32> to memref<1x?xi32, strided<[?, 1]>>
    %keys = fcgpu.view_pages %of_head by %table rows(%rows) step(64)
        : !head, memref<1x?xi32, strided<[?, 1]>> -> memref<1x1x?x128xf16, #fcgpu.pages>
    fcgpu.produce {
      fcgpu.acquire %ring[%c0] to fill : !ring
      fcgpu.copy %keys[%c0, %c0, %row, %c0] to %ring[%c0] by block : memref<1x1x?x128xf16, #fcgpu.pages> to !ring
    }
    scf.forall (%g) in (1) {
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_90a", block_m = 64, block_n = 64,
  num_warps = 4, num_stages = 2, query = shared, grid_order = query_fastest,
  min_blocks = 1, product = warpgroup>
#kernel = {arguments = [{kind = "pointer", tensor = "k"},
                        {kind = "pointer", tensor = "page_table"},
                        {kind = "tensor_map", tensor = "k", box = [1, 4, 2, 8, 64], group = 8, swizzle = 128},
                        {kind = "tensor_map", tensor = "k", box = [1, 1, 2, 8, 64], group = 8, ragged = 2, swizzle = 128}]}
!ring = !fcgpu.ring<2x64x128xf16, panels(8)>
!pool = memref<?x1x32x128xf16, strided<[4096, 4096, 128, 1]>>

gpu.module @kernels {
  // Groups behind a sequence have a map of their own, which is not ragged.
  gpu.func @no_map_of_a_group(%base: memref<f16>, %table_base: memref<i32>, %plain: !llvm.ptr, %ragged: !llvm.ptr, %pages: index,
                              %entries: index, %rows: index, %row: index)
      kernel attributes {fcgpu.schedule = #schedule, fcgpu.kernel = #kernel} {
    %c0 = arith.constant 0 : index
    %ring = fcgpu.alloc_ring : !ring
    %pool = memref.reinterpret_cast %base to offset: [0], sizes: [%pages, 1, 32, 128], strides: [4096, 4096, 128, 1]
        : memref<f16> to !pool
    %table = memref.reinterpret_cast %table_base to offset: [0], sizes: [1, %entries], strides: [%entries, 1]
        : memref<i32> to memref<1x?xi32, strided<[?, 1]>>
    %keys = fcgpu.view_pages %pool by %table rows(%rows) step(64)
        : !pool, memref<1x?xi32, strided<[?, 1]>> -> memref<1x1x?x128xf16, #fcgpu.pages>
    fcgpu.produce {
      fcgpu.acquire %ring[%c0] to fill : !ring
      // expected-error @below {{failed to legalize operation 'fcgpu.copy'}}
      fcgpu.copy %keys[%c0, %c0, %row, %c0] to %ring[%c0] by block : memref<1x1x?x128xf16, #fcgpu.pages> to !ring
    }
    scf.forall (%g) in (1) {
    } {mapping = [#gpu.warpgroup<linear_dim_0>]}
    gpu.return
  }
}
