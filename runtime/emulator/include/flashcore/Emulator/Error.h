//===- Error.h - Errors with a PTX position ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bad input is never an assertion: whatever can fail returns an Expected, whose
// error carries the line and column of the PTX text where that makes sense.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_ERROR_H
#define FLASHCORE_EMULATOR_ERROR_H

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace flashcore::emu {

/// A position in the PTX text; line 0 means "no position".
struct SrcLoc {
  uint32_t line = 0;
  uint32_t column = 0;
};

/// One message and where it applies.
struct Error {
  SrcLoc loc;
  std::string message;

  /// "FILE:LINE:COLUMN: error: message", without the parts that are unknown.
  std::string str(const std::string &file = {}) const;
};

/// A value, or the Error that explains why there is none.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : value(std::move(value)) {}
  Expected(Error error) : err(std::move(error)) {}

  bool ok() const { return value.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error &error() const {
    assert(!ok() && "asked a value for its error");
    return err;
  }

  T &operator*() {
    assert(ok() && "dereferenced an Expected that holds an error");
    return *value;
  }
  const T &operator*() const {
    assert(ok() && "dereferenced an Expected that holds an error");
    return *value;
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

private:
  std::optional<T> value;
  Error err;
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_ERROR_H
