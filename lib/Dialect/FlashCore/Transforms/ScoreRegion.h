//===- ScoreRegion.h - What score and mask regions compute ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which ops a region may have, how a kernel gets it, and the program that the
// manifest makes of it, by which the runtime's reference computes the same
// (docs/Bundle.md).
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SCOREREGION_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SCOREREGION_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <string>

namespace mlir::flashcore {

class KernelFrame;

/// Places of the arguments of a region.
namespace ScoreArgument {
enum : unsigned { Score, Batch, Head, Query, Key, NumArguments };
} // namespace ScoreArgument

/// Reports the first op of a region that kernels or the program cannot have,
/// or what it captures that they cannot.
LogicalResult checkRegions(ScoreOpInterface op);

/// The name of the captured tensor in signature and manifest, by its place in
/// getCapturedTensors().
std::string getCaptureName(unsigned index);

/// The region as a list of values with the number of its result: values 0 to 4
/// are its arguments, each op makes one more.
DictionaryAttr describeRegion(Region &region, ArrayRef<Value> captured);

/// Copies the regions of `from` to those of `to`, which are empty, with the
/// constants that they use from outside; `captured` takes the place of the
/// captured tensors.
void cloneRegions(AttentionOp from, TileOpInterface to, ValueRange captured);

/// Fills an empty score region: it yields the score.
void createScoreRegion(ImplicitLocOpBuilder &b, Region &region);

/// Gives a tile the regions of the op, and in front of its score region what
/// its clauses do to scores, as far as scores go until `stage`. What they read
/// is read by whole coordinates (ScoreClauses.cpp).
void addRegions(KernelFrame &frame, AttentionOp op, TileOpInterface tile,
                ScoresStage stage = ScoresStage::Probabilities);

/// Whether scores at `stage` are made with a tensor that is used for scores.
bool isInScores(StringRef tensor, ScoresStage stage);

/// Writes a region in the form in which it is computed fastest: coordinates in
/// 32 bits, products in the place of divisions by constants, and, if it
/// `mayContract`, sums of products as one operation. Values differ by
/// roundings.
void simplifyRegion(Location loc, Region &region, bool mayContract);

void eraseDeadOps(Region &region);

/// The regions of a tile in the form in which kernels compute them.
struct ScoreFormulas {
  explicit ScoreFormulas(TileOpInterface tile);

  /// Makes of a product of query and key what the exponentials take times
  /// `scale`; empty if that is the product. A softmax scale, and a positive
  /// factor that a formula ends with, cost nothing there.
  Region change;
  /// Whether the key is visible; empty if the op has no mask region. It takes
  /// the changed score, and `scale` is 1, if it looks at that.
  Region hide;
  float scale = 1;
};

/// What a region yields for these arguments, computed at the insertion point of
/// `b`.
Value inlineRegion(OpBuilder &b, Region &region, ValueRange arguments);

/// The value of the mask region of `op` that a symbol stands for, as `index`,
/// computed at the insertion point of `b` for the batch entry `batch`. It is
/// the same for all queries. `captured` takes the place of what `op` captures.
Value computeOfBatchEntry(OpBuilder &b, ScoreOpInterface op, Value value,
                          Value batch, ValueRange captured);

/// The least and the greatest of such a value of queries `begin` to before
/// `end`, at most `maxQueries`; of none, the greatest and the least number of
/// 32 bits. The lanes of each warp do that together.
std::pair<Value, Value> computeOfQueries(ImplicitLocOpBuilder &b,
                                         ScoreOpInterface op, Value value,
                                         Value batch, Value begin, Value end,
                                         int64_t maxQueries,
                                         ValueRange captured);

/// `values`, and what the ops of a block compute of them.
llvm::DenseSet<Value> getDependents(Block &block, ValueRange values);

/// Whether where the region reads a captured tensor depends on the query.
bool readsByQuery(Region &region);
/// The same of the key.
bool readsByKey(Region &region);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SCOREREGION_H
