//===- ErrorStream.cpp - Messages for a terminal --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a file holds cannot move the cursor or colour the terminal. The same
// characters as in the runtime, which is without LLVM (its Status.cpp): those
// of ASCII, and those of Latin 1 in UTF-8.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/ErrorStream.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace {
/// Writes to another stream, unbuffered: that may have other writers.
class EscapingStream final : public raw_ostream {
public:
  explicit EscapingStream(raw_ostream &to)
      : raw_ostream(/*unbuffered=*/true), to(to) {}
  ~EscapingStream() override {
    if (hasLead)
      to << kLead;
  }

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

  /// The first of the two bytes of U+0080 to U+00BF, the control characters of
  /// Latin 1 among them.
  static constexpr char kLead = '\xc2';

  raw_ostream &to;
  /// Whether kLead was the last byte: what it begins is not known yet.
  bool hasLead = false;
};
} // namespace

static std::string toCode(unsigned char byte) {
  return {'\\', 'x', hexdigit(byte >> 4, /*LowerCase=*/true),
          hexdigit(byte & 15, /*LowerCase=*/true)};
}

void EscapingStream::write_impl(const char *data, size_t size) {
  std::string shown;
  for (unsigned char byte : StringRef(data, size)) {
    bool isLatin1 = hasLead && byte >= 0x80 && byte < 0xa0;
    if (hasLead)
      shown += isLatin1 ? toCode(kLead) : std::string(1, kLead);
    bool isASCII = byte < 0x20 ? byte != '\n' && byte != '\t' : byte == 0x7f;
    hasLead = byte == static_cast<unsigned char>(kLead);
    if (isLatin1 || isASCII)
      shown += toCode(byte);
    else if (!hasLead)
      shown += static_cast<char>(byte);
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
