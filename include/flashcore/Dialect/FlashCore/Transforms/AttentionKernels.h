//===- AttentionKernels.h - The kernels of an attention ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What of kernels and their arguments is an attention's: its tensors, what its
// manifest says, and the results that one kernel leaves for the next.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"

namespace mlir::flashcore {

/// How many parts the keys of a query tile are split into.
struct KeyParts {
  /// A factor that sizes decide, and the size that it is of.
  struct Factor {
    Dim size;
    SizeFormula parts;
  };

  int64_t count = 1; ///< the product of all factors that no size changes
  SmallVector<Factor> factors;
  /// One part that the merge must make what it makes of several.
  bool isMerged = false;

  bool isSplit() const { return isMerged || count > 1 || !factors.empty(); }
  /// Their number, where no size changes it.
  std::optional<int64_t> getKnown() const {
    return factors.empty() ? std::optional(count) : std::nullopt;
  }
  SizeFormula getNumber() const;
};

/// How many query rows of a sequence calls have that launch a kernel: of
/// sequences back to back the mean, rounded up.
struct QueryRange {
  int64_t least = 0;
  std::optional<int64_t> most = {};

  bool isAll() const { return least == 0 && !most; }
};

/// The signature of the kernels of one attention. Where its keys are split into
/// N parts there are two: the first leaves N partial results a query row in the
/// workspace, the second merges them into the outputs. With `softmax = unfused`
/// there are three: that of the attention leaves scores in the workspace, then
/// come that of the softmax and that of P V. Scores that are an output have one
/// more, behind these, and an append has one in front.
class AttentionSignature : public KernelSignature {
public:
  /// Of kernels for calls of `queries`.
  AttentionSignature(AttentionOp op, fcgpu::ScheduleAttr schedule,
                     QueryRange queries = {});

  /// Of the attention kernel.
  ArrayRef<KernelArgument> getArguments() const { return arguments; }
  /// Of the merge kernel; empty without one.
  ArrayRef<KernelArgument> getMergeArguments() const { return mergeArguments; }
  /// Of the kernels of softmax and of P V; empty without them.
  ArrayRef<KernelArgument> getSoftmaxArguments() const {
    return softmaxArguments;
  }
  ArrayRef<KernelArgument> getValuesArguments() const {
    return valuesArguments;
  }
  /// Of the kernel of scores; empty without one.
  ArrayRef<KernelArgument> getScoresArguments() const {
    return scoresArguments;
  }
  /// Of the kernel of the append; empty without one.
  ArrayRef<KernelArgument> getAppendArguments() const {
    return appendArguments;
  }
  const fcgpu::ScheduleChoice &getScoresChoice() const { return scoresChoice; }
  const KeyParts &getKeyParts() const { return keyParts; }

  // What sizes decide, for host code and for the manifest:
  /// Batch entries, or sequences that lie back to back.
  SizeFormula getNumSequences() const;
  /// Query rows of a sequence: of those back to back the mean, rounded up.
  SizeFormula getMeanQueries() const;
  /// Into how many parts a call splits keys, with `split_count = call`.
  SizeFormula getKeySplits(fcgpu::ScheduleAttr schedule) const;
  /// Blocks of query rows. Of sequences back to back one more for each:
  /// Sequences.cpp.
  SizeFormula getNumQueryBlocks(fcgpu::ScheduleAttr schedule) const;
  SizeFormula getNumHeadGroups(fcgpu::ScheduleAttr schedule) const;
  /// Block tiles: those of a full grid, one a block.
  SizeFormula getNumTiles(fcgpu::ScheduleAttr schedule) const;
  /// Blocks of the attention kernel; of a persistent one, which is right for
  /// any number of blocks, as many as the device has room for.
  SizeFormula getGrid(fcgpu::ScheduleAttr schedule) const;
  SizeFormula getScoresGrid() const;
  SizeFormula getSoftmaxGrid() const;
  SizeFormula getAppendGrid() const;
  /// Query rows of all heads: blocks of the merge.
  static SizeFormula getRows();
  /// The parts of the workspace, in bytes: a copy of query, and behind it what
  /// LSE is rounded by, and the partial results, or scores and P.
  SmallVector<SizeFormula> getWorkspace() const;

  /// Whether the kernel that writes LSE leaves that of scores what rounding
  /// took of it.
  bool keepsLseRest() const { return keepsRest; }
  /// Columns of a tile of scores and P in the workspace, whose rows are whole
  /// tiles.
  int64_t getTileKeys() const { return tileKeys; }

  /// Columns of a partial O: those of its tiles.
  int64_t getPartialColumns() const {
    return fcgpu::getTileColumns(*getExtent(Dim::HeadDimV));
  }

  /// `fcgpu.kernel` of the attention kernel.
  DictionaryAttr toDictionary(AttentionOp op, fcgpu::ScheduleAttr schedule,
                              int64_t sharedMemoryBytes) const;
  /// `fcgpu.kernel` of the merge kernel: a block of `numThreads`, with
  /// `sharedMemory` bytes, a query row.
  DictionaryAttr toMergeDictionary(MLIRContext *context, int64_t numThreads,
                                   int64_t sharedMemory) const;
  /// `fcgpu.kernel` of the kernel of the softmax.
  DictionaryAttr toSoftmaxDictionary(MLIRContext *context) const;
  /// `fcgpu.kernel` of the kernel of P V: a block for each query tile.
  DictionaryAttr toValuesDictionary(AttentionOp op,
                                    fcgpu::ScheduleAttr schedule) const;
  /// `fcgpu.kernel` of the kernel of scores: a block for each tile of them.
  DictionaryAttr toScoresDictionary(AttentionOp op) const;
  /// `fcgpu.kernel` of the kernel of the append, a block for each kAppendRows
  /// rows of a key head, and of the queries that read it.
  DictionaryAttr toAppendDictionary(AttentionOp op, int64_t numThreads) const;

private:
  SmallVector<KernelArgument> listScoresArguments(ScoresStage stage,
                                                  bool writesOutput) const;
  void listUnfusedArguments();
  void listAppendArguments();
  void addCopyOfQuery(SmallVectorImpl<KernelArgument> &list) const;
  void addTensorMaps(AttentionOp op, fcgpu::ScheduleAttr schedule);
  void addGroupMaps(KernelArgument map, int64_t rows, int64_t cols);

