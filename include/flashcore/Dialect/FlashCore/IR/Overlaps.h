//===- Overlaps.h - Memory that an op writes --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blocks of a kernel run in any order, so what one writes no other may read.
// Verifiers compare values; passes, which may look at other ops, views.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_OVERLAPS_H
#define FLASHCORE_DIALECT_FLASHCORE_IR_OVERLAPS_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"

namespace mlir::flashcore {

/// That no memref that the op writes shares memory, as `share` has it, with
/// another operand or one that a region reads (C20, M7, A6). Of key and value
/// with appended rows, lengths and pages say which rows are written: they may
/// share.
LogicalResult checkOutputsApart(HostOpInterface op,
                                function_ref<bool(Value, Value)> share);

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_IR_OVERLAPS_H
