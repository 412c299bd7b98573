//===- ProgramChoice.h - Which kernels an attention is ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of an attention in the order in which they run, and what they
// leave one another in the workspace.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_PROGRAMCHOICE_H
#define FLASHCORE_SCHEDULE_PROGRAMCHOICE_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"

#include <vector>

namespace mlir::flashcore {

/// What of an attention and its schedule decides that.
struct ProgramNeeds {
  bool appends = false;    ///< rows to key and value
  bool turnsQuery = false; ///< by a rotary embedding, with the append
  bool isUnfused = false;  ///< scores and P go through memory
  bool isSplit = false;    ///< partial results are merged
  /// The stage of scores that are an output.
  std::optional<ScoresStage> scores = {};
};

struct ProgramKernel {
  enum class Kind { Append, Attention, Scores, Softmax, Values, Merge };

  Kind kind;
  SmallVector<WorkspaceRole, 3> reads = {}, writes = {};

  bool operator==(const ProgramKernel &other) const {
    return kind == other.kind && reads == other.reads && writes == other.writes;
  }
};

/// The kernel of the append is in front of the others, which read what it
/// writes, and that of scores that are an output behind them, since
/// probabilities need the log-sum-exp of all keys.
std::vector<ProgramKernel> listKernels(const ProgramNeeds &needs);

/// What is written by some of the kernels, in the order in which it lies in the
/// workspace.
SmallVector<WorkspaceRole> listWorkspace(ArrayRef<ProgramKernel> kernels);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_PROGRAMCHOICE_H
