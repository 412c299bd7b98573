//===- Chip.h - Names of GPU chips ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads chip names such as "sm_89" and "sm_90a" and answers which code runs on
// which chip.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_CHIP_H
#define FLASHCORE_RUNTIME_CHIP_H

#include "flashcore/Runtime/Status.h"

namespace flashcore {

/// A chip as PTX names it. `number` is 10 * major + minor of the compute
/// capability; `suffix` is 0, 'a' (this chip only) or 'f' (this family).
struct Chip {
  int number = 0;
  char suffix = 0;

  int major() const { return number / 10; }
  int minor() const { return number % 10; }
  std::string str() const;

  /// True when code for `other` is the better one where both run: newer, or of
  /// the same chip and for fewer others.
  bool isOlderThan(Chip other) const;

  /// True when PTX written for this chip may be assembled for `device`.
  bool ptxRunsOn(Chip device) const;
  /// True when machine code for this chip runs on `device`.
  bool cubinRunsOn(Chip device) const { return number == device.number; }
};

/// Reads "sm_89", "sm_90a" and the like.
StatusOr<Chip> parseChip(std::string_view name);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_CHIP_H
