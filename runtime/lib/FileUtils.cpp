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

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace flashcore;

StatusOr<std::string> flashcore::readFile(const std::filesystem::path &path) {
  errno = 0;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return Status::error(path.string() +
                         ": expects a file, but got a directory");
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream contents;
  if (stream)
    contents << stream.rdbuf();
  // An empty file sets failbit on `contents`, so only the input is asked.
  if (!stream)
    return Status::error(path.string() + ": cannot read the file: " +
                         std::strerror(errno ? errno : EIO));
  return std::move(contents).str();
}

Status flashcore::writeFile(const std::filesystem::path &path,
                            std::string_view contents) {
  errno = 0;
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  stream.close();
  if (!stream)
    return Status::error(path.string() + ": cannot write the file: " +
                         std::strerror(errno ? errno : EIO));
  return Status::success();
}

StatusOr<nlohmann::json> flashcore::parseJson(const std::string &file,
                                              std::string_view text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error &error) {
    size_t end = std::min(error.byte ? error.byte - 1 : 0, text.size());
    std::string_view before = text.substr(0, end);
    auto line = 1 + std::count(before.begin(), before.end(), '\n');
    size_t column = end - (before.rfind('\n') + 1) + 1; // npos + 1 is 0
    return Status::error(file +
                         ": expects JSON, but got a syntax error at "
                         "line " +
                         std::to_string(line) + ", column " +
                         std::to_string(column))
        .note(end == text.size() ? "the file ends there: it is truncated"
                                 : "the file was edited or is no JSON");
  } catch (const nlohmann::json::out_of_range &) { // a number such as 1e999
    return Status::error(file + ": expects numbers that fit a double, but got "
                                "a larger one")
        .note("the file was edited or is damaged");
  }
}

std::string flashcore::toHex(uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(value));
  return digits;
}
