//===- Phases.h - Printing the IR after phases ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_COMPILE_PHASES_H
#define FLASHCORE_COMPILE_PHASES_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mlir::flashcore {

/// The phases that `text` names: "all", or numbers and first words of phases,
/// with commas between them, such as "3,threads".
llvm::Expected<std::vector<unsigned>> parsePhases(llvm::StringRef text);

/// Prints `module` after a phase (0 is the input) to the error stream, or to a
/// file of its own in `directory`, such as 3-algorithm.mlir. `chip` is for the
/// names where there are several, else empty.
llvm::Error printPhase(ModuleOp module, unsigned phase,
                       llvm::StringRef directory, llvm::StringRef chip);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILE_PHASES_H
