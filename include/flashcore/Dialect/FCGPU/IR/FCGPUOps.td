//===- FCGPUOps.td - Tile-level ops of the fcgpu dialect ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FCGPU_IR_FCGPUOPS_TD
#define FLASHCORE_DIALECT_FCGPU_IR_FCGPUOPS_TD

include "flashcore/Dialect/FCGPU/IR/FCGPUAttrs.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class FCGPU_Op<string mnemonic, list<Trait> traits = []>
    : Op<FCGPU_Dialect, mnemonic, traits>;

// The order of copies, commits, waits and barriers matters although no value
// ties them together; one resource keeps them in order.
def FCGPU_CopyQueue : Resource<"::mlir::fcgpu::CopyQueueResource">;

def FCGPU_AllocRingOp : FCGPU_Op<"alloc_ring"> {
  let summary = "Reserves a ring of tiles in the block's shared memory";
  let description = [{
    One allocation a `block`, shared by its warps, or one for each `warp`, which
    the other warps cannot reach; alive for the whole kernel, or to the end of the
    `scf.if` that it stands in: the memory of rings in front of that is used
    again.

    ```mlir
    %ring = fcgpu.alloc_ring by warp : !fcgpu.ring<2x64x64xf16>
    ```
  }];
  let arguments = (ins DefaultValuedAttr<FCGPU_CopyScope,
      "::mlir::fcgpu::CopyScope::Block">:$scope);
  let results = (outs Res<FCGPU_RingType, "", [MemAlloc]>:$ring);
  let assemblyFormat = "(`by` $scope^)? attr-dict `:` type($ring)";
}

def FCGPU_FillOp : FCGPU_Op<"fill"> {
  let summary = "Sets the last columns of all slots of a ring";
  let description = [{
    Writes `value` to all elements from column `column` on, the first of a panel:
    copies of tiles with fewer columns than the ring leave them as they are. All
    threads of the block execute the op, before any tile of the ring is read.

    ```mlir
    fcgpu.fill %ring column(64) with 1.0 : f16 of !fcgpu.ring<2x128x72xf16, panels>
    ```
  }];
  let arguments = (ins Arg<FCGPU_RingType, "", [MemWrite]>:$ring,
                       I64Attr:$column, TypedAttrInterface:$value);
  let assemblyFormat = "$ring `column` `(` $column `)` `with` $value `of` type($ring) attr-dict";
  let hasVerifier = 1;
}

def FCGPU_ViewPagesOp : FCGPU_Op<"view_pages", [Pure]> {
  let summary = "The rows of a matrix whose pages a table names";
  let description = [{
    `pool` is (pages, heads, rows of a page, columns) and `table` is (1, pages of
    the matrix), of i32. Row r of the result is row r mod n of page
    table[0, r / n], with n rows of a page, a static number; it has `rows` rows,
    and the table is not asked for those behind them. `fcgpu.copy` is what reads
    the result, in tiles that begin at multiples of `step` rows, or behind all.

    ```mlir
    %k = fcgpu.view_pages %pool by %table rows(%seqlen) step(64)
        : memref<?x1x16x64xf16, strided<[8192, 1024, 64, 1], offset: ?>>,
          memref<1x?xi32, strided<[?, 1], offset: ?>>
       -> memref<1x1x?x64xf16, #fcgpu.pages>
    ```
  }];
  let arguments = (ins AnyMemRef:$pool, AnyMemRef:$table, Index:$rows,
                       ConfinedAttr<I64Attr, [IntPositive]>:$step);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = [{
    $pool `by` $table `rows` `(` $rows `)` `step` `(` $step `)` attr-dict
    `:` type($pool) `,` type($table) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$pool, "::mlir::Value":$table,
                                 "::mlir::Value":$rows, "int64_t":$step)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getPageSize() { return getPool().getType().getDimSize(2); }
  }];
}

