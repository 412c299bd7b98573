//===- Passes.td - Phases 1 to 3 ---------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_TD
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConfigurePass : Pass<"flashcore-configure"> {
  let summary = "Choose a schedule for each flashcore.attention, a chip for each merge";
  let description = [{
    Phase 1. Precondition: none. Postcondition: every `flashcore.attention`
    carries a `fcgpu.schedule` for the chip, whose tiles fit the chip's shared
    memory, and says nothing that later phases cannot lower.

    Without the option `chip`, kernels that stand beside the attention say what to
    compile for: the chip of the `#nvvm.target` on their gpu.modules. They must
    name one chip; with none, it is sm_89.

    Other ops that become kernels, as `flashcore.merge`, carry `fcgpu.chip`, the
    name of the chip, which is all that there is to choose.

    An op that has a schedule keeps it. What the options force is never changed:
    if it does not fit, that is an error that names the value and the limit. An
    op with a feature that is not lowered yet is an error that names the feature.

    With `tuning-file` the fields that no option forces are those of the file's
    first entry for the problem. A file that cannot be read or is for another
    chip is an error. Without an entry the schedule is chosen as if there were
    no file, and so it is, with a remark, where the entry's does not fit.

    With `schedule` what the other options leave open is that of a schedule that
    has a name: one of the steps of docs/Ladder.md.

    With `few-queries` an op whose seqlen_q is known at run time only gets a second
    schedule, `fcgpu.few_queries`, for calls of at most so many queries a sequence:
    one set of kernels for prompts, and one for decoding.

    ```mlir
    flashcore.attention ins(...) outs(...)
    // becomes
    flashcore.attention ins(...) outs(...) {fcgpu.schedule =
        #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64, ...>}
    ```
  }];
  // And one for each field of a schedule, of ScheduleFields.def; see
  // ConfigurePassOptions in Passes.h.
  let options = [
    Option<"chip", "chip", "std::string", /*default=*/"\"\"",
           "Target chip, one of those that flashcore-compile --list-chips prints; empty takes that of the "
           "#nvvm.target on the module's kernels, or sm_89 without one">,
    Option<"tuningFile", "tuning-file", "std::string", /*default=*/"\"\"",
           "Take what the other options leave open from this file of "
           "flashcore-tune, where it has an entry for the problem">,
    Option<"schedule", "schedule", "std::string", /*default=*/"\"\"",
           "Take what the other options leave open from a schedule that has a name, "
           "such as scalar, +async or default (docs/Ladder.md)">,
    Option<"fewQueries", "few-queries", "int64_t", /*default=*/"0",
           "Choose a second schedule, for calls of at most so many queries of a "
           "sequence, where seqlen_q is known at run time only; 0 has none">,
  ];
  let statistics = [Statistic<"numConfigured", "num-configured",
                              "Attentions that got a schedule">];
  let dependentDialects = ["::mlir::fcgpu::FCGPUDialect"];
}

def DecomposePass : Pass<"flashcore-decompose"> {
  let summary = "Say which kernels each attention is";
  let description = [{
    The end of phase 1. Precondition: attentions are on memrefs and carry what
    flashcore-configure leaves on them. Postcondition: each has a `program`
    region, of its kernels in the order in which they run, and of the values that
    they leave one another in the workspace, which say who writes and who reads
    them. With a schedule for few queries there is an `scf.if`.

    An op that has a program keeps it. Its clauses and its meaning stay what they
    were: kernels have them, too.

    ```mlir
    flashcore.attention ins(...) append(...) rotary(...) outs(...)
        {fcgpu.schedule = #fcgpu.schedule<..., key_splits = 4>}
    // becomes
    flashcore.attention ins(...) append(...) rotary(...) outs(...)
        {fcgpu.schedule = #fcgpu.schedule<..., key_splits = 4>} program {
      %q = flashcore.workspace turned_query : memref<1x8x1x64xf16>
      %o = flashcore.workspace partial_outputs : memref<4x1x8x1x64xf32>
      %l = flashcore.workspace partial_lses : memref<4x1x8x1xf32>
      %r = flashcore.workspace partial_lse_rests : memref<4x1x8x1xf32>
      flashcore.append_kernel writes(%q : ...)
      flashcore.attention_kernel reads(%q : ...) writes(%o, %l, %r : ...)
      flashcore.merge_kernel reads(%o, %l, %r : ...)
    }
    ```
  }];
  let statistics = [Statistic<"numKernels", "num-kernels", "Kernels listed">];
  let dependentDialects = ["::mlir::fcgpu::FCGPUDialect",
                           "::mlir::scf::SCFDialect"];
}

