//===- FlashCoreOps.td - Ops of the flashcore dialect ------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREOPS_TD
#define FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREOPS_TD

include "flashcore/Dialect/FlashCore/IR/FlashCoreProgramOps.td"
include "flashcore/Dialect/FlashCore/IR/FlashCoreTileOps.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class FlashCore_Op<string mnemonic, list<Trait> traits = []>
    : Op<FlashCore_Dialect, mnemonic, traits>;

// Only that it is a tensor or memref is enforced by the type. The rank and the
// elements are by the verifier (C1), which can name the operand.
class FlashCore_Shaped<int rank, string elements>
    : Type<Or<[IsRankedTensorTypePred, IsMemRefTypePred]>,
           "tensor or memref of rank " # rank # " of " # elements>;

def FlashCore_Half4D : FlashCore_Shaped<4, "f16 or bf16">;
def FlashCore_Output4D : FlashCore_Shaped<4, "f16, bf16 or f32">;

def FlashCore_AttentionOp : FlashCore_Op<"attention", [
    AttrSizedOperandSegments, SingleBlock, NoTerminator,
    DestinationStyleOpInterface, FlashCore_ScoreOpInterface,
    DeclareOpInterfaceMethods<FlashCore_HostOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "softmax(scale * Q K^T, masked) V, and the row log-sum-exp";
  let description = [{
    Axes are (batch, head, seqlen, head_dim); a memref may order them in memory
    as it likes through its strides. For query row i and key row j of one head:

        S[i,j] = score(cap(t * scale * dot(Q[i], K[j])) + bias[i,j] + alibi[i,j])
                 or -inf where the mask hides j from i
        LSE[i] = log(exp(sink) + sum_j exp(S[i,j]))
        O[i]   = sum_j exp(S[i,j] - LSE[i]) * drop[i,j] * V[j]

    * `softmax_scale`: absent means 1/sqrt(head_dim).
    * `head_scales` t: one finite number a query head, of any sign, as of learned
      temperatures; absent means 1.
    * `softcap` c: cap(x) = c * tanh(x / c); absent means cap(x) = x. Bias,
      ALiBi, regions and masks come after it, as in FlashAttention-2, Gemma 2
      and ONNX `Attention`: a hidden key stays hidden under a softcap.
    * `causal`: `bottom_right` shows key j to query i iff
      j <= i + seqlen_k - seqlen_q (the last query sees the last key),
      `top_left` iff j <= i.
    * `window_left` l and `window_right` r: with p = i + seqlen_k - seqlen_q,
      key j is visible iff p - l <= j <= p + r; absent means unbounded.
    * `bias` is added to the capped score; an axis of size 1 is broadcast. A
      bias of -inf hides a key.
    * `alibi_slopes` m: alibi[i,j] = -m[h] * abs(i + seqlen_k - seqlen_q - j). What
      is beyond the largest f32 times the smaller of 1 and scale may be that, or
      -inf, but for a distance of 0.
    * `sink_logits`: a logit a head that takes part in the softmax but has no
      value row.
    * `cu_seqlens_q`, `cu_seqlens_k`: sequences back to back on the seqlen axis
      of a batch of one; sequence b has rows cu[b] to cu[b+1], which masks,
      ALiBi and regions count from 0, with b for the batch. Rows of no sequence
      are not written.
    * `seqused_k`: the number of valid key rows of each batch entry (sequence),
      which is its seqlen_k in all that is said above.
    * `page_table`: key and value are then (pages, heads_kv, page_size, dim) and
      entry (b, p) names the page that holds keys p * page_size and on of batch
      entry (sequence) b, whose seqlen_k is page_size times the entries of a row,
      unless `seqused_k` says less. Of rows that no key is in, nothing is read.
    * `block_counts`, `block_indices`: lists of the blocks of `block_size` (q, k)
      queries and keys that may hold a visible score, for masks that are data. Of
      batch entry b and query head h, the first block_counts[b, h, i / q] entries
      of block_indices[b, h, i / q] name blocks of keys: entry n holds the keys n
      * k to n * k + k - 1. The `full_` lists name blocks that no mask is asked
      in. Key j is visible to query i iff its block is in the full list, or in
      the other one and all that is said of masks shows it; seqlen_k hides in
      both. An axis of size 1 of batch or heads is broadcast. Counts outside of 0
      to key_blocks become the nearest of these; entries outside of 0 to
      key_blocks - 1, and those past the count, hold no keys, and nothing is
      read for them. The blocks of a query's two lists are distinct: one that
      stands n times counts n times.
    * `dropout` p: drop[i,j] is 0 for a share p of the elements of P and 1/(1-p)
      for the others, in O alone: sum and LSE are those without it. Absent means
      drop[i,j] = 1. With T = round(65536 * p), the words of `rng` (seed mod
      2^32, seed / 2^32, offset mod 2^32, offset / 2^32), batch entry b, query
      head h, and philox(counter, key), which is Philox4x32-10:

          d = philox((rng[2], rng[3], b, h), (rng[0], rng[1]))
          w = philox((i xor d[0], (j / 32 * 4 + j mod 8 / 2) xor d[1], d[2],
                      d[3]), (0, 0))
          u = w[j mod 32 / 8] / 2^(16 * (j mod 2)) mod 2^16
          drop[i,j] = 0 if u < T, else 1 / (1 - T / 65536)

      where divisions of whole numbers round down. So what is dropped follows
      from seed, offset, b, h, i and j, however the work is divided. With
      cu_seqlens, b, i and j are as regions have them.
    * `append` k_new, v_new: rows that go behind the keys of each batch entry b
      before anything else is done: row i becomes key seqused_k[b] + i, in key
      and value, which are written then, through `page_table` where there is one.
      seqlen_k of b is seqused_k[b] plus the rows of k_new in all that is said
      here. Rows that its keys or pages have no room for are not written, and
      are no keys. No other entry's keys may be where a row goes. An entry whose
      seqused_k is negative is not there: nothing of it is written, and it has
      no keys.
    * `rotary` cos, sin: turns pairs of columns of the rows of k_new, before they
      are written, and of query, before it meets them. With n = rotary_dim / 2,
      the columns of cos, pair c < n is columns 2c and 2c + 1 (`interleaved`) or
      c and c + n (`half`), and at position p

          x' = x * cos[p,c] - y * sin[p,c]
          y' = x * sin[p,c] + y * cos[p,c]

      in f32, rounded once. Further columns stay as they are. The position of
      key j is j. That of query row i is seqused_k[b] + i if the op is causal or
      has a window, else seqused_k[b]. Positions past the last row of cos are
      those of the last row.
    * `score` region: (score: f32, batch, head, query, key: index) -> f32.
      `mask` region: the same arguments, of the changed score -> i1, true where
      the key is visible. Both may read tensors from outside (tables, document
      ids), of whatever shape, at coordinates that they compute.
    * Ops of regions that are lowered: loads of such tensors (memref.load,
      tensor.extract; of f16, bf16, f32, i32 and i8), constants, and on f32, index,
      i32 and i1, of arith addf, subf, mulf, divf, negf, maximumf, minimumf,
      maxnumf, minnumf, cmpf, cmpi, select, addi, subi, muli, divsi, divui,
      remsi, remui, floordivsi, ceildivsi, maxsi, minsi, maxui, minui, andi,
      ori, xori, shli, shrsi, shrui, index_cast, index_castui, extsi, extui,
      trunci, sitofp, uitofp, fptosi and extf, of math absf, absi, exp, exp2,
      log, log2, sqrt, rsqrt, tanh, sin, cos, floor, ceil and fma. Those of math
      are the approximations of the PTX ISA. A region has no branches.
    * `scores`: the matrix of scores, every key of every query, at a `stage`:

          scaled         t * scale * dot(Q[i], K[j])
          capped         cap of that
          changed        with bias, alibi and the score region, before the mask
          masked         S[i,j], which is -inf where key j is hidden
          probabilities  exp(S[i,j] - LSE[i]), 0 where key j is hidden; a sink
                         has no column

      Keys from `seqused_k` on are 0 up to the mask, and hidden behind it.
    * `program` region: the kernels that compute all of this, one after another,
      and what they leave one another. It changes nothing of what is said here;
      flashcore-decompose writes it, and flashcore-tile makes kernels of it.
    * Empty row: a query that sees no key gets O = 0 and LSE = -inf (without
      sink), never NaN.
    * Rows of query, key, value and output move 16 bytes at a time where head_dim
      (head_dim_v), the static strides and the static offset are multiples of 8
      elements, else 8, 4 or 2, as the largest power of two that divides them
      all allows. Pointers, and strides and offsets that are known at run time
      only, are to be multiples of that. So do rows of scores, where seqlen_k is
      static, else element by element.
    * Grouped heads: query head h reads kv head h / (heads_q / heads_kv).
    * Precision: S, P and both accumulators are f32; P is rounded to the input
      type before it meets V. Head scales, a bias, ALiBi and each step of a score
      region make products, sums and scores of f32: where all keys of a row have
      one mask, O is what it is without where the mask is small, and the mean of
      V where it swallows the scores. LSE is the natural logarithm, in f32.

    Constraints:

      C1   query, key, value and output are rank 4, of f16 or bf16; bias is rank
           4, of f16, bf16 or f32; the other operands have the ranks and elements
           that are said of them
      C2   query, key, value and output share one element type
      C3   head_dim and head_dim_v are static and positive, and query and key
           agree in head_dim
      C4   key and value agree in batch, heads_kv and seqlen_k; query and key in
           batch (without page_table); heads_q is a multiple of heads_kv
      C5   output is (batch, heads_q, seqlen_q, head_dim_v), lse (batch, heads_q,
           seqlen_q) of f32, scores are (batch, heads_q, seqlen_q, seqlen_k) of
           f16, bf16 or f32
      C6   softmax_scale and softcap, when present, are finite and positive;
           softmax_scale, softcap and softmax_scale / softcap are from 2^-126
           to 2^126; window_left and window_right are not negative
      C7   each axis of bias is 1 or that of (batch, heads_q, seqlen_q, seqlen_k);
           an axis that is statically 1 is broadcast, a dynamic one is not.
           head_scales, alibi_slopes and sink_logits are (heads_q) of f32
      C8   cu_seqlens_q comes with a batch of one, and with cu_seqlens_k of its
           length, or with page_table and seqused_k instead
      C9   seqused_k is (batch), with cu_seqlens (sequences); page_table is
           (batch, pages of each entry), with cu_seqlens (sequences, pages of
           each); page_size is static and positive
      C10  a memref is strided, forwards; query, key, value, output, scores,
           k_new, v_new, rotary_cos and rotary_sin have innermost stride 1; an
           operand spans, with its static sizes, strides and offset, less than
           2^63 bytes
      C11  a score region returns f32 and a mask region i1, of the arguments
           above; tensors or memrefs that they read are like the operands (C12)
      C12  operands are all tensors, with a result each for output, lse and
           scores of their types, or all memrefs, without results
      C13  `scores` and `stage` come together; `stage(probabilities)` comes with
           lse
      C14  dropout and rng come together; round(65536 * dropout) is from 1 to
           65535, and rng is (4) of i32
      C15  k_new and v_new come together, are of query's element type, and are
           (batch, heads_kv, seqlen_new, head_dim) and (batch, heads_kv,
           seqlen_new, head_dim_v), on memrefs, with seqused_k and without
           cu_seqlens
      C16  rotary_cos, rotary_sin and `style` come together, and with `append`;
           they are (positions, rotary_dim / 2) of query's element type, where
           rotary_dim / 2 is static and positive, and rotary_dim at most head_dim
      C17  block_counts, block_indices and block_size come together, and
           full_block_counts and full_block_indices, which take them;
           block_size are two multiples of 16, from 16 to 65536
      C18  block_counts are (batch or 1, heads_q or 1, query_blocks), and
           block_indices have one axis more, key_blocks, as have those of full
           blocks; query_blocks is at least seqlen_q / q, rounded up, and
           key_blocks seqlen_k / k, and 1
      C19  there are no block lists with cu_seqlens, page_table or scores
      C20  of memrefs, output, lse and scores are those of no other operand; nor
           are key and value with append, but of one another. Their memory
           overlaps no other, which passes refuse where views show it, and the
           runtime by addresses: blocks write it while others still read

    Syntax; after `ins` clauses may stand in any order, each at most once, and
    are printed in this one:

        flashcore.attention ins(q, k, v : type, type, type)
            [head_scale(t : type)] [bias(b : type)] [alibi(slopes : type)]
            [sink(logits : type)]
            [cu_seqlens_q(cu : type) [cu_seqlens_k(cu : type)]]
            [seqused_k(used : type)] [page_table(table : type)]
            [append(k_new, v_new : type, type)] [rotary(cos, sin : type, type)]
            [rng(words : type)]
            [block_counts(n : type) block_indices(blocks : type)
             [full_block_counts(n : type) full_block_indices(blocks : type)]]
            outs(o : type) [lse(lse : type)] [scores(s : type)]
            [causal(bottom_right)|causal(top_left)] [window_left(keys)]
            [window_right(keys)] [scale(number)] [softcap(number)]
            [dropout(number)] [block_size(queries, keys)]
            [stage(scaled|capped|changed|masked|probabilities)]
            [style(interleaved|half)]
            [score region] [mask region]
            [attributes] [program region] [-> types of the results, for tensors]

    Example:

    ```mlir
    flashcore.attention
        ins(%q, %k, %v : memref<1x8x512x64xf16>, memref<1x2x512x64xf16>,
                         memref<1x2x512x64xf16>)
        outs(%o : memref<1x8x512x64xf16>) lse(%lse : memref<1x8x512xf32>)
        causal(bottom_right) scale(1.250000e-01)
    ```
  }];

  // In the order of flashcore/Operands.def, which has what is alike for all.
  let arguments = (ins
      FlashCore_Half4D:$query, FlashCore_Half4D:$key, FlashCore_Half4D:$value,
      Optional<FlashCore_Shaped<1, "f32">>:$head_scales,
      Optional<FlashCore_Output4D>:$bias,
      Optional<FlashCore_Shaped<1, "f32">>:$alibi_slopes,
      Optional<FlashCore_Shaped<1, "f32">>:$sink_logits,
      Optional<FlashCore_Shaped<1, "i32">>:$cu_seqlens_q,
      Optional<FlashCore_Shaped<1, "i32">>:$cu_seqlens_k,
      Optional<FlashCore_Shaped<1, "i32">>:$seqused_k,
      Optional<FlashCore_Shaped<2, "i32">>:$page_table,
      Optional<FlashCore_Half4D>:$k_new,
      Optional<FlashCore_Half4D>:$v_new,
      Optional<FlashCore_Shaped<2, "f16 or bf16">>:$rotary_cos,
      Optional<FlashCore_Shaped<2, "f16 or bf16">>:$rotary_sin,
      Optional<FlashCore_Shaped<1, "i32">>:$rng,
      Optional<FlashCore_Shaped<3, "i32">>:$block_counts,
      Optional<FlashCore_Shaped<4, "i32">>:$block_indices,
      Optional<FlashCore_Shaped<3, "i32">>:$full_block_counts,
      Optional<FlashCore_Shaped<4, "i32">>:$full_block_indices,
      FlashCore_Half4D:$output,
      Optional<FlashCore_Shaped<3, "f32">>:$lse,
      Optional<FlashCore_Output4D>:$scores,
      OptionalAttr<F32Attr>:$softmax_scale,
      OptionalAttr<F32Attr>:$softcap,
      OptionalAttr<FlashCore_CausalAlignment>:$causal,
      OptionalAttr<I64Attr>:$window_left,
      OptionalAttr<I64Attr>:$window_right,
      OptionalAttr<F32Attr>:$dropout,
      OptionalAttr<DenseI64ArrayAttr>:$block_size,
      OptionalAttr<FlashCore_ScoresStage>:$stage,
      OptionalAttr<FlashCore_RotaryStyle>:$style);
  let regions = (region AnyRegion:$score_region, AnyRegion:$mask_region,
                        VariadicRegion<AnyRegion>:$programs);
  let results = (outs Variadic<AnyRankedTensor>:$results);

  let builders = [
    // The plain attention: everything else has a setter. `lse` may be null;
    // with tensors the results are of the types of `output` and `lse`.
    OpBuilder<(ins "::mlir::Value":$query, "::mlir::Value":$key,
                   "::mlir::Value":$value, "::mlir::Value":$output,
                   CArg<"::mlir::Value", "{}">:$lse)>
  ];

  let hasCustomAssemblyFormat = 1;

  let extraClassDeclaration = [{
    /// Axes of query, key, value and output.
    enum Axis : unsigned { Batch = 0, Head = 1, Seqlen = 2, HeadDim = 3 };
    bool hasPureBufferSemantics() {
      return ::llvm::isa<::mlir::MemRefType>(getQuery().getType());
    }
    ::mlir::ShapedType getQueryType() { return shaped(getQuery()); }
    ::mlir::ShapedType getKeyType() { return shaped(getKey()); }
    ::mlir::ShapedType getValueType() { return shaped(getValue()); }
    ::mlir::ShapedType getOutputType() { return shaped(getOutput()); }
    int64_t getHeadDim() { return getQueryType().getDimSize(HeadDim); }
    int64_t getHeadDimV() { return getValueType().getDimSize(HeadDim); }
    /// The explicit scale, or the default 1/sqrt(head_dim).
    float getEffectiveScale();
    /// Of 2^16 values of a random number, how many drop an element: the T of
    /// the description; 0 without `dropout`.
    int64_t getDropoutThreshold();

    /// Whether all rows of query are turned by one position.
    bool rotatesByOnePosition() {
      return !getCausal() && !getWindowLeft() && !getWindowRight();
    }
    /// Queries and keys of a block of the lists, where there are some.
    int64_t getBlockQueries() { return (*getBlockSize())[0]; }
    int64_t getBlockKeys() { return (*getBlockSize())[1]; }

    ::mlir::MutableOperandRange getDpsInitsMutable();
    ::mlir::Region *findScoreRegion() {
      return getScoreRegion().empty() ? nullptr : &getScoreRegion();
    }
    ::mlir::Region *findMaskRegion() {
      return getMaskRegion().empty() ? nullptr : &getMaskRegion();
    }
    /// The kernels of flashcore-decompose; null in front of it.
    ::mlir::Region *findProgram() {
      return getPrograms().empty() ? nullptr : &getPrograms().front();
    }
    bool hasBlockLists() { return static_cast<bool>(getBlockCounts()); }
    std::optional<int64_t> getKnownQueries() {
      return getKnownSeqlen(getQueryType());
    }
    std::optional<int64_t> getKnownKeys() {
      return getKnownSeqlen(getKeyType());
    }

  private:
    static ::mlir::ShapedType shaped(::mlir::Value value) {
      return ::llvm::cast<::mlir::ShapedType>(value.getType());
    }
    std::optional<int64_t> getKnownSeqlen(::mlir::ShapedType rows);
    ::llvm::LogicalResult verifyTypes();
    ::llvm::LogicalResult verifyShapes();
    ::llvm::LogicalResult verifyModifiers();
    ::llvm::LogicalResult verifyVarlen();
    ::llvm::LogicalResult verifyScores();
    ::llvm::LogicalResult verifyStrides();
    ::llvm::LogicalResult verifyDropout();
    ::llvm::LogicalResult verifyAppend();
    ::llvm::LogicalResult verifyRotary();
    ::llvm::LogicalResult verifyBlocks();
    ::llvm::LogicalResult verifyResults();

  public:
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def FlashCore_YieldOp : FlashCore_Op<"yield", [
    Pure, Terminator, ReturnLike,
    ParentOneOf<["AttentionOp", "AttentionTileOp", "ScoresTileOp"]>]> {
  let summary = "Ends a score or mask region with its value";
  let description = [{
    Returns the changed score (f32), or whether the key is visible (i1).

    ```mlir
    flashcore.yield %score : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I1]>:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def FlashCore_MergeOp : FlashCore_Op<"merge", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<FlashCore_HostOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "The attention to all keys, from those to disjoint parts of them";
  let description = [{
    Part t of the keys has left, for each query row, O_t and LSE_t, its row
    log-sum-exp (natural, -inf where the row sees no key of the part). Then

        LSE = log(exp(sink) + sum_t exp(LSE_t))    O = sum_t exp(LSE_t - LSE) * O_t

    without the sink's term where there are no `sink_logits`, which is a logit a
    head that no part has counted. A row that sees no key at all gets O = 0 and
    LSE = -inf (without sink). O_t of a part with LSE_t = -inf must be finite.
    Sums are in f32 and have one order, that of the parts. Outputs of any one
    attention serve: chunks of a long sequence on several devices, a prefix that
    many sequences share and what follows it, parts of keys that change and that
    do not.

    Rows of outputs and output move as those of an attention do: pointers, and
    strides and offsets that are known at run time only, are to be multiples of
    16, 8, 4 or 2 bytes, the largest that divides head_dim_v, the static strides
    and the static offset.

    Constraints:

      M1  outputs are (parts, batch, heads, seqlen_q, head_dim_v) of f16, bf16 or
          f32, lses (parts, batch, heads, seqlen_q) of f32, and output is (batch,
          heads, seqlen_q, head_dim_v) of f16, bf16 or f32
      M2  lse is (batch, heads, seqlen_q) of f32, sink_logits are (heads) of f32
      M3  head_dim_v is static and positive; other sizes agree
      M4  a memref is strided, forwards; outputs and output have innermost
          stride 1
      M5  operands are all tensors, with a result each for output and lse of
          their types, or all memrefs, without results
      M6  an operand spans, with its static sizes, strides and offset, less than
          2^63 bytes
      M7  of memrefs, output and lse are those of no other operand, and their
          memory overlaps none

    Example:

    ```mlir
    flashcore.merge
        ins(%outputs, %lses : memref<4x1x8x512x64xf32>, memref<4x1x8x512xf32>)
        outs(%o : memref<1x8x512x64xf16>) lse(%lse : memref<1x8x512xf32>)
    ```
  }];

  let arguments = (ins
      FlashCore_Shaped<5, "f16, bf16 or f32">:$outputs,
      FlashCore_Shaped<4, "f32">:$lses,
      Optional<FlashCore_Shaped<1, "f32">>:$sink_logits,
      FlashCore_Output4D:$output,
      Optional<FlashCore_Shaped<3, "f32">>:$lse);
  let results = (outs Variadic<AnyRankedTensor>:$results);

  let assemblyFormat = [{
    `ins` `(` $outputs `,` $lses `:` type($outputs) `,` type($lses) `)`
    (`sink` `(` $sink_logits^ `:` type($sink_logits) `)`)?
    `outs` `(` $output `:` type($output) `)`
    (`lse` `(` $lse^ `:` type($lse) `)`)?
    attr-dict (`->` type($results)^)?
  }];

  let extraClassDeclaration = [{
    bool hasPureBufferSemantics() {
      return ::llvm::isa<::mlir::MemRefType>(getOutput().getType());
    }
    ::mlir::ShapedType getOutputType() {
      return ::llvm::cast<::mlir::ShapedType>(getOutput().getType());
    }
    int64_t getHeadDimV() { return getOutputType().getShape().back(); }
    ::mlir::MutableOperandRange getDpsInitsMutable();
  }];
  let hasVerifier = 1;
}

def FlashCore_AppendOp : FlashCore_Op<"append", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<FlashCore_HostOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "New rows behind the keys and values of a cache";
  let description = [{
    What the clause `append` of `flashcore.attention` does, by itself: row i of
    `k_new` and `v_new` becomes key seqused_k[b] + i of batch entry b, in key and
    value, through `page_table` where there is one. Rows that its keys or pages
    have no room for are not written. No other entry's keys may be where a row
    goes. An entry whose seqused_k is negative is not there: nothing of it is
    written. seqused_k stays as it is: an attention that is to see the new rows
    is given lengths that count them.

    `rotary` turns the rows of k_new before they are written, by the formula of
    `flashcore.attention`, each at the position of its key. With `query` the rows
    of that are turned into `turned`: query row i of entry b at the position
    max(0, seqused_k[b]) + i. Positions past the last row of cos have that of the
    last.

    Constraints:

      A1  k_new and v_new are (batch, heads_kv, seqlen_new, dim), key and value
          (batch, heads_kv, seqlen_k, dim) or, with page_table, (pages, heads_kv,
          page_size, dim), all of one type, f16 or bf16; dims are static and
          positive, as page_size is, and other sizes agree
      A2  seqused_k is (batch) and page_table (batch, pages_per_sequence), of i32
      A3  rotary_cos and rotary_sin are (positions, rotary_dim / 2) of k_new's
          type and come together, with a `style`; rotary_dim / 2 is static and
          positive, rotary_dim at most the dim of k_new, and there is a position
      A4  query and turned are (batch, heads_q, seqlen_q, dim) of k_new's type and
          come together, with rotary; heads_q is a multiple of heads_kv
      A5  a memref is strided, forwards; but for lengths and tables its innermost
          stride is 1; it spans less than 2^63 bytes
      A6  key, value and turned are in memory of their own; key and value may
          share theirs

    Example:

    ```mlir
    flashcore.append
        ins(%k_new, %v_new : memref<2x8x1x64xf16>, memref<2x8x1x64xf16>)
        seqused_k(%used : memref<2xi32>)
        outs(%k, %v : memref<2x8x4096x64xf16>, memref<2x8x4096x64xf16>)
    ```
  }];

  let arguments = (ins
      Arg<AnyMemRef, "f16 or bf16">:$k_new,
      Arg<AnyMemRef, "f16 or bf16">:$v_new,
      Arg<AnyMemRef, "i32">:$seqused_k,
      Optional<AnyMemRef>:$page_table,
      Optional<AnyMemRef>:$rotary_cos,
      Optional<AnyMemRef>:$rotary_sin,
      Optional<AnyMemRef>:$query,
      AnyMemRef:$key,
      AnyMemRef:$value,
      Optional<AnyMemRef>:$turned,
      OptionalAttr<FlashCore_RotaryStyle>:$style);

  let assemblyFormat = [{
    `ins` `(` $k_new `,` $v_new `:` type($k_new) `,` type($v_new) `)`
    `seqused_k` `(` $seqused_k `:` type($seqused_k) `)`
    (`page_table` `(` $page_table^ `:` type($page_table) `)`)?
    (`rotary` `(` $rotary_cos^ `,` $rotary_sin `:` type($rotary_cos) `,`
        type($rotary_sin) `)` `style` `(` $style `)`)?
    (`query` `(` $query^ `:` type($query) `)`)?
    `outs` `(` $key `,` $value `:` type($key) `,` type($value) `)`
    (`turned` `(` $turned^ `:` type($turned) `)`)?
    attr-dict
  }];

  let extraClassDeclaration = [{
    ::mlir::MemRefType getKeyType() {
      return ::llvm::cast<::mlir::MemRefType>(getKey().getType());
    }
    ::mlir::MemRefType getValueType() {
      return ::llvm::cast<::mlir::MemRefType>(getValue().getType());
    }
    int64_t getHeadDim() { return getKeyType().getShape().back(); }
    int64_t getHeadDimV() { return getValueType().getShape().back(); }
  }];
  let hasVerifier = 1;
}

def FlashCore_DeltaOp : FlashCore_Op<"delta", [
    DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<FlashCore_HostOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "What the gradients of scores subtract: rowsum(dO * O)";
  let description = [{
    The first step of the backward pass of an attention (Dao, FlashAttention-2,
    2023, algorithm 2): of each query row of the gradient dO of an output and of
    that output O

        delta[i] = sum_d dO[i,d] * O[i,d]

    in f32. With it the gradient of a score is dS = P * (dP - delta), and that of
    a sink logit the sum over rows of -exp(sink - LSE) * delta.

    Constraints:

      D1  output_gradient and output are (batch, heads, seqlen_q, head_dim_v) and
          delta is (batch, heads, seqlen_q)
      D2  output_gradient and output are of one type, f16, bf16 or f32, and delta
          is of f32
      D3  head_dim_v is static and positive; other sizes agree
      D4  a memref is strided, forwards; output_gradient and output have innermost
          stride 1; it spans less than 2^63 bytes
      D5  operands are all tensors, with a result of delta's type, or all memrefs,
          without one
      D6  of memrefs, delta is that of no other operand, and its memory overlaps
          none

    Example:

    ```mlir
    flashcore.delta ins(%do, %o : memref<1x8x512x64xbf16>, memref<1x8x512x64xbf16>)
        outs(%delta : memref<1x8x512xf32>)
    ```
  }];

  let arguments = (ins
      FlashCore_Output4D:$output_gradient,
      FlashCore_Output4D:$output,
      FlashCore_Shaped<3, "f32">:$delta);
  let results = (outs Variadic<AnyRankedTensor>:$results);

  let assemblyFormat = [{
    `ins` `(` $output_gradient `,` $output `:` type($output_gradient) `,`
        type($output) `)`
    `outs` `(` $delta `:` type($delta) `)`
    attr-dict (`->` type($results)^)?
  }];

  let extraClassDeclaration = [{
    ::mlir::ShapedType getOutputType() {
      return ::llvm::cast<::mlir::ShapedType>(getOutput().getType());
    }
    int64_t getHeadDimV() { return getOutputType().getShape().back(); }
    ::mlir::MutableOperandRange getDpsInitsMutable();
  }];
  let hasVerifier = 1;
}

#endif // FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREOPS_TD
