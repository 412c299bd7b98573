//===- ScheduleAttr.cpp - #fcgpu.schedule ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute as a struct and back.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"

using namespace mlir;
using namespace mlir::fcgpu;

bool ScheduleChoice::operator==(const ScheduleChoice &other) const {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  if (name != other.name)                                                      \
    return false;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return true;
}

std::string mlir::fcgpu::joinWords(ArrayRef<StringRef> words, StringRef quote) {
  std::string text;
  for (auto [i, word] : llvm::enumerate(words)) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += (quote + word + quote).str();
  }
  return text;
}

int64_t mlir::fcgpu::getKeptQueryColumns(QueryPlacement query,
                                         int64_t querySteps, int64_t headDim) {
  switch (query) {
  case QueryPlacement::Registers:
    return headDim;
  case QueryPlacement::Shared:
    return 0;
  case QueryPlacement::Split:
    return querySteps * kQueryStep;
  }
  llvm_unreachable("unknown placement");
}

ScheduleChoice ScheduleAttr::getChoice() const {
  ScheduleChoice choice;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  choice.name = get##Name();
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return choice;
}

#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  , choice.name
ScheduleAttr ScheduleAttr::get(MLIRContext *context, StringRef chip,
                               const ScheduleChoice &choice) {
  return get(context, chip
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  );
}

#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  , Type name
LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringRef chip
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
) {
  if (numWarps < 1 || numWarps > 32)
    return emitError() << "expects num_warps from 1 to 32, but got "
                       << numWarps;
  if (keyWarps < 1 || numWarps % keyWarps != 0)
    return emitError() << "expects key_warps to divide num_warps = " << numWarps
                       << ", but got " << keyWarps;
  if (headGroup < 1)
    return emitError() << "expects head_group of at least 1, but got "
                       << headGroup;
  if (numWarps % headGroup != 0)
    return emitError() << "expects num_warps to be a multiple of head_group = "
                       << headGroup << ", but got " << numWarps;
  if (keySplits < 1 || keySplits > kMaxKeySplits)
    return emitError() << "expects key_splits from 1 to " << kMaxKeySplits
                       << ", but got " << keySplits;
  if (keyWarps > 1 && (headGroup > 1 || keySplits > 1))
    return emitError() << "expects key_warps 1 where head_group or key_splits "
                          "is over 1, but got "
                       << keyWarps;
  int64_t rowMultiple = 16 * numWarps / (keyWarps * headGroup);
  if (blockM <= 0 || blockM % rowMultiple != 0)
    return emitError() << "expects block_m to be a positive multiple of 16 * "
                          "num_warps"
                       << (keyWarps > 1    ? " / key_warps"
                           : headGroup > 1 ? " / head_group"
                                           : "")
                       << " = " << rowMultiple << ", but got " << blockM;
  if (blockN <= 0 || blockN % 16 != 0)
    return emitError()
           << "expects block_n to be a positive multiple of 16, but got "
           << blockN;
  if (numStages < 2)
    return emitError() << "expects num_stages of at least 2, but got "
                       << numStages;
  if (minBlocks < 0)
    return emitError() << "expects min_blocks not to be negative, but got "
                       << minBlocks;
  bool isSplit = query == QueryPlacement::Split;
  if (isSplit ? querySteps < 1 || querySteps > kMaxQuerySteps : querySteps != 0)
    return emitError() << "expects query_steps "
                       << (isSplit ? "from 1 to " + Twine(kMaxQuerySteps)
                                   : Twine("0"))
                       << " with query = " << stringifyQueryPlacement(query)
                       << ", but got " << querySteps;
  if (rowMax == RowMax::Folded &&
      (rowSum != RowSum::Mma || overlap != Overlap::None ||
       softmax != Softmax::Online))
    return emitError() << "expects row_sum = mma, overlap = none and softmax = "
                          "online with row_max = folded, but got "
                       << stringifyRowSum(rowSum) << ", "
                       << stringifyOverlap(overlap) << " and "
                       << stringifySoftmax(softmax);
  if (gridHeads < 0 || gridHeads > kMaxGridHeads)
    return emitError() << "expects grid_heads from 0 to " << kMaxGridHeads
                       << ", but got " << gridHeads;
  if (gridHeads && (gridOrder != GridOrder::HeadFastest || keySplits > 1))
    return emitError() << "expects grid_heads 0 unless grid_order is "
                          "head_fastest and key_splits 1, but got "
                       << gridHeads;
  return success();
}
