//===- InitAll.h - Register all of FlashCore --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_INITALL_H
#define FLASHCORE_INITALL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::flashcore {

/// The dialects of FlashCore and of upstream that its pipeline uses, with the
/// interfaces and translations they need.
void registerAllDialects(DialectRegistry &registry);

/// The passes and pipelines of FlashCore.
void registerAllPasses();

} // namespace mlir::flashcore

#endif // FLASHCORE_INITALL_H
