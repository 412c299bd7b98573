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

#include "AttentionWorkspace.h"
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

SmallVector<SizeFormula> AttentionSignature::getWorkspace() const {
  constexpr int64_t bytesOfF32 = 4;
  int64_t halfBytes =
      getTensors().front().getType().getElementTypeBitWidth() / 8;
  SmallVector<SizeFormula> workspace;
  if (schedule.isUnfused())
    for (int64_t bytes : {bytesOfF32, halfBytes})
      workspace.push_back(getRows() *
                          SizeFormula(Dim::SeqlenK).ceilDiv(getTileKeys()) *
                          (bytes * getTileKeys()));
  if (isTurned)
    workspace.push_back(getRows() * (getCopyRow(/*tensor=*/0) * halfBytes));
  if (keepsRest)
    workspace.push_back(SizeFormula(Dim::SeqlenQ).ceilDiv(LseRest::kRowFloats) *
                        Dim::HeadsQ * Dim::Batch *
                        (bytesOfF32 * LseRest::kRowFloats));
  if (keyParts.isSplit())
    for (int64_t floats : {PartialResults::kFloatsOfLse, getPartialColumns()})
      workspace.push_back(getRows() * keyParts.getNumber() *
                          (bytesOfF32 * floats));
  return workspace;
}
