//===- Passes.td - Phases 4 to 6 ---------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FCGPU_TRANSFORMS_PASSES_TD
#define FLASHCORE_DIALECT_FCGPU_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

// All passes here work on kernels of flashcore-tile, known by their
// `fcgpu.schedule`; any other `gpu.func` is left as it is.

def SimplifyKernelPass : Pass<"flashcore-simplify-kernel", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Canonicalize and CSE a kernel, if it is ours";
  let description = [{
    Between phases. Precondition and postcondition: none. Upstream's canonicalizer
    and CSE on a kernel that carries `fcgpu.schedule`; kernels of others pass
    through untouched.
  }];
}

def PromoteSharedPass : Pass<"flashcore-promote-shared", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Read 16-bit tiles through swizzled rings in shared memory";
  let description = [{
    Phase 4. Precondition: in a kernel with `fcgpu.schedule`, each 16-bit warp
    tile is read by a `vector.transfer_read` with an `fcgpu.staging`, inside an
    `scf.forall` over warps, in loops that start at 0 with step 1; one that the
    block copies is the same for all warps. Postcondition: no 16-bit rank-2 tile
    is read from global memory; each is copied into a ring by `fcgpu.copy` and
    read from there by `fcgpu.read`.

    All of this is what `fcgpu.staging` says, nothing is chosen here. Tiles by
    `turn` (K, V) are numbered by the iteration of their loop; those outside of
    loops (one pass) go through one ring in program order. A tile by `holder` (Q)
    lies in the slot of its warp: columns that are not `kept` are read again by
    each product, and where others are kept in a product of their own.
    The IR is not yet right for more than one thread: flashcore-hand-over-slots and
    flashcore-insert-barriers make it so.

    ```mlir
    %k = vector.transfer_read %key[%c0, %c0, %row, %c0], %zero
    // becomes
    fcgpu.copy %key[%c0, %c0, %row, %c0] to %ring[%i] by block
    %k = fcgpu.read %ring[%i]
    ```
  }];
  let statistics = [Statistic<"numPromoted", "num-promoted",
                              "Tile reads that go through shared memory">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::fcgpu::FCGPUDialect"];
}

def SpecializeWarpsPass : Pass<"flashcore-specialize-warps", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Make the copies of a kernel the program of a warp of its own";
  let description = [{
    Warp specialization: a producer that copies, and consumers that multiply.

    Phase 5. Precondition: flashcore-promote-shared; what is copied depends on
    nothing that the warps compute. Postcondition: where the schedule has warps
    that only fill rings, as those of product `warpgroup` and copies `producer`
    do, all copies of an `scf.forall` over the others stand in an `fcgpu.produce`
    in front of it, in loops like those that they stood in; a tile that each
    warp or warpgroup has for itself is copied for each of them. A loop over tiles
    of which one may leave out the first (`fcgpu.skip_unless`) begins behind them.

    ```mlir
    scf.forall (%g) in (2) {
      scf.for %i = ... { fcgpu.copy %k[...] to %ring[%i] by block  A }
    }
    // becomes
    fcgpu.produce {
      scf.for %i = ... { fcgpu.copy %k[...] to %ring[%i] by block }
    }
    scf.forall (%g) in (2) { scf.for %i = ... { A } }
    ```
  }];
  let statistics = [Statistic<"numSeparated", "num-separated",
                              "Loops over warps that copy no more">];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::fcgpu::FCGPUDialect",
                           "::mlir::scf::SCFDialect"];
}

