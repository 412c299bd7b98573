//===- ShapeTable.h - Words from the table of operands ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What parser and writer of --shape ask the table of operands.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_COMPILER_SHAPETABLE_H
#define FLASHCORE_LIB_COMPILER_SHAPETABLE_H

#include "flashcore/Compiler/Shape.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"

namespace mlir::flashcore {

/// The rows that a shape may have beside q, k, v and o, in the op's order.
llvm::SmallVector<const OperandInfo *> getShapeOperands();

/// The clauses of these, in the op's order.
llvm::SmallVector<llvm::StringRef> getShapeClauses();

/// Of the axes that may be broadcast a letter each: "bhqk".
std::string getBroadcastLetters(const OperandInfo &info);

/// Axes whose size is a word of its own, 'positions=333', as no other word says
/// it.
llvm::SmallVector<llvm::StringRef> getSizeWords();

/// "?" or the number.
std::string sizeText(int64_t size);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_COMPILER_SHAPETABLE_H
