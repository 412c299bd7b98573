//===- FCGPUAttrs.td - Schedule, layouts and the ring type -*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FCGPU_IR_FCGPUATTRS_TD
#define FLASHCORE_DIALECT_FCGPU_IR_FCGPUATTRS_TD

include "flashcore/Dialect/FCGPU/IR/FCGPUDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class FCGPU_Attr<string name, string attrMnemonic>
    : AttrDef<FCGPU_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def FCGPU_PagesAttr : FCGPU_Attr<"Pages", "pages"> {
  let summary = "The memory space of rows that a table finds";
  let description = [{
    A memref in this space is what `fcgpu.view_pages` makes: no address is that
    of its first row.
  }];
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

def FCGPU_GridOrder
    : I32EnumAttr<"GridOrder", "Which blocks run next to each other", [
        I32EnumAttrCase<"QueryFastest", 0, "query_fastest">,
        I32EnumAttrCase<"HeadFastest", 1, "head_fastest">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_Grid
    : I32EnumAttr<"Grid", "How many blocks there are", [
        I32EnumAttrCase<"Full", 0, "full">,
        I32EnumAttrCase<"Persistent", 1, "persistent">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_QueryPlacement
    : I32EnumAttr<"QueryPlacement", "Where Q fragments live in the key loop", [
        I32EnumAttrCase<"Registers", 0, "registers">,
        I32EnumAttrCase<"Shared", 1, "shared">,
        I32EnumAttrCase<"Split", 2, "split">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_Overlap
    : I32EnumAttr<"Overlap", "Which products of two key tiles run together", [
        I32EnumAttrCase<"None", 0, "none">,
        I32EnumAttrCase<"QK", 1, "qk">,
        I32EnumAttrCase<"PV", 2, "pv">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_OverlapAttr : EnumAttr<FCGPU_Dialect, FCGPU_Overlap, "overlap"> {
  let assemblyFormat = "`<` $value `>`";
  let description = [{
    Stands as `fcgpu.overlap` on an `scf.for` over key tiles. Written by
    `flashcore-online-softmax`, obeyed by `flashcore-pipeline-loops`:

    * `qk`: products that depend on nothing that the loop carries, Q K^T, run one
      iteration ahead of the rest
    * `pv`: products whose result is only carried on, P V, run one iteration late,
      beside the first ones of the next

    ```mlir
    scf.for %i = %c0 to %n step %c1 {...} {fcgpu.overlap = #fcgpu.overlap<qk>}
    ```
  }];
}

def FCGPU_RowMax
    : I32EnumAttr<"RowMax", "When the row maximum follows the scores", [
        I32EnumAttrCase<"Exact", 0, "exact">,
        I32EnumAttrCase<"Stale", 1, "stale">,
        I32EnumAttrCase<"Folded", 2, "folded">,
        I32EnumAttrCase<"Checked", 3, "checked">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_RowSum
    : I32EnumAttr<"RowSum", "What adds up the rows of P", [
        I32EnumAttrCase<"Add", 0, "add">,
        I32EnumAttrCase<"Mma", 1, "mma">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_Softmax
    : I32EnumAttr<"Softmax", "How often exponentials are taken anew", [
        I32EnumAttrCase<"Online", 0, "online">,
        I32EnumAttrCase<"OnePass", 1, "one_pass">,
        I32EnumAttrCase<"Unfused", 2, "unfused">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_Product
    : I32EnumAttr<"Product", "Who multiplies tiles, and from where", [
        I32EnumAttrCase<"Warp", 0, "warp">,
        I32EnumAttrCase<"Warpgroup", 1, "warpgroup">,
        I32EnumAttrCase<"Wmma", 2, "wmma">,
        I32EnumAttrCase<"Thread", 3, "thread">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_CopyPath
    : I32EnumAttr<"CopyPath", "How tiles get to shared memory", [
        I32EnumAttrCase<"Async", 0, "async">,
        I32EnumAttrCase<"Registers", 1, "registers">,
        I32EnumAttrCase<"Producer", 2, "producer">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_Exchange
    : I32EnumAttr<"Exchange", "How products take tiles from shared memory", [
        I32EnumAttrCase<"None", 0, "none">,
        I32EnumAttrCase<"Plain", 1, "plain">,
        I32EnumAttrCase<"Padded", 2, "padded">,
        I32EnumAttrCase<"Wide", 3, "wide">,
        I32EnumAttrCase<"Fragments", 4, "fragments">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_OutputRoute
    : I32EnumAttr<"OutputRoute", "How O gets to memory", [
        I32EnumAttrCase<"Direct", 0, "direct">,
        I32EnumAttrCase<"Bulk", 1, "bulk">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_Invariance
    : I32EnumAttr<"Invariance", "What the bits of a row do not depend on", [
        I32EnumAttrCase<"None", 0, "none">,
        I32EnumAttrCase<"Batch", 1, "batch">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_SplitCount
    : I32EnumAttr<"SplitCount", "Who says how many blocks share the keys", [
        I32EnumAttrCase<"Fixed", 0, "fixed">,
        I32EnumAttrCase<"Call", 1, "call">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_ExpectedGrid
    : I32EnumAttr<"ExpectedGrid", "The grid of the calls that a kernel is for", [
        I32EnumAttrCase<"Any", 0, "any">,
        I32EnumAttrCase<"Quarter", 1, "quarter">,
        I32EnumAttrCase<"Half", 2, "half">,
        I32EnumAttrCase<"One", 3, "one">,
        I32EnumAttrCase<"Two", 4, "two">,
        I32EnumAttrCase<"Three", 5, "three">,
        I32EnumAttrCase<"Short", 6, "short">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_RingLayout
    : I32EnumAttr<"RingLayout", "Where the elements of a slot lie", [
        I32EnumAttrCase<"Rows", 0, "rows">,
        I32EnumAttrCase<"Panels", 1, "panels">,
        I32EnumAttrCase<"Plain", 2, "plain">,
        I32EnumAttrCase<"Padded", 3, "padded">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_RingSide
    : I32EnumAttr<"RingSide", "What a slot is acquired for", [
        I32EnumAttrCase<"Fill", 0, "fill">,
        I32EnumAttrCase<"Read", 1, "read">]> {
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_CopyScope
    : I32EnumAttr<"CopyScope", "Who shares the work of a copy", [
        I32EnumAttrCase<"Block", 0, "block">,
        I32EnumAttrCase<"Warp", 1, "warp">]> {
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_TileNumber
    : I32EnumAttr<"TileNumber", "What numbers the tiles of a ring", [
        I32EnumAttrCase<"Turn", 0, "turn">,
        I32EnumAttrCase<"Holder", 1, "holder">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_Home
    : I32EnumAttr<"Home", "Where a tile is when products take it", [
        I32EnumAttrCase<"Registers", 0, "registers">,
        I32EnumAttrCase<"Shared", 1, "shared">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fcgpu";
}

def FCGPU_ScheduleAttr : FCGPU_Attr<"Schedule", "schedule"> {
  let summary = "Every choice the compiler makes about one attention kernel";
  let description = [{
    Written by `flashcore-configure`, read by all later phases; a user may write
    or change it.

    * `chip`: the target, e.g. sm_89
    * `block_m`, `block_n`: query rows a block owns of each of its heads, key
      rows of one tile
    * `num_warps`: warps of a block, a multiple of key_warps * head_group. The
      num_warps / (key_warps * head_group) groups of warps own equal parts of the
      query rows of a head, a multiple of 16
    * `key_warps`: warps that share the same query rows and walk the key tiles in
      turn, each with rings of its own; their results are merged at the end. Not
      together with head_group or key_splits over 1
    * `num_stages`: slots of the K and V rings, at least 2
    * `query`: Q fragments are kept in `registers`, or read again from `shared`
      memory for every key tile; `split` keeps the first columns and reads the
      others again
    * `grid_order`: `query_fastest` keeps the blocks of one head together;
      `head_fastest` runs the longest causal rows of all heads first
    * `min_blocks`: blocks an SM must hold at once (caps registers); 0 lets the
      assembler choose
    * `overlap`: `qk` computes Q K^T of the next tile beside the softmax and P V
      of this one, for the registers of a second S; `pv` computes P V of a tile
      beside Q K^T and the softmax of the next, for the registers of P
    * `row_max`: `stale` keeps the maximum (and O) of earlier tiles until a score
      exceeds it by a factor of 2^8, instead of rescaling O for every tile (a
      partial tile does, so that the loop needs no second copy); `folded` does
      too, and Q K^T starts at the negative of the maximum, so that the sign bits
      of the scores tell which exceed it. Folded, nothing but the scale may change
      the scores (no softcap, no bias). `checked` looks at no score, only at the
      exponentials, and scales them down where they leave the range of f16: a
      block in which one became infinite does all of its tiles once more, with an
      `exact` maximum. For product = warpgroup
    * `row_sum`: `add` sums P in f32 before it is rounded; `mma` multiplies the
      rounded P by ones, which cancels the rounding of P under a stale maximum,
      and which an attention with lse does not take: with lse only `add`
    * `softmax`: `online` walks the key tiles in a loop and rescales O as the
      maximum grows; `one_pass` computes the scores of all tiles of a warp, which
      it keeps in registers, before the first exponential: for a few key tiles,
      of a length known at compile time; `unfused` is three kernels, which leave
      S and P in global memory: that of S has a block for each block_m x block_n
      of it, the second one a warp a row, and the third the blocks of an
      `online` kernel. For product = warp and wmma
    * `head_group`: query heads a block owns, all of one kv head, whose key and
      value tiles it copies once for all of them; divides heads_q / heads_kv
    * `key_splits`: blocks that share one query tile, each with its part of the
      key tiles, up to 256; with more than one, a second kernel merges their
      results
    * `grid`: `full` has a block for each block tile (query tile, group of heads,
      split of the keys); `persistent` has at most as many blocks as run at once,
      min_blocks (or 1) an SM, and each walks several block tiles, in the order of
      grid_order and of Analysis/TileWalk
    * `query_steps`: with `query = split`, how many steps of 16 columns (the k
      index of one mma.sync) stay in registers: at least 1, and not all; else 0
    * `grid_heads`: with `grid_order = head_fastest`, how many heads of all
      batches (with head_group, groups of heads) take turns before the next ones
      begin, so that their K and V stay in L2; 0 stands for all
    * `output`: O is stored by the lanes that hold it (`direct`), or goes through
      shared memory, from where a bulk copy takes it while its warps go on
      (`bulk`). For product = warpgroup, of keys that are not split
    * `invariance`: with `batch`, O and LSE of a query row are the same to the bit
      whatever else is computed with it, wherever it stands and whichever keys
      are hidden from it: tiles begin at multiples of block_n, the maximum is
      exact, sums are added, a row's keys are one warp's, and a tile that hides
      all keys from a row leaves its state as it is. Of what is chosen here, only
      chip, product, block_n and split_keys are in the bits then
    * `split_keys`: with `invariance = batch`, the keys are split at multiples of
      this number, itself one of block_n, for every query tile alike: as many
      blocks share a query tile as its keys have parts, and the second kernel
      merges them; 0 splits nothing
    * `split_count`: with `call`, key_splits is the most blocks that share a query
      tile: how many they are, from 1 on, each call says by a formula of its sizes,
      which the manifest has (`fixed`: always key_splits)
    * `product`: what multiplies tiles. `warp`: mma.sync, a warp with operands in
      registers. `warpgroup`: wgmma, four warps with tiles in place, which a warp
      of its own copies. `wmma`: wmma.mma, a warp with operands and results that go
      through shared memory, because nobody knows which lane holds what of them;
      f16 only. `thread`: f32 fma, a lane with a query row of its own, whatever
      the chip. The last two are slower, and for chips without mma.sync
    * `copies`: tiles get to shared memory by cp.async or bulk copies (`async`), by
      way of `registers`, whatever the chip, or by cp.async of a warp of its own
      (`producer`), for products `wmma` and `thread`
    * `exchange`: of products `wmma` and `thread`, how tiles lie in shared memory:
      row behind row (`plain`), or with room between rows so that eight of them
      share no bank (`padded`); `wide` does too, and S, P and O go there and back
      16 bytes of a lane at a time (P 8) in the place of 8 (4). With `fragments`,
      too, but O stays in the accumulators of `wmma`. Else `none`
    * `expected_queries`: the query rows of a sequence that the other choices are
      for where they are known at run time only. Calls may have others, which are
      slower; 0 stands for many
    * `expected_grid`: the calls that the other choices are for where sizes are
      known at run time only: at most a `quarter`, `half`, `one`, `two` or `three`
      blocks of 64 query rows an SM, or more of them over at most 1,024 keys
      (`short`). Calls may be others, which are slower; `any` stands for large ones

    ```mlir
    #fcgpu.schedule<chip = "sm_89", block_m = 64, block_n = 64, num_warps = 4,
                    num_stages = 2, query = registers,
                    grid_order = query_fastest, min_blocks = 0>
    ```
  }];
  let parameters = (ins
      StringRefParameter<"chip">:$chip,
      "int64_t":$block_m, "int64_t":$block_n, "int64_t":$num_warps,
      "int64_t":$num_stages,
      EnumParameter<FCGPU_QueryPlacement>:$query,
      EnumParameter<FCGPU_GridOrder>:$grid_order,
      "int64_t":$min_blocks,
      DefaultValuedParameter<"::mlir::fcgpu::Overlap",
                             "::mlir::fcgpu::Overlap::None">:$overlap,
      DefaultValuedParameter<"::mlir::fcgpu::RowMax",
                             "::mlir::fcgpu::RowMax::Exact">:$row_max,
      DefaultValuedParameter<"::mlir::fcgpu::RowSum",
                             "::mlir::fcgpu::RowSum::Add">:$row_sum,
      DefaultValuedParameter<"int64_t", "1">:$key_warps,
      DefaultValuedParameter<"::mlir::fcgpu::Softmax",
                             "::mlir::fcgpu::Softmax::Online">:$softmax,
      DefaultValuedParameter<"int64_t", "1">:$head_group,
      DefaultValuedParameter<"int64_t", "1">:$key_splits,
      DefaultValuedParameter<"::mlir::fcgpu::Grid",
                             "::mlir::fcgpu::Grid::Full">:$grid,
      DefaultValuedParameter<"int64_t", "0">:$query_steps,
      DefaultValuedParameter<"int64_t", "0">:$grid_heads,
      DefaultValuedParameter<"::mlir::fcgpu::Product",
                             "::mlir::fcgpu::Product::Warp">:$product,
      DefaultValuedParameter<"::mlir::fcgpu::OutputRoute",
                             "::mlir::fcgpu::OutputRoute::Direct">:$output,
      DefaultValuedParameter<"::mlir::fcgpu::Invariance",
                             "::mlir::fcgpu::Invariance::None">:$invariance,
      DefaultValuedParameter<"int64_t", "0">:$split_keys,
      DefaultValuedParameter<"::mlir::fcgpu::SplitCount",
                             "::mlir::fcgpu::SplitCount::Fixed">:$split_count,
      DefaultValuedParameter<"int64_t", "0">:$expected_queries,
      DefaultValuedParameter<"::mlir::fcgpu::ExpectedGrid",
                             "::mlir::fcgpu::ExpectedGrid::Any">:$expected_grid,
      DefaultValuedParameter<"::mlir::fcgpu::CopyPath",
                             "::mlir::fcgpu::CopyPath::Async">:$copies,
      DefaultValuedParameter<"::mlir::fcgpu::Exchange",
                             "::mlir::fcgpu::Exchange::None">:$exchange);
  let builders = [
    AttrBuilder<(ins "::llvm::StringRef":$chip,
                     "const ::mlir::fcgpu::ScheduleChoice &":$choice)>];
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// All fields but the chip.
    ScheduleChoice getChoice() const;
    int64_t getTileWarps() const { return getChoice().getTileWarps(); }
    int64_t getNumHolders() const { return getChoice().getNumHolders(); }
    int64_t getRowWarps() const { return getChoice().getRowWarps(); }
    /// Query rows one holder owns, alone or with the others of its group.
    int64_t getWarpM() const { return getChoice().getWarpM(); }
    bool hasProducer() const { return getChoice().hasProducer(); }
    bool hasBulkCopies() const { return getChoice().hasBulkCopies(); }
    int64_t getProducerWarps() const { return getChoice().getProducerWarps(); }
    /// Threads of those that multiply, and of all.
    int64_t getNumConsumers() const { return getNumWarps() * 32; }
    int64_t getNumThreads() const { return getChoice().getAllWarps() * 32; }
    bool isPersistent() const { return getGrid() == Grid::Persistent; }
    bool isInvariant() const { return getChoice().isInvariant(); }
    bool isUnfused() const { return getChoice().isUnfused(); }
    /// Blocks of a persistent grid for each SM.
    int64_t getBlocksPerSM() const {
      return getMinBlocks() ? getMinBlocks() : 1;
    }
  }];
}

//===----------------------------------------------------------------------===//
// Staging
//===----------------------------------------------------------------------===//

def FCGPU_StagingAttr : FCGPU_Attr<"Staging", "staging"> {
  let summary = "How a tile goes through shared memory";
  let description = [{
    Stands as `fcgpu.staging` on each `vector.transfer_read` of a 16-bit tile, and
    on a `vector.transfer_write` of one that goes by way of a slot.
    Written by `flashcore-online-softmax` (the decision is
    `Schedule/TileStaging`), obeyed by `flashcore-promote-shared`:

    * `copy`: who copies the tile, the `block` (then it is the same for all its
      warps) or each `warp` for itself. A warpgroup counts as one
    * `ring`: whose the ring is, one of the `block`, or one for each `warp`, which
      has to copy itself what it reads
    * `slots`: tiles that the ring has room for. Tiles outside of loops share the
      ring of those of their shape and staging, with `slots` for each memref that
      they are read from, but no more than there are tiles
    * `number`: what numbers the tiles. By `turn` they follow each other: the
      iteration of the loop, or outside of loops the place in program order. By
      `holder` each warp of the innermost dimension of the `scf.forall` has a tile
      of its own, outside of loops, with its number
    * `kept`: of a tile by `holder`, how many of the first columns stay in
      registers, all or a multiple of 16; products read the others again
    * `home`: with `shared` the tile stays in its slot, in place: products take it
      from there, and nothing of it is kept
    * `via_registers`: what copies the tile is no asynchronous copy, but loads and
      stores
    * `group`: of a tile in place, the rows of a group of panels (see
      `!fcgpu.ring`), or 0 where panels have all rows
    * `layout`: of a tile in place, that of its slot

    ```mlir
    #fcgpu.staging<copy = warp, ring = block, slots = 4, number = holder, kept = 64>   // Q
    #fcgpu.staging<copy = block, ring = block, slots = 2, number = turn>               // K, V
    ```
  }];
  let parameters = (ins
      EnumParameter<FCGPU_CopyScope>:$copy,
      EnumParameter<FCGPU_CopyScope>:$ring,
      "int64_t":$slots,
      EnumParameter<FCGPU_TileNumber>:$number,
      DefaultValuedParameter<"int64_t", "0">:$kept,
      DefaultValuedParameter<"::mlir::fcgpu::Home",
                             "::mlir::fcgpu::Home::Registers">:$home,
      DefaultValuedParameter<"int64_t", "0">:$group,
      DefaultValuedParameter<"::mlir::fcgpu::RingLayout",
                             "::mlir::fcgpu::RingLayout::Panels">:$layout,
      DefaultValuedParameter<"bool", "false">:$via_registers);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isInPlace() const { return getHome() == Home::Shared; }
  }];
}

def FCGPU_ProductAttr : FCGPU_Attr<"Product", "product"> {
  let summary = "What multiplies tiles in plain rows";
  let description = [{
    Stands as `fcgpu.product` on a `vector.contract` that takes its right operand
    in place of a ring that is `plain` or `padded`, where the ring does not tell:
    `wmma`, or `thread`. Written by `flashcore-online-softmax`, asked by
    `flashcore-assign-layouts` and `flashcore-distribute`.

    With `wide`, lanes take 16 bytes at a time of what goes through memory between
    products, and 8 of rounded P.

    ```mlir
    %s = vector.contract {...} %q, %k, %zero {fcgpu.product = #fcgpu.product<wmma, wide = true>}
    ```
  }];
  let parameters = (ins EnumParameter<FCGPU_Product>:$product,
                        DefaultValuedParameter<"bool", "false">:$wide);
  let assemblyFormat = "`<` $product (`,` struct($wide)^)? `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Homes
//===----------------------------------------------------------------------===//

// Where a value is, `fcgpu.home`: registers that a layout names, fragments, or
// shared memory.

def FCGPU_LayoutAttr : FCGPU_Attr<"Layout", "layout"> {
  let summary = "Which register of which lane holds what of a tile";
  let description = [{
    The home of a tile or vector in registers.

    A linear map over bits, (register, lane, warp) -> (row, column): what each
    bit of the number of a register, lane or warp adds to the place, by xor. The
    places are those of a box; a tile repeats it in row-major order, and its
    registers are those of the first box, then of the second, and so on. A
    vector's layout has one coordinate. Passes ask the map
    (`flashcore/Target/TileLayout.h`), they know no layout by name.

    The results and left operands of `mma.sync` are tiles of one core, which is
    one 8x8 matrix of `ldmatrix`:

    ```mlir
    #fcgpu.layout<register (0, 1), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
    ```

        column    0    1    2    3    4    5    6    7
        row 0    l0   l0   l1   l1   l2   l2   l3   l3
        row 1    l4   l4   l5   l5   l6   l6   l7   l7
        ...
        row 7   l28  l28  l29  l29  l30  l30  l31  l31

    The f32 accumulator of m16n8k16 is two such cores (rows 0-7 and 8-15), its A
    operand four, its B operand two of them when B is stored (n, k), two of
    their transposes when it is stored (k, n). So P rounded to 16 bits is the A
    operand of P V register for register. An accumulator of wgmma says where its
    four warps are, too:

    ```mlir
    #fcgpu.layout<register (0, 1) (8, 0), lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0), warp (16, 0) (32, 0)>
    ```

    On its way to memory a tile has 16 bytes of a row in a lane, here of 16-bit
    elements:

    ```mlir
    #fcgpu.layout<register (0, 1) (0, 2) (0, 4), lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0)>
    ```

    One value a row of the first layout, as the rows' maxima, is held by all
    four lanes of the row's quad, whose bits add nothing:

    ```mlir
    #fcgpu.layout<lane (0) (0) (1) (2) (4)>
    ```
  }];
  let parameters = (ins "unsigned":$rank,
                        ArrayRefParameter<"int64_t">:$registers,
                        ArrayRefParameter<"int64_t">:$lanes,
                        ArrayRefParameter<"int64_t">:$warps);
  let builders = [
    AttrBuilder<(ins "const ::mlir::flashcore::TileLayout &":$layout)>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The map that this names.
    ::mlir::flashcore::TileLayout getTileLayout() const;
  }];
}

def FCGPU_FragmentsAttr : FCGPU_Attr<"Fragments", "fragments"> {
  let summary = "A tile in accumulators of a product that nobody may look at";
  let description = [{
    The tile is a list of `!gpu.mma_matrix`, of which PTX does not say which lane
    has what. Products add to such tiles, and loops and ifs carry them. All else
    takes them through `fcgpu.convert_layout`, by way of shared memory.

    `flashcore-online-softmax` writes it on the products that may leave their
    result there; `flashcore-assign-layouts` says the same of what carries it, and
    lets a result be elsewhere that is a single product of tiles in place.
  }];
}

def FCGPU_SharedAttr : FCGPU_Attr<"Shared", "shared"> {
  let summary = "A tile in its slot of a ring";
  let description = [{
    The home of a tile in place: written by `flashcore-promote-shared` on the
    `fcgpu.read` of it. Only products use such a tile.
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def FCGPU_RingType : TypeDef<FCGPU_Dialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "A ring of tiles in shared memory";
  let description = [{
    `stages` slots of rows x cols elements. Tile number t lives in slot
    t mod stages. Inside a slot, rows are contiguous and their 16-byte chunks are
    permuted so that eight rows of one chunk column fall into eight different
    bank groups (`ldmatrix` without conflicts), without padding:

        chunk' = chunk ^ ((row / (8 / g)) mod g),   g = gcd(chunks of a row, 8)

    For 64 columns of f16 (g = 8), the physical chunk of logical chunk 0 in rows
    0..7 is 0 1 2 3 4 5 6 7; for 16 columns (g = 2, four rows fill 128 bytes) it
    is 0 0 0 0 1 1 1 1.

    With `panels`, a slot is a row of panels of 128 bytes of columns, each with
    all rows and this swizzle (g = 8, which is the 128-byte swizzle of bulk
    copies and of wgmma's matrix descriptors); slots begin at 1024 bytes. What
    the last panel has beyond the columns of the tile, copies fill with zeros.

    With `panels(r)`, a slot is a row of groups of r rows, each a row of panels of
    these rows: one box of a bulk copy can then fill all panels of the rows of a
    page. Of two panels and 128 rows, in units of 1024 bytes:

        rows         0..7   8..15   16..23   24..31
        panels       0, 16  1, 17   2, 18    3, 19
        panels(8)    0, 1   2, 3    4, 5     6, 7
        panels(16)   0, 2   1, 3    4, 6     5, 7

    Of a left operand and of a right one stored (n, k), as K is, products take all
    rows at once, which are at equal distances in groups of 8 alone.

    With `plain`, rows are as `wmma.load` wants them: at one distance, that of
    their columns. With `padded` it is an odd number of chunks, so that eight rows
    of one chunk column fall into eight different bank groups here, too. Of 64
    columns of f16 it is 9 chunks, 144 bytes.

    ```mlir
    !fcgpu.ring<2x64x128xf16>
    !fcgpu.ring<2x64x128xf16, padded>
    !fcgpu.ring<2x128x128xf16, panels>
    !fcgpu.ring<2x128x128xf16, panels(8)>
    ```
  }];
  let parameters = (ins "int64_t":$stages, "int64_t":$rows, "int64_t":$cols,
                        "::mlir::Type":$elementType,
                        EnumParameter<FCGPU_RingLayout>:$layout,
                        "int64_t":$group);
  let skipDefaultBuilders = 1;
  let builders = [TypeBuilder<(ins
      "int64_t":$stages, "int64_t":$rows, "int64_t":$cols,
      "::mlir::Type":$elementType,
      CArg<"::mlir::fcgpu::RingLayout",
           "::mlir::fcgpu::RingLayout::Rows">:$layout,
      CArg<"int64_t", "0">:$group), [{
    return $_get($_ctxt, stages, rows, cols, elementType, layout, group);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Elements of a slot, with those that fill up its last panel or its rows.
    int64_t getSlotElements() const {
      return getRows() * (hasPanels() ? llvm::alignTo(getCols(), getPanelCols())
                                      : getPitch());
    }
    bool hasPanels() const { return getLayout() == RingLayout::Panels; }
    /// Whether rows are at one distance and have no swizzle.
    bool isPlain() const {
      return getLayout() == RingLayout::Plain ||
             getLayout() == RingLayout::Padded;
    }
    /// Elements from a row to the next, of a slot without panels.
    int64_t getPitch() const {
      return getLayout() == RingLayout::Padded ? getPaddedColumns(getCols())
                                               : getCols();
    }
    /// Bytes of an element.
    int64_t getElementBytes() const {
      return getElementType().getIntOrFloatBitWidth() / 8;
    }
    /// Columns of a panel.
    int64_t getPanelCols() const { return kPanelBytes / getElementBytes(); }
    /// Whether panels have some of the rows only, and how many they have.
    bool hasGroups() const { return getGroup() != 0; }
    int64_t getGroupRows() const { return hasGroups() ? getGroup() : getRows(); }
    /// Bytes from one panel to the next.
    int64_t getPanelStride() const { return getGroupRows() * kPanelBytes; }
    /// Bytes from one group of panels to the next.
    int64_t getGroupStride() const;
    /// Bytes from the start of a slot of panels to a row and a column, of which
    /// the swizzle of the row is not known.
    int64_t getPanelOffset(int64_t row, int64_t col) const;
    /// Columns of a chunk, and the chunks of a row.
    int64_t getChunkCols() const { return kChunkBytes / getElementBytes(); }
    int64_t getRowChunks() const { return getCols() / getChunkCols(); }
    /// Bytes of the whole ring.
    int64_t getSizeInBytes() const;
  }];
}

def FCGPU_FlagType : TypeDef<FCGPU_Dialect, "Flag"> {
  let mnemonic = "flag";
  let summary = "What one warp tells all others of its block, once";
  let description = [{
    ```mlir
    !fcgpu.flag
    ```
  }];
}

#endif // FLASHCORE_DIALECT_FCGPU_IR_FCGPUATTRS_TD
