//===- AttentionExpander.h - An attention tile as a loop --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The online softmax: how scores become P and sums is for RowPolicies.h.
// AttentionDropout.cpp has what of P meets no V, AttentionEpilogue.cpp what is
// written in the end.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONEXPANDER_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONEXPANDER_H

#include "ScoreBuilder.h"

namespace mlir::flashcore {

class AttentionExpander : ScoreBuilder {
public:
  /// `flag` is raised where rows are lost; null if none can be.
  AttentionExpander(AttentionTileOp op, Value flag)
      : ScoreBuilder(op), flag(flag), sumPolicy(createRowSum(schedule, b)),
        maxPolicy(createRowMax(schedule, b, *sumPolicy)) {}

  void expand();

private:
  void buildStream();
  Value dropElements(Value p, Value key);
  Value scaleKept(Value factors, int64_t rows);
  RowState accumulate(Exponentials tile, Value key);
  RowState buildIteration(Value query, Value iteration, RowState state);
  RowState getEmptyState();
  RowState dropUnlessWalked(RowState state);
  RowState buildOnline(Value query);
  RowState buildOnePass(Value query);
  RowResult mergeParts(RowState state);
  RowResult addSink(RowResult result);
  void writeResult(RowResult result);
  void writeLse(RowResult result, Value isEmpty, Value row);

  Value flag;
  std::unique_ptr<RowSumPolicy> sumPolicy;
  std::unique_ptr<RowMaxPolicy> maxPolicy;
  /// Of a dropout: what the random numbers of the head begin with.
  SmallVector<Value> stream;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONEXPANDER_H
