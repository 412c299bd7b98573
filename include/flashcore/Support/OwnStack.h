//===- OwnStack.h - Running where there is room to recurse ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_OWNSTACK_H
#define FLASHCORE_SUPPORT_OWNSTACK_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace mlir::flashcore {

/// Runs `body` to its end on a thread with a stack of 8 MiB, for which
/// kMaxNesting is chosen, and with the locale "C": whoever calls may have
/// another.
llvm::Error runOnOwnStack(llvm::function_ref<void()> body);

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_OWNSTACK_H
