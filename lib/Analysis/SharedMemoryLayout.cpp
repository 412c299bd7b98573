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

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

/// A ring starts at a multiple of this many bytes: one row of all 32 banks.
static constexpr int64_t kRingAlignment = 128;

SharedMemoryLayout
mlir::flashcore::layOutSharedMemory(const SharedMemoryNeeds &needs) {
  SharedMemoryLayout layout;
  int64_t ofBlock = 0, ofWarp = 0;
  for (const SharedRing &ring : needs.rings) {
    int64_t &end = ring.scope == CopyScope::Block ? ofBlock : ofWarp;
    end = llvm::alignTo(end, ring.hasPanels ? kPanelAlignment : kRingAlignment);
    layout.rings.push_back(end);
    end += ring.numStages * ring.slotBytes;
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
  ofWarp = std::max(ofWarp, needs.exchangeBytes);
  layout.warpStart = llvm::alignTo(ofBlock, kRingAlignment);
  layout.warpBytes = llvm::alignTo(ofWarp, kRingAlignment);
  layout.bytes =
      ofWarp ? layout.warpStart + needs.numWarps * layout.warpBytes : ofBlock;
  return layout;
}
