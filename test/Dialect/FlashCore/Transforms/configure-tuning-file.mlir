// RUN: split-file %s %t
// RUN: flashcore-opt %t/attention.mlir \
// RUN:   -flashcore-configure='tuning-file=%t/tuning.json' | FileCheck %s
// RUN: flashcore-opt %t/attention.mlir \
// RUN:   -flashcore-configure='tuning-file=%t/tuning.json block-n=32' \
// RUN:   | FileCheck %s --check-prefix=FORCED
// RUN: not flashcore-opt %t/attention.mlir \
// RUN:   -flashcore-configure='tuning-file=%t/none.json' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MISSING

// What the entry leaves out is chosen as ever.
// CHECK-LABEL: @has_entry
// CHECK: #fcgpu.schedule<chip = "sm_89", block_m = 48, block_n = 64, num_warps = 3
// CHECK-SAME: num_stages = 4
// FORCED-LABEL: @has_entry
// FORCED: block_m = 48, block_n = 32, num_warps = 3

// CHECK-LABEL: @has_no_entry
// CHECK: block_m = 128, block_n = 32, num_warps = 4
// FORCED-LABEL: @has_no_entry

// A schedule in the IR is kept.
// CHECK-LABEL: @has_schedule
// CHECK: block_m = 64, block_n = 16, num_warps = 4
// FORCED-LABEL: @has_schedule
// FORCED: block_m = 64, block_n = 16, num_warps = 4

// MISSING: error: cannot read the tuning file: cannot open input file '{{.*}}none.json': No such file or directory

//--- attention.mlir
!d64 = memref<?x?x?x64xf16>
!d128 = memref<?x?x?x128xf16>

func.func @has_entry(%q: !d64, %k: !d64, %v: !d64, %o: !d64) {
  flashcore.attention ins(%q, %k, %v : !d64, !d64, !d64) outs(%o : !d64)
  return
}
func.func @has_no_entry(%q: !d128, %k: !d128, %v: !d128, %o: !d128) {
  flashcore.attention ins(%q, %k, %v : !d128, !d128, !d128) outs(%o : !d128)
  return
}
func.func @has_schedule(%q: !d64, %k: !d64, %v: !d64, %o: !d64) {
  flashcore.attention ins(%q, %k, %v : !d64, !d64, !d64) outs(%o : !d64)
    {fcgpu.schedule = #fcgpu.schedule<
      chip = "sm_89", block_m = 64, block_n = 16, num_warps = 4,
      num_stages = 2, query = registers, grid_order = query_fastest,
      min_blocks = 1>}
  return
}

//--- tuning.json
{
  "format": "flashcore-tuning", "version": 1,
  "card": "NVIDIA L4", "chip": "sm_89", "date": "2026-11-21",
  "entries": [
    {"problem": {"head_dim": 64, "head_dim_v": 64, "causal": false,
                 "softcap": false, "bias": false, "window": false,
                 "query_blocks": "dynamic"},
     "schedule": {"block_m": 48, "num_warps": 3, "num_stages": 4}}
  ]
}
