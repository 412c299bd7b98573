//===- Bytecode.h - Bytecode that nobody vouches for ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's reader of bytecode crashes on, or does not come back from, bytes that
// are damaged. So it runs in a process of its own, which makes text of them;
// that of a tool reads text alone.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_BYTECODE_H
#define FLASHCORE_SUPPORT_BYTECODE_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlir::flashcore {

/// By its first bytes, as MLIR has it.
bool isBytecode(llvm::StringRef text);

/// The text of what `bytecode` holds, in the generic form with its locations,
/// under the same name, not verified. An error where it is damaged, or takes
/// more than 3 s and 1 s a MiB, or 4 GiB and 64 times its size, to read. For a
/// process without threads, as it forks.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
translateBytecode(const llvm::MemoryBuffer &bytecode,
                  const DialectRegistry &registry,
                  bool allowUnregisteredDialects);

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_BYTECODE_H
