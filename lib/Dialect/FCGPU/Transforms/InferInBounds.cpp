//===- InferInBounds.cpp - Phase 5: copies without bounds checks ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row that may lie past the end of its tensor costs the copy of each of its
// chunks a comparison. Upstream's value bounds prove of most tiles that they
// have no such row.
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "TileLoop.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "flashcore-infer-in-bounds"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_INFERINBOUNDSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct InferInBoundsPass final
    : mlir::fcgpu::impl::InferInBoundsPassBase<InferInBoundsPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    InferInBoundsPassBase::getDependentDialects(registry);
    registerValueBounds(registry);
  }

  static bool endsInside(CopyOp copy) {
    int64_t axis = copy.getSource().getType().getRank() - 2;
    AffineExpr row = getAffineDimExpr(0, copy.getContext());
    AffineMap end =
        AffineMap::get(1, 0, row + copy.getRing().getType().getRows());
    return ValueBoundsConstraintSet::compare(
        {end, ValueRange(copy.getIndices()[axis])},
        ValueBoundsConstraintSet::LE, {copy.getSource(), axis});
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Rings)))
      return signalPassFailure();
    getOperation().walk([&](CopyOp copy) {
      if (copy.getInBounds())
        return;
      if (!endsInside(copy)) {
        LDBG() << "rows may lie past the end: " << copy;
        return;
      }
      LDBG() << "all rows lie inside: " << copy;
      copy.setInBounds(true);
      ++numInBounds;
    });
  }
};
} // namespace
