//===- SharedViews.cpp - Views of one memory ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedViews.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"

using namespace mlir;

/// What has the same elements as `view`, in another form.
static Value skipWholeViews(Value view) {
  for (;;) {
    Operation *op = view.getDefiningOp();
    if (!isa_and_nonnull<memref::CastOp, memref::CollapseShapeOp,
                         memref::ExpandShapeOp, memref::MemorySpaceCastOp,
                         memref::TransposeOp>(op))
      return view;
    view = op->getOperand(0);
  }
}

/// `view` and what it is a part of, from itself on.
static SmallVector<Value> getWholes(Value view) {
  SmallVector<Value> wholes{skipWholeViews(view)};
  while (auto part = wholes.back().getDefiningOp<memref::SubViewOp>())
    wholes.push_back(skipWholeViews(part.getSource()));
  return wholes;
}

bool mlir::flashcore::shareElements(Value a, Value b) {
  SmallVector<Value> ofA = getWholes(a), ofB = getWholes(b);
  // From the outermost memory that both are in.
  while (ofA.back() == ofB.back()) {
    ofA.pop_back();
    ofB.pop_back();
    if (ofA.empty() || ofB.empty()) // one is all of which the other is a part
      return true;
    if (ofA.back() == ofB.back())
      continue;
    auto partA = ofA.back().getDefiningOp<memref::SubViewOp>();
    auto partB = ofB.back().getDefiningOp<memref::SubViewOp>();
    bool areInnermost = ofA.size() == 1 && ofB.size() == 1;
    if (!areInnermost || partA.getSource() != partB.getSource())
      return false;
    FailureOr<bool> overlap = ValueBoundsConstraintSet::areOverlappingSlices(
        a.getContext(), HyperrectangularSlice(partA),
        HyperrectangularSlice(partB));
    auto isUnit = [](memref::SubViewOp part) {
      return llvm::all_of(part.getMixedStrides(), [](OpFoldResult stride) {
        return getConstantIntValue(stride) == 1;
      });
    };
    return succeeded(overlap) && *overlap && isUnit(partA) && isUnit(partB);
  }
  return false;
}
