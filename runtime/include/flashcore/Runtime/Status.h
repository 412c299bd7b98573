//===- Status.h - Errors as values ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every function of the runtime that can fail returns a Status or a StatusOr.
// An error is one message, "expects X, but got Y", and notes that say where the
// value came from or what to change. No exception leaves the runtime. Both may
// quote what stands in a file, so control characters are shown as escapes.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_STATUS_H
#define FLASHCORE_RUNTIME_STATUS_H

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flashcore {

/// `text` with its control characters but those in `kept` as "\x1b", so that
/// it can neither move the cursor of a terminal nor colour it.
std::string escapeControls(std::string_view text, std::string_view kept = {});

/// Success, or one message plus notes.
class [[nodiscard]] Status {
public:
  enum class Kind {
    Success,
    Error,
    /// There is no device of the kind asked for. Tools treat it apart from
    /// other errors, because a machine without a GPU is not a mistake.
    NoDevice,
    /// The kernels ran and misbehaved: a fault, or writes in the wrong places.
    /// Tools report it as a failed check, not as bad input.
    KernelFault,
  };

  static Status success() { return Status(); }
  static Status error(std::string message) {
    return Status(Kind::Error, std::move(message));
  }
  static Status noDevice(std::string message) {
    return Status(Kind::NoDevice, std::move(message));
  }
  static Status kernelFault(std::string message) {
    return Status(Kind::KernelFault, std::move(message));
  }

  bool ok() const { return kind == Kind::Success; }
  bool isNoDevice() const { return kind == Kind::NoDevice; }
  bool isKernelFault() const { return kind == Kind::KernelFault; }
  const std::string &message() const { return text; }
  const std::vector<std::string> &notes() const { return noteTexts; }

  /// Appends a note; an empty one is dropped, so that an empty driver log
  /// leaves no trace. It may have several lines.
  Status &note(std::string_view noteText) &;
  Status &&note(std::string_view noteText) && {
    return std::move(note(noteText));
  }

  /// What the emulator found, as its JSON document; empty for any other error.
  const std::string &report() const {
    static const std::string none;
    return reportText ? *reportText : none;
  }
  Status &&attachReport(std::string json) && {
    reportText = std::make_shared<const std::string>(std::move(json));
    return std::move(*this);
  }

  /// The message, then one line "  note: ..." a note. No trailing newline.
  std::string str() const;

private:
  Status() = default; // cheap, as every launch makes some
  Status(Kind kind, std::string text);

  Kind kind = Kind::Success;
  std::string text;
  std::vector<std::string> noteTexts;
  std::shared_ptr<const std::string> reportText;
};

/// A value, or the Status that explains why there is none.
template <typename T> class [[nodiscard]] StatusOr {
public:
  StatusOr(T value) : status_(Status::success()), value(std::move(value)) {}
  StatusOr(Status status) : status_(std::move(status)) {
    assert(!status_.ok() && "a StatusOr without a value needs an error");
  }

  bool ok() const { return value.has_value(); }
  const Status &status() const { return status_; }

  T &operator*() {
    assert(ok() && "dereferenced a StatusOr that holds an error");
    return *value;
  }
  const T &operator*() const {
    assert(ok() && "dereferenced a StatusOr that holds an error");
    return *value;
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

private:
  Status status_;
  std::optional<T> value;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_STATUS_H