def HandOverSlotsPass : Pass<"flashcore-hand-over-slots", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Acquire and release slots, on both sides of each ring";
  let description = [{
    Phase 5. Precondition: copies and reads stand where they will happen
    (flashcore-specialize-warps, flashcore-pipeline-loops, flashcore-start-next-tile);
    products that read tiles in place stand in the same block as the reads.
    Postcondition: each copy stands behind an `fcgpu.acquire` of its slot to fill,
    each read behind one of its tile to read, in the same block; the tile is
    released behind its last use there. The result of a product in place is used
    through an `fcgpu.await` only, which stands in front of the first use; it is
    the product's last use of its tiles.

    Where a role of its own fills the rings (`fcgpu.produce`), acquires and
    releases become instructions of their own, so a tile whose slot is never
    filled again is acquired once, in front of the loops, and not released.
    Analysis/SlotHandover proves that the two programs are right together. Where
    the same warps fill and read, flashcore-insert-barriers goes on.

    ```mlir
    fcgpu.copy %key[...] to %ring[%next] by block
    %k = fcgpu.read %ring[%i]
    // becomes
    fcgpu.acquire %ring[%next] to fill
    fcgpu.copy %key[...] to %ring[%next] by block
    fcgpu.acquire %ring[%i] to read
    %k = fcgpu.read %ring[%i]
    fcgpu.release %ring[%i]
    ```

    ```mlir
    %k = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared}
    %s = vector.contract {...} %q, %k, %zero
    %p = math.exp2 %s
    // becomes
    fcgpu.acquire %ring[%i] to read
    %k = fcgpu.read %ring[%i] {fcgpu.home = #fcgpu.shared}
    %s = vector.contract {...} %q, %k, %zero
    %scores = fcgpu.await %s in_flight(0)
    fcgpu.release %ring[%i]
    %p = math.exp2 %scores
    ```
  }];
  let statistics = [Statistic<"numAwaits", "num-awaits",
                              "Products that are awaited">];
  let dependentDialects = ["::mlir::NVVM::NVVMDialect",
                           "::mlir::fcgpu::FCGPUDialect"];
}

