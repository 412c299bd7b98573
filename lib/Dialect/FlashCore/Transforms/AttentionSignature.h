//===- AttentionSignature.h - Tensors and sizes of an attention -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the kernels of an attention share: its tensors, its sizes, what follows
// from them for host code and the manifest, and which parts of the workspace
// there are. What one kernel takes is in that kernel's file.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONSIGNATURE_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONSIGNATURE_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelSignature.h"
#include "flashcore/Schedule/ProgramChoice.h"

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
  /// Whether their number depends on the size.
  bool dependOn(Dim dim) const;
};

/// A value that kernels leave in the workspace: row-major, and a multiple of 16
/// bytes, but for those at its end.
struct WorkspacePart {
  WorkspaceRole role;
  Type element;
  SmallVector<SizeFormula, 5> shape;

  SizeFormula getBytes() const;
};

/// The tensors and sizes of the kernels of one attention with one schedule,
/// which its program lists (ProgramChoice.h).
class AttentionSignature : public KernelSignature {
public:
  AttentionSignature(AttentionOp op, fcgpu::ScheduleAttr schedule);

  fcgpu::ScheduleAttr getSchedule() const { return schedule; }
  const KeyParts &getKeyParts() const { return keyParts; }
  /// What decides which kernels there are.
  const ProgramNeeds &getNeeds() const { return needs; }

  // What sizes decide, for host code and for the manifest:
  /// Batch entries, or sequences that lie back to back.
  SizeFormula getNumSequences() const;
  /// Query rows of a sequence: of those back to back the mean, rounded up.
  SizeFormula getMeanQueries() const;
  /// Into how many parts a call splits keys, with `split_count = call`.
  SizeFormula getKeySplits() const;
  /// Blocks of query rows. Of sequences back to back one more for each:
  /// Sequences.cpp.
  SizeFormula getNumQueryBlocks() const;
  SizeFormula getNumHeadGroups() const;
  /// Block tiles: those of a full grid, one a block.
  SizeFormula getNumTiles() const;
  /// Tiles of `blockM` x `blockN` scores.
  SizeFormula countScoreTiles(int64_t blockM, int64_t blockN) const;
  /// Query rows of all heads: blocks of the merge.
  static SizeFormula getRows();

  /// What a value of the workspace is.
  WorkspacePart describePart(WorkspaceRole role) const;
  /// Its type as far as it is known.
  MemRefType getPartType(WorkspaceRole role) const;
  /// Those of the program, in the order in which they lie.
  ArrayRef<WorkspacePart> getWorkspace() const { return workspace; }
  void addToWorkspace(WorkspaceRole role) {
    workspace.push_back(describePart(role));
  }

  /// Columns of a tile of scores and P in the workspace, whose rows are whole
  /// tiles.
  int64_t getTileKeys() const { return schedule.getBlockN(); }
  /// Columns of a partial O: those of its tiles.
  int64_t getPartialColumns() const {
    return fcgpu::getTileColumns(*getExtent(Dim::HeadDimV));
  }

  using Use = OperandInfo::Use;
  /// What the tensor is for; one that regions read is for scores.
  static Use getUse(const KernelTensor &tensor);
  /// Whether only the kernel of the append takes it: others read the copy of
  /// query.
  static bool isOfAppend(const KernelTensor &tensor) {
    return tensor.isCopied || getUse(tensor) == Use::Append;
  }
  static bool isOfAppend(Dim dim);
  /// For kernels behind that of the append, which turned the rows of query.
  void addCopyOfQuery(SmallVectorImpl<KernelArgument> &arguments) const;

private:
  fcgpu::ScheduleAttr schedule;
  KeyParts keyParts;
  ProgramNeeds needs;
  SmallVector<WorkspacePart, 4> workspace;
  bool isVarlen, isPaged;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONSIGNATURE_H