def FCGPU_CopyOp : FCGPU_Op<"copy", [AttrSizedOperandSegments]> {
  let summary = "Starts copying one tile from global memory into a ring";
  let description = [{
    Copies rows x cols elements of `source`, from `indices` on (the last two
    indices are the row and column of the tile's corner), into the slot of tile
    number `tile`. Rows past the end of the source are filled with zeros; with
    `in_bounds` there are none, wherever the predicate is true. A ring of rows
    may have the columns of tiles where the source has fewer: up to the next
    multiple of 8, or 16, and they are filled with zeros. Of panels the columns
    must all exist, but there may be more panels than they fill (`fcgpu.fill`).

    The work is shared by all threads of the `block`, or of one `warp`; all of
    them must execute the op. It is asynchronous: `fcgpu.commit_copies` closes a
    group, `fcgpu.wait_copies` waits for groups, and a barrier makes the tile
    visible to the other threads. Rows that begin at odd elements go through
    registers, and so do all rows with `via_registers`: such a copy has filled the
    slot when it ends, which is as early as an asynchronous one may have, and needs
    the same barrier.

    With a predicate that is false nothing is copied; with `zero_fill` the slot is
    then filled with zeros. The predicate is the same in all threads that share
    the copy.

    ```mlir
    fcgpu.copy %k[%c0, %c0, %row, %c0] to %ring[%t] by block
        : memref<1x1x512x64xf16> to !fcgpu.ring<2x64x64xf16>
    ```
  }];
  let arguments = (ins
      Arg<AnyMemRef, "", [MemRead]>:$source,
      Variadic<Index>:$indices,
      Arg<FCGPU_RingType, "", [MemWrite]>:$ring,
      Index:$tile,
      Optional<I1>:$predicate,
      FCGPU_CopyScope:$scope,
      UnitAttr:$via_registers,
      UnitAttr:$zero_fill,
      UnitAttr:$in_bounds);
  let assemblyFormat = [{
    $source `[` $indices `]` `to` $ring `[` $tile `]` `by` $scope
    (`via_registers` $via_registers^)? (`if` $predicate^)? (`zero_fill` $zero_fill^)? (`in_bounds` $in_bounds^)?
    attr-dict `:` type($source) `to` type($ring)
  }];
  let hasVerifier = 1;
}

def FCGPU_CommitCopiesOp : FCGPU_Op<"commit_copies", [
    MemoryEffects<[MemWrite<FCGPU_CopyQueue>]>]> {
  let summary = "Closes a group of the copies started since the last commit";
  let description = [{
    The group may be empty, so that counts stay the same in every iteration.

    ```mlir
    fcgpu.commit_copies
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def FCGPU_WaitCopiesOp : FCGPU_Op<"wait_copies", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `in_flight` groups are unfinished";
  let description = [{
    Groups finish in the order they were committed. A thread waits for its own
    part of each copy; only a barrier after the wait makes the whole tile
    visible.

    ```mlir
    fcgpu.wait_copies in_flight(1)
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$in_flight);
  let assemblyFormat = "`in_flight` `(` $in_flight `)` attr-dict";
}

def FCGPU_ReadOp : FCGPU_Op<"read"> {
  let summary = "Reads a tile of a ring as a warp tile";
  let description = [{
    Every warp that executes the op gets tile number `tile`: all of it, or the
    columns from `column` on, a multiple of 16, that the result has room for (a
    multiple of 16, or all that are left).

    A tile whose home is `#fcgpu.shared` stays in its slot, of a ring with panels
    or a padded one, and only products use it, which read it from there. Those of
    panels are asynchronous (see `fcgpu.await`).

    ```mlir
    %k = fcgpu.read %ring[%t] : !fcgpu.ring<2x64x64xf16> -> vector<64x64xf16>
    %end = fcgpu.read %ring[%t] column(48)
        : !fcgpu.ring<2x64x64xf16> -> vector<64x16xf16>
    %b = fcgpu.read %panels[%t] {fcgpu.home = #fcgpu.shared}
        : !fcgpu.ring<2x128x64xf16, panels> -> vector<128x64xf16>
    ```
  }];
  let arguments = (ins Arg<FCGPU_RingType, "", [MemRead]>:$ring,
                       Index:$tile,
                       DefaultValuedAttr<I64Attr, "0">:$column);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let assemblyFormat = [{
    $ring `[` $tile `]` (`column` `(` $column^ `)`)? attr-dict `:` type($ring) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the tile stays in its slot.
    bool isInPlace() {
      return isa_and_nonnull<SharedAttr>((*this)->getAttr(::mlir::fcgpu::kHomeAttrName));
    }
  }];
}

def FCGPU_AwaitOp : FCGPU_Op<"await", [
    TypesMatchWith<"the result is the product", "product", "result", "$_self">,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits for a product of tiles in place";
  let description = [{
    A product (`vector.contract`) that reads a tile in place is only started where
    it stands. Its result is there after this op, which leaves at most `in_flight`
    of the products unfinished that were started before it; they finish in the
    order of their start. Until then the slots that it reads must not be released,
    and `using` names the operands that it reads from registers, which must stay
    as they are.

    ```mlir
    %s = vector.contract {...} %q, %k, %zero
    %o = vector.contract {...} %p, %v, %acc
    %scores = fcgpu.await %s in_flight(1) : vector<64x128xf32>
    ...
    %sum = fcgpu.await %o using(%p : vector<64x128xf16>) in_flight(0)
        : vector<64x128xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$product,
                       Variadic<AnyVectorOfNonZeroRank>:$registers,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$in_flight);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat = [{
    $product (`using` `(` $registers^ `:` type($registers) `)`)?
    `in_flight` `(` $in_flight `)` attr-dict `:` type($product)
  }];
  let hasVerifier = 1;
}

def FCGPU_AcquireOp : FCGPU_Op<"acquire", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until a slot can be filled or read";
  let description = [{
    Both sides of a ring, those who fill it and those who read it, acquire its
    slots: written by `flashcore-hand-over-slots`. `to fill` waits until all
    readers have released the tile that the slot held before; the copies of tile
    number `tile` follow. `to read` waits until they have arrived; it may stand
    again in front of each part of a program that reads the tile.

    Where the same warps fill and read a ring, `flashcore-insert-barriers` puts
    groups of copies, waits and barriers in the place of this op. Where a role of
    its own fills it (`fcgpu.produce`), the op becomes a wait for an mbarrier, and
    each side takes the tiles of a ring in the order of their numbers, from 0 on,
    once.

    ```mlir
    fcgpu.acquire %ring[%t] to read : !fcgpu.ring<2x128x64xf16, panels>
    ```
  }];
  let arguments = (ins FCGPU_RingType:$ring, Index:$tile,
                       FCGPU_RingSide:$side);
  let assemblyFormat = "$ring `[` $tile `]` `to` $side attr-dict `:` type($ring)";
}

def FCGPU_ReleaseOp : FCGPU_Op<"release", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Gives a slot back to those who fill it";
  let description = [{
    The warps that execute the op read tile number `tile` no more, unless they
    acquire it again: the products that do have been awaited.
    One lane speaks for its warp: where no product has brought all lanes
    together since the tile was acquired, `nvvm.bar.warp.sync` does.

    ```mlir
    fcgpu.release %ring[%t] : !fcgpu.ring<2x128x64xf16, panels>
    ```
  }];
  let arguments = (ins FCGPU_RingType:$ring, Index:$tile);
  let assemblyFormat = "$ring `[` $tile `]` attr-dict `:` type($ring)";
}

def FCGPU_ProduceOp : FCGPU_Op<"produce", [
    RecursiveMemoryEffects, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "What a warp of its own does, beside the loop over warps";
  let description = [{
    The region is the program of one more warp, which fills the rings that the
    warps of the `scf.forall` behind it read. Both run at the same time, and
    nothing that the region computes is used outside. Slots change hands by
    mbarriers then.

    ```mlir
    fcgpu.produce {
      scf.for %i = %c0 to %n step %c1 {
        fcgpu.acquire %ring[%i] to fill : !fcgpu.ring<2x128x64xf16, panels>
        fcgpu.copy %k[%c0, %c0, %row, %c0] to %ring[%i] by block : ...
      }
    }
    scf.forall (%warpgroup) in (2) {...}
    ```
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def FCGPU_StoreOp : FCGPU_Op<"store"> {
  let summary = "Writes a tile to memory by way of a slot";
  let description = [{
    The warps that hold the tile write it into tile number `tile` of a ring with
    panels, each its own rows, and bulk copies take it from there, while the warps
    go on. Rows behind the end of the memref's tensor are left out. Each warp
    first waits for its own earlier stores.

    ```mlir
    fcgpu.store %o to %out[%c0, %c0, %row, %c0] through %ring[%group]
        : vector<64x64xf16>, memref<1x1x?x64xf16>, !fcgpu.ring<2x64x64xf16, panels>
    ```
  }];
  let arguments = (ins AnyVectorOfNonZeroRank:$value,
                       Arg<AnyMemRef, "", [MemWrite]>:$target,
                       Variadic<Index>:$indices,
                       Arg<FCGPU_RingType, "", [MemRead, MemWrite]>:$ring,
                       Index:$tile);
  let assemblyFormat = [{
    $value `to` $target `[` $indices `]` `through` $ring `[` $tile `]` attr-dict
    `:` type($value) `,` type($target) `,` type($ring)
  }];
  let hasVerifier = 1;
}

def FCGPU_AwaitStoresOp : FCGPU_Op<"await_stores", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until a warp's stores have left their slots";
  let description = [{
    Behind all `fcgpu.store` of a loop over warps: the block ends or uses the
    memory of the slots again.

    ```mlir
    fcgpu.await_stores
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def FCGPU_AllocFlagOp : FCGPU_Op<"alloc_flag"> {
  let summary = "Reserves a flag that all warps of the block share";
  let description = [{
    It is down until a warp raises it (`fcgpu.raise`).

    ```mlir
    %flag = fcgpu.alloc_flag : !fcgpu.flag
    ```
  }];
  let results = (outs Res<FCGPU_FlagType, "", [MemAlloc]>:$flag);
  let assemblyFormat = "attr-dict `:` type($flag)";
}

def FCGPU_RaiseOp : FCGPU_Op<"raise"> {
  let summary = "Raises a flag";
  let description = [{
    Of a warp for which the condition is true, the same in all of its lanes.
    Nobody lowers the flag again.

    ```mlir
    fcgpu.raise %flag if %overflows : !fcgpu.flag
    ```
  }];
  let arguments = (ins Arg<FCGPU_FlagType, "", [MemWrite]>:$flag,
                       I1:$condition);
  let assemblyFormat = "$flag `if` $condition attr-dict `:` type($flag)";
}

def FCGPU_TestFlagOp : FCGPU_Op<"test_flag", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Whether any warp of the block has raised a flag";
  let description = [{
    All threads of the block execute the op, outside of the loop over warps; it
    is a barrier for them. So all of them get the same answer.

    ```mlir
    %again = fcgpu.test_flag %flag : !fcgpu.flag
    ```
  }];
  let arguments = (ins FCGPU_FlagType:$flag);
  let results = (outs I1:$raised);
  let assemblyFormat = "$flag attr-dict `:` type($flag)";
}

def FCGPU_AllToAllOp : FCGPU_Op<"all_to_all", [
    InferTypeOpAdaptor, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Warps hand each other their shares of tiles";
  let description = [{
    The `parts` warps of a group hold tiles of the same shapes. Each is cut into
    as many equal shares (`getShareGrid`: rows first, in whole 8x8 cores, then
    columns), and warp number `part` gets share `part` of the tiles of all warps:
    result i * parts + p is its share of tile i of warp p. What the shares are
    combined to, and where they are written, is then divided among the warps.

    All warps of the block execute the op; it is a barrier for them. The tiles
    pass through the memory of the rings allocated `by warp`, which hold nothing
    from here on: flashcore-insert-barriers sees to it that nobody still reads or
    fills them. Warps of a group follow each other.

    ```mlir
    %o:2, %m:2 = fcgpu.all_to_all %acc, %max part %w of 2
        : vector<32x64xf32>, vector<32xf32>
    // %o#0, %o#1 : vector<16x64xf32>   %m#0, %m#1 : vector<16xf32>
    ```
  }];
  let arguments = (ins Variadic<VectorOfRankAndType<[1, 2], [F32]>>:$tiles,
                       Index:$part,
                       ConfinedAttr<I64Attr, [IntMinValue<2>]>:$parts);
  let results = (outs Variadic<VectorOfRankAndType<[1, 2], [F32]>>:$shares);
  let assemblyFormat = [{
    $tiles `part` $part `of` $parts attr-dict `:` type($tiles)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The shares of tile `tile`, one from each warp.
    ::mlir::ValueRange getSharesOf(unsigned tile) {
      return getShares().slice(tile * getParts(), getParts());
    }
  }];
}

def FCGPU_MapScoresOp : FCGPU_Op<"map_scores", [
    RecursiveMemoryEffects, RecursivelySpeculatable, SingleBlock,
    AllTypesMatch<["scores", "result"]>]> {
  let summary = "Applies a region to every score of a tile";
  let description = [{
    The region receives a score and its query and key coordinate: element (r, c)
    of the tile is query `query` + r and key `key` + c. Masks and score changes
    stay one such op until threads are assigned.

    ```mlir
    %masked = fcgpu.map_scores %s[%row, %col] : vector<16x64xf32> {
    ^bb0(%score: f32, %query: index, %key: index):
      %visible = arith.cmpi sle, %key, %query : index
      %r = arith.select %visible, %score, %minus_inf : f32
      fcgpu.yield %r : f32
    }
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$scores,
                       Index:$query, Index:$key);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat = [{
    $scores `[` $query `,` $key `]` attr-dict `:` type($scores) $body
  }];
  let hasRegionVerifier = 1;
}

def FCGPU_DropoutOp : FCGPU_Op<"dropout", [
    Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "Sets a random share of a tile's elements to 0";
  let description = [{
    Element (r, c) of the tile is that of query i = `query` + r and key
    j = `key` + c, and becomes 0 if its random number is below `threshold`, of
    2^16. With the words d of `stream`, four of i32, that number is

        w = philox((i xor d[0], (j / 32 * 4 + j mod 8 / 2) xor d[1], d[2],
                    d[3]), (0, 0))
        w[j mod 32 / 8] / 2^(16 * (j mod 2)) mod 2^16

    where philox(counter, key) is Philox4x32-10 (Philox.h). One call serves the
    elements that a lane holds of a row's 32 keys as the accumulator of a product.

    The columns are a multiple of 16, and `key` is one of 16, or of 32 where the
    columns are; where it is not, all elements are 0 before.

    ```mlir
    %kept = fcgpu.dropout %p[%row, %col] below 6554 of(%d0, %d1, %d2, %d3)
        : vector<16x64xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$tile,
                       Index:$query, Index:$key, Variadic<I32>:$stream,
                       ConfinedAttr<I64Attr, [IntMinValue<1>,
                                              IntMaxValue<65535>]>:$threshold);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat = [{
    $tile `[` $query `,` $key `]` `below` $threshold `of` `(` $stream `)`
    attr-dict `:` type($tile)
  }];
  let hasVerifier = 1;
}

def FCGPU_ConvertLayoutOp : FCGPU_Op<"convert_layout", [
    Pure, SameOperandsAndResultType]> {
  let summary = "Moves a tile or vector to other lanes and registers";
  let description = [{
    The same values, in a layout of their own: what flashcore-assign-layouts puts
    between a value and a use that needs it in another layout, where it cannot be
    read again. Lanes hand each other what they hold.

    ```mlir
    %b = fcgpu.convert_layout %a : vector<16x16xf16>
    ```
  }];
  let arguments = (ins AnyVectorOfNonZeroRank:$source);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

def FCGPU_SkipUnlessOp : FCGPU_Op<"skip_unless", [
    MemoryEffects<[MemWrite<FCGPU_CopyQueue>]>]> {
  let summary = "Says when an iteration leaves what its loop carries as it is";
  let description = [{
    If the condition is false, the loop around the op may yield in this iteration
    what it got, for this warp. The condition is the same in all lanes. That is
    leave, not an order: an iteration that is not skipped gives the same results,
    because masks hide all that it adds. A pass may drop the op wherever it
    stands. flashcore-skip-hidden-tiles makes a branch of it where it stands in the
    body of an `scf.for`, the condition is known in front of the branch, and
    nothing in the branch has an effect besides its results; all others it drops, as
    flashcore-distribute does.

    ```mlir
    fcgpu.skip_unless %sees_a_key
    ```
  }];
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

def FCGPU_YieldOp : FCGPU_Op<"yield", [
    Pure, Terminator, ReturnLike, HasParent<"MapScoresOp">]> {
  let summary = "Ends the region of `fcgpu.map_scores`";
  let description = [{
    ```mlir
    fcgpu.yield %score : f32
    ```
  }];
  let arguments = (ins F32:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif // FLASHCORE_DIALECT_FCGPU_IR_FCGPUOPS_TD
