//===- FlashCoreTileOps.td - Tiles of attentions -----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What flashcore-tile puts into kernels and flashcore-online-softmax expands.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCORETILEOPS_TD
#define FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCORETILEOPS_TD

include "flashcore/Dialect/FlashCore/IR/FlashCoreDialect.td"
include "flashcore/Dialect/FlashCore/IR/FlashCoreInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class FlashCore_Read<Type type> : Arg<type, "", [MemRead]>;
class FlashCore_Write<Type type> : Arg<type, "", [MemWrite]>;
class FlashCore_ReadIf<Type type> : Arg<Optional<type>, "", [MemRead]>;
class FlashCore_WriteIf<Type type> : Arg<Optional<type>, "", [MemWrite]>;

def FlashCore_HalfRows : MemRefRankOf<[F16, BF16], [4]>;
def FlashCore_OutputRows : MemRefRankOf<[F16, BF16, F32], [4]>;
def FlashCore_RowNumbers : MemRefRankOf<[F32], [3]>;
def FlashCore_Numbers : MemRefRankOf<[F32], [1]>;
def FlashCore_Counts : MemRefRankOf<[I32], [3]>;
def FlashCore_Indices : MemRefRankOf<[I32], [4]>;

class FlashCore_TileOp<string mnemonic, list<Trait> traits = []>
    : Op<FlashCore_Dialect, mnemonic, traits # [
        FlashCore_ScoreOpInterface, FlashCore_TileOpInterface]> {
  // In front of what tiles have in common.
  dag inputs;
  dag attributes;
  let arguments = !con(inputs, (ins
      Index:$batch, Index:$head, Index:$first_query, Index:$seqlen_q,
      Index:$first_key, Index:$key_end, Index:$seqlen_k, Index:$block_query,
      OptionalAttr<FlashCore_CausalAlignment>:$causal,
      OptionalAttr<I64Attr>:$window_left, OptionalAttr<I64Attr>:$window_right),
      attributes);

  // The text of the coordinates, and of bounds of the mask.
  code place = [{
    `at` `(` `batch` $batch `,` `head` $head `,`
      `query` $first_query `of` $seqlen_q `,`
      `key` $first_key `to` $key_end `of` $seqlen_k `,`
      `block` $block_query `)`
    (`causal` `(` $causal^ `)`)?
    (`window_left` `(` $window_left^ `)`)?
    (`window_right` `(` $window_right^ `)`)?
  }];

  code tileDeclarations = [{
    std::optional<int64_t> getKnownQueries() {
      return ::mlir::getConstantIntValue(getSeqlenQ());
    }
    std::optional<int64_t> getKnownKeys() {
      return ::mlir::getConstantIntValue(getSeqlenK());
    }
  }];
  // Of those with both regions.
  code regionDeclarations = [{
    ::mlir::Region *findScoreRegion() {
      return getScoreRegion().empty() ? nullptr : &getScoreRegion();
    }
    ::mlir::Region *findMaskRegion() {
      return getMaskRegion().empty() ? nullptr : &getMaskRegion();
    }
    float getScale() { return getSoftmaxScale().convertToFloat(); }
  }];
}

