//===- FileUtils.h - Small helpers for files --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading whole files and JSON documents with errors as values.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_FILEUTILS_H
#define FLASHCORE_RUNTIME_FILEUTILS_H

#include "flashcore/Runtime/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>

namespace flashcore {

StatusOr<std::string> readFile(const std::filesystem::path &path);
Status writeFile(const std::filesystem::path &path, std::string_view contents);

/// `file` is the name that messages give.
StatusOr<nlohmann::json> parseJson(const std::string &file,
                                   std::string_view text);

/// 16 lower case hexadecimal digits.
std::string toHex(uint64_t value);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_FILEUTILS_H
