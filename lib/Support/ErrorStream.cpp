//===- ErrorStream.cpp - Messages for a terminal --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a file holds cannot move the cursor, colour the terminal or turn text
// around.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/ErrorStream.h"
#include "../../tools/ControlCharacters.h"
#include "llvm/ADT/StringExtras.h"

#include <utility>

using namespace llvm;

namespace {
/// Writes to another stream, unbuffered: that may have other writers.
class EscapingStream final : public raw_ostream {
public:
  explicit EscapingStream(raw_ostream &to)
      : raw_ostream(/*unbuffered=*/true), to(to) {}
  ~EscapingStream() override { to << pending; }

  raw_ostream &changeColor(enum Colors color, bool bold, bool bg) override {
    to.changeColor(color, bold, bg);
    return *this;
  }
  raw_ostream &resetColor() override {
    to.resetColor();
    return *this;
  }
  raw_ostream &reverseColor() override {
    to.reverseColor();
    return *this;
  }
  bool is_displayed() const override { return to.is_displayed(); }
  bool has_colors() const override { return to.has_colors(); }

private:
  void write_impl(const char *data, size_t size) override;
  uint64_t current_pos() const override { return to.tell(); }

  raw_ostream &to;
  /// The start of a character whose other bytes have not come yet.
  std::string pending;
};
} // namespace

void EscapingStream::write_impl(const char *data, size_t size) {
  std::string text = std::exchange(pending, {}) + std::string(data, size);
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    auto lead = static_cast<unsigned char>(text[at]);
    size_t left = text.size() - at;
    if (left < ::flashcore::utf8Length(lead)) {
      bool isStart = left == 1 || (text[at + 1] & 0xc0) == 0x80;
      if (isStart) {
        pending = text.substr(at);
        break;
      }
    }
    size_t length = ::flashcore::controlBytes(text, at);
    if (length == 0 || lead == '\n' || lead == '\t') {
      shown += text[at++];
      continue;
    }
    for (size_t end = at + length; at < end; ++at) {
      auto byte = static_cast<unsigned char>(text[at]);
      shown += {'\\', 'x', hexdigit(byte >> 4, /*LowerCase=*/true),
                hexdigit(byte & 15, /*LowerCase=*/true)};
    }
  }
  to << shown;
}

raw_ostream &mlir::flashcore::getErrorStream() {
  static EscapingStream stream(errs());
  return stream;
}

std::string mlir::flashcore::escapeControls(StringRef text) {
  std::string result;
  raw_string_ostream os(result);
  EscapingStream(os) << text;
  return result;
}