def FlashCore_AttentionTileOp : FlashCore_TileOp<"attention_tile", [
    AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "O of some query rows and keys, in a kernel";
  let description = [{
    What `flashcore.attention` computes for the query rows of a warp, of keys
    `first_key` to before `key_end` of their sequence. Softcap, bias and ALiBi are
    parts of the score region here; key and value of pages are views of them
    (`fcgpu.view_pages`).

    Sink, rng and lists of blocks are those of the whole attention, and are read by
    coordinates. An output of f32 is that of a part of the keys, for a merge: it
    may have more columns than value, which mean nothing. `lse_rest` is what
    rounding left of `lse`.

    Constraints:

      T1  key, value and, unless it is f32, output are of query's element type
      T2  query and key have one static number of columns, value has one; output
          has as many as value, that of f32 may have more
      T3  lse is (batch, heads, rows) of output; lse_rest comes with it and is
          of its shape
      T4  memrefs are strided, forwards; query, key, value and, unless it is
          f32, output have innermost stride 1
      T5  dropout and rng come together, as do block_counts, block_indices and
          block_size, and full_block_counts and full_block_indices with these
      T6  regions are those of flashcore.attention (C11)

    ```mlir
    flashcore.attention_tile ins(%q, %k, %v : memref<1x1x16x64xf16>,
        memref<1x1x512x64xf16>, memref<1x1x512x64xf16>)
        outs(%o : memref<1x1x16x64xf16>)
        at(batch %b, head %h, query %row of %c512, key %c0 to %c512 of %c512,
           block %block_row) causal(bottom_right) scale(1.250000e-01)
    ```
  }];
  let inputs = (ins
      FlashCore_Read<FlashCore_HalfRows>:$query,
      FlashCore_Read<FlashCore_HalfRows>:$key,
      FlashCore_Read<FlashCore_HalfRows>:$value,
      FlashCore_ReadIf<FlashCore_Numbers>:$sink_logits,
      FlashCore_ReadIf<MemRefRankOf<[I32], [1]>>:$rng,
      FlashCore_ReadIf<FlashCore_Counts>:$block_counts,
      FlashCore_ReadIf<FlashCore_Indices>:$block_indices,
      FlashCore_ReadIf<FlashCore_Counts>:$full_block_counts,
      FlashCore_ReadIf<FlashCore_Indices>:$full_block_indices,
      FlashCore_Write<FlashCore_OutputRows>:$output,
      FlashCore_WriteIf<FlashCore_RowNumbers>:$lse,
      FlashCore_WriteIf<FlashCore_RowNumbers>:$lse_rest);
  let attributes = (ins
      F32Attr:$softmax_scale, OptionalAttr<F32Attr>:$dropout,
      OptionalAttr<DenseI64ArrayAttr>:$block_size);
  let regions = (region AnyRegion:$score_region, AnyRegion:$mask_region);

  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value `:`
      type($query) `,` type($key) `,` type($value) `)`
    (`sink` `(` $sink_logits^ `:` type($sink_logits) `)`)?
    (`rng` `(` $rng^ `:` type($rng) `)`)?
    (`block_counts` `(` $block_counts^ `:` type($block_counts) `)`)?
    (`block_indices` `(` $block_indices^ `:` type($block_indices) `)`)?
    (`full_block_counts` `(` $full_block_counts^ `:`
      type($full_block_counts) `)`)?
    (`full_block_indices` `(` $full_block_indices^ `:`
      type($full_block_indices) `)`)?
    `outs` `(` $output `:` type($output) `)`
    (`lse` `(` $lse^ `:` type($lse) `)`)?
    (`lse_rest` `(` $lse_rest^ `:` type($lse_rest) `)`)?
  }] # place # [{
    `scale` `(` $softmax_scale `)`
    (`dropout` `(` $dropout^ `)`)?
    (`block_size` $block_size^)?
    (`score` $score_region^)? (`mask` $mask_region^)? attr-dict
  }];

  let builders = [
    // The plain tile: everything else has a setter. `lse` may be null.
    OpBuilder<(ins "::mlir::Value":$query, "::mlir::Value":$key,
                   "::mlir::Value":$value, "::mlir::Value":$output,
                   "::mlir::Value":$lse,
                   "const ::mlir::flashcore::TilePlace &":$place,
                   "::mlir::FloatAttr":$scale)>
  ];
  let extraClassDeclaration = tileDeclarations # regionDeclarations # [{
    ::mlir::Value findQuery() { return getQuery(); }
    ::mlir::Value findKey() { return getKey(); }
    ::mlir::Value findValue() { return getValue(); }
    bool hasBlockLists() { return static_cast<bool>(getBlockCounts()); }
    /// Whether its keys are a part of those of the whole, and its results
    /// partial ones, which are in f32.
    bool isPartOfKeys() {
      return getOutput().getType().getElementType().isF32();
    }
    /// Of 2^16 values of a random number, how many drop an element; 0 without
    /// `dropout`.
    int64_t getDropoutThreshold();
    /// Queries and keys of a block of the lists, where there are some.
    int64_t getBlockQueries() { return (*getBlockSize())[0]; }
    int64_t getBlockKeys() { return (*getBlockSize())[1]; }
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def FlashCore_ScoresTileOp : FlashCore_TileOp<"scores_tile", [
    AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Scores of some query rows and one tile of keys, in a kernel";
  let description = [{
    The scores of the query rows of a warp and the keys `first_key` to before
    `key_end` at the `stage` of the description of `flashcore.attention`, times the
    scale: hidden keys are -inf from `masked` on, and 0 past the end of the
    sequence before. Probabilities are exp(score - lse), of the whole attention's
    lse, which is read by coordinates, less `lse_rest`, which rounding left.

    Constraints:

      T1  key is of query's element type
      T2  query and key have one static number of columns
      T3  lse comes with stage probabilities, and lse_rest with lse
      T4  memrefs are strided, forwards; query, key and output have innermost
          stride 1
      T6  regions are those of flashcore.attention (C11)

    ```mlir
    flashcore.scores_tile ins(%q, %k : memref<1x1x16x64xf16>,
        memref<1x1x512x64xf16>) outs(%s : memref<1x1x16x512xf32>)
        at(batch %b, head %h, query %row of %c512, key %key to %end of %c512,
           block %block_row) scale(1.250000e-01) stage(masked)
    ```
  }];
  let inputs = (ins
      FlashCore_Read<FlashCore_HalfRows>:$query,
      FlashCore_Read<FlashCore_HalfRows>:$key,
      FlashCore_ReadIf<FlashCore_RowNumbers>:$lse,
      FlashCore_ReadIf<FlashCore_RowNumbers>:$lse_rest,
      FlashCore_Write<FlashCore_OutputRows>:$output);
  let attributes = (ins F32Attr:$softmax_scale, FlashCore_ScoresStage:$stage);
  let regions = (region AnyRegion:$score_region, AnyRegion:$mask_region);

  let assemblyFormat = [{
    `ins` `(` $query `,` $key `:` type($query) `,` type($key) `)`
    (`lse` `(` $lse^ `:` type($lse) `)`)?
    (`lse_rest` `(` $lse_rest^ `:` type($lse_rest) `)`)?
    `outs` `(` $output `:` type($output) `)`
  }] # place # [{
    `scale` `(` $softmax_scale `)` `stage` `(` $stage `)`
    (`score` $score_region^)? (`mask` $mask_region^)? attr-dict
  }];

  let builders = [
    // `lse` and `lseRest` may be null.
    OpBuilder<(ins "::mlir::Value":$query, "::mlir::Value":$key,
                   "::mlir::Value":$output, "::mlir::Value":$lse,
                   "::mlir::Value":$lseRest,
                   "const ::mlir::flashcore::TilePlace &":$place,
                   "::mlir::FloatAttr":$scale,
                   "::mlir::flashcore::ScoresStage":$stage)>
  ];
  let extraClassDeclaration = tileDeclarations # regionDeclarations # [{
    ::mlir::Value findQuery() { return getQuery(); }
    ::mlir::Value findKey() { return getKey(); }
    ::mlir::Value findValue() { return {}; }
    bool hasBlockLists() { return false; }
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def FlashCore_ValuesTileOp : FlashCore_TileOp<"values_tile"> {
  let summary = "P V of some query rows and keys, in a kernel";
  let description = [{
    O = P V of the query rows of a warp. Keys that bounds of the mask hide have
    probability 0, and are skipped. `probabilities` are (key tiles, 1, rows, keys
    of a tile).

    Constraints:

      T1  value and output are of the element type of probabilities
      T2  value and output have one static number of columns, probabilities have
          a static number of keys
      T4  memrefs are strided, forwards, with innermost stride 1

    ```mlir
    flashcore.values_tile ins(%p, %v : memref<8x1x16x64xf16>,
        memref<1x1x512x64xf16>) outs(%o : memref<1x1x16x64xf16>)
        at(batch %b, head %h, query %row of %c512, key %c0 to %c512 of %c512,
           block %block_row) causal(bottom_right)
    ```
  }];
  let inputs = (ins
      FlashCore_Read<FlashCore_HalfRows>:$probabilities,
      FlashCore_Read<FlashCore_HalfRows>:$value,
      FlashCore_Write<FlashCore_HalfRows>:$output);
  let attributes = (ins);

  let assemblyFormat = [{
    `ins` `(` $probabilities `,` $value `:`
      type($probabilities) `,` type($value) `)`
    `outs` `(` $output `:` type($output) `)`
  }] # place # [{ attr-dict }];

  let builders = [
    OpBuilder<(ins "::mlir::Value":$probabilities, "::mlir::Value":$value,
                   "::mlir::Value":$output,
                   "const ::mlir::flashcore::TilePlace &":$place)>
  ];
  let extraClassDeclaration = tileDeclarations # [{
    ::mlir::Region *findScoreRegion() { return nullptr; }
    ::mlir::Region *findMaskRegion() { return nullptr; }
    ::mlir::Value findQuery() { return {}; }
    ::mlir::Value findKey() { return {}; }
    ::mlir::Value findValue() { return getValue(); }
    bool hasBlockLists() { return false; }
    float getScale() { return 1; }
  }];
  let hasVerifier = 1;
}

#endif // FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCORETILEOPS_TD