def PipelineLoopsPass : Pass<"flashcore-pipeline-loops", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Start copies num_stages - 1 iterations ahead of their use";
  let description = [{
    Phase 5. Precondition: flashcore-promote-shared; copies and reads of a loop
    use the iteration as the tile number; what a copy's address loads from inputs
    of the kernel stands at a place that exists for any number of the iteration,
    also past the last. Postcondition: in every loop with copies into a ring of s
    stages, iteration i starts the copy for iteration i + s - 1 (if there is one),
    before anything else; the first s - 1 are started in front of the loop. The trip count may be anything, also 0. Products
    run ahead or late as the loop's `fcgpu.overlap` says, which is gone. Outside
    of loops, the copies of tiles that are numbered in the order of their reads
    start as soon as their slot is free.

    ```mlir
    fcgpu.copy %key[...] to %ring[%c0] by block if %has_first
    scf.for %i = %c0 to %n step %c1 {
      %next = arith.addi %i, %c1
      fcgpu.copy %key[...] to %ring[%next] by block if %has_next
      %k = fcgpu.read %ring[%i]
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::fcgpu::FCGPUDialect",
                           "::mlir::scf::SCFDialect"];
}

def StartNextTilePass : Pass<"flashcore-start-next-tile", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Start the first copies of a block tile during the tile before";
  let description = [{
    Phase 5. Precondition: flashcore-pipeline-loops; the copies in front of all
    reads of a block tile depend on nothing but its number. Postcondition: in a
    loop with `fcgpu.block_tiles` (a persistent kernel's), those copies stand
    behind the last ring access of the block tile before, and those of the block's
    first tile in front of the loop. Each happens only if there is such a tile.
    Other kernels stay as they are.

    ```mlir
    fcgpu.copy %key[...] to %ring[%c0] by block if %has_tile
    scf.for %round = %c0 to %num_rounds step %c1 {
      scf.for %i = %c0 to %n ... {...}
      fcgpu.copy %next_key[...] to %ring[%c0] by block if %has_next_tile
      vector.transfer_write %o, ...
    ```
  }];
  let statistics = [Statistic<"numStarted", "num-started",
                              "Copies started in the tile before">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def InsertBarriersPass : Pass<"flashcore-insert-barriers", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Hand slots over by commits, waits and barriers";
  let description = [{
    Phase 5. Precondition: flashcore-hand-over-slots; what is done with rings
    stands in the body of an `scf.forall` over warps and of at most one loop in
    it; tile numbers are the loop's induction variable plus a constant, a
    constant, or one value from outside the loop. Postcondition: no
    `fcgpu.acquire` or `fcgpu.release` is left; waits and barriers in front of
    where they stood see to it that every read of a tile comes after its copy has
    arrived in all threads that need it, and every copy after all reads of the
    slot's old tile. Kernels in which a role of its own fills the rings
    (`fcgpu.produce`) stay as they are: mbarriers hand their slots over.

    The copies of one tile number form a group, if some of the loop over warps are
    asynchronous (not `via_registers`). The placement is the plan of
    Analysis/RingHazards: with the copies first, one wait and one barrier an
    iteration. An `fcgpu.all_to_all` comes after all copies into and releases of
    the warp's own rings. A copy or read of what is not acquired is an error, and
    so is what no wait can make right, such as a slot that is filled while its
    tile is not released.

    ```mlir
    fcgpu.acquire %ring[%next] to fill
    fcgpu.copy %key[...] to %ring[%next] by block
    fcgpu.acquire %ring[%i] to read
    %k = fcgpu.read %ring[%i]
    fcgpu.release %ring[%i]
    // becomes
    fcgpu.wait_copies in_flight(0)
    gpu.barrier
    fcgpu.copy %key[...] to %ring[%next] by block
    fcgpu.commit_copies
    %k = fcgpu.read %ring[%i]
    ```
  }];
  let statistics = [
    Statistic<"numBarriers", "num-barriers", "Block barriers inserted">,
    Statistic<"numWaits", "num-waits", "Waits inserted">];
  let dependentDialects = ["::mlir::fcgpu::FCGPUDialect",
                           "::mlir::gpu::GPUDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

def InferInBoundsPass : Pass<"flashcore-infer-in-bounds", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Find the copies of tiles whose rows all exist";
  let description = [{
    Phase 5. Precondition: none, but of a loop's copies only flashcore-pipeline-loops
    tells those of its first tiles from the others. Postcondition: every
    `fcgpu.copy` of which the bounds of its row prove that the tile ends before its
    source does is `in_bounds`. With tiles walked from the last one down, these are
    all of a loop: only the first tile may end past the source.

    ```mlir
    scf.for %i = %c0 to %n step %c1 {
      %row = affine.apply affine_map<(d0)[s0] -> ((s0 ceildiv 64 - d0 - 2) * 64)>(%i)[%seqlen]
      fcgpu.copy %key[%c0, %c0, %row, %c0] to %ring[%next] by block if %has_next
      // becomes
      fcgpu.copy %key[%c0, %c0, %row, %c0] to %ring[%next] by block if %has_next in_bounds
    ```
  }];
  let statistics = [Statistic<"numInBounds", "num-in-bounds",
                              "Copies of tiles whose rows all exist">];
}

def SplitMaskedTilesPass : Pass<"flashcore-split-masked-tiles", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Split loops so that full tiles run without mask code";
  let description = [{
    Phase 5. Precondition: none. Postcondition: no `scf.for` of step 1 holds an
    `scf.if` whose condition is `%iv < %bound`, or `%iv >= %bound`, with a bound
    from outside: it is two loops, one up to the bound in which the condition is
    true (or false), one from there on in which it is not. What the first yields, the second starts with, so
    rings and accumulators carry over.

    ```mlir
    scf.for %i = %c0 to %n { scf.if (%i < %masked) {A} else {B} }
    // becomes
    scf.for %i = %c0 to %masked {A}
    scf.for %i = %masked to %n {B}
    ```
  }];
  let statistics = [Statistic<"numSplit", "num-split", "Loops split in two">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def SkipHiddenTilesPass : Pass<"flashcore-skip-hidden-tiles", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Let warps skip the tiles of which their rows see nothing";
  let description = [{
    Phase 5. Precondition: flashcore-insert-barriers; waits, barriers and copies
    stand in front of the reads. Postcondition: no `fcgpu.skip_unless` is left;
    in a loop body that held one, all that follows the last wait, barrier or copy
    is in an `scf.if` of its condition, which else yields what the loop carries.
    An `fcgpu.skip_unless` may be ignored, and is where it stands elsewhere, its
    condition is computed from what the branch would hold, or that has effects.
    flashcore-split-masked-tiles makes loops of their own of the iterations before
    and after those that a warp does not skip.

    ```mlir
    scf.for ... iter_args(%acc = ...) { gpu.barrier  A  fcgpu.skip_unless %c  B  scf.yield %x }
    // becomes
    scf.for ... iter_args(%acc = ...) {
      gpu.barrier
      %r = scf.if %c { A  B  scf.yield %x } else { scf.yield %acc }
      scf.yield %r
    ```
  }];
  let statistics = [Statistic<"numGuarded", "num-guarded", "Loops guarded">];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
}

def AssignLayoutsPass : Pass<"flashcore-assign-layouts", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Give every warp tile its place in the lanes' registers";
  let description = [{
    Phase 6, the decision. Precondition: warp tiles of vector type. Postcondition:
    every op with a tile or vector as result carries its home, `fcgpu.home`: a
    layout, or what it had.

    `vector.contract` fixes the layouts of its operands and its result, by the
    target's atoms; elementwise ops, loops and ifs have one layout for all that
    they connect, so a layout spreads forward and backward. What is left of a
    reduction, and what is broadcast, has the slice of the tile's. A tile that
    nothing fixes has the layout of an accumulator. The shares of an
    `fcgpu.all_to_all` get 16 bytes of 16-bit elements a lane where their columns
    allow it.

    A value that is needed in two layouts is read again, if it is read from a
    ring, or goes through `fcgpu.convert_layout`.

    A product whose home is `#fcgpu.fragments` leaves its sum there, if it is added
    to others: loops and ifs carry it, and what looks at it converts it where it
    stands, in a branch that is seldom taken as well as behind the loop.

    ```mlir
    %s = vector.contract {...} %a, %b, %zero      // b is stored (n, k)
    %o = vector.contract {...} %p, %b, %acc       // b is stored (k, n)
    // becomes, with layouts of rows and of columns
    %turned = fcgpu.convert_layout %b
    %o = vector.contract {...} %p, %turned, %acc
    ```
  }];
  let statistics = [Statistic<"numConverted", "num-converted",
                              "Values that are read again or converted for a use">];
  let dependentDialects = ["::mlir::fcgpu::FCGPUDialect"];
}

def DistributePass : Pass<"flashcore-distribute", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Rewrite warp tiles as what one thread holds and does";
  let description = [{
    Phase 6, the rewrite. Precondition: flashcore-insert-barriers,
    flashcore-skip-hidden-tiles and flashcore-assign-layouts. Postcondition: no
    `fcgpu.` op and no tile-sized vector is left; a tile is what a lane's
    registers hold of it, in parts of two or more, a vector one scalar for each
    of its registers. Reads
    are `nvgpu.ldmatrix`, contractions `nvgpu.mma.sync` m16n8k16, copies
    `nvgpu.device_async_copy` of 16 bytes, reductions end with `gpu.shuffle`s
    between the lanes that share a row. 16-bit results are stored 16 bytes a
    lane, for which lanes hand each other their columns. Rows that begin at other
    multiples are copied 8 or 4 bytes at a time, or go element by element through
    a register, and results are stored 4 or 2 bytes a lane. Rings are views of
    `gpu.dynamic_shared_memory`, those `by warp` of the warp's part of it,
    through which also the shares of an `fcgpu.all_to_all` pass; more than the
    chip has is an error, as is a copy that it has no instruction for.
    `fcgpu.ptx_version` of the kernel is the newest PTX ISA that one of its
    products and copies needs.
  }];
  let statistics = [Statistic<"sharedMemory", "shared-memory-bytes",
                              "Shared memory of all kernels, in bytes">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::fcgpu::FCGPUDialect",
    "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect",
    "::mlir::nvgpu::NVGPUDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::ub::UBDialect",
    "::mlir::vector::VectorDialect"];
}

#endif // FLASHCORE_DIALECT_FCGPU_TRANSFORMS_PASSES_TD
