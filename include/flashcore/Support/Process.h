//===- Process.h - Running another program ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_PROCESS_H
#define FLASHCORE_SUPPORT_PROCESS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::flashcore {

/// Runs the program at the path `program`, without input, and returns all that
/// it writes to its standard output and error stream. Anything but exit code 0
/// is an error with what it wrote. A signal that ends this process (see
/// Cleanup.h) ends the program, too.
llvm::Expected<std::string> runProgram(llvm::StringRef program,
                                       llvm::ArrayRef<llvm::StringRef> args);

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_PROCESS_H
