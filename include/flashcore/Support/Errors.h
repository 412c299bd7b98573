//===- Errors.h - Errors with text ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_ERRORS_H
#define FLASHCORE_SUPPORT_ERRORS_H

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::flashcore {

/// An error with the text that llvm::formatv makes of `format`.
template <typename... Args>
llvm::Error formatError(const char *format, Args &&...args) {
  return llvm::createStringError(
      std::make_error_code(std::errc::invalid_argument),
      llvm::formatv(format, std::forward<Args>(args)...).str());
}

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_ERRORS_H
