//===- EscapedErrors.h - Messages of others for a terminal ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's drivers print diagnostics, lines of the input among them, to
// llvm::errs(), which cannot be replaced. So the descriptor is: while this
// lives, all that the process writes to its standard error goes through a child
// that writes it as getErrorStream() does.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_ESCAPEDERRORS_H
#define FLASHCORE_SUPPORT_ESCAPEDERRORS_H

#include "llvm/Support/Error.h"

#include <sys/types.h>

namespace mlir::flashcore {

/// One at a time. What is written before a crash arrives, too: the child reads
/// to the end.
class EscapedErrors {
public:
  EscapedErrors() = default;
  ~EscapedErrors() { finish(); }
  EscapedErrors(const EscapedErrors &) = delete;
  EscapedErrors &operator=(const EscapedErrors &) = delete;

  /// For a process without threads, as it forks.
  llvm::Error start();
  /// Waits until all is written, and gives the standard error back.
  void finish();

private:
  int original = -1;
  pid_t child = 0;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_ESCAPEDERRORS_H
