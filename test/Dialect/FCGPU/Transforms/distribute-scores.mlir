// The region of map_scores in lanes: an element's key is compared in 32 bits,
// relative to the first key of its lane, and what depends on the row alone is
// computed once a row.

// RUN: flashcore-opt %s -split-input-file \
// RUN:   -pass-pipeline='builtin.module(gpu.module(gpu.func(flashcore-assign-layouts,flashcore-distribute,cse)))' \
// RUN:   | FileCheck %s

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf32>

// Of the four columns of a lane, two are 1 and two are 8 and 9 from the first; a
// bound outside of the tile becomes one just outside of it.

// CHECK-LABEL: gpu.func @comparisons_take_32_bits
// CHECK-SAME:    %{{[^:]+}}: index, %[[FIRST_KEY:[^:]+]]: index, %[[SHIFT:[^:]+]]: index
gpu.module @kernels {
  gpu.func @comparisons_take_32_bits(%query: index, %key: index,
                                     %shift: index, %out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[KEY:.+]] = arith.addi %[[FIRST_KEY]], %{{.+}} : index
    // CHECK:      %[[BOUND:.+]] = arith.addi %{{.+}}, %[[SHIFT]] : index
    // CHECK:      %[[COLUMN:.+]] = arith.subi %[[BOUND]], %[[KEY]] : index
    // CHECK:      %[[CUT:.+]] = arith.minsi %[[COLUMN]], %{{.+}} : index
    // CHECK:      %[[IN_TILE:.+]] = arith.maxsi %[[CUT]], %{{.+}} : index
    // CHECK:      %[[LIMIT:.+]] = arith.index_cast %[[IN_TILE]] : index to i32
    // CHECK:      arith.cmpi sle, %{{.+}}, %[[LIMIT]] : i32
    // CHECK-NOT:  %[[SHIFT]]
    // CHECK:      arith.cmpi sle, %{{.+}}, %[[LIMIT]] : i32
    // CHECK-NOT:  %[[SHIFT]]
    // CHECK:      arith.cmpi sle, %{{.+}}, %[[LIMIT]] : i32
    // CHECK-NOT:  %[[SHIFT]]
    // CHECK:      arith.cmpi sle, %{{.+}}, %[[LIMIT]] : i32
    // The next row of cores.
    // CHECK:      arith.addi %{{.+}}, %[[SHIFT]] : index
    // CHECK-COUNT-4: arith.cmpi sle, %{{.+}}, %{{.+}} : i32
    // CHECK-NOT:  arith.cmpi
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !tile
    %low = arith.constant -1.0 : f32
    %r = fcgpu.map_scores %zero[%query, %key] : !tile {
    ^bb0(%score: f32, %i: index, %j: index):
      %bound = arith.addi %i, %shift : index
      %visible = arith.cmpi sle, %j, %bound : index
      %s = arith.select %visible, %score, %low : f32
      fcgpu.yield %s : f32
    }
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf32>

// The key on the right side is the same. Not so an unsigned comparison, or one
// with a value that depends on the key.

// CHECK-LABEL: gpu.func @other_comparisons_stay
gpu.module @kernels {
  gpu.func @other_comparisons_stay(%query: index, %key: index,
                                   %out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[LIMIT:.+]] = arith.index_cast
    // CHECK:      arith.cmpi sgt, %[[LIMIT]], %{{.+}} : i32
    // CHECK:      arith.cmpi ult, %{{.+}}, %{{.+}} : index
    // CHECK:      arith.cmpi sle, %{{.+}}, %{{.+}} : index
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant dense<0.0> : !tile
    %low = arith.constant -1.0 : f32
    %r = fcgpu.map_scores %zero[%query, %key] : !tile {
    ^bb0(%score: f32, %i: index, %j: index):
      %third = arith.divui %j, %c3 : index
      %a = arith.cmpi sgt, %i, %j : index
      %b = arith.cmpi ult, %j, %i : index
      %c = arith.cmpi sle, %j, %third : index
      %ab = arith.andi %a, %b : i1
      %abc = arith.andi %ab, %c : i1
      %s = arith.select %abc, %score, %low : f32
      fcgpu.yield %s : f32
    }
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf32>

// What grows from key to key by the same amount is computed in a row's first
// column, here the conversion to f32 and its product with a slope; the other
// columns are a constant times the slope away. Sums of 32 bits that may wrap are
// exact modulo 2^32, and neither converted nor compared so.

// CHECK-LABEL: gpu.func @linear_values
// CHECK-SAME:    %[[SLOPE:[^:]+]]: f32, %[[OFFSET:[^:]+]]: i32
gpu.module @kernels {
  gpu.func @linear_values(%query: index, %key: index, %slope: f32, %offset: i32, %out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[FIRST:.+]] = arith.sitofp
    // CHECK:      %[[ALIBI:.+]] = arith.mulf %[[FIRST]], %[[SLOPE]]
    // CHECK-NOT:  arith.sitofp
    // CHECK:      arith.addf %{{.+}}, %[[ALIBI]]
    // CHECK:      %[[NEXT:.+]] = math.fma %[[SLOPE]], %{{.+}}, %[[ALIBI]]
    // CHECK:      arith.addf %{{.+}}, %[[NEXT]]
    // CHECK-COUNT-2: math.fma
    // The next row of cores.
    // CHECK:      arith.sitofp
    // CHECK-COUNT-3: math.fma
    // CHECK-NOT:  math.fma
    // CHECK-COUNT-4: arith.sitofp
    // CHECK-NOT:  arith.sitofp
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !tile
    %r = fcgpu.map_scores %zero[%query, %key] : !tile {
    ^bb0(%score: f32, %i: index, %j: index):
      %row = arith.index_cast %i : index to i32
      %column = arith.index_cast %j : index to i32
      %distance = arith.subi %column, %row overflow<nsw> : i32
      %real = arith.sitofp %distance : i32 to f32
      %product = arith.mulf %real, %slope : f32
      %s = arith.addf %score, %product : f32
      fcgpu.yield %s : f32
    }
    %wrapped = fcgpu.map_scores %r[%query, %key] : !tile {
    ^bb0(%score: f32, %i: index, %j: index):
      %narrow = arith.index_cast %j : index to i32
      %sum = arith.addi %narrow, %offset : i32
      %real = arith.sitofp %sum : i32 to f32
      %s = arith.addf %score, %real : f32
      fcgpu.yield %s : f32
    }
    vector.transfer_write %wrapped, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf32>

// Of the eight elements of a lane, two each are side by side: four reads. Those
// of bytes are numbers of 16 bits.

// CHECK-LABEL: gpu.func @pairs
// CHECK-SAME:    %[[HALVES:[^:]+]]: memref<16x16xf16>, %[[BYTES:[^:]+]]: memref<16x16xi8>
gpu.module @kernels {
  gpu.func @pairs(%query: index, %key: index, %halves: memref<16x16xf16>, %bytes: memref<16x16xi8>,
                  %out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      %[[PAIR:.+]] = vector.load %[[HALVES]]{{.+}} {alignment = 4 : i64} : memref<16x16xf16>, vector<2xf16>
    // CHECK:      %[[HALF:.+]] = vector.extract %[[PAIR]][0]
    // CHECK:      arith.extf %[[HALF]]
    // CHECK:      %[[TWO:.+]] = vector.load %[[BYTES]]{{.+}} {alignment = 2 : i64} : memref<16x16xi8>, vector<2xi8>
    // CHECK:      vector.bitcast %[[TWO]] : vector<2xi8> to vector<1xi16>
    // CHECK:      %[[BITS:.+]] = arith.extui %{{.+}} : i16 to i32
    // CHECK:      arith.trunci %[[BITS]] : i32 to i8
    // CHECK-NOT:  vector.load
    // CHECK:      %[[HALF:.+]] = vector.extract %[[PAIR]][1]
    // CHECK:      arith.extf %[[HALF]]
    // CHECK:      %[[HIGH:.+]] = arith.shrui %[[BITS]],
    // CHECK:      arith.trunci %[[HIGH]] : i32 to i8
    // CHECK-COUNT-6: vector.load
    // CHECK-NOT:  vector.load
    // CHECK-NOT:  memref.load
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !tile
    %r = fcgpu.map_scores %zero[%query, %key] : !tile {
    ^bb0(%score: f32, %i: index, %j: index):
      %half = memref.load %halves[%i, %j] {fcgpu.paired} : memref<16x16xf16>
      %bias = arith.extf %half : f16 to f32
      %byte = memref.load %bytes[%i, %j] {fcgpu.paired} : memref<16x16xi8>
      %none = arith.constant 0 : i8
      %visible = arith.cmpi ne, %byte, %none : i8
      %s = arith.select %visible, %bias, %score : f32
      fcgpu.yield %s : f32
    }
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf32>

// A place that follows the distance of query and key: a lane's rows are 8 apart,
// as are its columns, so that of its eight elements two have the places of others.

// CHECK-LABEL: gpu.func @distances
// CHECK-SAME:    %[[TABLE:[^:]+]]: memref<100xf32>
gpu.module @kernels {
  gpu.func @distances(%query: index, %key: index, %table: memref<100xf32>, %out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK:      arith.subi
    // CHECK-NOT:  arith.subi
    // CHECK-COUNT-6: memref.load %[[TABLE]]
    // CHECK-NOT:  memref.load
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : !tile
    %r = fcgpu.map_scores %zero[%query, %key] : !tile {
    ^bb0(%score: f32, %i: index, %j: index):
      %distance = arith.subi %i, %j : index
      %bias = memref.load %table[%distance] : memref<100xf32>
      %s = arith.addf %bias, %score : f32
      fcgpu.yield %s : f32
    }
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf32>
    gpu.return
  }
}

// -----

#schedule = #fcgpu.schedule<chip = "sm_89", block_m = 16, block_n = 16,
  num_warps = 1, num_stages = 2, query = registers,
  grid_order = query_fastest, min_blocks = 0>
!tile = vector<16x16xf32>

// What does not grow with the key is read element by element, whatever it says.

// CHECK-LABEL: gpu.func @no_pairs
// CHECK-SAME:    %[[TABLE:[^:]+]]: memref<16xf32>
gpu.module @kernels {
  gpu.func @no_pairs(%query: index, %key: index, %table: memref<16xf32>, %out: memref<16x16xf32>)
      kernel attributes {fcgpu.schedule = #schedule} {
    // CHECK-COUNT-4: memref.load %[[TABLE]][%{{.+}}] : memref<16xf32>
    // CHECK-NOT:  vector.load
    // CHECK:      gpu.return
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : !tile
    %r = fcgpu.map_scores %zero[%query, %key] : !tile {
    ^bb0(%score: f32, %i: index, %j: index):
      %place = arith.remui %j, %c16 : index
      %bias = memref.load %table[%place] {fcgpu.paired} : memref<16xf32>
      %s = arith.addf %bias, %score : f32
      fcgpu.yield %s : f32
    }
    vector.transfer_write %r, %out[%c0, %c0] {in_bounds = [true, true]}
        : !tile, memref<16x16xf32>
    gpu.return
  }
}