def TilePass : Pass<"flashcore-tile", "::mlir::ModuleOp"> {
  let summary = "Turn each attention and each merge into kernels";
  let description = [{
    Phase 2. Precondition: every op with the KernelOpInterface is on memrefs and
    carries what flashcore-configure and flashcore-decompose leave on it:
    `fcgpu.schedule` and a program on attentions, `fcgpu.chip` on others. Postcondition: none is left outside a `gpu.func`; each
    became `gpu.launch_func`s of its kernels, which equal ops share.

    The main kernel of an attention is an `scf.forall` over the warps of a block
    (with `key_warps`: over rows and key parts) that holds a `flashcore.attention_tile`. The
    query tiles of a block start at a multiple of block_m; with head_group G, warp w
    of num_warps works on the w / (num_warps / G)th of the block's G heads, and all
    of them on one kv head.

    With grid_heads H, blocks are numbered so that H heads (or groups of heads)
    at a time take turns, each time with the query tile before the last one.

    With a persistent grid the tiles of a block are those of an `scf.for` with
    `fcgpu.block_tiles`, in the loop over warps.

    With key_splits N > 1, N blocks share a query tile: split s works on the s-th
    part of the key tiles that the tile's queries see, and writes its O and LSE in
    f32 to a workspace. A second kernel, of upstream ops alone, merges them. It is
    that of `flashcore.merge`, too: a block merges a query row, groups of its
    threads take turns at the parts, a thread four columns of them, and what the
    groups have meets in shared memory.

    With softmax unfused there are three kernels. The tiles of the first,
    `flashcore.scores_tile`, write the masked scores to a workspace, as those of
    `scores` write an output; the second, of upstream ops alone, makes P of them,
    and LSE; the tiles of the third, `flashcore.values_tile`, read P and write O.

    The gpu.module of a kernel carries a `#nvvm.target` for its chip, by which
    upstream's gpu-module-to-binary compiles it after phase 7; flags and features
    are those of the first such target in the module. Tensors in the global
    address space are cast to the default one.

    The kernel's arguments are rank-0 memrefs (bare pointers), then the sizes,
    strides and offsets that are not static, 64 bits each; `fcgpu.kernel` on the
    kernel lists them. For a host that is not MLIR `fcgpu.program` on the
    gpu.module says how kernels are launched, on which tensors and sizes. The ops
    of a function of nothing but such ops and of memrefs that are allocated,
    viewed and measured are one program, with one gpu.module.

    ```mlir
    gpu.func @attention_f16_d64(%q: memref<f16>, ...) kernel {
      %b:3 = affine.delinearize_index %block into (1, 8, 8)
      scf.forall (%warp) in (4) {
        flashcore.attention_tile ins(%q_tile, %k_head, %v_head : ...)
            outs(%o_tile : ...) at(batch %b#0, head %b#1, query %row of %c512,
            key %c0 to %c512 of %c512, block %block_row) scale(0.125)
      } {mapping = [#gpu.warp<linear_dim_0>]}
    ```
  }];
  let statistics = [Statistic<"numKernels", "num-kernels", "Kernels made">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::fcgpu::FCGPUDialect", "::mlir::gpu::GPUDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def OnlineSoftmaxPass : Pass<"flashcore-online-softmax", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Write each attention tile as a loop over key tiles";
  let description = [{
    Phase 3. Precondition: the tiles of flashcore-tile. Postcondition:
    no `flashcore.` op is left in the kernel; each tile is an `scf.for` over key
    tiles of `vector` values (warp tiles), and each read of a tile of Q, K or V
    says by `fcgpu.staging` how it goes through shared memory.

    The algorithm is that of FlashAttention-2 (Dao, 2023, algorithm 1): the two
    products are `vector.contract`, the running maximum and sum rescale the
    accumulator, exp is exp2 with the scale folded in. Key tiles are walked from
    the last visible one down, so that those that need a mask (the end of the
    sequence, the causal diagonal) come first: `%i < %num_masked` guards the
    mask. Tiles that nobody sees are never visited. Of lists of blocks the tiles of
    those that a mask is asked in come first, then those of full ones. A row whose maximum is -inf
    uses 0 instead, so -inf - -inf is never computed.

    With `key_warps` the warps of a group walk the tiles in turn and merge their
    results by `fcgpu.all_to_all`. With `softmax = one_pass` there is no loop: all
    scores of a warp come before its first exponential. A `flashcore.values_tile` is
    the loop with the second product alone, and a `flashcore.scores_tile` the first
    product without a loop. Where products of two key
    tiles are to run together, the loop says so by `fcgpu.overlap`.

    ```mlir
    scf.for %i = %c0 to %num_tiles step %c1 iter_args(%acc, %row_max, %row_sum)
      %s = vector.contract ... %q, %k
      %tile_max = vector.multi_reduction <maxnumf>, %s, %row_max [1]
      ...
    ```
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::fcgpu::FCGPUDialect", "::mlir::gpu::GPUDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_TD