  SizeFormula countScoreTiles(int64_t blockM, int64_t blockN) const;
  void setCondition(NamedAttrList &kernel, Builder b) const;

  SmallVector<KernelArgument> arguments, mergeArguments, softmaxArguments,
      valuesArguments, scoresArguments, appendArguments;
  fcgpu::ScheduleChoice scoresChoice;
  KeyParts keyParts;
  bool isVarlen, isPaged, isTurned, keepsRest;
  QueryRange queries;
  int64_t tileKeys;
};

/// What rounding LSE to f32 left, of probabilities that are an output: the
/// kernel that writes LSE leaves it for that of scores, in front of all else
/// that kernels have in the workspace as f32.
class LseRest {
public:
  /// Rows begin at multiples of so many floats, so that what is behind them is
  /// aligned.
  static constexpr int64_t kRowFloats = 4;

  LseRest(KernelFrame &frame, const AttentionSignature &signature)
      : frame(frame), isKept(signature.keepsLseRest()) {}

  /// (batch, heads_q, seqlen_q filled up) of f32; null where it is not kept.
  /// The kernel must take the workspace then.
  Value view();
  /// Where what is behind it begins.
  OpFoldResult getEnd();

private:
  SmallVector<OpFoldResult> getShape();

  KernelFrame &frame;
  bool isKept;
};

/// The results of attentions over parts of the keys, in the workspace: O, then
/// LSE, then what rounding that left, in f32. Split s of batch entry b is entry
/// s * batch + b.
struct PartialResults {
  static constexpr int64_t kFloatsOfLse = 2; ///< of a row

  Value output; ///< (parts * batch, heads_q, seqlen_q, columns of tiles)
  Value lse;    ///< (parts * batch, heads_q, seqlen_q)
  Value rest;   ///< of the same shape
};

/// Those of a kernel, which must take the workspace, of `numParts` parts of the
/// keys.
PartialResults getPartialResults(KernelFrame &frame,
                                 const AttentionSignature &signature,
                                 OpFoldResult numParts);

/// Makes the kernel that combines the partial results of all parts of the keys
/// into the outputs, at the insertion point of `b`. If `isInvariant`, parts
/// that hold nothing for a row leave its bits as they are.
gpu::GPUFuncOp buildMergeKernel(ImplicitLocOpBuilder &b,
                                const AttentionSignature &signature,
                                StringRef name, bool isInvariant);

/// Masked scores and, behind them, P in the workspace: rows of all keys, filled
/// up to whole tiles. The kernel of `frame` must take it as f32 or, for tiles,
/// as query's type.
class UnfusedWorkspace {
public:
  UnfusedWorkspace(KernelFrame &frame, const AttentionSignature &signature);

  /// Columns of a row.
  OpFoldResult getColumns() const { return columns; }
  /// (batch, heads_q, seqlen_q, columns) of f32.
  Value viewScores();
  /// P, whose elements are half as large: (batch, heads_q, seqlen_q, columns /
  /// 2) of f32, two of them each.
  Value viewPairs();
  /// P of the `rows` query rows of a tile, from `row` on, as the tile takes it.
  Value viewTile(Value batch, Value head, OpFoldResult row, OpFoldResult rows);

private:
  OpFoldResult countRows();

  KernelFrame &frame;
  int64_t tileKeys;
  OpFoldResult begin, columns;
};

/// Threads of a block of the kernel of the softmax, each warp of which has a
/// row.
inline constexpr int64_t kSoftmaxThreads = 128;
inline constexpr int64_t kSoftmaxRows = kSoftmaxThreads / 32;

/// Makes the first two kernels of softmax unfused at the insertion point of
/// `b`: that of scores, which says of itself what `description` does, and that
/// of the softmax. That of P V is for who makes attention kernels.
gpu::GPUFuncOp buildUnfusedScoresKernel(ImplicitLocOpBuilder &b, AttentionOp op,
                                        const AttentionSignature &signature,
                                        fcgpu::ScheduleAttr schedule,
                                        StringRef name,
                                        DictionaryAttr description);
gpu::GPUFuncOp buildSoftmaxKernel(ImplicitLocOpBuilder &b, AttentionOp op,
                                  const AttentionSignature &signature,
                                  StringRef name);

/// Makes the kernel that writes the scores of `op` at their stage, at the
/// insertion point of `b`, for the chip of `schedule`. It reads the log-sum-exp
/// that the kernels before it wrote.
gpu::GPUFuncOp buildScoresKernel(ImplicitLocOpBuilder &b, AttentionOp op,
                                 const AttentionSignature &signature,
                                 fcgpu::ScheduleAttr schedule, StringRef name);

/// Rows of a block of the kernel of the append.
inline constexpr int64_t kAppendRows = 16;

/// Makes the kernel that writes the new rows of key and value and, with rotary,
/// the turned rows of query, at the insertion point of `b`.
gpu::GPUFuncOp buildAppendKernel(ImplicitLocOpBuilder &b, AttentionOp op,
                                 const AttentionSignature &signature,
                                 StringRef name);

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H
