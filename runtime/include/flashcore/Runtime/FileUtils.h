//===- FileUtils.h - Small helpers for files --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading whole files and JSON documents with errors as values. Only regular
// files are read: a pipe would keep us waiting and /dev/zero has no end.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_FILEUTILS_H
#define FLASHCORE_RUNTIME_FILEUTILS_H

#include "flashcore/Runtime/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>

namespace flashcore {

/// Refuses a file of more than `maxBytes`, and one that changes meanwhile.
StatusOr<std::string> readFile(const std::filesystem::path &path,
                               int64_t maxBytes = INT64_MAX);

/// Replaces the contents of `path`, wholly or, after an error, not at all;
/// devices and pipes are written at once.
Status writeFile(const std::filesystem::path &path, std::string_view contents);

/// The deepest nesting that parseJson takes; no document of ours comes close.
inline constexpr int MaxJsonDepth = 64;

/// `file` is the name that messages give.
StatusOr<nlohmann::json> parseJson(const std::string &file,
                                   std::string_view text);

/// 16 lower case hexadecimal digits.
std::string toHex(uint64_t value);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_FILEUTILS_H
