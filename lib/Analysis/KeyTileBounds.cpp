//===- KeyTileBounds.cpp - Which key tiles a query block sees -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See the header for the formulas.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/KeyTileBounds.h"

using namespace mlir;
using namespace mlir::flashcore;

KeyBounds mlir::flashcore::getKeyBounds(MLIRContext *context,
                                        std::optional<CausalAlignment> causal,
                                        int64_t blockM) {
  AffineExpr firstQuery, seqlenQ, seqlenK;
  bindDims(context, firstQuery, seqlenQ, seqlenK);
  SmallVector<AffineExpr> visible{seqlenK}, full{seqlenK};
  if (causal) {
    AffineExpr shift = *causal == CausalAlignment::BottomRight
                           ? seqlenK - seqlenQ
                           : getAffineConstantExpr(0, context);
    // One past the last key of the block's last and of its first row.
    visible.push_back(firstQuery + blockM + shift);
    full.push_back(firstQuery + 1 + shift);
  }
  return {AffineMap::get(3, 0, visible, context),
          AffineMap::get(3, 0, full, context)};
}
