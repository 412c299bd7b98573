//===- ScheduleOptions.h - Options of a schedule by name --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_COMPILER_SCHEDULEOPTIONS_H
#define FLASHCORE_COMPILER_SCHEDULEOPTIONS_H

#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "llvm/Support/Error.h"

namespace mlir::flashcore {

/// Sets the option called `name`, such as "block-n", to what `value` says. An
/// error names what is wrong and changes nothing.
llvm::Error setScheduleOption(ConfigurePassOptions &options, StringRef name,
                              StringRef value);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILER_SCHEDULEOPTIONS_H
