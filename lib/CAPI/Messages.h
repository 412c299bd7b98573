//===- Messages.h - What a compilation has to say ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_CAPI_MESSAGES_H
#define FLASHCORE_LIB_CAPI_MESSAGES_H

#include "capi/Status.h"
#include "mlir/IR/Diagnostics.h"

#include <string>

namespace mlir::flashcore {

/// Turns the diagnostics of one module into text,
/// "NAME:LINE:COLUMN: error: ..." with a line "  note: ..." a note.
class Messages {
public:
  /// `name` is that of the module, for what has no place.
  explicit Messages(StringRef name) : name(name) {}

  void add(Diagnostic &diagnostic);
  /// An error that has no place in the module.
  void addError(StringRef text);

  const std::string &getWarnings() const { return warnings; }
  /// The status of a compilation that has failed.
  FlashCoreStatus getFailure() const;

private:
  std::string describePlace(Location place) const;

  std::string name;
  std::string errors, warnings;
  bool isAnyWrong = false;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_CAPI_MESSAGES_H
