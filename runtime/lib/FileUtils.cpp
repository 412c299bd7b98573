//===- FileUtils.cpp - Small helpers for files ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only place that catches exceptions of the JSON library.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/FileUtils.h"

#include "../../tools/OutputFile.h"
#include "OpenFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

using namespace flashcore;

StatusOr<std::string> flashcore::readFile(const std::filesystem::path &path,
                                          int64_t maxBytes) {
  StatusOr<OpenFile> file = OpenFile::file(path);
  if (!file.ok())
    return file.status();
  return file->read(maxBytes);
}

Status flashcore::writeFile(const std::filesystem::path &path,
                            std::string_view contents) {
  if (int error = writeWholeFile(path, contents))
    return Status::error(path.string() +
                         ": cannot write the file: " + std::strerror(error));
  return Status::success();
}

/// "line 3, column 7" of the byte at `position`.
static std::string describePosition(std::string_view text, size_t position) {
  std::string_view before = text.substr(0, position);
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  size_t column = position - (before.rfind('\n') + 1) + 1; // npos + 1 is 0
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// Where `text` opens a bracket too deep, or npos. The parser takes any depth,
/// but a document that deep is no document of ours, and using it may recurse.
static size_t findTooDeep(std::string_view text) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString && c == '\\')
      ++i; // whatever follows, it does not end the string
    else if (c == '"')
      inString = !inString;
    else if (!inString && (c == '[' || c == '{') && ++depth > MaxJsonDepth)
      return i;
    else if (!inString && (c == ']' || c == '}'))
      --depth;
  }
  return std::string_view::npos;
}

StatusOr<nlohmann::json> flashcore::parseJson(const std::string &file,
                                              std::string_view text) {
  if (size_t at = findTooDeep(text); at != std::string_view::npos)
    return Status::error(file + ": expects JSON of at most " +
                         std::to_string(MaxJsonDepth) +
                         " levels, but got a deeper one at " +
                         describePosition(text, at))
        .note("the file was edited or is no JSON");
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error &error) {
    size_t end = std::min(error.byte ? error.byte - 1 : 0, text.size());
    return Status::error(file + ": expects JSON, but got a syntax error at " +
                         describePosition(text, end))
        .note(end == text.size() ? "the file ends there: it is truncated"
                                 : "the file was edited or is no JSON");
  } catch (const nlohmann::json::out_of_range &) { // a number such as 1e999
    return Status::error(file + ": expects numbers that fit a double, but got "
                                "a larger one")
        .note("the file was edited or is damaged");
  } catch (const std::bad_alloc &) {
    return Status::error(file + ": cannot allocate the host memory for " +
                         std::to_string(text.size()) + " bytes of JSON");
  }
}

std::string flashcore::toHex(uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(value));
  return digits;
}
