//===- RowAccess.h - How much of a row moves at a time ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that decides how wide the accesses are that copy rows of Q, K,
// V and O, and with it what their pointers, strides and offsets are multiples
// of: the kernels' signature asks for it, and copies and stores rely on it.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_ROWACCESS_H
#define FLASHCORE_ANALYSIS_ROWACCESS_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::flashcore {

/// Rows of a strided tensor whose elements lie side by side.
struct RowShape {
  int64_t columns; ///< may be kDynamic
  int64_t elementBytes;
  /// Of all axes but the innermost, in elements; kDynamic where not known.
  llvm::ArrayRef<int64_t> strides = {};
  /// In elements; may be kDynamic.
  int64_t offset = 0;
};

/// Bytes of the widest access, a power of two up to a chunk of a ring, that
/// divides rows evenly wherever one begins. What is known at run time only is
/// for the caller of a kernel to have such multiples of: a wider contract than
/// that would refuse rows that lie one behind the other. Of an open number of
/// columns that is one element, since rows may be of any length.
int64_t chooseAccessBytes(const RowShape &rows);

/// That of the rows of a tensor, or of a memref whose layout is strided.
int64_t getAccessBytes(ShapedType type);
/// That of the rows of a memref, and of what it is a view of.
int64_t getAccessBytes(Value memref);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_ROWACCESS_H
