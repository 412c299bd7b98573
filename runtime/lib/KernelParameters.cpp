//===- KernelParameters.cpp - What a kernel takes -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scanner for the head of one kernel,
//
//   .visible .entry NAME(.param .u64 .ptr .align 16 a, .param .b8 b[4]) ...
//
// It is not the emulator's parser, because a GPU takes PTX that the emulator
// does not know.
//
//===----------------------------------------------------------------------===//

#include "KernelParameters.h"

#include <algorithm>
#include <cctype>
#include <charconv>

using namespace flashcore;

namespace {
/// Words and punctuation; comments and strings are skipped.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  /// The next token, empty at the end.
  std::string_view next();

private:
  static bool isWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%' ||
           c == '.';
  }
  void skipPast(std::string_view end, size_t from) {
    size_t at = text.find(end, from);
    text.remove_prefix(at == text.npos ? text.size() : at + end.size());
  }

  std::string_view text;
};
} // namespace

std::string_view Scanner::next() {
  while (!text.empty()) {
    if (text.starts_with("//")) {
      skipPast("\n", 2);
    } else if (text.starts_with("/*")) {
      skipPast("*/", 2);
    } else if (text.front() == '"') {
      skipPast("\"", 1);
    } else if (isWord(text.front()) ||
               !std::isspace(static_cast<unsigned char>(text.front()))) {
      size_t length = 0;
      while (length < text.size() && isWord(text[length]))
        ++length;
      std::string_view token = text.substr(0, std::max<size_t>(length, 1));
      text.remove_prefix(token.size());
      return token;
    } else {
      text.remove_prefix(1);
    }
  }
  return {};
}

/// Bytes of a type such as ".u64"; 0 for what is no type.
static int64_t typeBytes(std::string_view word) {
  if (word == ".f16x2")
    return 4;
  size_t digits = word.find_first_of("0123456789");
  if (digits == word.npos)
    return 0;
  std::string_view kind = word.substr(0, digits), bits = word.substr(digits);
  if (kind != ".b" && kind != ".u" && kind != ".s" && kind != ".f" &&
      kind != ".bf")
    return 0;
  return bits == "8"     ? 1
         : bits == "16"  ? 2
         : bits == "32"  ? 4
         : bits == "64"  ? 8
         : bits == "128" ? 16
                         : 0;
}

/// An extent of an array; 0 for what is no number of a size that can be.
static int64_t readExtent(std::string_view word) {
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  bool isGood = error == std::errc() && end == word.data() + word.size() &&
                value > 0 && value <= (1 << 16);
  return isGood ? value : 0;
}

/// Reads what follows ".param", up to the ',' or ')' after it, which is left in
/// `token`.
static std::optional<PtxParameter> readParameter(Scanner &scanner,
                                                 std::string_view &token) {
  PtxParameter parameter;
  for (token = scanner.next(); token.starts_with('.'); token = scanner.next())
    if (token == ".align") // behind .ptr that of what it points to
      parameter.alignment = readExtent(scanner.next());
    else if (token == ".ptr")
      parameter.isPointer = true;
    else if (int64_t bytes = typeBytes(token))
      parameter.bytes = bytes;
  // Now `token` is the name.
  for (token = scanner.next(); token == "["; token = scanner.next()) {
    parameter.bytes *= readExtent(scanner.next());
    if (parameter.bytes > (1 << 16) || scanner.next() != "]")
      return std::nullopt;
  }
  if (!parameter.bytes || (token != "," && token != ")"))
    return std::nullopt;
  return parameter;
}

std::optional<std::vector<PtxParameter>>
flashcore::readPtxParameters(std::string_view ptx, std::string_view name) {
  Scanner scanner(ptx);
  std::string_view token = scanner.next();
  for (bool isName = false; !token.empty(); token = scanner.next()) {
    if (isName && token == name)
      break;
    isName = token == ".entry";
  }
  if (token.empty())
    return std::nullopt;
  std::vector<PtxParameter> parameters;
  if (scanner.next() != "(") // a list without parameters may be left out
    return parameters;
  token = scanner.next();
  while (token == ".param") {
    std::optional<PtxParameter> parameter = readParameter(scanner, token);
    if (!parameter)
      return std::nullopt;
    parameters.push_back(*parameter);
    if (token == ",")
      token = scanner.next();
  }
  if (token != ")")
    return std::nullopt;
  return parameters;
}

std::optional<std::string_view>
flashcore::findLaunchComment(std::string_view ptx) {
  constexpr std::string_view prefix = "// flashcore-launch: ";
  while (!ptx.empty()) {
    std::string_view line = ptx.substr(0, ptx.find('\n'));
    ptx.remove_prefix(std::min(line.size() + 1, ptx.size()));
    if (line.starts_with(prefix))
      return line.substr(prefix.size());
    bool isBlank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!isBlank && !line.starts_with("//"))
      break;
  }
  return std::nullopt;
}

Status flashcore::verifyParameters(const KernelSpec &kernel,
                                   const std::vector<int64_t> &parameterBytes) {
  constexpr std::string_view remedy =
      "the code and the manifest of the bundle do not belong together: compile "
      "the bundle again";
  if (parameterBytes.size() != kernel.arguments.size())
    return Status::error("kernel '" + kernel.name + "' expects " +
                         std::to_string(parameterBytes.size()) +
                         " arguments, but the manifest lists " +
                         std::to_string(kernel.arguments.size()))
        .note(remedy);
  for (size_t i = 0; i < parameterBytes.size(); ++i)
    if (parameterBytes[i] != kernel.arguments[i].bytes())
      return Status::error("kernel '" + kernel.name + "' expects " +
                           std::to_string(parameterBytes[i]) +
                           " bytes as argument " + std::to_string(i) +
                           ", but that of the manifest has " +
                           std::to_string(kernel.arguments[i].bytes()))
          .note(remedy);
  return Status::success();
}
