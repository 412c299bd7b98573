//===- AttentionProblem.h - What a schedule depends on ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_ATTENTIONPROBLEM_H
#define FLASHCORE_SCHEDULE_ATTENTIONPROBLEM_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Target/Atoms.h"

#include <optional>

namespace mlir::flashcore {

/// What of an attention its schedule depends on. Sizes that are not known at
/// compile time are `std::nullopt`.
struct AttentionProblem {
  std::optional<int64_t> batch, headsQ, headsKV, seqlenQ, seqlenK;
  int64_t headDim = 0, headDimV = 0;
  /// What all rows of Q, K, V and O can be read and written by (RowAccess.h).
  int64_t accessBytes = mlir::fcgpu::kChunkBytes;
  /// Of Q, K and V.
  ElementKind element = ElementKind::F16;
  bool isCausal = false;
  /// Causal, top-left: queries past the last key see all of them.
  bool isTopLeft = false;
  bool hasWindow = false;
  /// Whether each score takes a special function (tanh, exp2, ...) beside the
  /// exponential, as a softcap does.
  bool hasSpecials = false;
  /// Whether scores are changed by more than special functions and factors, or
  /// by a mask that is more than bounds.
  bool hasBias = false;
  bool hasRegion = false;
  /// Whether what is computed of a score takes many registers beside the
  /// fragments: a bias has an address for every score, and so has much that
  /// regions read; a dropout has words of random numbers.
  bool hasLongScores = false;
  bool hasDropout = false;
  /// Whether LSE is a result: the logarithm of a sum of P that is not rounded.
  bool hasLse = false;
  /// Whether rows of keys are appended before anything else is done.
  bool hasAppend = false;
  /// Whether a region reads something for every score.
  bool readsPerScore = false;
  /// What was proved of a mask region: whether something of it bounds the keys
  /// of a query, so that tiles are skipped, whether that is all of it, how many
  /// ranges of keys these are, and whether some end where data of a batch
  /// entry, or of each query, says.
  struct MaskProof {
    bool hasBounds, isComplete;
    size_t numRanges;
    bool hasData, hasDataOfQueries;
  };
  std::optional<MaskProof> maskProof;
  /// Whether strides or offsets of the tensors are known at run time only.
  bool hasOpenStrides = false;
  /// Whether a size above is one that is assumed of those known at run time.
  bool hasAssumedSizes = false;
  /// Whether tensors say how long the sequences of batch entries are, or where
  /// their keys lie: sizes above are the most they can be.
  bool hasLengths = false;
  /// Whether sequences lie back to back (cu_seqlens).
  bool isVarlen = false;
  /// Whether keys are in pages that a table names (page_table), and of how many
  /// keys each.
  bool isPaged = false;
  std::optional<int64_t> pageSize;
  /// Of lists of blocks (block_counts): the queries and keys of a block, and
  /// whether heads have lists of their own.
  struct Blocks {
    int64_t queries, keys;
    bool ofHeads;
  };
  std::optional<Blocks> blocks;
  /// Keys that one query sees at most, where a window bounds them.
  std::optional<int64_t> windowKeys;

  static AttentionProblem get(AttentionOp op);
  /// Of a tile, with the sizes of its sequence.
  static AttentionProblem getOfTile(TileOpInterface op);

  /// Columns of tiles of Q and K, and of V and O.
  int64_t getColumns() const { return mlir::fcgpu::getTileColumns(headDim); }
  int64_t getColumnsV() const { return mlir::fcgpu::getTileColumns(headDimV); }

  /// Whether bulk copies can take the rows: tiles of theirs are no wider.
  bool hasBulkRows() const {
    return accessBytes == mlir::fcgpu::kChunkBytes && getColumns() == headDim &&
           getColumnsV() == headDimV;
  }

  /// Whether addresses take registers for what is known at run time only.
  bool hasOpenAddresses() const {
    return hasOpenStrides || hasAssumedSizes || hasLengths || !batch ||
           !headsQ || !headsKV || !seqlenQ || !seqlenK;
  }
};

/// Blocks of the grid with `blockM` query rows of `headGroup` heads each, if
/// the sizes are known.
std::optional<int64_t> getNumBlocks(const AttentionProblem &problem,
                                    int64_t blockM, int64_t headGroup = 1);

/// Products of mma.sync along the columns of Q.
int64_t getQuerySteps(const AttentionProblem &problem);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_ATTENTIONPROBLEM_H
