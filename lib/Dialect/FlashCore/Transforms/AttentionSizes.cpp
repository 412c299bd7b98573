//===- AttentionSizes.cpp - What sizes decide of an attention -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles, bytes of the workspace and how often keys are split: each formula
// once, for host code and for the manifest. The grid of a kernel is in its
// file.
//
//===----------------------------------------------------------------------===//

#include "AttentionSignature.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"
#include "flashcore/Schedule/ScheduleChoice.h"
#include "flashcore/Target/TargetInfo.h"

using namespace mlir;
using namespace mlir::flashcore;

SizeFormula KeyParts::getNumber() const {
  SizeFormula number = count;
  for (const Factor &factor : factors)
    number = number * factor.parts;
  return number;
}

bool KeyParts::dependOn(Dim dim) const {
  return llvm::any_of(factors,
                      [&](const Factor &factor) { return factor.size == dim; });
}

SizeFormula AttentionSignature::getNumSequences() const {
  if (!isVarlen)
    return Dim::Batch;
  return SizeFormula::max({1, SizeFormula(Dim::CuSeqlens) + -1});
}

SizeFormula AttentionSignature::getMeanQueries() const {
  if (!isVarlen)
    return Dim::SeqlenQ;
  return SizeFormula(Dim::SeqlenQ).ceilDiv(getNumSequences());
}

SizeFormula AttentionSignature::getKeySplits() const {
  SplitFormula formula =
      getSplitFormula(schedule.getChoice(), *lookupTarget(schedule.getChip()));
  SizeFormula tiles = getMeanQueries().ceilDiv(formula.rows) *
                      getNumSequences() *
                      SizeFormula(Dim::HeadsQ).floorDiv(formula.heads);
  SizeFormula keys =
      isPaged ? SizeFormula(Dim::PagesPerSequence) * SizeFormula(Dim::PageSize)
              : SizeFormula(Dim::SeqlenK);
  SizeFormula wanted =
      SizeFormula(formula.blocks).floorDiv(SizeFormula::max({1, tiles}));
  return SizeFormula::max({1, SizeFormula::min({formula.most, wanted,
                                                keys.floorDiv(formula.keys)})});
}

SizeFormula AttentionSignature::getNumQueryBlocks() const {
  SizeFormula blocks = SizeFormula(Dim::SeqlenQ).ceilDiv(schedule.getBlockM());
  return isVarlen ? blocks + Dim::CuSeqlens : blocks;
}

SizeFormula AttentionSignature::getNumHeadGroups() const {
  return SizeFormula(Dim::HeadsQ).floorDiv(schedule.getHeadGroup());
}

SizeFormula AttentionSignature::getNumTiles() const {
  return getNumQueryBlocks() * getNumHeadGroups() * Dim::Batch *
         keyParts.getNumber();
}

SizeFormula AttentionSignature::countScoreTiles(int64_t blockM,
                                                int64_t blockN) const {
  return SizeFormula(Dim::SeqlenQ).ceilDiv(blockM) *
         SizeFormula(Dim::SeqlenK).ceilDiv(blockN) * Dim::HeadsQ * Dim::Batch;
}

SizeFormula AttentionSignature::getRows() {
  return SizeFormula(Dim::SeqlenQ) * Dim::HeadsQ * Dim::Batch;
}

WorkspacePart AttentionSignature::describePart(WorkspaceRole role) const {
  using Shape = SmallVector<SizeFormula, 5>;
  Type half = getTensors().front().getType().getElementType();
  Type f32 = Float32Type::get(half.getContext());
  Shape rows{Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ}, partialRows(rows);
  partialRows.insert(partialRows.begin(), keyParts.getNumber());
  auto withColumns = [](Shape shape, const SizeFormula &columns) {
    shape.push_back(columns);
    return shape;
  };
  auto fillUp = [](Dim size, int64_t tile) {
    return SizeFormula(size).ceilDiv(tile) * tile;
  };
  // Rows that begin 16 bytes apart leave what is behind them aligned.
  constexpr int64_t kFloats = KernelFrame::kWorkspaceAlignment / sizeof(float);
  switch (role) {
  case WorkspaceRole::TurnedQuery:
    return {role, half, withColumns(rows, getCopyRow(/*tensor=*/0))};
  case WorkspaceRole::LseRest:
    rows.back() = fillUp(Dim::SeqlenQ, kFloats);
    return {role, f32, rows};
  case WorkspaceRole::PartialOutputs:
    // The columns of its tiles.
    return {role, f32, withColumns(partialRows, getPartialColumns())};
  case WorkspaceRole::PartialLses:
  case WorkspaceRole::PartialLseRests:
    return {role, f32, partialRows};
  case WorkspaceRole::Scores:
    return {role, f32, withColumns(rows, fillUp(Dim::SeqlenK, getTileKeys()))};
  case WorkspaceRole::Probabilities:
    return {role, half, withColumns(rows, fillUp(Dim::SeqlenK, getTileKeys()))};
  }
  llvm_unreachable("every role has a case");
}

SizeFormula WorkspacePart::getBytes() const {
  SizeFormula count = 1;
  for (const SizeFormula &size : llvm::reverse(shape))
    count = count * size;
  return count * (element.getIntOrFloatBitWidth() / 8);
}

MemRefType AttentionSignature::getPartType(WorkspaceRole role) const {
  WorkspacePart part = describePart(role);
  auto shape = llvm::map_to_vector(part.shape, [&](const SizeFormula &size) {
    return size.evaluate([&](Dim dim) { return getExtent(dim); })
        .value_or(ShapedType::kDynamic);
  });
  return MemRefType::get(shape, part.element);
}
