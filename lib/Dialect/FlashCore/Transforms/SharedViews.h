//===- SharedViews.h - Views of one memory ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SHAREDVIEWS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SHAREDVIEWS_H

#include "mlir/IR/Value.h"

namespace mlir::flashcore {

/// Whether two memrefs certainly have an element in common, by the views that
/// they are: what is not known may be apart, and is for the runtime to check.
bool shareElements(Value a, Value b);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SHAREDVIEWS_H
