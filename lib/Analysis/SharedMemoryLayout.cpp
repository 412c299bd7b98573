//===- SharedMemoryLayout.cpp - Where a block keeps what ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See the header for the order of the parts.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/SharedMemoryLayout.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <utility>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

/// A ring starts at a multiple of this many bytes: one row of all 32 banks.
static constexpr int64_t kRingAlignment = 128;

int64_t ProductScratch::getLhsPitch(int64_t cols, bool isPadded) {
  return isPadded ? getPaddedColumns(cols) : cols;
}

int64_t ProductScratch::getResultPitch(int64_t cols, bool isPadded) {
  // Four rows of eight share no bank: lanes store eight columns of a row, of
  // four rows at a time, and load as many.
  constexpr int64_t columns = 8;
  return isPadded ? llvm::alignTo(cols, 2 * columns) + columns : cols;
}

void ProductScratch::add(int64_t rows, int64_t lhsCols, int64_t resultCols,
                         bool isPadded) {
  constexpr int64_t halfBytes = 2, floatBytes = 4;
  resultBytes = std::max(resultBytes, floatBytes * rows *
                                          getResultPitch(resultCols, isPadded));
  if (lhsCols)
    lhsBytes =
        std::max(lhsBytes, halfBytes * rows * getLhsPitch(lhsCols, isPadded));
}

SharedMemoryLayout
mlir::flashcore::layOutSharedMemory(const SharedMemoryNeeds &needs) {
  SharedMemoryLayout layout;
  int64_t ofBlock = 0, ofWarp = 0, walk = 0;
  std::pair<int64_t, int64_t> ends; // of block and warp in the walk
  for (const SharedRing &ring : needs.rings) {
    if (ring.walk != walk)
      ends = {};
    walk = ring.walk;
    int64_t &end = ring.scope == CopyScope::Block ? ends.first : ends.second;
    end = llvm::alignTo(end, ring.hasPanels ? kPanelAlignment : kRingAlignment);
    layout.rings.push_back(end);
    end += ring.numStages * ring.slotBytes;
    ofBlock = std::max(ofBlock, ends.first);
    ofWarp = std::max(ofWarp, ends.second);
  }
  // What is allocated last is used first.
  layout.barriers.resize(needs.rings.size());
  for (auto [ring, barriers] :
       llvm::reverse(llvm::zip_equal(needs.rings, layout.barriers))) {
    if (!ring.isHandedOver)
      continue;
    barriers = ofBlock;
    ofBlock += 2 * ring.numStages * kBarrierBytes;
  }
  layout.flagStart = ofBlock;
  ofBlock += needs.numFlags * kFlagBytes;
  layout.scratchStart = llvm::alignTo(ofWarp, kRingAlignment);
  if (int64_t bytes = needs.scratch.getBytes())
    ofWarp = layout.scratchStart + bytes;
  ofWarp = std::max(ofWarp, needs.exchangeBytes);
  layout.warpStart = llvm::alignTo(ofBlock, kRingAlignment);
  layout.warpBytes = llvm::alignTo(ofWarp, kRingAlignment);
  layout.bytes =
      ofWarp ? layout.warpStart + needs.numWarps * layout.warpBytes : ofBlock;
  return layout;
}
