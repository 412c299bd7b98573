//===- ErrorStream.h - Messages for a terminal ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_ERRORSTREAM_H
#define FLASHCORE_SUPPORT_ERRORSTREAM_H

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mlir::flashcore {

/// The standard error stream for texts that quote files, names and options:
/// control characters in them, but not line breaks and tabs, are written as
/// "\x1b". Colours are set by changeColor().
llvm::raw_ostream &getErrorStream();

/// `text` as that stream writes it.
std::string escapeControls(llvm::StringRef text);

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_ERRORSTREAM_H
