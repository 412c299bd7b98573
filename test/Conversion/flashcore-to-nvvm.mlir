// RUN: flashcore-opt %s -split-input-file -flashcore-to-nvvm -canonicalize -cse | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: llvm.func @bf16_mma
// CHECK-SAME:    %[[OUT:[^:]+]]: !llvm.ptr, %[[A:[^:]+]]: !llvm.array<4 x vector<2xbf16>>, %[[B:[^:]+]]: !llvm.array<2 x vector<2xbf16>>, %[[C:[^:]+]]: !llvm.array<2 x vector<2xf32>>
gpu.module @kernels {
  gpu.func @bf16_mma(%out: memref<f32>, %a: vector<4x2xbf16>,
                     %b: vector<2x2xbf16>, %c: vector<2x2xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[LAST_PAIR:.+]] = llvm.extractvalue %[[A]][3]
    // CHECK-DAG:  %[[A3:.+]] = llvm.bitcast %[[LAST_PAIR]] : vector<2xbf16> to i32
    // CHECK-DAG:  %[[FIRST_PAIR:.+]] = llvm.extractvalue %[[B]][0]
    // CHECK-DAG:  %[[B0:.+]] = llvm.bitcast %[[FIRST_PAIR]] : vector<2xbf16> to i32
    // CHECK-DAG:  %[[BOTTOM:.+]] = llvm.extractvalue %[[C]][1]
    // CHECK-DAG:  %[[C2:.+]] = llvm.extractelement %[[BOTTOM]][%{{.+}} : i32]
    // CHECK:      %[[D:.+]] = nvvm.mma.sync A[%{{.+}}, %{{.+}}, %{{.+}}, %[[A3]]] B[%[[B0]], %{{.+}}] C[%{{.+}}, %{{.+}}, %[[C2]], %{{.+}}]
    // CHECK-SAME:   layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>
    // CHECK-SAME:   multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>
    // CHECK-SAME:   shape = #nvvm.shape<m = 16, n = 8, k = 16>
    // CHECK-SAME:   (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    // CHECK-DAG:  llvm.extractvalue %[[D]][2]
    // CHECK-DAG:  llvm.extractvalue %[[D]][3]
    // CHECK:      llvm.return
    %d = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 16]}
        : (vector<4x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %bottom_left = vector.extract %d[1, 0] : f32 from vector<2x2xf32>
    %bottom_right = vector.extract %d[1, 1] : f32 from vector<2x2xf32>
    %sum = arith.addf %bottom_left, %bottom_right : f32
    memref.store %sum, %out[] : memref<f32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: llvm.func @f16_mma
gpu.module @kernels {
  gpu.func @f16_mma(%out: memref<f32>, %a: vector<4x2xf16>, %b: vector<2x2xf16>,
                    %c: vector<2x2xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      nvvm.mma.sync
    // CHECK-SAME:   shape = #nvvm.shape<m = 16, n = 8, k = 16>
    // CHECK-SAME:   (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %d = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 16]}
        : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %first = vector.extract %d[0, 0] : f32 from vector<2x2xf32>
    memref.store %first, %out[] : memref<f32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: llvm.func @bf16_mma_of_one_core_along_k
// CHECK-SAME:    %[[OUT:[^:]+]]: !llvm.ptr, %[[A:[^:]+]]: !llvm.array<2 x vector<2xbf16>>, %[[B:[^:]+]]: !llvm.array<1 x vector<2xbf16>>, %[[C:[^:]+]]: !llvm.array<2 x vector<2xf32>>
gpu.module @kernels {
  gpu.func @bf16_mma_of_one_core_along_k(
      %out: memref<f32>, %a: vector<2x2xbf16>, %b: vector<1x2xbf16>,
      %c: vector<2x2xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-DAG:  %[[LAST_PAIR:.+]] = llvm.extractvalue %[[A]][1]
    // CHECK-DAG:  %[[A1:.+]] = llvm.bitcast %[[LAST_PAIR]] : vector<2xbf16> to i32
    // CHECK-DAG:  %[[ONLY_PAIR:.+]] = llvm.extractvalue %[[B]][0]
    // CHECK-DAG:  %[[B0:.+]] = llvm.bitcast %[[ONLY_PAIR]] : vector<2xbf16> to i32
    // CHECK:      nvvm.mma.sync A[%{{.+}}, %[[A1]]] B[%[[B0]]] C[%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}]
    // CHECK-SAME:   multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>
    // CHECK-SAME:   shape = #nvvm.shape<m = 16, n = 8, k = 8>
    // CHECK-SAME:   (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %d = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 8]}
        : (vector<2x2xbf16>, vector<1x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %first = vector.extract %d[0, 0] : f32 from vector<2x2xf32>
    memref.store %first, %out[] : memref<f32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: llvm.func @f16_mma_of_one_core_along_k
gpu.module @kernels {
  gpu.func @f16_mma_of_one_core_along_k(
      %out: memref<f32>, %a: vector<2x2xf16>, %b: vector<1x2xf16>,
      %c: vector<2x2xf32>) kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      nvvm.mma.sync A[%{{.+}}, %{{.+}}] B[%{{.+}}] C[%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}]
    // CHECK-SAME:   shape = #nvvm.shape<m = 16, n = 8, k = 8>
    // CHECK-SAME:   (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %d = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 8]}
        : (vector<2x2xf16>, vector<1x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %first = vector.extract %d[0, 0] : f32 from vector<2x2xf32>
    memref.store %first, %out[] : memref<f32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// One instruction each: nothing comes from libdevice.

// CHECK-LABEL: gpu.module @kernels
// CHECK-NOT:     @__nv_
// CHECK:         llvm.func @math_without_libdevice
// CHECK-SAME:      %[[X:[^:]+]]: f32
gpu.module @kernels {
  gpu.func @math_without_libdevice(%out: memref<f32>, %x: f32)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[EXP2:.+]] = llvm.intr.exp2(%[[X]]) : (f32) -> f32
    // CHECK-NEXT: %[[LOG2:.+]] = llvm.call_intrinsic "llvm.nvvm.lg2.approx.ftz.f"(%[[EXP2]]) : (f32) -> f32
    // CHECK-NEXT: %[[FMA:.+]] = llvm.intr.fma(%[[EXP2]], %[[LOG2]], %[[X]]) : (f32, f32, f32) -> f32
    // CHECK-NEXT: %[[MAX:.+]] = llvm.intr.maxnum(%[[FMA]], %[[X]]) : (f32, f32) -> f32
    // CHECK-NEXT: %[[TANH:.+]] = llvm.intr.tanh(%[[MAX]]) {fastmathFlags = #llvm.fastmath<afn>} : (f32) -> f32
    // CHECK-NEXT: llvm.store %[[TANH]]
    %exp2 = math.exp2 %x : f32
    %log2 = math.log2 %exp2 : f32
    %fma = math.fma %exp2, %log2, %x : f32
    %max = arith.maxnumf %fma, %x : f32
    %tanh = math.tanh %max : f32
    memref.store %tanh, %out[] : memref<f32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: gpu.module @kernels
// CHECK-NOT:     @__nv_
// CHECK:         llvm.func @math_on_cores_without_libdevice
// CHECK-SAME:      %[[X:[^:]+]]: vector<2xf32>
gpu.module @kernels {
  gpu.func @math_on_cores_without_libdevice(%out: memref<f32>,
                                            %x: vector<2xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[EXP2:.+]] = llvm.intr.exp2(%[[X]]) : (vector<2xf32>) -> vector<2xf32>
    // CHECK-NEXT: %[[FMA:.+]] = llvm.intr.fma(%[[EXP2]], %[[X]], %[[X]])
    // CHECK-NEXT: llvm.intr.maxnum(%[[FMA]], %[[X]]) : (vector<2xf32>, vector<2xf32>) -> vector<2xf32>
    %exp2 = math.exp2 %x : vector<2xf32>
    %fma = math.fma %exp2, %x, %x : vector<2xf32>
    %max = arith.maxnumf %fma, %x : vector<2xf32>
    %first = vector.extract %max[0] : f32 from vector<2xf32>
    memref.store %first, %out[] : memref<f32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 2>

// The block size is exact, and denormals are flushed.

// CHECK-LABEL: llvm.func @kernel_attributes
// CHECK-SAME:    denormal_fp_math_f32 = "preserve-sign,preserve-sign"
// CHECK-SAME:    nvvm.kernel
// CHECK-NOT:     nvvm.maxntid
// CHECK-SAME:    nvvm.minctasm = 2 : i32
// CHECK-SAME:    nvvm.reqntid = array<i32: 128, 1, 1>
gpu.module @kernels {
  gpu.func @kernel_attributes()
      kernel attributes {fcgpu.schedule = #schedule,
                         known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: llvm.return
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK-LABEL: llvm.func @no_bound_on_the_blocks_of_an_sm
// CHECK-NOT:     nvvm.minctasm
// CHECK-SAME:    nvvm.reqntid = array<i32: 128, 1, 1>
gpu.module @kernels {
  gpu.func @no_bound_on_the_blocks_of_an_sm()
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK: llvm.return
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// A rank-0 memref is a pointer and an index 64 bits: what the manifest lists.

// CHECK-LABEL: llvm.func @arguments_are_pointers_and_i64
// CHECK-SAME:    (%[[BASE:[^:]+]]: !llvm.ptr {llvm.align = 16 : i32, llvm.noalias, llvm.readonly}, %[[OUT:[^:]+]]: !llvm.ptr, %[[STRIDE:[^:]+]]: i64) attributes
gpu.module @kernels {
  gpu.func @arguments_are_pointers_and_i64(
      %base: memref<f32> {llvm.align = 16 : i32, llvm.noalias, llvm.readonly},
      %out: memref<f32>, %stride: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      llvm.mul %[[STRIDE]], %{{.+}} : i64
    // CHECK:      %[[ELEMENT:.+]] = llvm.getelementptr {{.*}}%[[BASE]][%{{.+}}] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    // CHECK-NEXT: %[[VALUE:.+]] = llvm.load %[[ELEMENT]]
    // CHECK-NEXT: llvm.store %[[VALUE]], %[[OUT]]
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %in = memref.reinterpret_cast %base to offset: [0], sizes: [2, 8],
        strides: [%stride, 1] : memref<f32> to memref<2x8xf32, strided<[?, 1]>>
    %value = memref.load %in[%c1, %c0] : memref<2x8xf32, strided<[?, 1]>>
    memref.store %value, %out[] : memref<f32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK:       llvm.mlir.global external @flashcore_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// CHECK-LABEL: llvm.func @memory_of_the_block
// CHECK-SAME:    %[[IN:[^:]+]]: !llvm.ptr, %[[OUT:[^:]+]]: !llvm.ptr, %[[ELEMENTS:[^:]+]]: i64
gpu.module @kernels {
  gpu.func @memory_of_the_block(%base: memref<f16>, %out: memref<f16>,
                                %elements: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      llvm.mlir.addressof @flashcore_shared : !llvm.ptr<3>
    // CHECK:      nvvm.cp.async.shared.global %{{.+}}, %{{.+}}, 16, cache = cg, %{{.+}} : !llvm.ptr<3>, !llvm.ptr<1>, i32
    // CHECK-NEXT: nvvm.cp.async.commit.group
    // CHECK-NEXT: nvvm.cp.async.wait.group 0
    // CHECK-NEXT: nvvm.barrier0
    // CHECK:      nvvm.ldmatrix %{{.+}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<col>, num = 4 : i32
    // CHECK:      llvm.return
    %c0 = arith.constant 0 : index
    %shared = gpu.dynamic_shared_memory
        : memref<?xi8, #gpu.address_space<workgroup>>
    %bytes = memref.reinterpret_cast %shared to offset: [0], sizes: [512],
        strides: [1] : memref<?xi8, #gpu.address_space<workgroup>>
        to memref<512xi8, #gpu.address_space<workgroup>>
    %ring = memref.view %bytes[%c0][] : memref<512xi8, #gpu.address_space<workgroup>>
        to memref<256xf16, #gpu.address_space<workgroup>>
    %in = memref.reinterpret_cast %base to offset: [0], sizes: [16, 16],
        strides: [16, 1] : memref<f16> to memref<16x16xf16>
    %token = nvgpu.device_async_copy %in[%c0, %c0], %ring[%c0], 8, %elements
        {bypassL1} : memref<16x16xf16> to memref<256xf16, #gpu.address_space<workgroup>>
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
    gpu.barrier
    %cores = nvgpu.ldmatrix %ring[%c0] {numTiles = 4 : i32, transpose = true}
        : memref<256xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
    %first = vector.extract %cores[0, 0] : f16 from vector<4x2xf16>
    memref.store %first, %out[] : memref<f16>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// CHECK:     llvm.mlir.global external @flashcore_shared()
// CHECK-NOT: llvm.mlir.global
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @kernels_of_a_module_share_the_symbol
  gpu.func @kernels_of_a_module_share_the_symbol(%out: memref<i8>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK: llvm.mlir.addressof @flashcore_shared
    %c0 = arith.constant 0 : index
    %shared = gpu.dynamic_shared_memory
        : memref<?xi8, #gpu.address_space<workgroup>>
    %value = memref.load %shared[%c0]
        : memref<?xi8, #gpu.address_space<workgroup>>
    memref.store %value, %out[] : memref<i8>
    gpu.return
  }

  // CHECK-LABEL: llvm.func @second_kernel
  gpu.func @second_kernel(%out: memref<i8>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK: llvm.mlir.addressof @flashcore_shared
    %c0 = arith.constant 0 : index
    %shared = gpu.dynamic_shared_memory
        : memref<?xi8, #gpu.address_space<workgroup>>
    %value = memref.load %shared[%c0]
        : memref<?xi8, #gpu.address_space<workgroup>>
    memref.store %value, %out[] : memref<i8>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Where a block is in a grid of sizes that are known at run time is found by
// 32-bit divisions; anything else that is taken apart may have more bits.

// CHECK-LABEL: llvm.func @a_block_in_an_open_grid
// CHECK:         llvm.udiv %{{.+}} : i32
// CHECK:         llvm.udiv %{{.+}} : i32
// CHECK-NOT:     div
// CHECK:         llvm.return
// CHECK-LABEL: llvm.func @a_number_of_an_open_grid
// CHECK:         llvm.sdiv %{{.+}} : i64
gpu.module @kernels {
  gpu.func @a_block_in_an_open_grid(%out: memref<16xindex>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %block = gpu.block_id x
    %ids:3 = affine.delinearize_index %block into (%n, 12, %n) : index, index, index
    memref.store %ids#0, %out[%ids#1] : memref<16xindex>
    memref.store %ids#0, %out[%ids#2] : memref<16xindex>
    gpu.return
  }
  gpu.func @a_number_of_an_open_grid(%out: memref<16xindex>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    %thread = gpu.thread_id x
    %ids:2 = affine.delinearize_index %thread into (%n, %n) : index, index
    memref.store %ids#0, %out[%ids#1] : memref<16xindex>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// Loops, ifs, affine and index arithmetic, vectors, shuffles: no op of another
// dialect is left. Attributes may name them.

// CHECK-LABEL: llvm.func @no_op_of_another_dialect_is_left
gpu.module @kernels {
  gpu.func @no_op_of_another_dialect_is_left(%out: memref<f32>, %n: index)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-NOT: {{^ *(%[^ ]+ = )?(affine|arith|builtin|cf|fcgpu|gpu|math|memref|nvgpu|scf|ub|vector)\.}}
    // CHECK:     nvvm.shfl.sync bfly
    // CHECK-NOT: {{^ *(%[^ ]+ = )?(affine|arith|builtin|cf|fcgpu|gpu|math|memref|nvgpu|scf|ub|vector)\.}}
    // CHECK:     llvm.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant 1 : i32
    %width = arith.constant 32 : i32
    %zero = arith.constant 0.0 : f32
    %thread = gpu.thread_id x
    %block = gpu.block_id x
    %ids:2 = affine.delinearize_index %block into (4, 8) : index, index
    %row = affine.min affine_map<(d0)[s0] -> (16, s0 - d0 * 16)>(%ids#0)[%n]
    %sum = scf.for %i = %c0 to %row step %c1 iter_args(%acc = %zero) -> f32 {
      %other, %valid = gpu.shuffle xor %acc, %one, %width : f32
      %core = vector.from_elements %acc, %other : vector<2xf32>
      %is_first = arith.cmpi eq, %thread, %i : index
      %chosen = scf.if %is_first -> f32 {
        %hi = vector.extract %core[1] : f32 from vector<2xf32>
        scf.yield %hi : f32
      } else {
        scf.yield %acc : f32
      }
      scf.yield %chosen : f32
    }
    memref.store %sum, %out[] : memref<f32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 2>

// A kernel that only has a description (a merge) gets its block size from that,
// and as many registers as its loads want.

// CHECK-LABEL: llvm.func @scheduled()
// CHECK-SAME:    nvvm.minctasm = 2 : i32
// CHECK-SAME:    nvvm.reqntid = array<i32: 128, 1, 1>
// CHECK-LABEL: llvm.func @described()
// CHECK-SAME:    denormal_fp_math_f32 = "preserve-sign,preserve-sign"
// CHECK-SAME:    nvvm.minctasm = 1 : i32
// CHECK-SAME:    nvvm.reqntid = array<i32: 48, 1, 1>
gpu.module @kernels {
  gpu.func @scheduled() kernel attributes {fcgpu.schedule = #schedule} {
    gpu.return
  }
  gpu.func @described() kernel attributes {
      fcgpu.kernel = {threads = 48 : i64},
      known_block_size = array<i32: 48, 1, 1>} {
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 16,
  num_warps = 4, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>

// The targets say the newest PTX that a kernel needs, or a newer one if they
// already do; what else they say stays.

// CHECK:       gpu.module @kernels
// CHECK-SAME:    #nvvm.target<O = 3, chip = "sm_89", features = "+ptx84,+other", flags = {fast}>
// CHECK-SAME:    #nvvm.target<chip = "sm_89", features = "+ptx84">
// CHECK-SAME:    #nvvm.target<chip = "sm_90", features = "+ptx86">
gpu.module @kernels [
    #nvvm.target<O = 3, chip = "sm_89", features = "+other,+ptx80", flags = {fast}>,
    #nvvm.target<chip = "sm_89">,
    #nvvm.target<chip = "sm_90", features = "+ptx86">] {
  gpu.func @older() kernel attributes {fcgpu.schedule = #schedule, fcgpu.ptx_version = 80} {
    gpu.return
  }
  gpu.func @newer() kernel attributes {fcgpu.schedule = #schedule, fcgpu.ptx_version = 84} {
    gpu.return
  }
}

// -----

// A module without a kernel of ours is somebody else's to lower.

// CHECK-LABEL: gpu.func @foreign_kernel
gpu.module @kernels {
  gpu.func @foreign_kernel(%out: memref<f32>, %x: f32) kernel {
    // CHECK-NEXT: math.exp2
    // CHECK-NEXT: memref.store
    // CHECK-NEXT: gpu.return
    %exp2 = math.exp2 %x : f32
    memref.store %exp2, %out[] : memref<f32>
    gpu.return
  }
}
