//===- CubinCache.h - Assembled code on disk --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps what the driver assembled from PTX, since its assembler takes longer
// than most runs. Nothing here is an error: an entry that cannot be read is
// assembled again.
//
// An entry runs on the GPU, and its checksum proves nothing but that it is
// whole. So only what this user or root wrote, and nobody else can change, is
// taken.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_CUBINCACHE_H
#define FLASHCORE_RUNTIME_LIB_CUBINCACHE_H

#include "flashcore/Runtime/Chip.h"

#include <filesystem>
#include <optional>
#include <string>

namespace flashcore {

/// One file an entry. Safe to share between threads and processes: an entry is
/// renamed into place, and read back only if it is whole.
class CubinCache {
public:
  /// What the assembled code depends on besides the version of the runtime.
  struct Key {
    Chip device;
    int driverVersion = 0;
    std::string ptx;
  };

  explicit CubinCache(std::filesystem::path directory)
      : directory(std::move(directory)) {}

  /// Whether the folder, if there is one, is of this user or root, and nobody
  /// else can replace what is in it: others may write only to a sticky one.
  bool isSafe() const;
  std::optional<std::string> find(const Key &key) const;
  /// Replaces the entry of `key`; false when it cannot be written.
  bool store(const Key &key, const std::string &cubin) const;

private:
  std::filesystem::path entry(const std::string &key) const;

  std::filesystem::path directory;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_CUBINCACHE_H
