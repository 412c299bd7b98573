//===- Npy.cpp - NumPy array files ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Npy.h; what stands before the data is read and written in NpyHeader.h.
//
//===----------------------------------------------------------------------===//

#include "Npy.h"
#include "../../../../tools/NpyHeader.h"
#include "../../../../tools/OutputFile.h"
#include "flashcore/Emulator/OptionText.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace flashcore;
using namespace flashcore::emu;

static Error bad(const std::string &path, const std::string &why) {
  return {{}, "cannot read '" + path + "': " + why};
}

/// Up to `count` bytes; memory grows with what there is to read, not with what
/// a file claims.
static std::string readBytes(std::istream &in, uint64_t count) {
  constexpr uint64_t step = 1 << 20;
  std::string text;
  while (text.size() < count && in) {
    size_t before = text.size();
    size_t more = static_cast<size_t>(std::min(step, count - before));
    text.resize(before + more);
    in.read(text.data() + before, static_cast<std::streamsize>(more));
    text.resize(before + static_cast<size_t>(in.gcount()));
  }
  return text;
}

/// Bytes of the data that a header speaks of, or nothing if its element type,
/// such as "<f2" of byte order, kind and bytes, is none.
static std::optional<int64_t> dataBytes(const NpyHeader &header) {
  uint64_t elementBytes = 0;
  if (header.descr.size() < 3 ||
      !parseNumber(std::string_view(header.descr).substr(2), elementBytes) ||
      elementBytes > INT64_MAX)
    return std::nullopt;
  return npyBytes(header.shape, static_cast<int64_t>(elementBytes));
}

Expected<NpyArray> flashcore::emu::readNpy(const std::string &path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return bad(path, "it is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return bad(path, std::strerror(errno));
  NpyHeader header;
  std::string why = readNpyHeader(
      [&](uint64_t count) { return readBytes(in, count); }, header);
  if (!why.empty())
    return bad(path, why);
  if (header.isFortran)
    return bad(path, "expects C order, but got Fortran order");
  std::optional<int64_t> bytes = dataBytes(header);
  if (!bytes)
    return bad(path, "expects elements such as '<f4' of less than 2^63 bytes, "
                     "but got '" +
                         header.descr + "' and shape " +
                         npyShape(header.shape));
  std::string data = readBytes(in, static_cast<uint64_t>(*bytes));
  bool hasMore = in.peek() != std::ifstream::traits_type::eof();
  if (data.size() < static_cast<uint64_t>(*bytes) || hasMore)
    return bad(path, "expects " + std::to_string(*bytes) +
                         " bytes of data, but got " +
                         (hasMore ? "more" : std::to_string(data.size())));
  NpyArray array;
  array.type = std::move(header.descr);
  array.shape.assign(header.shape.begin(), header.shape.end());
  array.data.assign(data.begin(), data.end());
  return array;
}

std::string flashcore::emu::writeNpy(const std::string &path,
                                     const NpyArray &array) {
  OutputFile file(path);
  file.write(
      formatNpyHeader(array.type, {array.shape.begin(), array.shape.end()}));
  file.write(
      {reinterpret_cast<const char *>(array.data.data()), array.data.size()});
  int error = file.commit();
  return error ? "cannot write '" + path + "': " + std::strerror(error) : "";
}
