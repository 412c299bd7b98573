//===- CubinCache.cpp - Assembled code on disk ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An entry is a line with a checksum, the whole key and the cubin. It is named
// by a hash of the key; since it holds the key as well, two keys of one hash
// replace each other but are never mistaken for each other.
//
//===----------------------------------------------------------------------===//

#include "CubinCache.h"

#include "OpenFile.h"

#include "flashcore/Runtime/Bundle.h"
#include "flashcore/Runtime/CudaDevice.h"
#include "flashcore/Runtime/FileUtils.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <pwd.h>
#include <unistd.h>

using namespace flashcore;

static std::string serialize(const CubinCache::Key &key) {
  // The PTX comes last and ends with the only NUL.
  std::string text = "runtime " FLASHCORE_RUNTIME_VERSION "\ndriver " +
                     std::to_string(key.driverVersion) + "\ndevice " +
                     key.device.str() + "\n" + key.ptx;
  text.push_back('\0');
  return text;
}

static std::string header(std::string_view contents) {
  return "flashcore-cubin 1 " + toHex(fnv1a64(contents)) + "\n";
}

/// Far more than the PTX and the cubin of any bundle.
static constexpr int64_t maxEntryBytes = 1 << 28;

static bool isTrusted(uid_t owner) { return owner == geteuid() || owner == 0; }

bool CubinCache::isSafe() const {
  StatusOr<OpenFile> folder = OpenFile::folder(directory);
  if (!folder.ok()) // there is nothing to be deceived by
    return true;
  const struct stat &info = folder->info();
  bool others = (info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX);
  return isTrusted(info.st_uid) && !others;
}

std::filesystem::path CubinCache::entry(const std::string &key) const {
  return directory / (toHex(fnv1a64(key)) + ".cubin");
}

std::optional<std::string> CubinCache::find(const Key &key) const {
  std::string keyText = serialize(key);
  StatusOr<OpenFile> folder = OpenFile::folder(directory);
  if (!folder.ok())
    return std::nullopt;
  StatusOr<OpenFile> file = folder->child(entry(keyText).filename().string());
  if (!file.ok() || !isTrusted(file->info().st_uid) ||
      (file->info().st_mode & (S_IWGRP | S_IWOTH)))
    return std::nullopt;
  StatusOr<std::string> whole = file->read(maxEntryBytes);
  if (!whole.ok())
    return std::nullopt;
  std::string_view contents = *whole;
  contents.remove_prefix(std::min(header({}).size(), contents.size()));
  if (!whole->starts_with(header(contents)) || !contents.starts_with(keyText))
    return std::nullopt;
  return std::string(contents.substr(keyText.size()));
}

/// Writes all of `text` and closes `descriptor`.
static bool writeAndClose(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(descriptor, text.data(), text.size());
    if (written <= 0)
      break;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return close(descriptor) == 0 && text.empty();
}

bool CubinCache::store(const Key &key, const std::string &cubin) const {
  std::error_code error;
  std::filesystem::create_directories(directory.parent_path(), error);
  mkdir(directory.c_str(), S_IRWXU); // of this user alone; it may be there
  std::string keyText = serialize(key);
  std::string temporary = (directory / "new-XXXXXX").string();
  int descriptor = mkstemp(temporary.data());
  if (descriptor < 0)
    return false;
  std::string contents = keyText + cubin;
  bool isWritten = writeAndClose(descriptor, header(contents) + contents);
  if (isWritten)
    std::filesystem::rename(temporary, entry(keyText), error);
  if (isWritten && !error)
    return true;
  unlink(temporary.c_str());
  return false;
}

/// $HOME, or what the database of users says where that is no absolute path.
static std::string homeFolder() {
  const char *home = std::getenv("HOME");
  if (home && *home == '/')
    return home;
  passwd entry = {}, *found = nullptr;
  std::vector<char> text(1 << 14);
  getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found);
  return found ? found->pw_dir : "";
}

std::optional<std::filesystem::path> flashcore::defaultCubinCache() {
  if (const char *chosen = std::getenv("FLASHCORE_CACHE_DIR")) {
    if (!*chosen)
      return std::nullopt;
    std::error_code error; // where the working folder was deleted
    std::filesystem::path folder = std::filesystem::absolute(chosen, error);
    return error ? std::nullopt : std::optional(folder);
  }
  // The XDG specification has relative paths ignored.
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/')
    return std::filesystem::path(cache) / "flashcore";
  std::string home = homeFolder();
  if (!home.empty() && home.front() == '/')
    return std::filesystem::path(home) / ".cache" / "flashcore";
  return std::nullopt;
}
